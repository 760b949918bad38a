"""Replay a change stream by its definition (docs/semantics 3, 6, tables), and compare the tables derived from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import pyarrow as pa

from skyband.framework.base.items import SCORE, rank_key
from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.schemas import (
    changes_name,
    identity_columns,
    now_name,
    now_schema,
    results_schema,
    stream_columns,
    trajectory_name,
)
from skyband.framework.verify.budget import UNLIMITED, Budget, OutOfTime
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.causes import Change, Rules, Step, impossible
from skyband.framework.verify.replay.clocks import Clocks
from skyband.framework.verify.replay.final_results import compare_final_results
from skyband.framework.verify.replay.trajectories import Point, Trajectories, differences, off_line, unmarked, value_and_slope
from skyband.framework.verify.stored import BEFORE, Item, Key, Stored, exact, key_of, keys_of, micros, row_of, smallest_first, window_for

# Compare ``<query>`` and ``<query>_now`` with the result of replaying the changes: every column, bit for bit.


def compare_results(stored: Stored, query: QueryNode, changes: pa.Table, intervals: Sequence[tuple[int, int | None]]) -> list[Difference]:
    """Compare ``<query>`` with ``intervals``: the rows of ``changes`` that open and close each."""
    opening, closing = pa.array([a for a, _ in intervals], pa.int64()), pa.array([b for _, b in intervals], pa.int64())
    opened, closed = changes.take(opening), changes.select(["changed_at", "step"]).take(closing)
    made = {
        "valid_from": opened["changed_at"], "valid_to": closed["changed_at"], "from_step": opened["step"], "to_step": closed["step"],
        "is_current": pa.array([b is None for _, b in intervals], pa.bool_()),
    }  # fmt: skip
    schema = results_schema(stored.plan, query)
    expected = pa.table([made[n] if n in made else opened[n] for n in schema.names], names=schema.names)
    streams = stream_columns(stored.plan, query)
    same = (*streams, *identity_columns(stored.plan, query), "from_step")
    return _differences(query.name, expected, stored.table(query.name), schema.names, same, streams, "valid_from")


def compare_now(stored: Stored, query: QueryNode, changes: pa.Table, current: Sequence[int], name: str) -> list[Difference]:
    """Compare ``<query>_now`` with ``current``: the rows of ``changes`` in the current results, by stream and rank."""
    rows = changes.take(pa.array(current, pa.int64()))
    streams = stream_columns(stored.plan, query)
    keys = keys_of(rows, streams)
    ranks = [rank for _, mine in groupby(keys) for rank, _ in enumerate(mine, 1)]
    names = now_schema(stored.plan, query).names
    made: Mapping[str, Any] = {"rank": pa.array(ranks, pa.int32())}
    if stored.derived_upto(query) == stored.last_batch and stored.heads_complete:
        complete = _complete(stored)
        made = {**made, "as_of": pa.array([complete.get(key_of(stored.plan, query, k)) for k in keys], pa.int64()).cast(STAMP)}
    else:  # a killed or running job: its keys are ahead of its results
        names = [n for n in names if n != "as_of"]
    same = (*streams, "rank")
    if query.item.varies:  # ranks and values are as of now, not as of the changes
        same = (*streams, *identity_columns(stored.plan, query))
        names = [n for n in names if n not in {"rank", *(v.name for v in query.item.values), *query.item.varying_columns}]
    expected = pa.table([made[n] if n in made else rows[n] for n in names], names=names)
    return _differences(name, expected, stored.table(name), names, same, streams, None)


def _complete(stored: Stored) -> dict[Key, int]:
    """Return up to when the results of every key are complete: the end of its last batch, or of the job's if that is later."""
    heads, keys = stored.table("heads"), stored.plan.intake.partition_by
    last = stored.frontier(stored.last_batch) - 1
    found = {k: max(BEFORE if t is None else t, last) for k, t in zip(keys_of(heads, keys), micros(heads, "as_of"), strict=True)}
    return found or {(): last}


