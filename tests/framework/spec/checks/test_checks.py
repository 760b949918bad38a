"""One mistake at a time: the code, the marked text and the hint."""

import pytest

from skyband.framework.spec.load import validate_text
from tests.framework.spec.examples import ENV, SENSORS, other

MISTAKES = [
    # shape
    ("watermark:", "watermerk:", "SKY-E110", "watermerk", "did you mean 'watermark'?"),
    ("  tables:  ", "  tabels:  ", "SKY-E110", "tabels", "did you mean 'tables'?"),
    ("\nwindow:", "\ncron: x\nwindow:", "SKY-E110", "cron", "belongs under schedule"),
    ("  id: [sensor, ts]", "  #", "SKY-E111", "source", "id"),
    ("job: sensor-anomalies", "", "SKY-E111", None, "job"),
    ("k: 20", "k: twenty", "SKY-E112", "twenty", None),
    ("k: 20", "k: 2.5", "SKY-E112", "2.5", None),
    ("k: 20", "k: yes", "SKY-E112", "yes", None),
    ("k: 20", "k: 0", "SKY-E114", "0", None),
    ("k: 20", "k: -3", "SKY-E114", "-3", None),
    ("carry: [temp]", "carry: temp", "SKY-E112", "temp", "[a, b]"),
    ("carry: [temp]", "carry: [no]", "SKY-E104", "no", '"no"'),
    ("job: sensor-anomalies", "job: on", "SKY-E104", "on", 'quote it: "on"'),
    ("job: sensor-anomalies", "job: 2024", "SKY-E104", "2024", '"2024"'),
    ("job: sensor-anomalies", "job: a b", "SKY-E116", "a b", None),
    ("  twins:  ", "  twi-ns:  ", "SKY-E116", "twi-ns", None),
    ("direction: min", "direction: minn", "SKY-E113", "minn", "'min'"),
    ("format: csv", "format: cvs", "SKY-E113", "cvs", "'csv'"),
    ("temp: double", "temp: dubble", "SKY-E113", "dubble", "'double'"),
    ("temp: double", "temp: varchar", "SKY-E113", "varchar", "'string'"),
    ("temp: double", 'temp: "decimal(50,2)"', "SKY-E113", '"decimal(50,2)"', None),
    ("temp: double", "temp: decimal(10,2)", "SKY-E104", "decimal(10", "quote it"),
    ("10 minutes", "10", "SKY-E115", "10", "a unit"),
    ("10 minutes", "ten minutes", "SKY-E115", "ten minutes", None),
    ("every: 1 hour", "every: 0 seconds", "SKY-E115", "0 seconds", None),
    ("{time: 7 days}", "{time: 1 month}", "SKY-E115", "1 month", None),
    ("trigger: once", "trigger: onse", "SKY-E115", "onse", None),
    ("type: topk_pairs, scoring: closest", "type: topk_pair, scoring: closest", "SKY-E113", "topk_pair", "'topk_pairs'"),
    ("{type: topk_pairs, scoring: closest", "{scoring: closest", "SKY-E111", "twins", "topk_pairs"),
    ("k: 10,", "", "SKY-E111", "twins", "k"),
    ('cron: "0 * * * *"', 'cron: "0 * * *"', "SKY-E118", '"0 * * *"', None),
    ('cron: "0 * * * *"', 'cron: "61 * * * *"', "SKY-E118", '"61 * * * *"', None),
    ('cron: "0 * * * *"', 'cron: "0 0 30 2 *"', "SKY-E118", '"0 0 30 2 *"', None),
    ('{cron: "0 * * * *"}', "{owner: me}", "SKY-E111", "schedule", "assets"),
    ('cron: "0 * * * *"', "cron: '@daily', assets: [a.b]", "SKY-E117", "assets", "keep one"),
    ('cron: "0 * * * *"', "assets: []", "SKY-E114", "[]", None),
    ('cron: "0 * * * *"', 'cron: "${LANDING}"', "SKY-E119", '"${LANDING}"', "write the value"),
    ('cron: "0 * * * *"', "cron: '@daily', id: a b", "SKY-E116", "a b", None),
    ('cron: "0 * * * *"', "cron: '@daily', owner: 'a,b'", "SKY-E116", "'a,b'", None),
    ('cron: "0 * * * *"', "cron: '@daily', retries: {count: -1}", "SKY-E114", "-1", None),
    ('cron: "0 * * * *"', "cron: '@daily', retries: {wait: 5}", "SKY-E115", "5", "a unit"),
    ('cron: "0 * * * *"', "cron: '@daily', retry: 2", "SKY-E110", "retry", "'retries'"),
    # names
    ("id: [sensor, ts]", "id: [sensr, ts]", "SKY-E120", "sensr", "'sensor'"),
    ("id: [sensor, ts]", "id: [Sensor, ts]", "SKY-E120", "Sensor", "'sensor'"),
    ("column: ts,", "column: tz,", "SKY-E120", "tz", None),
    ("column: ts,", "column: temp,", "SKY-E126", "temp", "timestamp"),
    ("tie_break: [sensor]", "tie_break: [senzor]", "SKY-E120", "senzor", "'sensor'"),
    ("partition_by: [building]", "partition_by: [bilding]", "SKY-E120", "bilding", "'building'"),
    ("carry: [temp]", "carry: [tmp]", "SKY-E120", "tmp", "'temp'"),
    ("{abs_difference: temp}", "{abs_difference: tempp}", "SKY-E120", "tempp", "'temp'"),
    ("scoring: closest", "scoring: clossest", "SKY-E121", "clossest", "'closest'"),
    ("table: anomalies,", "table: anomalys,", "SKY-E122", "anomalys", "anomalies"),
    ("  anomalies_day:", "  anomalies_now:", "SKY-E123", "anomalies_now", "rename"),
    ("  anomalies_day:", "  Anomalies:", "SKY-E123", "Anomalies", "rename"),
    ("  anomalies_day:", "  heads:", "SKY-E123", "heads", "rename"),
    ("  anomalies_day:", "  anomalies:", "SKY-E102", "anomalies", None),
    ("carry: [temp]", "carry: [temp, temp]", "SKY-E125", "temp", None),
    ("id: [sensor, ts]", "id: [sensor, sensor]", "SKY-E125", "sensor", None),
    ("{hours: ", "{Temp: '1', hours: ", "SKY-E125", "Temp", None),
    # SQL
    ("unix_micros(ts) / 3.6e9", "unix_micros(tss) / 3.6e9", "SKY-E132", "tss", "'ts'"),
    ("unix_micros(ts) / 3.6e9", "unix_micro(ts) / 3.6e9", "SKY-E133", "unix_micro", "'unix_micros'"),
    ("temp is not null", "temp is not", "SKY-E131", None, None),
    ("temp is not null", "reflect('a', 'b')", "SKY-E133", "reflect", None),
    ("temp is not null", "temp > sum(temp)", "SKY-E135", "sum", None),
    ("temp is not null", "temp + 1", "SKY-E126", None, None),
    ("temp between -60 and 60", "ts < now()", "SKY-E134", "now", "event time"),
    # expressions
    ("a.sensor <> b.sensor", "a.sensr <> b.sensor", "SKY-E130", "a.sensr", "sensor"),
    ("a.sensor <> b.sensor", "a.sensor <> b.temp", "SKY-E130", None, None),
    ("abs(a.hours - b.hours)", "abs(a.hours - b.hourz)", "SKY-E130", "b.hourz", "hours"),
    ("abs(a.hours - b.hours)", "abs(a.hours - ", "SKY-E130", None, None),
    # windows
    ("window: {time: 1 day}", "window: {time: 8 days}", "SKY-E140", "8 days", None),
    ("window: {time: 1 day}", "window: {count: 10}", "SKY-E141", "10", None),
    ("window: {time: 1 day}", "window: {}", "SKY-E111", "window", None),
    ("\nwindow: {time: 7 days}", "\nwindow: {count: 1}", "SKY-E143", "1", None),
    ("\nwindow: {time: 7 days}", "\nwindow: {}", "SKY-E111", "window", None),
    ("max_score: 0.5", "max_score:", "SKY-E112", "max_score", "leave the field out"),
    ("temp between -60 and 60", "temp betwen -60 and 60", "SKY-E131", "-", None),
    ("max_score: 0.5", "max_score: 0.5, min_score: 1", "SKY-E117", "1", None),
]  # fmt: skip


