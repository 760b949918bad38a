"""Changes in the tables of a job beside those that a definition gives (tests/oracles/whole.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.oracles import whole
from tests.spark.jobs import table

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = 86_400_000_000
Values = dict[str, Any]
Stated = list[tuple[Any, ...]]
"""Changes: (key, instant, step, pos, sign, columns of the item, score, cause)."""


def instant(text: str) -> int:
    """Microseconds since 1970 of a text, which is of UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def number_or_null(text: str) -> float | None:
    """A number, or null for a text that says so."""
    return float(text) if text not in ("", "NA") else None


def written(directory: Path, query: str, columns: Sequence[str], key: str | None = None) -> Stated:
    """The changes in the table of a query."""
    rows = table(directory, f"{query}_changes").to_pylist()
    found = [
        (
            r[key] if key else None, (r["changed_at"] - EPOCH) // timedelta(microseconds=1), r["step"], r["pos"], r["change"],
            tuple(r[c] for c in columns), r["score"], r["cause"],
        )
        for r in rows
    ]  # fmt: skip
    return sorted(found, key=lambda r: (r[0] or "", *r[2:4]))


def defined(
    streams: dict[str | None, list[whole.Row]], window: int, changes: Callable[[Iterator[whole.Event]], Iterable[whole.Change]],
    item: Callable[[list[Values], tuple[Any, ...]], tuple[Any, ...]],
) -> Stated:  # fmt: skip
    """The changes of a query over all keys; ``item`` gives the columns of an item from the objects of its key."""
    until = max(r.time for rows in streams.values() for r in rows)
    made: Stated = []
    for key, rows in sorted(streams.items(), key=lambda s: s[0] or ""):
        objects = [dict(r.values) for r in rows if not r.deletes]
        for c in changes(whole.events(rows, window, until)):
            made.append((key, *c[:4], item(objects, c.objects), c.score, c.cause))
    return made


def of_rows(*columns: str) -> Callable[[list[Values], tuple[Any, ...]], tuple[Any, ...]]:
    """The columns of rows: ``seq``, then those named."""
    return lambda objects, seqs: tuple(v for s in seqs for v in (s, *(objects[s][c] for c in columns)))


def of_groups(objects: list[Values], name: tuple[Any, ...]) -> tuple[Any, ...]:
    return name


def mean(totals: whole.Totals) -> Fraction | None:
    return totals.sum / totals.values if totals.values else None


def total(totals: whole.Totals) -> Fraction | None:
    return totals.sum if totals.values else None
