"""YAML: syntax errors, traps, bounds, and recovery after them."""

import pytest

from skyband.framework.spec.load import validate_text
from skyband.framework.spec.parsing.assemble import read_text
from skyband.framework.spec.parsing.recovery import MAX_BYTES
from tests.framework.spec.examples import ENV, SENSORS


def errors_of(text: str) -> list[tuple[str, int, int]]:
    _, errors = validate_text(text, ENV, "spec.yaml")
    return [(e.code, e.where.line, e.where.col) for e in errors if e.where]


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ("{time: 7 days}  ", "{time: 7 days  ", ("SKY-E101", 18, 9)),
        ('"temp is not null"', '"temp is not null', ("SKY-E101", 12, 12)),
        ("    direction: min", "\tdirection: min", ("SKY-E104", 22, 1)),
        ("    direction: min", "    direction min", None),
        ('"temp is not null"', "temp: is not null", ("SKY-E101", 12, 16)),
        ('where: "a.sensor <> b.sensor", carry', 'where: "a.sensor" <> b.sensor, carry', None),
        ("job: sensor-anomalies", "job: *sensor", ("SKY-E101", 1, 6)),
        ("job: sensor-anomalies", "job: @sensor", ("SKY-E101", 1, 6)),
        ("job: sensor-anomalies", "job: !!python/object:os.system x", ("SKY-E101", 1, 6)),
        ("job: sensor-anomalies", "job: sensor\x07anomalies", ("SKY-E101", 1, 12)),
        ("schedule:", "---\nschedule:", ("SKY-E101", 33, 1)),
    ],
)
def test_a_slip_gives_one_error_at_its_place(old: str, new: str, expected: tuple[str, int, int] | None) -> None:
    assert old in SENSORS
    found = errors_of(SENSORS.replace(old, new, 1))
    assert len(found) == 1, found
    assert expected is None or found == [expected]


def test_a_slip_does_not_hide_mistakes_of_other_sections() -> None:
    text = SENSORS.replace("{time: 7 days}  ", "{time: 7 days  ").replace("watermark:", "watermerk:").replace("k: 20", "k: 0")
    assert errors_of(text) == [("SKY-E110", 8, 28), ("SKY-E101", 18, 9), ("SKY-E114", 28, 56)]


def test_two_slips_in_two_sections() -> None:
    text = SENSORS.replace("{time: 7 days}  ", "{time: 7 days  ").replace('"0 * * * *"}', '"0 * * * *}')
    assert [c for c, _, _ in errors_of(text)] == ["SKY-E101", "SKY-E101"]


def test_an_unquoted_variable_in_braces_says_quote_it() -> None:
    text = SENSORS.replace('"${WAREHOUSE}/sensor_anomalies"', "${WAREHOUSE}/sensor_anomalies").replace("k: 20", "k: 0")
    _, errors = validate_text(text, ENV, "spec.yaml")
    assert [e.code for e in errors] == ["SKY-E114", "SKY-E104"]
    assert "quote" in (errors[1].hint or "")
    assert errors[1].where is not None and errors[1].where.length == len("${WAREHOUSE}")


def test_outside_braces_a_variable_needs_no_quotes() -> None:
    job, errors = validate_text(SENSORS.replace('"${LANDING}/sensors/"', "${LANDING}/sensors/"), ENV)
    assert errors == [] and job is not None and job.source.path == "/data/landing/sensors/"


def test_yes_no_as_names_say_quote_it() -> None:
    _, errors = validate_text(SENSORS.replace("humidity: double", "humidity: double, no: string"), ENV)
    assert [e.code for e in errors] == ["SKY-E104"]
    assert errors[0].hint == 'quote it: "no"'


def test_a_repeated_field_is_an_error_with_both_lines() -> None:
    _, errors = validate_text(SENSORS + "run: {trigger: 10 seconds}\n", ENV)
    assert [(e.code, e.where.line if e.where else 0) for e in errors] == [("SKY-E102", 34)]
    assert "line 32" in errors[0].message


@pytest.mark.parametrize(
    "text, code", [("", "SKY-E105"), ("# nothing\n", "SKY-E105"), ("- a\n- b\n", "SKY-E105"), ("just text", "SKY-E105"), ("{}", "SKY-E111")]
)
def test_a_file_that_is_no_mapping(text: str, code: str) -> None:
    _, errors = validate_text(text, ENV)
    assert {e.code for e in errors} == {code}


def test_alias_bombs_are_bounded() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True):
        bomb += f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    _, errors = validate_text(bomb, ENV)
    assert [e.code for e in errors] == ["SKY-E103"]


def test_an_alias_of_itself_is_refused() -> None:
    _, errors = validate_text("a: &a {b: *a}\n", ENV)
    assert [e.code for e in errors] == ["SKY-E103"]


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{b: " * 5000, "a:\n" + "".join("  " * i + "b:\n" for i in range(1, 200))])
def test_deep_nesting_is_refused_without_a_traceback(text: str) -> None:
    _, errors = validate_text(text, ENV)
    assert errors


def test_a_huge_file_is_refused() -> None:
    _, errors = validate_text("# " + "x" * MAX_BYTES, ENV)
    assert [e.code for e in errors] == ["SKY-E103"]


def test_anchors_and_merge_keys_work_and_keep_places() -> None:
    text = SENSORS.replace(
        "  anomalies:     {type: topk_pairs, scoring: shock, k: 20,", "  anomalies: &first {type: topk_pairs, scoring: shock, k: 20,"
    )
    text = text.replace("  twins:  ", "  more: {<<: *first, k: 7}\n  twins:  ")
    job, errors = validate_text(text, ENV)
    assert errors == [] and job is not None
    assert job.queries["more"].model_dump()["k"] == 7
    assert job.queries["more"].where == "a.sensor <> b.sensor"


def test_positions_are_beside_the_data() -> None:
    doc = read_text("spec.yaml", SENSORS, ENV)
    assert doc.data["queries"]["anomalies"]["k"] == 20
    place = doc.places["queries", "anomalies", "k"]
    assert (place.line + 1, place.col + 1, place.raw) == (28, 56, "20")
    assert place.key is not None and (place.key.line, place.key.col) == (27, 52)


def test_windows_line_ends_and_a_byte_order_mark_change_no_position() -> None:
    bad = SENSORS.replace("watermark:", "watermerk:")
    assert errors_of(bad) == errors_of(bad.replace("\n", "\r\n")) == errors_of("\ufeff" + bad) == [("SKY-E110", 8, 28)]