@pytest.mark.parametrize("old, new, code, marked, hint", MISTAKES, ids=[f"{m[2]} {m[1].strip()[:40]}" for m in MISTAKES])
def test_one_mistake(old: str, new: str, code: str, marked: str | None, hint: str | None) -> None:
    assert old in SENSORS
    text = SENSORS.replace(old, new, 1)
    if code == "SKY-E143":
        text = text.replace("window: {time: 1 day}", "every: 1 hour")
    job, errors = validate_text(text, ENV, "spec.yaml")
    assert job is None
    assert [e.code for e in errors] == [code], [str(e) for e in errors]
    (error,) = errors
    assert error.where is not None
    line = text.splitlines()[error.where.line - 1]
    if marked is not None:
        assert line[error.where.col - 1 :][: error.where.length] == marked
    if hint is not None:
        assert hint in (error.hint or "") + error.message


@pytest.mark.parametrize(
    "query_type, old, new, code",
    [
        ("threshold", "at_least: 5", "at_least: 5, above: 3", "SKY-E117"),
        ("threshold", ", at_least: 5", "", "SKY-E111"),
        ("threshold", "at_least: 5", "at_least: lots", "SKY-E112"),
        ("threshold", "at_least: 5", "at_least: .nan", "SKY-E112"),
        ("skyline", "price: min", "prise: min", "SKY-E120"),
        ("skyline", "sector: equal", "sector: min", "SKY-E126"),
        ("skyline", "price: min, volume: max, ", "", "SKY-E117"),
        ("topk", "scoring: heat", "scoring: value", "SKY-E130"),
        ("topk_pairs", "a: buy, b: sell", "a: buy, b: no", "SKY-E104"),
        ("topk_pairs", "a: buy, b: sell", "a: buy, b: buy", "SKY-E117"),
        ("topk_pairs", "column: side", "column: sides", "SKY-E120"),
        ("topk_pairs", "column: side", "column: price", "SKY-E126"),
        ("topk_pairs", "column: side, a: buy, b: sell", "column: volume, a: -9223372036854775808, b: 1", "SKY-E126"),
        ("topk_pairs", "column: side, a: buy, b: sell", "column: volume, a: -9223372036854775807, b: 9223372036854775807", ""),
        ("topk", "k: 3", "k: 3, where: volume = -9223372036854775808", "SKY-E130"),
        ("threshold", "at_least: 5", "at_least: -9223372036854775808", ""),
        ("topk_pairs", "scoring: value", "scoring: steady", "SKY-E117"),
        ("topk_pairs", "scoring: value", "scoring: heat", "SKY-E130"),
        ("topk_pairs", "  path: /data/x\n", "", "SKY-E111"),
        ("topk_pairs", "format: parquet", "format: xml", "SKY-E113"),
        ("topk_pairs", "sink:", "deletes: rain > 0\nsink:", ""),
        ("topk_pairs", "sink:", "run: {max_files: 3, max_bytes: 64m}\nsink:", "SKY-E117"),
        ("topk", "carry", "carry", ""),
        ("topk", "sink:", "deletes: rain > 0\nsink:", ""),
        ("threshold", "sink:", "deletes: rain > 0\nsink:", ""),
        ("threshold", "sink:", "deletes: rian > 0\nsink:", "SKY-E130"),
        ("topk", "  event_time: {column: ts}\n", "  event_time: {column: ts}\n  unique: assumed\ndeletes: rain > 0\n", "SKY-E117"),
    ],
)
def test_one_mistake_of_other_types(query_type: str, old: str, new: str, code: str) -> None:
    good = other(query_type)
    _, errors = validate_text(good.replace(old, new, 1), ENV)
    codes = [e.code for e in errors if e.code != "SKY-E142"]
    assert sorted(set(codes)) == ([code] if code else []), [str(e) for e in errors]


