"""What the messages of an alert are by definition, from whole tables: plain loops and bisection, nothing of the code that sends them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

Told = tuple[Any, ...]
"""(kind, query, site, item, microseconds) of a message."""
ITEMS = {"best": "id", "groups": "machine", "busy": "machine", "traced": "machine", "flat": "id"}


def micros(value: Any) -> int:
    return round(value.timestamp() * 1_000_000) if value.tzinfo else round((value - value.__class__(1970, 1, 1)).total_seconds() * 1e6)


def entered_and_left(tables: dict[str, pa.Table], queries: tuple[str, ...]) -> Counter[Told]:
    """A message for every row of changes."""
    found: Counter[Told] = Counter()
    for query in queries:
        for row in tables[f"{query}_changes"].to_pylist():
            kind = {"+": "enter", "-": "leave"}[row["change"]]
            found[kind, query, row["site"], row[ITEMS[query]], micros(row["changed_at"])] += 1
    return found


def passed(tables: dict[str, pa.Table], query: str, above: float | None, below: float | None, until: int) -> Counter[Told]:
    """Instants at which an item's value is beyond a bound, and was not, or was unknown, a microsecond before. ``until``: all is known."""
    item = ITEMS[query]
    changes = tables[f"{query}_changes"].to_pylist()
    found: Counter[Told] = Counter()
    if query == "best":
        for row in changes:
            for kind, is_beyond in _bounds(above, below).items():
                if row["change"] == "+" and is_beyond(row["score"]):
                    found[kind, query, row["site"], row[item], micros(row["changed_at"])] += 1
        return found
    points = tables[f"{query}_trajectory"].to_pylist()
    value_of = "score" if query == "groups" else "loyalty_seconds"
    for who in {(p["site"], p[item]) for p in points}:
        mine = {micros(p["valid_from"]): p for p in points if (p["site"], p[item]) == who}
        own = sorted((r for r in changes if (r["site"], r[item]) == who), key=lambda r: (r["step"], r["pos"])) if query != "traced" else []
        instants = sorted({*mine, *(micros(r["changed_at"]) for r in own)})

        def known_at(at: int, mine: dict[int, Any] = mine, own: list[Any] = own) -> float | None:
            """The value at an instant: None while it is unknown, or the item no member."""
            since = max((t for t in mine if t <= at), default=None)
            signs = [(micros(r["changed_at"]), r["change"]) for r in own if micros(r["changed_at"]) <= at]
            if since is None or (signs and signs[-1][1] == "-"):
                return None
            return (round(mine[since][value_of] * 1e6) + int(mine[since].get("slope") or 0) * (at - since)) / 1e6

        for kind, is_beyond in _bounds(above, below).items():
            was = False
            for n, at in enumerate(instants):
                left = any(micros(r["changed_at"]) == at and r["change"] == "-" for r in own)
                now = known_at(at)
                beyond = now is not None and is_beyond(now)
                if beyond and (not was or left):
                    found[kind, query, *who, at] += 1
                end = (instants[n + 1] if n + 1 < len(instants) else until) - 1
                last = known_at(end) if end > at else now
                last_beyond = last is not None and is_beyond(last)
                if last_beyond and not beyond:
                    low, high = at, end
                    while high - low > 1:
                        middle = (low + high) // 2
                        value = known_at(middle)
                        low, high = (low, middle) if value is not None and is_beyond(value) else (middle, high)
                    found[kind, query, *who, high] += 1
                was = last_beyond
    return found


def _bounds(above: float | None, below: float | None) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if above is not None:
        made["above"] = lambda value: value > above
    if below is not None:
        made["below"] = lambda value: value < below
    return made


def told(messages: list[dict[str, Any]]) -> Counter[Told]:
    """The messages as the definitions have them."""
    from datetime import datetime

    return Counter(
        (m["on"], m["query"], m["key"]["site"], m["item"][ITEMS[m["query"]]], micros(datetime.fromisoformat(m["time"]))) for m in messages
    )