def _differences(
    table: str, expected: pa.Table, got: pa.Table, names: Sequence[str], same: Sequence[str], streams: Sequence[str], at: str | None
) -> list[Difference]:
    """Return the rows on one side only; two rows that are equal in the columns ``same`` become one difference."""
    sides = exact(expected, names), exact(got, names)
    counts = Counter(sides[0]), Counter(sides[1])
    lone: list[dict[Key, list[int]]] = []
    for side, (rows, table_of_side) in enumerate(zip(sides, (expected, got), strict=True)):
        left = counts[side] - counts[1 - side]
        named = exact(table_of_side, same) if left else []
        mine: dict[Key, list[int]] = {}
        for i, row in enumerate(rows) if left else ():
            if left[row]:
                left[row] -= 1
                mine.setdefault(named[i], []).append(i)
        lone.append(mine)
    out = []
    for which in [*lone[0], *(k for k in lone[1] if k not in lone[0])]:
        missing, found = lone[0].get(which, []), lone[1].get(which, [])
        shown, i = (expected, missing[0]) if missing else (got, found[0])
        when = shown[at].slice(i, 1).cast(pa.int64())[0].as_py() if at is not None else None
        where = place(f"table {table}", streams, keys_of(shown.slice(i, 1), streams)[0], when)
        what = "a row that the changes do not give" if not missing else "a row is missing that the changes give"
        if missing and found:
            unlike = [n for n, a, b in zip(names, sides[0][missing[0]], sides[1][found[0]], strict=True) if a != b]
            what = f"differs from the changes: {', '.join(unlike)}"
        out.append(Difference(where, what, [row_of(expected, i) for i in missing], [row_of(got, i) for i in found], when))
    return out


# Compare the trajectories of time-varying values with the changes, and ``<query>_now`` with the trajectories.


def compare_trajectories(
    stored: Stored, query: QueryNode, changes: pa.Table, intervals: Sequence[tuple[int, int | None]]
) -> Iterator[Difference]:
    """Compare the trajectories with ``intervals``: the rows of ``changes`` that open and close each."""
    lines = Trajectories(stored, query)
    varying, streams = lines.varying, stream_columns(stored.plan, query)
    names = list(zip(keys_of(changes, streams), keys_of(changes, identity_columns(stored.plan, query)), strict=True))
    at, (values, slopes) = micros(changes, "changed_at"), value_and_slope(changes, varying)

    def wrong(name: tuple[Key, Item], said: str, when: int | None = None) -> Difference:
        return Difference(place(f"table {trajectory_name(query.name)}", streams, name[0], when), said, at=when)

    for enters, leaves in intervals:
        start = Point(at[enters] or 0, values[enters], slopes[enters])
        end = None if leaves is None else (at[leaves] or 0, values[leaves])
        item, points = names[enters][1], lines.points.get(names[enters], [])
        if varying.slope is None:
            found = unmarked(item, start.at, None if end is None else end[0], points)
        else:
            found = differences(item, start, end, points, varying.all_items)
        for said in found:
            yield wrong(names[enters], said, start.at)
    for name, line in lines.points.items() if varying.all_items else ():
        # Before its first point the value of an object is 0, and it is never negative.
        for said in off_line(name[1], [Point(line[0].at - 1, 0, 0), *line]):
            yield wrong(name, said)
        if line[-1].by(max(stored.until.get(name[0][len(name[0]) - len(stored.plan.intake.partition_by) :], 0), line[-1].at)) < 0:
            yield wrong(name, f"{name[1]} falls below 0 after its last point, {line[-1]}", line[-1].at)
    yield from _now(stored, query, lines)


