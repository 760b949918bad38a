"""Corruptions of one query in all of its tables: changes are altered, and all that is derived from them is derived anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

from skyband.framework.base.items import rank_key
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import (
    changes_name,
    final_name,
    identity_columns,
    now_name,
    results_schema,
    stream_columns,
    trajectory_name,
)
from skyband.framework.verify.brute_force.calendars import window_around
from skyband.framework.verify.replay.replay import Trajectories, _complete
from skyband.framework.verify.stored import Key, key_of, smallest_first
from tests.framework.verify import small

Row = dict[str, Any]
Rows = list[Row]
INTERVAL = ("valid_from", "valid_to", "from_step", "to_step", "is_current")


@dataclass(frozen=True, slots=True)
class Changes:
    """A query's changes in order, and what tells its streams and items apart."""

    plan: Plan
    query: QueryNode
    rows: Rows

    def stream(self, row: Row) -> Key:
        return tuple(row[n] for n in stream_columns(self.plan, self.query))

    def item(self, row: Row) -> Key:
        return (*self.stream(row), *(row[n] for n in identity_columns(self.plan, self.query)))

    def rank(self, row: Row) -> Any:
        return rank_key(self.query.item, smallest_first(self.query, self.stream(row)))(row)

    def stays(self) -> Iterator[tuple[Row, Row | None]]:
        """(the row with which an item enters, that with which it leaves), in order."""
        for _, mine in groupby(sorted(self.rows, key=lambda r: (repr(self.item(r)), r["step"])), key=self.item):
            rows = list(mine)
            yield from zip(rows[::2], [*rows[1::2], None], strict=False)

    def of(self, row: Row) -> Rows:
        """All rows of its item."""
        return [r for r in self.rows if self.item(r) == self.item(row)]

    def steps(self) -> list[Rows]:
        """The rows step by step, stream by stream."""

        def key(r: Row) -> Any:
            return repr(self.stream(r)), r["step"]

        return [list(mine) for _, mine in groupby(sorted(self.rows, key=lambda r: (*key(r), r["pos"])), key=key)]


def changes_of(plan: Plan, name: str) -> Changes:
    """The changes of the query called ``name``."""
    (query,) = [q for q in plan.every_query if q.name == name]
    return Changes(plan, query, small.tables_of(plan).table(changes_name(name)).to_pylist())


def write(changes: Changes) -> None:
    """Writes the changes as they are now, numbered anew, with the tables of results and the counts of ``runs`` that they give."""
    plan, query = changes.plan, changes.query
    rows = _numbered(changes)
    small.altered(plan, changes_name(query.name), lambda _: rows)
    counts: dict[int, int] = {}
    stored = small.tables_of(plan)
    for q in plan.every_query:
        for batch in stored.table(changes_name(q.name))["batch_id"].to_pylist():
            counts[batch] = counts.get(batch, 0) + 1
    small.altered(plan, "runs", lambda runs: [{**r, "changes": counts.get(r["batch_id"], 0)} for r in runs])
    if not query.item.lasting:
        return
    names = [n for n in results_schema(plan, query).names if n not in INTERVAL]
    results = []
    for enters, leaves in Changes(plan, query, rows).stays():
        to = {"valid_to": None, "to_step": None} if leaves is None else {"valid_to": leaves["changed_at"], "to_step": leaves["step"]}
        made = {"valid_from": enters["changed_at"], "from_step": enters["step"], "is_current": leaves is None, **to}
        results.append({**{n: enters[n] for n in names}, **made})
    small.altered(plan, query.name, lambda _: results)
    stored = small.tables_of(plan)
    complete, lines = _complete(stored), Trajectories(stored, query) if query.item.varies else None
    now = []
    for r in results:
        if r["is_current"]:
            stream = changes.stream(r)
            as_of = complete[key_of(plan, query, stream)]
            row = {**{n: r[n] for n in names}, "as_of": small.EPOCH + timedelta(microseconds=as_of)}
            if lines is not None:
                row |= lines.values(stream, tuple(r[n] for n in identity_columns(plan, query)), as_of)
            now.append(row)
    if query.item.closes and not query.every_micros:
        finals = final_rows(Changes(plan, query, rows))
        small.altered(plan, final_name(query.name), lambda _: finals)
    now.sort(key=lambda r: (repr(changes.stream(r)), changes.rank(r)))
    for _, mine in groupby(now, key=changes.stream):
        for rank, row in enumerate(mine, 1):
            row["rank"] = rank
    small.altered(plan, now_name(query.name), lambda _: now)


