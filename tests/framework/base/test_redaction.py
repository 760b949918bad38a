"""Values of the environment never come out of a message, in whatever spelling they reappear."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors, Where, redacted, redacted_for_terminal
from skyband.framework.base.redaction import SHORTEST, conceal, longest_concealed, redact_values
from skyband.framework.console.lines import JsonLines, Lines
from skyband.framework.spec.load import validate_text
from skyband.jobs import cli
from tests.framework.base.test_terminal import steering
from tests.framework.spec.examples import ENV, SENSORS

VALUE = 'pa\'ss "w\\rd" 50% ü'


@pytest.mark.parametrize(
    "spelled",
    [
        VALUE, json.dumps(VALUE), json.dumps(VALUE, ensure_ascii=False), repr(VALUE), quote(VALUE), quote(VALUE, safe=""),
        VALUE.replace("'", "''"), f"x{VALUE}y",
    ],
)  # fmt: skip
def test_every_spelling_is_taken_out(spelled: str) -> None:
    conceal("S", VALUE)
    out = redact_values(f"before {spelled} after")
    assert "ss " not in out and "50%" not in out and "ss%20" not in out and "${S}" in out
    assert out.startswith("before ") and out.endswith(" after")


@pytest.mark.parametrize(
    "value, text, shown",
    [
        ("/data//hidden/", "in /data/hidden/x and file:///data/hidden", "in ${S}/x and file://${S}"),
        ("1.25e3", "score >= 1250 or 1250.0 or 1,250 or 1.25e3", "score >= ${S} or ${S} or ${S} or ${S}"),
        ("first line\nsecond line\nend", "only the second line, end", "only the ${S}, end"),
        (" padded ", "it is padded!", "it is ${S}!"),
        ("1" * (SHORTEST - 1), "batch 11", "batch 11"),
        ("", "nothing", "nothing"),
    ],
)
def test_paths_numbers_lines_and_what_is_too_short(value: str, text: str, shown: str) -> None:
    conceal("S", value)
    assert redact_values(text) == shown


def test_the_longest_comes_first_and_the_first_name_stays() -> None:
    conceal("A", "hunter")
    conceal("B", "hunter2")
    conceal("C", "hunter")
    assert redact_values("hunter2 hunter") == "${B} ${A}"
    assert longest_concealed() == len("hunter2")


def test_an_error_is_redacted_when_it_is_rendered_whenever_it_was_made() -> None:
    error = SkybandError(
        "SKY-E300", "cannot open /in/hunter2\x1b[2J", "look at hunter2", Where("/in/hunter2/spec.yaml", 1, 1, 1, "a: ${S}")
    )
    conceal("S", "hunter2")
    out = SpecErrors([error]).render()
    # The file is what the user named: it stays, so that it can be opened.
    assert out.count("hunter2") == 1 and out.startswith("/in/hunter2/spec.yaml:1:1") and "a: ${S}" in out
    assert not steering(out) and "hunter2" not in redacted("hunter2\x1b")


def test_a_mistake_noted_before_the_variable_is_read_does_not_show_it() -> None:
    text = SENSORS.replace("job: sensor-anomalies", "job: sensor-anomalies\nhunter2: 1").replace("temp is not null", "sensor <> '${S}'")
    _, errors = validate_text(text, {**ENV, "S": "hunter2"})
    assert len(errors) == 1 and "hunter2" not in errors[0].message.replace("'hunter2'", "") and "hunter2" not in redacted(errors[0].message)


def test_a_defect_is_told_without_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # They import the function that fails here, and keep it.
    from skyband.framework.plan import facts
    from skyband.jobs.authoring import explain

    def fail(*_: object) -> None:
        raise ValueError("could not read hunter2\x1b")

    (tmp_path / "spec.yaml").write_text(SENSORS.replace("temp is not null", "sensor <> '${S}'"))
    for name, value in {**ENV, "S": "hunter2", "SKYBAND_DEBUG": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("skyband.framework.plan.explain.explain", fail)
    assert facts and explain and cli.main(["explain", str(tmp_path / "spec.yaml")]) == 3
    out, err = capsys.readouterr()
    assert "Traceback" in err and "SKY-E900" in err and "hunter2" not in out + err and not steering(err)


def spec_at(directory: Path, source: str, sink: str, more: str = "") -> str:
    text = SENSORS.replace("${LANDING}/sensors/", source).replace("${WAREHOUSE}/sensor_anomalies", sink)
    return text.replace("temp is not null", f"temp is not null{more}")


def test_a_place_is_shown_on_the_terminal_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    env = {"IN": f"{tmp_path}/in", "WHERE": f"{tmp_path}/new"}
    job, errors = validate_text(spec_at(tmp_path, "${IN}", "${WHERE}/tables"), env)
    assert job is not None and not errors
    text = f"wrote {tmp_path}/new/tables of {tmp_path}/in/a.csv"
    assert redacted_for_terminal(text) == text and redacted(text) == redact_values(text) == "wrote ${WHERE}/tables of ${IN}/a.csv"
    error = SkybandError("SKY-E301", text, text)
    assert error.render(redacted_for_terminal).count(str(tmp_path)) == 4 and str(tmp_path) not in str(error.plain()) + error.render() + str(
        error
    )
    Lines().tell("info", "x", text)
    JsonLines().tell("info", "x", text)
    plain, as_json = capsys.readouterr().err.splitlines()
    assert plain == text and str(tmp_path) not in as_json


@pytest.mark.parametrize(
    ("source", "sink", "more", "env"),
    [
        ("{dir}/${PLACE}", "/out", "", {"PLACE": "in"}),
        ("${PLACE}/x", "/out", " and sensor <> '${PLACE}'", {"PLACE": "{dir}/in"}),
        ("${PLACE}", "/out", "", {"PLACE": "{dir}/not/there/hunter2"}),
        ("${PLACE}", "/out", "", {"PLACE": "/hunter2"}),
        ("${PLACE}x", "/out", "", {"PLACE": "{dir}/in"}),
        ("${PLACE}", "/out", "", {"PLACE": "relative/hunter2"}),
        ("${API_TOKEN}", "/out", "", {"API_TOKEN": "{dir}/in"}),
        ("/in", "${DB_PASSWORD}/out", "", {"DB_PASSWORD": "{dir}/in"}),
        ("/in", "${PLACE}", "", {"PLACE": "s3://user:hunter2@bucket/x"}),
        ("/in", "${PLACE}", "", {"PLACE": "s3://bucket/x?sig=hunter2"}),
    ],
)
def test_what_may_be_more_than_a_place_is_concealed(tmp_path: Path, source: str, sink: str, more: str, env: dict[str, str]) -> None:
    (tmp_path / "in").mkdir()
    env = {name: value.replace("{dir}", str(tmp_path)) for name, value in env.items()}
    validate_text(spec_at(tmp_path, source.replace("{dir}", str(tmp_path)), sink, more), env)
    ((name, value),) = env.items()
    assert redacted_for_terminal(f"see {value}!") == (f"see ${{{name}}}!" if len(value) >= SHORTEST else f"see {value}!")


def test_what_was_more_than_a_place_once_is_none_in_the_next_spec(tmp_path: Path) -> None:
    env = {"WHERE": str(tmp_path), "OTHER": str(tmp_path)}
    validate_text(spec_at(tmp_path, "/in", "${WHERE}/out"), env)
    assert redacted_for_terminal(str(tmp_path)) == str(tmp_path)
    validate_text(spec_at(tmp_path, "/in", "/out", " and sensor <> '${OTHER}'"), env)
    assert str(tmp_path) not in redacted_for_terminal(f"{tmp_path}/out")
    validate_text(spec_at(tmp_path, "/in", "${WHERE}/out"), env)
    assert str(tmp_path) not in redacted_for_terminal(f"{tmp_path}/out")


_SAFE = {"redacted", "printable", "render", "redacted_for_terminal"}
_BARE = {
    "framework/base/java.py": 1,
    "framework/console/lines.py": 1,
    "jobs/authoring/demo.py": 3,
}
"""Prints that need none of them: a script of its own, figures, what ``redacted`` has seen already, the demo's directories, rows of the
user's."""


def test_whatever_is_printed_goes_through_one_place(root: Path) -> None:
    """Whoever prints more than words of Skyband's own does so by ``redacted``, ``printable`` (the user's own data) or ``render``."""
    bare: Counter[str] = Counter()
    for file in [*(root / "framework").rglob("*.py"), *(root / "jobs").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" and node.args:
                calls = {_name(c.func) for c in ast.walk(node.args[0]) if isinstance(c, ast.Call)}
                names = [n for n in ast.walk(node.args[0]) if isinstance(n, (ast.Name, ast.Attribute))]
                bare[str(file.relative_to(root))] += bool(names) and not calls & _SAFE
    assert {file: n for file, n in bare.items() if n} == _BARE


def _name(of: ast.expr) -> str:
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