def _now(stored: Stored, query: QueryNode, lines: Trajectories) -> Iterator[Difference]:
    """Compare the values and ranks of ``<query>_now`` with the trajectories."""
    table, streams = stored.table(now_name(query.name)), stream_columns(stored.plan, query)
    named = keys_of(table, streams), keys_of(table, identity_columns(stored.plan, query))
    rows = table.to_pylist()
    ranked: dict[Key, list[tuple[Any, int]]] = {}
    for i, (stream, item, at) in enumerate(zip(*named, micros(table, "as_of"), strict=True)):
        values = lines.values(stream, item, at or 0)
        row = rows[i]
        if any(row[n] != v for n, v in values.items()):
            where = place(f"table {now_name(query.name)}", streams, stream, at)
            yield Difference(where, "differs from the trajectory", [{**row, **values}], [row], at)
        ranked.setdefault(stream, []).append((rank_key(query.item, smallest_first(query, stream))(row), i))
    for stream, places in ranked.items():
        for rank, (_, i) in enumerate(sorted(places), 1):
            row = rows[i]
            if row["rank"] != rank:
                where = place(f"table {now_name(query.name)}", streams, stream)
                yield Difference(where, "the ranks do not follow from the values", [{**row, "rank": rank}], [row])


_INTERVAL = ("valid_from", "valid_to", "from_step", "to_step", "is_current")


@dataclass(slots=True)
class Replayed:
    """The outcome of replaying one query. ``total``: its changes, of which ``changes`` have been replayed."""

    total: int = 0
    changes: int = 0
    steps: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass
class Stream:
    """The columns of ``<query>_changes``, up to the last batch that results have been derived from."""

    stored: Stored
    query: QueryNode
    rows: pa.Table

    def __post_init__(self) -> None:
        plan, query = self.stored.plan, self.query
        self.names = stream_columns(plan, query)
        self.common = [f.name for f in results_schema(plan, query) if f.name not in _INTERVAL]
        self.keys = keys_of(self.rows, self.names)
        self.items: list[Item] = keys_of(self.rows, identity_columns(plan, query))
        self.at = [BEFORE if t is None else t for t in micros(self.rows, "changed_at")]
        self.step, self.pos, self.batch = (self.rows[n].to_pylist() for n in ("step", "pos", "batch_id"))
        # Items that are reported once have neither sign nor cause: they only enter.
        self.change, self.cause = ["+"] * self.rows.num_rows, ["arrival"] * self.rows.num_rows
        if self.query.item.lasting:
            self.change, self.cause = (self.rows[n].to_pylist() for n in ("change", "cause"))

    @cached_property
    def values(self) -> list[Key]:
        """Of each row the keys, item columns and values, bit for bit."""
        return exact(self.rows, self.common)

    @cached_property
    def shown(self) -> list[tuple[float, int | None, tuple[Any, ...]]]:
        """Of each row the score or time-varying value (0.0 if it has neither), its slope, and what the change carries."""
        item, n = self.query.item, self.rows.num_rows
        value = item.time_varying.value if item.time_varying is not None else SCORE if item.scored else None
        slope = None if item.time_varying is None else item.time_varying.slope
        values = [0.0] * n if value is None else self.rows[value].to_pylist()
        slopes = [None] * n if slope is None else self.rows[slope].to_pylist()
        return list(zip(values, slopes, keys_of(self.rows, [c.name for c in item.carried]), strict=True))

    @cached_property
    def ranks(self) -> list[Any]:
        """Of each row the sort key of its item within the stream."""
        named = list(dict.fromkeys(c for term in self.query.item.rank for c in term.columns))
        keys = {d: rank_key(self.query.item, d) for d in (False, True)}
        values = [self.rows[n].to_pylist() for n in named]
        return [
            keys[smallest_first(self.query, k)](dict(zip(named, v, strict=True)))
            for k, v in zip(self.keys, zip(*values, strict=True), strict=True)
        ]  # fmt: skip

    def streams(self) -> Iterator[tuple[Key, list[int]]]:
        """Yield the key and the rows of every stream, in the order of steps."""
        order = sorted(range(self.rows.num_rows), key=lambda i: (repr(self.keys[i]), self.step[i], self.pos[i]))
        for _, group in groupby(order, key=lambda i: repr(self.keys[i])):
            mine = list(group)
            yield self.keys[mine[0]], mine

    def differs(self, i: int, what: str, beside: list[int] | None = None) -> Difference:
        """Return a difference at row ``i``; ``beside``: the rows that it contradicts."""
        where = place(f"table {changes_name(self.query.name)}", self.names, self.keys[i], self.at[i], self.step[i])
        shown = None if beside is None else [row_of(self.rows, j) for j in beside]
        return Difference(where, what, shown, [row_of(self.rows, i)], self.at[i], "after")