@pytest.mark.parametrize("name", ["xml", "avro"])
def test_other_formats_of_sources_are_not_allowed(name: str) -> None:
    _, errors = validate_text(other("topk_pairs").replace("  path: /data/x\n", "").replace("format: parquet", f"format: {name}"), ENV)
    found = [(e.code, e.message, e.hint) for e in errors]
    assert found == [("SKY-E113", f"'format' cannot be '{name}'", "allowed: csv, json, parquet, orc, delta, kafka or rate")]


@pytest.mark.parametrize("old, new", [("id: bigint", "seq: bigint"), ("price: double", "score: double")])
def test_single_object_results_may_not_collide_with_the_users_columns(old: str, new: str) -> None:
    name = new.split(":")[0]
    text = other("topk").replace(old, new).replace("  id: [id]", f"  id: [{name}]").replace("price", name)
    _, errors = validate_text(text, ENV)
    assert "SKY-E124" in [e.code for e in errors], [str(e) for e in errors]


def test_a_key_column_may_not_be_called_like_a_result_column() -> None:
    text = SENSORS.replace("building: string", "changed_at: string").replace("[building]", "[changed_at]")
    _, errors = validate_text(text, ENV)
    assert [e.code for e in errors] == ["SKY-E124"]


def test_nothing_is_said_about_what_follows_from_another_mistake() -> None:
    """A column of unknown type, a broken scoring function and a broken window give one error each."""
    text = SENSORS.replace("temp: double", "temp: dubble").replace("{time: 7 days}", "{time: 7}")
    _, errors = validate_text(text, ENV)
    assert [e.code for e in errors] == ["SKY-E113", "SKY-E115"]