def final_rows(changes: Changes) -> Rows:
    """The final results that the changes give: what left in the first step at the end of a window."""
    calendar, rows, seen = changes.query.window.tumbling, list[Row](), set[tuple[Key, datetime]]()
    assert calendar is not None
    names = identity_columns(changes.plan, changes.query)
    for step in changes.steps():
        place = changes.stream(step[0]), step[0]["changed_at"]
        end = (place[1] - small.EPOCH) // timedelta(microseconds=1)
        left = [r for r in step if r["change"] == "-"]
        if place not in seen and left and window_around(calendar, end)[0] == end:
            bounds = {"window_start": small.EPOCH + timedelta(microseconds=window_around(calendar, end - 1)[0]), "window_end": place[1]}
            for rank, r in enumerate(sorted(left, key=changes.rank), 1):
                kept = {n: r[n] for n in (*stream_columns(changes.plan, changes.query), *names, "score", "batch_id")}
                rows.append({**kept, **bounds, "rank": rank})
        seen.add(place)
    return rows


def _numbered(changes: Changes) -> Rows:
    """Steps without gaps, within one all - before all +, each in rank order."""
    rows: Rows = []
    for _, mine in groupby(changes.steps(), key=lambda step: changes.stream(step[0])):
        for number, step in enumerate(mine, 1):
            order = sorted(step, key=lambda r: (r.get("change") == "+", changes.rank(r))) if changes.query.item.lasting else step
            rows += [{**r, "step": number, "pos": pos} for pos, r in enumerate(order)]
    return sorted(rows, key=lambda r: (r["batch_id"], repr(changes.stream(r)), r["step"], r["pos"]))


Alter = Callable[[Changes], bool]
"""Alters the changes in place; False if there is nothing of the kind to alter."""


