"""Draw the pictures of the docs as SVG for light and dark pages: ``python scripts/pictures.py`` writes docs/images/*.svg.

The pictures are computed from a few rows by definition, so they cannot be wrong. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

STYLE = """\
svg{--paper:#ffffff;--ink:#1f2933;--soft:#52606d;--line:#b6c2cd;--fill:#eef2f6;--hit:#0b5f85;--hit-fill:#d6ecf5;--out:#8894a1}
@media (prefers-color-scheme:dark){
svg{--paper:#14181d;--ink:#e4e9ee;--soft:#a9b8c6;--line:#4a5763;--fill:#222a32;--hit:#6cc4e8;--hit-fill:#123a4b;--out:#7a8794}
}
text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;fill:var(--ink)}
.soft{fill:var(--soft)}.hit{fill:var(--hit)}.out{fill:var(--out)}.b{font-weight:600}.small{font-size:12px}
.mono{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:12.5px}
.mid{text-anchor:middle}.end{text-anchor:end}
.paper{fill:var(--paper)}.box{fill:var(--fill);stroke:var(--line)}.boxhit{fill:var(--hit-fill);stroke:var(--hit);stroke-width:1.5}
.axis{stroke:var(--soft);stroke-width:1.2;fill:none}
.thin{stroke:var(--line);fill:none}.dash{stroke:var(--soft);stroke-dasharray:4 4;fill:none}
.linehit{stroke:var(--hit);stroke-width:2;fill:none}.dothit{fill:var(--hit)}.dot{fill:var(--out)}.bar{fill:var(--hit-fill);stroke:var(--hit)}
"""


class Picture:
    """Shapes on a canvas. ``title`` and ``description`` are its text for people who cannot see it."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self.size = (width, height)
        self.head = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
        self.parts: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Add a line of text; ``y`` is its base line."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        """Add a rectangle with round corners."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>')

    def line(self, points: Sequence[tuple[float, float]], kind: str = "axis", arrow: bool = False) -> None:
        """Add a line through ``points``."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" class="{kind}"{" marker-end=" + chr(34) + "url(#tip)" + chr(34) if arrow else ""}/>')

    def dot(self, x: float, y: float, kind: str = "dot", r: float = 5) -> None:
        """Add a point."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" class="{kind}"/>')

    def svg(self) -> str:
        """Return the text of the file."""
        w, h = self.size
        tip = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        tip += '<path d="M0,0 L8,4 L0,8 z" style="fill:var(--soft)"/></marker></defs>'
        top = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img">'
        sheet = f'<rect width="{w}" height="{h}" rx="8" class="paper"/>'
        return "\n".join([top, self.head, f"<style>{STYLE}</style>", tip, sheet, *self.parts, "</svg>"]) + "\n"


def window() -> Picture:
    """Draw rows, a window and the top k."""
    rows = [("09:00", 41), ("09:20", 17), ("09:30", 35), ("09:50", 8), ("10:00", 52), ("10:12", 29), ("10:25", 23)]
    life, k, now = 60, 3, "10:25"
    minutes = [int(t[:2]) * 60 + int(t[3:]) for t, _ in rows]
    at = int(now[:2]) * 60 + int(now[3:])
    alive = [i for i, m in enumerate(minutes) if m <= at < m + life]
    best = sorted(alive, key=lambda i: -rows[i][1])[:k]
    p = Picture(
        760, 300, "From rows to a window to the top 3",
        f"Seven rows on a time line. At {now} a window of one hour holds {len(alive)} of them; the three with the highest scores are "
        "the result.",
    )  # fmt: skip
    x0, step = 60.0, 640 / (minutes[-1] + 10 - minutes[0])
    xs = [x0 + (m - minutes[0]) * step for m in minutes]
    p.text(24, 34, "rows, by event time", "b")
    p.line([(40, 130), (726, 130)], arrow=True)
    left, right = x0 + (at - life - minutes[0]) * step, xs[-1]
    p.box(left, 58, right - left + 22, 108, "boxhit")
    p.text(left + 8, 76, f"window: {{time: 1 hour}} at {now}", "small hit")
    for i, (time, score) in enumerate(rows):
        inside = i in alive
        p.dot(xs[i], 130, "dothit" if inside else "dot", 7 if i in best else 5)
        p.text(xs[i], 112, str(score), "mid b" if i in best else "mid" if inside else "mid out")
        p.text(xs[i], 154, time, "mid small soft" if inside else "mid small out")
    p.text(24, 204, "top 3, at this instant", "b")
    for rank, i in enumerate(best):
        x = 40 + rank * 150
        p.box(x, 218, 132, 46, "boxhit")
        p.text(x + 12, 246, f"{rank + 1}.", "soft")
        p.text(x + 36, 246, f"score {rows[i][1]}", "b")
    gone = next(i for i in sorted(alive) if i in best)
    p.text(500, 228, f"The next change comes at {rows[gone][0].replace('09', '10')}, when", "small soft")
    p.text(500, 246, f"the row of {rows[gone][0]} leaves the window,", "small soft")
    p.text(500, 264, "or with the next row: whichever is first.", "small soft")
    return p


def tables() -> Picture:
    """Draw a query's tables and their keys."""
    p = Picture(
        760, 404, "The tables of a query, and what joins them",
        "The changes of a query give its intervals and the current result. The columns of the key join them to heads, batch_id joins them "
        "to runs, and runs to rejected.",
    )  # fmt: skip
    boxes = {
        "parted_changes": (
            30, 46, ["changed_at, step, pos", "change: + or -", "item columns, score", "cause, batch_id"], "all changes, in order",
        ),
        "parted": (
            290, 46, ["item columns, score", "valid_from, valid_to", "from_step, to_step", "is_current"], "every stay, as an interval",
        ),
        "parted_now": (550, 46, ["rank", "item columns, score", "valid_from", "as_of"], "the result now"),
        "runs": (30, 246, ["batch_id", "rows_in, accepted, ...", "committed"], "a row per batch"),
        "heads": (290, 246, ["key columns", "last_seq, last_time", "as_of"], "a row per key"),
        "rejected": (550, 246, ["reason, text, origin", "event_time", "batch_id"], "rows not accepted"),
    }  # fmt: skip
    for name, (x, y, columns, what) in boxes.items():
        height = 46 + 20 * len(columns)
        p.box(x, y, 180, height, "boxhit" if name.startswith("parted") else "box")
        p.text(x + 12, y + 24, name, "b")
        for i, column in enumerate(columns):
            p.text(x + 12, y + 48 + 20 * i, column, "mono")
        p.text(x + 12, y - 8, what, "small soft")
    p.line([(210, 100), (286, 100)], arrow=True)
    p.text(248, 92, "replay", "mid small soft")
    p.line([(470, 100), (546, 100)], arrow=True)
    p.text(508, 92, "is_current", "mid small soft")
    p.line([(120, 172), (120, 224)], "dash")
    p.text(130, 202, "batch_id", "small hit")
    p.line([(380, 172), (380, 224)], "dash")
    p.text(390, 202, "key columns", "small hit")
    p.line([(120, 352), (120, 380), (640, 380), (640, 352)], "dash")
    p.text(380, 374, "batch_id", "mid small hit")
    return p


def as_of() -> Picture:
    """Draw intervals, and the result as of an instant."""
    stays = [("pair A", 40, 9, 11.5), ("pair B", 36, 9.5, None), ("pair C", 32, 10, 10.75), ("pair D", 35, 10.75, None)]
    at = 10.4
    p = Picture(
        760, 292, "Intervals, and the result as of an instant",
        f"Four pairs of the top 3, each with the interval in which it was in the result. As of {_clock(at)} those count whose interval has "
        "begun and not ended: A, B and C.",
    )  # fmt: skip

    def x(hour: float) -> float:
        return 150 + (hour - 8.75) * 150

    p.text(24, 34, "table parted: a row is one stay, from valid_from to valid_to", "b")
    for i, (name, score, start, end) in enumerate(stays):
        y = 58 + 40 * i
        inside = start <= at and (end is None or at < end)
        p.text(24, y + 20, name, "b" if inside else "out b")
        p.text(78, y + 20, f"score {score}", "small soft" if inside else "small out")
        p.box(x(start), y + 4, (x(end) if end is not None else 716) - x(start), 24, "bar" if inside else "box")
        p.text(x(start) + 8, y + 21, _clock(start), "small")
        # An open interval has no end yet.
        p.text((x(end) if end is not None else 716) - 8, y + 21, "null" if end is None else _clock(end), "small end")
    p.line([(150, 226), (724, 226)], arrow=True)
    for hour in (9, 10, 11, 12):
        p.line([(x(hour), 222), (x(hour), 230)])
        p.text(x(hour), 246, f"{hour}:00", "mid small soft")
    p.line([(x(at), 46), (x(at), 232)], "linehit")
    p.text(x(at), 264, f"as of {_clock(at)}", "mid small hit b")
    p.text(24, 282, "where valid_from <= t and (valid_to is null or t < valid_to)", "mono soft")
    return p


def _clock(hour: float) -> str:
    return f"{int(hour):02}:{round(hour % 1 * 60):02}"


def skyline() -> Picture:
    """Draw points, and those that no other dominates."""
    points = [
        (60, 9.2),
        (85, 6.1),
        (110, 7.4),
        (120, 4.0),
        (150, 4.8),
        (170, 2.6),
        (205, 3.3),
        (240, 1.4),
        (265, 2.2),
        (140, 8.3),
        (220, 5.5),
    ]
    best = [q for q in points if not any(o != q and o[0] <= q[0] and o[1] <= q[1] for o in points)]
    p = Picture(
        760, 340, "A skyline of offers: cheap and close",
        f"{len(points)} offers by price and distance. {len(best)} of them are on the skyline: no other is at most as expensive and at most "
        "as far.",
    )  # fmt: skip

    def at(point: tuple[float, float]) -> tuple[float, float]:
        return 70 + (point[0] - 40) * 1.75, 290 - point[1] * 26

    p.line([(60, 298), (60, 30)], arrow=True)
    p.line([(60, 298), (480, 298)], arrow=True)
    p.text(470, 320, "price", "end small soft")
    p.text(72, 38, "distance", "small soft")
    stairs: list[tuple[float, float]] = []
    for point in sorted(best):
        x, y = at(point)
        stairs += [(x, stairs[-1][1] if stairs else 44), (x, y)]
    p.line([*stairs, (470, stairs[-1][1])], "linehit")
    for point in points:
        p.dot(*at(point), "dothit" if point in best else "dot", 6 if point in best else 5)
    beaten = (150, 4.8)
    by = next(q for q in best if q[0] <= beaten[0] and q[1] <= beaten[1])
    bx, by_ = at(beaten)
    p.line([at(by), (bx, at(by)[1]), (bx, by_)], "dash")
    p.text(510, 92, "on the skyline", "b hit")
    p.text(510, 112, "no other offer is as good in both", "small soft")
    p.text(510, 129, "and better in one", "small soft")
    p.text(510, 170, "dominated", "b out")
    p.text(510, 190, "some other is: left of it and below", "small soft")
    p.text(510, 231, "in a stream", "b")
    p.text(510, 251, "a dominated offer may come back when", "small soft")
    p.text(510, 268, "those that dominate it leave the window", "small soft")
    return p


PICTURES = {"window": window, "tables": tables, "as-of": as_of, "skyline": skyline}


def main(directory: Path) -> None:
    """Write every picture into ``directory``."""
    for name, draw in PICTURES.items():
        (directory / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