@dataclass(slots=True)
class Interval:
    """A stay of an item in the result, from row ``enters`` of the changes to row ``leaves`` (None: still in the result)."""

    enters: int
    leaves: int | None


def stream_of(stored: Stored, query: QueryNode) -> Stream:
    """Return the change stream of ``query``, as far as its results have been derived."""
    return Stream(stored, query, stored.changes(query, stored.changes_upto(query)))


def replay(stored: Stored, query: QueryNode, clocks: Clocks, budget: Budget = UNLIMITED) -> Replayed:
    """Replay ``<query>_changes``, and compare every column of ``<query>`` and ``<query>_now`` with the outcome.

    In the stream itself, steps, positions, instants and batches must follow each other. Within a step all ``-`` come before all ``+``, each
    in rank order. An item leaves with the values it entered with, and no cause is impossible. Out of time, only some streams are replayed,
    and the other tables are not compared.
    """
    out = Replayed(total=stored.changes(query, stored.changes_upto(query)).num_rows)
    try:
        budget.check()
        _replay(stored, query, clocks, budget, out)
    except OutOfTime:
        out.changes = min(out.changes, max(0, out.total - 1))
    return out


def _replay(stored: Stored, query: QueryNode, clocks: Clocks, budget: Budget, out: Replayed) -> None:
    stream = stream_of(stored, query)
    intervals: list[Interval] = []
    for key, rows in stream.streams():
        found = [*_order(stream, rows, budget)]
        if not query.item.lasting:
            found += _reported_once(stream, rows)
        else:
            found += compare_causes(stream, key, rows, clocks, budget)
            intervals += _intervals(stream, rows, found, budget)
        out.differences += found
        out.changes += len(rows)
        out.steps += sum(stream.pos[i] == 0 for i in rows)
    if not query.item.lasting:
        return
    budget.check()
    out.differences += compare_results(stored, query, stream.rows, [(x.enters, x.leaves) for x in intervals])
    budget.check()
    now_upto = stored.derived_upto(query)
    current = [
        x.enters for x in intervals if stream.batch[x.enters] <= now_upto and (x.leaves is None or stream.batch[x.leaves] > now_upto)
    ]
    current.sort(key=lambda i: (repr(stream.keys[i]), stream.ranks[i]))
    out.differences += compare_now(stored, query, stream.rows, current, now_name(query.name))
    if query.item.time_varying is not None and not out.differences:
        budget.check()
        out.differences += compare_trajectories(stored, query, stream.rows, [(x.enters, x.leaves) for x in intervals])
    if query.item.closes and not out.differences:
        budget.check()
        out.differences += compare_final_results(stored, query, _left_first(stream))


def _left_first(stream: Stream) -> dict[tuple[Key, int], set[tuple[Item, str]]]:
    """Return of each stream and instant the items that left in the first step, with the bits of their scores."""
    scores, found = stream.rows[SCORE].to_pylist(), dict[tuple[Key, int], set[tuple[Item, str]]]()
    first: dict[tuple[Key, int], int] = {}
    for key, rows in stream.streams():
        for i in rows:
            if first.setdefault((key, stream.at[i]), stream.step[i]) == stream.step[i] and stream.change[i] == "-":
                found.setdefault((key, stream.at[i]), set()).add((stream.items[i], scores[i].hex()))
    return found


