"""How a CSV file is written, by its first rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.framework.guess import csv_forms, sample
from skyband.framework.guess.sample import sample_of

TITLED = "Sales report\nGenerated 2024-02-01 by export tool\n\nid,ts,x\n1,2024-01-01 00:00:00,5\n2,2024-01-01 00:01:00,6\nTotal,,11\n"
EXCEL = "\ufeffBestellung;Zeitpunkt;Betrag;Menge\n1001;31.03.2024 08:15:00;1.234,50;3\n1002;31.03.2024 09:20:00;99,95;10\n"


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options of text files are those that a spec may have."""
    monkeypatch.setattr(sample, "CSV", {**sample.CSV, **dict.fromkeys(("skip_lines", "decimal", "thousands"), "")})


@pytest.mark.parametrize(
    "text, lines",
    [(TITLED, 2), ("id,ts\n1,2\n3,4\n", 0), ("\n\nid,ts\n1,2\n", 0), ("a\n1\n2\n", 0), ("title\nid,ts\n", 0), ("t;u\nid,a\n1,2\n", 1)],
)
def test_title_lines(text: str, lines: int) -> None:
    assert csv_forms.title_lines(text.splitlines(keepends=True), ",") == lines


@pytest.mark.parametrize(
    "columns, marks",
    [
        ([["1.234,50", "99,95", "12.000,00", "0,50"], ["3", "10"]], {"decimal": ",", "thousands": "."}),
        ([["99,95", ""], ["3"]], {"decimal": ","}),
        ([["1\u00a0234,5"]], {"decimal": ",", "thousands": "\u00a0"}),
        ([["1,234.50", "7"]], {"thousands": ","}),
        ([["1,5"], ["2.5"]], {}),
        ([["1.5", "2"], ["x,y"]], {}),
        ([["1,23,4"]], {}),
        ([[""]], {}),
    ],
)
def test_marks_of_numbers(columns: list[list[str]], marks: dict[str, str]) -> None:
    assert csv_forms.number_marks(columns) == marks


def test_numbers_without_their_marks() -> None:
    marks = {"decimal": ",", "thousands": "."}
    assert [csv_forms.plain_number(t, marks) for t in ("1.234,50", "-7", "x", "1.23")] == ["1234.50", "-7", "x", "1.23"]


def test_what_is_proposed(options: None, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TITLED)
    found = sample_of(tmp_path / "a.csv")
    assert found.options == (("skip_lines", "2"),) and [c.name for c in found.columns] == ["id", "ts", "x"]
    (tmp_path / "b.csv").write_text(EXCEL)
    found = sample_of(tmp_path / "b.csv")
    assert dict(found.options) == {"sep": ";", "decimal": ",", "thousands": "."}
    assert [c.values for c in found.columns if c.name in ("Betrag", "Menge")] == [("1234.50", "99.95"), ("3", "10")]
    (tmp_path / "c.csv").write_text('id,ts\n"12"" pipe",2024-01-01\n"b",2024-01-02\n')
    assert sample_of(tmp_path / "c.csv").options == () and sample_of(tmp_path / "c.csv").columns[0].values[0] == '12" pipe'
    (tmp_path / "d.csv").write_text('id,ts\n"12\\" pipe",2024-01-01\n"b",2024-01-02\n')
    found = sample_of(tmp_path / "d.csv")
    assert found.options == (("escape", "\\"),) and found.columns[0].values[0] == '12" pipe'


def test_encodings_are_told_by_all_rows_looked_at(tmp_path: Path) -> None:
    rows = "id,ts\n" + "a,2024-01-01\n" * 200
    (tmp_path / "a.csv").write_bytes((rows + "m\u00fcller \u20ac,2024-01-02\n").encode("windows-1252"))
    found = sample_of(tmp_path / "a.csv")
    assert dict(found.options) == {"encoding": "windows-1252"} and found.columns[0].values[-1] == "m\u00fcller \u20ac"
    (tmp_path / "a.csv").write_bytes(rows.encode() + b"\x81,2024-01-02\n")
    assert dict(sample_of(tmp_path / "a.csv").options) == {"encoding": "ISO-8859-1"}
