"""Draw the comparison with alternatives to Skyband, as a picture and as tables.

After ``make bench only=alternatives``, ``.venv/bin/python -m scripts.alternatives build/bench/alternatives.jsonl`` copies that run's
figures to docs/images/alternatives.jsonl, and makes docs/images/alternatives.svg and a part of docs/reference/alternatives.md from
them. Without an argument it uses the figures that are there. Standard library only.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from scripts.pictures import IMAGES, Picture

FIGURES = IMAGES / "alternatives.jsonl"
PAGE = IMAGES.parent / "reference" / "alternatives.md"
BEGIN, END = "<!-- made by scripts/alternatives.py -->\n", "<!-- end of what scripts/alternatives.py makes -->\n"
QUERIES = {
    "topk": "top-k: the ten largest payments of each market",
    "topk_pairs": "pairs: the ten of each market most alike",
    "skyline": "skyline: what no other payment of its market beats in three respects",
}
WAYS = ("Skyband, one run", "Skyband, continuous", "Spark SQL", "DuckDB", "Polars", "Flink SQL")
RADIUS = (6.5, 4.5, 2.5)
"""Radius of the dots of large, medium and one-row batches."""
LINE, TOP, GAP = 21, 70, 48

Row = dict[str, Any]


def figures(path: Path = FIGURES) -> list[Row]:
    """Return the rows of a run of the benchmark."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def picture(rows: Sequence[Row]) -> Picture:
    """Draw rows per second and delay of every system and query, on logarithmic axes."""
    measured = [r for r in rows if r["operator"] in QUERIES and "rows_per_second" in r]
    sizes = sorted({r["params"]["batch"] for r in measured if "batch" in r["params"]}, reverse=True)
    height = TOP + len(QUERIES) * (LINE * len(WAYS) + GAP) + 62
    p = Picture(
        760, height, "Skyband and what users would do instead: rows per second, and the delay of a change",
        "Dots for batches of " + ", ".join(f"{s:,}" for s in sizes) + " rows. " + " ".join(_sentence(r) for r in measured),
    )  # fmt: skip
    rate = _Axis(p, 178, 430, [r["rows_per_second"] for r in measured], "rows per second")
    delay = _Axis(p, 486, 716, [r["delay"] for r in measured if "delay" in r], "delay of a change, seconds")
    y = TOP
    for query, title in QUERIES.items():
        p.text(24, y, title, "b")
        for way in WAYS:
            y += LINE
            p.text(24, y + 4, way, "small hit" if way.startswith("Skyband") else "small")
            for axis in (rate, delay):
                p.line([(axis.left, y), (axis.right, y)], "thin")
            for r in (r for r in measured if r["operator"] == query and r["params"]["way"] == way):
                size = RADIUS[sizes.index(r["params"]["batch"])] if "batch" in r["params"] else RADIUS[0]
                kind = "dot" if r.get("missed") else "dothit"
                p.dot(rate.at(r["rows_per_second"]), y, kind, size)
                if "delay" in r:
                    p.dot(delay.at(r["delay"]), y, kind, size)
        rate.ticks(y + 10)
        delay.ticks(y + 10)
        y += GAP
    y += 4
    for x, r, size in zip((30, 210, 390), RADIUS, sizes, strict=False):
        p.dot(x, y, "dot", r)
        p.text(x + 12, y + 4, f"a batch of {size:,}" + (" rows" if size > 1 else " row"), "small soft")
    p.dot(30, y + 24, "dothit", RADIUS[1])
    p.text(42, y + 28, "reports every change", "small soft")
    p.dot(210, y + 24, "dot", RADIUS[1])
    p.text(222, y + 28, "misses changes within a batch", "small soft")
    return p


class _Axis:
    """A logarithmic axis from ``left`` to ``right`` over the powers of ten around ``values``, with ``name`` at the top."""

    def __init__(self, p: Picture, left: float, right: float, values: Iterable[float], name: str) -> None:
        logs = [math.log10(v) for v in values]
        self.p, self.left, self.right = p, left, right
        self.low, self.high = math.floor(min(logs)), math.ceil(max(logs))
        p.text(left, 34, name, "b")

    def at(self, value: float) -> float:
        return round(self.left + (math.log10(value) - self.low) / (self.high - self.low) * (self.right - self.left), 1)

    def ticks(self, y: float) -> None:
        """Draw the powers of ten below ``y``."""
        for power in range(self.low, self.high + 1):
            x = self.at(10.0**power)
            self.p.line([(x, y - 4), (x, y)])
            name = f"{10**power:,}" if 0 <= power <= 3 else f"{10 ** (power - 3):,}k" if 3 < power < 6 else f"{10.0**power:g}"
            self.p.text(x, y + 13, f"{10 ** (power - 6):,}M" if power >= 6 else name, "mid small soft")


def _way(r: Row) -> str:
    return r["params"]["way"] + (f", batch {r['params']['batch']:,}" if "batch" in r["params"] else "")


def _sentence(r: Row) -> str:
    delay = f", {number(r['delay'])} s" if "delay" in r else ""
    return f"{r['operator']}, {_way(r)}: {number(r['rows_per_second'])} rows/s{delay}."


def number(value: float) -> str:
    """Format a number with two or three significant digits."""
    if value >= 100:
        return f"{round(value, 2 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def tables(rows: Sequence[Row]) -> str:
    """Return the figures and the claims about each system as Markdown."""
    lines = [["query", "way", "batch", "rows/s", "CPU us/row", "delay s", "changes missed"]]
    for r in rows:
        if "rows_per_second" in r:
            missed = f"{r['missed'] / max(r['changes'], 1):.0%}" if "missed" in r else "-"
            figures = [number(r["rows_per_second"]), number(r["cpu_us_per_row"]), number(r["delay"]) if "delay" in r else "-", missed]
            lines.append([r["operator"], r["params"]["way"], f"{r['params'].get('batch', r['params'].get('rows')):,}", *figures])
    width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * w for w in width])
    text = "\n".join(
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(line, width, strict=True))) for line in lines
    )
    left_out = [f"{r['operator']}, {_way(r)}: {r['left_out']}." for r in rows if "left_out" in r]
    says = {r["params"]["way"]: r["says"] for r in rows if "says" in r}
    head = "| | " + " | ".join(says) + " |\n|---|" + "---|" * len(says) + "\n"
    body = "".join(f"| {topic} | " + " | ".join(claims[topic] for claims in says.values()) + " |\n" for topic in next(iter(says.values())))
    return f"```text\n{text}\n```\n\n" + "".join(f"{line}\n\n" for line in left_out) + head + body


def page(rows: Sequence[Row], text: str) -> str:
    """Return the page with these figures."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + tables(rows) + END + rest.split(END)[1]


def main(source: Path | None) -> None:
    """Copy the figures of ``source``, if given, and make the picture and the tables."""
    if source is not None:
        figures(source)  # Fails unless it is such a file.
        FIGURES.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    rows = figures()
    (IMAGES / "alternatives.svg").write_text(picture(rows).svg(), encoding="utf-8")
    PAGE.write_text(page(rows, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
