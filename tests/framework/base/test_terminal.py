"""What steers a terminal (escapes, changes of direction) is spelled out wherever text is printed."""

from __future__ import annotations

import json
import unicodedata

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError, Where, printable
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.render import csv_text, text_table
from skyband.jobs.answer import Answer, show
from tests.framework.spec.examples import ENV, SENSORS

EVIL = "a\x1b]0;owned\x07\x9b2J\u202eb\r\x7f"


def steering(text: str) -> list[str]:
    """Characters of ``text`` that a terminal must not have: control and surrogate ones, and changes of direction."""
    return [c for c in text if c not in "\n\t" and (unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} or c in "\u202e\u2066")]


def test_the_usual_text_stays() -> None:
    text = "a\tb\nc é 中 👩\u200d🚀 '\\u001b'"
    assert printable(text) == text


def test_errors_spell_control_characters_out() -> None:
    text = SkybandError("SKY-E110", f"unknown {EVIL}", f"did you mean {EVIL}?", Where(f"{EVIL}.yaml", 1, 1, 3, EVIL)).render()
    assert not steering(text) and "\\u001b" in text and text.count("\n") == 3


@pytest.mark.parametrize("written", [r'"\e]0;x\a"', r'"\x9b2J"', r'"\u202Ex"', r'"x\0"', r'"\ud800"'])
def test_escapes_of_yaml_do_not_come_out_of_an_error(written: str) -> None:
    for old, new in (
        ("job: sensor-anomalies", f"job: {written}"),
        ("sensor: string", f"{written}: strin"),
        ("k: 20", f"k: 20, {written}: 1"),
    ):
        _, errors = validate_text(SENSORS.replace(old, new, 1), ENV, "spec.yaml")
        assert errors
        for e in errors:
            assert not steering(e.render())


def test_results_spell_control_characters_out(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"name" + EVIL: [EVIL, "two\nlines, one cell"], "n": [1, 2]})
    show(Answer({"rows": rows.to_pylist()}, None, rows=True), "json")
    shown = capsys.readouterr().out
    assert not steering(csv_text(rows)) and not steering(text_table(rows)) and not steering(shown)
    assert "two\nlines" in csv_text(rows)
    assert [row["name" + EVIL] for row in json.loads(shown)["rows"]] == [EVIL, "two\nlines, one cell"]