def _order(stream: Stream, rows: list[int], budget: Budget) -> Iterator[Difference]:
    """Yield the rows that do not follow the row before them."""
    before: int | None = None
    every = stream.query.every_micros
    for i in budget.checked(rows):
        step, pos = (0, -1) if before is None else (stream.step[before], stream.pos[before])
        if (stream.step[i], stream.pos[i]) not in ((step, pos + 1), (step + 1, 0)) or (before is None and stream.step[i] == 0):
            yield stream.differs(i, f"step {stream.step[i]} pos {stream.pos[i]} does not follow step {step} pos {pos}")
        elif every and stream.at[i] % every:
            yield stream.differs(i, "a query with 'every' changes only at its multiples")
        elif before is not None:
            same = stream.step[i] == step
            if stream.at[i] < stream.at[before] or stream.batch[i] < stream.batch[before]:
                yield stream.differs(i, "its instant or batch is before that of the change it follows", [before])
            elif same and (stream.at[i] != stream.at[before] or stream.batch[i] != stream.batch[before]):
                yield stream.differs(i, "a step has two instants or two batches", [before])
            elif same and stream.change[before] == "+" and stream.change[i] == "-":
                yield stream.differs(i, "a - follows a + of the same step")
            elif same and stream.change[i] == stream.change[before] and stream.ranks[i] <= stream.ranks[before]:
                yield stream.differs(i, f"the {stream.change[i]} of a step are not in rank order: this row follows", [before])
        before = i


def _reported_once(stream: Stream, rows: list[int]) -> Iterator[Difference]:
    """Yield items that are reported twice, or not at the instant of the newest of their rows."""
    times = [micros(stream.rows, part.prefix + "time") for part in stream.query.item.rows]
    seen: dict[Item, int] = {}
    for i in rows:
        if stream.items[i] in seen:
            yield stream.differs(i, "the item has been reported before", [seen[stream.items[i]]])
        elif stream.at[i] != max(t[i] or BEFORE for t in times):
            yield stream.differs(i, "the item is not reported at the instant of the newest of its rows")
        seen[stream.items[i]] = i


def compare_causes(stream: Stream, key: Key, rows: list[int], clocks: Clocks, budget: Budget = UNLIMITED) -> Iterator[Difference]:
    """Yield the impossible causes in a stream's ``rows``, which are in order. Raises OutOfTime."""
    query, plan = stream.query, stream.stored.plan
    window = window_for(query, key)
    capped = query_type(query.type).limits(plan, query, query.asked[0] if query.asked else None).most_of_row is not None
    rules = Rules(window, bool(query.every_micros), plan.intake.has_deletions, query.item.varies, capped)
    clock = clocks.of(key_of(plan, query, key))
    seqs, times = clocks.parts(query.name)
    for _, group in groupby(budget.checked(rows), key=stream.step.__getitem__):
        mine = list(group)
        step = Step(stream.at[mine[0]], [Change(stream.change[i] == "+", stream.cause[i], seqs[i], times[i]) for i in mine])
        for position, why in impossible(step, rules, clock):
            yield stream.differs(mine[position], why)


def _intervals(stream: Stream, rows: list[int], differences: list[Difference], budget: Budget) -> list[Interval]:
    """Return the stays of all items; append what is wrong to ``differences``."""
    current: dict[Item, int] = {}
    done: list[Interval] = []
    for i in budget.checked(rows):
        item, enters = stream.items[i], stream.change[i] == "+"
        if stream.change[i] not in ("+", "-") or enters == (item in current):
            said = f"the change is {stream.change[i]}, but its item is {'already' if item in current else 'not'} in the result"
            differences.append(stream.differs(i, said, [current[item]] if item in current else None))
        elif enters:
            current[item] = i
        else:
            entered = current.pop(item)
            done.append(Interval(entered, i))
            if not stream.query.item.varies and stream.values[entered] != stream.values[i]:
                differences.append(stream.differs(i, "the item leaves with other values than it entered with", [entered]))
    return done + [Interval(i, None) for i in current.values()]
