"""The pictures of the docs are those that the scripts draw, and are legible on light and dark pages."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts import alternatives, pictures
from tests.test_architecture import ROOT

IMAGES = sorted((ROOT / "docs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def test_they_are_current(tmp_path: Path) -> None:
    pictures.main(tmp_path)
    drawn = {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()}
    drawn["alternatives.svg"] = alternatives.picture(alternatives.figures()).svg()
    assert drawn == {p.name: p.read_text(encoding="utf-8") for p in IMAGES}, "run: python scripts/pictures.py"


def test_the_first_shows_the_definitions_top_3() -> None:
    texts = [t.text or "" for t in ET.fromstring(pictures.window().svg()).iter(f"{SVG}text")]
    assert [t for t in texts if t.startswith("score ")] == ["score 52", "score 35", "score 29"]


def test_the_comparison_has_the_stored_figures_and_every_answer_was_right() -> None:
    rows = alternatives.figures()
    text = alternatives.PAGE.read_text(encoding="utf-8")
    assert alternatives.page(rows, text) == text, "run: python -m scripts.alternatives"
    measured = {(r["operator"], r["params"]["way"]) for r in rows if "rows_per_second" in r or "left_out" in r}
    assert measured >= {(query, way) for query in alternatives.QUERIES for way in alternatives.WAYS if way != "Flink SQL"}
    assert all(r["same"] for r in rows if "same" in r)
    none = {"operator": "skyline", "params": {"way": "Flink SQL", "batch": 200}, "left_out": "not done after 100 s"}
    assert "skyline, Flink SQL, batch 200: not done after 100 s." in alternatives.tables([*rows, none])
    assert [alternatives.number(n) for n in (1234.5, 123_456, 12.34, 0.0567)] == ["1,230", "123,000", "12", "0.057"]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours by WCAG 2, from 1 to 21."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("path", IMAGES, ids=lambda p: p.stem)
def test_they_have_a_description_load_nothing_and_are_legible(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.get("role") == "img" and root.findtext(f"{SVG}title") and len(root.findtext(f"{SVG}desc") or "") > 50
    assert not re.search(r"<script|<image|href|https?://(?!www\.w3\.org/2000/svg)|url\((?!#)", text)
    width, height = map(float, (root.get("viewBox") or "").split()[2:])
    assert all(0 <= float(t.get("x", 0)) <= width and 0 <= float(t.get("y", 0)) <= height for t in root.iter(f"{SVG}text"))
    for colours in re.findall(r"svg\{(.*?)\}", text):
        of = dict(re.findall(r"--([\w-]+):(#\w{6})", colours))
        for ink in ("ink", "soft", "hit"):
            for paper in ("paper", "fill", "hit-fill"):
                assert contrast(of[ink], of[paper]) >= 4.5, (ink, paper)
        assert contrast(of["out"], of["paper"]) >= 2.0