def test_an_unused_scoring_function_is_checked_too() -> None:
    text = SENSORS.replace("queries:\n", "  spare: {expression: a.tem - b.temp}\nqueries:\n")
    _, errors = validate_text(text, ENV)
    assert [e.code for e in errors] == ["SKY-E130"]


def test_derived_columns_come_in_order_and_may_have_a_type() -> None:
    text = SENSORS.replace(
        '  - derive: {hours: "unix_micros(ts) / 3.6e9"}',
        "  - derive:\n      hours: unix_micros(ts) / 3.6e9\n      route: {sql: \"concat(sensor, '-', building)\", type: string}\n"
        "      days: hours / 24",
    )
    job, errors = validate_text(text.replace("a.sensor <> b.sensor", "a.route <> b.route", 1), ENV)
    assert errors == [] and job is not None
    _, errors = validate_text(text.replace("days: hours / 24", "days: dayz / 24\n      dayz: '3'"), ENV)
    assert [e.code for e in errors] == ["SKY-E132"]


def test_positions_inside_quoted_and_block_scalars() -> None:
    base = SENSORS.replace("expression: abs(a.hours - b.hours) / (abs(a.temp - b.temp) * abs(a.humidity - b.humidity))", "expression: @")
    spellings = {
        "plain": "abs(a.hours - b.nope)",
        "double": '"abs(a.hours - b.nope)"',
        "single": "'abs(a.hours - b.nope)'",
        "escaped": '"abs(a.hours \\x2d b.nope)"',
        "literal": "|\n      abs(a.hours\n      - b.nope)",
        "folded": ">-\n      abs(a.hours\n      - b.nope)",
        "lines": "abs(a.hours\n      - b.nope)",
    }
    for style, value in spellings.items():
        text = base.replace("@", value)
        _, errors = validate_text(text, ENV)
        assert len(errors) == 1 and errors[0].where is not None, (style, errors)
        line = text.splitlines()[errors[0].where.line - 1]
        assert line[errors[0].where.col - 1 :][:6] == "b.nope", style