def first(changes: Changes, suits: Callable[[Row, Row | None], bool]) -> tuple[Row, Row | None] | None:
    """The stay in the middle of those that suit."""
    found = [(a, b) for a, b in changes.stays() if suits(a, b)]
    return found[len(found) // 2] if found else None


def an_item_less(changes: Changes) -> bool:
    """One stay is missing."""
    found = first(changes, lambda a, b: True)
    if found is None:
        return False
    changes.rows[:] = [r for r in changes.rows if r is not found[0] and r is not found[1]]
    return True


def stays_longer(changes: Changes) -> bool:
    """An item leaves a step later than it does."""
    for step, following in zip(steps := changes.steps(), steps[1:], strict=False):
        if changes.stream(step[0]) != changes.stream(following[0]) or changes.query.item.varies:
            continue
        for row in step:
            if row["change"] == "-" and all(changes.item(r) != changes.item(row) for r in following):
                row |= {n: following[0][n] for n in ("step", "changed_at", "batch_id")}
                return True
    return False


def comes_later(changes: Changes) -> bool:
    """A step is moved by a tenth of a second, with ``every`` by a boundary."""
    by = timedelta(milliseconds=100) if not changes.query.every_micros else timedelta(microseconds=changes.query.every_micros)
    steps = changes.steps()
    for step, following in reversed(list(pairwise(steps))):
        if changes.stream(step[0]) == changes.stream(following[0]) and step[0]["changed_at"] + by < following[0]["changed_at"]:
            moved(changes, step, by)
            return True
    return False


def moved(changes: Changes, step: Rows, by: timedelta) -> None:
    """Moves a step, and the values and points of trajectories that belong to it."""
    varying = changes.query.item.time_varying
    at = step[0]["changed_at"]
    for row in step:
        row["changed_at"] = at + by
        if varying is not None and varying.slope is not None:
            row[varying.value] += row[varying.slope] * by.total_seconds()
    entered = {changes.item(r) for r in step if r.get("change") == "+"}

    def shift(points: Rows) -> None:
        for p in points:
            if varying is not None and p["valid_from"] == at and changes.item(p) in entered:
                slope = 0 if varying.slope is None else p[varying.slope]
                p["valid_from"], p[varying.value] = at + by, p[varying.value] + slope * by.total_seconds()

    if varying is not None and not varying.all_items:
        small.altered(changes.plan, trajectory_name(changes.query.name), shift)


def another_score(changes: Changes) -> bool:
    """An item's score is another by the last bit, in all its rows."""
    found = first(changes, lambda a, b: True)
    if found is None or "score" not in found[0]:
        return False
    for row in changes.of(found[0]):
        row["score"] = math.nextafter(row["score"], math.inf)
    return True


def another_carried(changes: Changes) -> bool:
    """What an item carries is another, in all its rows."""
    carried = [c.name for c in changes.query.item.columns(("id",), changes.query.carry, ("grp",)) if c.what == "carry"]
    carried = [c for c in carried if c.removeprefix("older_").removeprefix("newer_") in ("x", "y", "count", "max_id", "usual_max")]
    found = first(changes, lambda a, b: True)
    if found is None or not carried:
        return False
    for row in changes.of(found[0]):
        row[carried[0]] = -1 if row[carried[0]] is None else row[carried[0]] + 1
    return True


def another_row(changes: Changes) -> bool:
    """An item is made of the row before, in all its rows."""
    name = identity_columns(changes.plan, changes.query)[-1]
    there = {changes.item(r) for r in changes.rows}
    if not name.endswith("seq"):
        return False
    found = first(changes, lambda a, b: a[name] > 1 and changes.item({**a, name: a[name] - 1}) not in there)
    if found is None:
        return False
    for row in changes.of(found[0]):
        row[name] -= 1
    return True


def another_object(changes: Changes) -> bool:
    """Two objects of a loyalty query have exchanged their names, in all rows of changes and trajectories."""
    if not changes.query.item.varies:
        return False
    names = identity_columns(changes.plan, changes.query)
    a, b = sorted({tuple(r[n] for n in names) for r in changes.rows})[:2]

    def swapped(rows: Rows) -> None:
        for r in rows:
            mine = tuple(r[n] for n in names)
            r |= dict(zip(names, b if mine == a else a if mine == b else mine, strict=True))

    swapped(changes.rows)
    small.altered(changes.plan, trajectory_name(changes.query.name), swapped)
    return True


def causes(changes: Changes) -> Iterator[tuple[str, str]]:
    """(the cause of some change, another one of its sign)."""
    signs = {"+": ("arrival", "promoted", "boundary", "crossing"), "-": ("expiry", "delete", "displaced", "crossing")}
    for sign, every in signs.items():
        for cause in every:
            if any((r["change"], r["cause"]) == (sign, cause) for r in changes.rows):
                yield from ((cause, other) for other in every if other != cause)


def another_cause(changes: Changes, cause: str, other: str, but: set[int]) -> int | None:
    """Give the last change with a cause another one. Return its instant: none of ``but``. None if there is no such change."""
    rows = [r for r in changes.rows if r["cause"] == cause and instant(r["changed_at"]) not in but]
    if not rows:
        return None
    rows[-1]["cause"] = other
    return instant(rows[-1]["changed_at"])


def a_score_exchanged(changes: Changes) -> bool:
    """Two items have each other's scores, in all their rows: their ranks change."""
    for a, b in zip(stays := [s for s, _ in changes.stays()], stays[1:], strict=False):
        if "score" in a and a["score"] != b["score"] and changes.stream(a) == changes.stream(b) and changes.item(a) != changes.item(b):
            for rows, score in ((changes.of(a), b["score"]), (changes.of(b), a["score"])):
                for row in rows:
                    row["score"] = score
            return True
    return False


def instant(at: datetime) -> int:
    """Microseconds."""
    return (at - small.EPOCH) // timedelta(microseconds=1)


ALTERED: dict[str, Alter] = {
    "an item less": an_item_less, "an item stays longer": stays_longer, "a step comes later": comes_later, "a score": another_score,
    "two scores exchanged": a_score_exchanged, "a carried column": another_carried, "an item of another row": another_row,
    "two objects exchanged": another_object,
}  # fmt: skip
