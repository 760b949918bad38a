"""Replay a change stream by its definition (docs/semantics 3, 6, tables), and compare the tables derived from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import pyarrow as pa

from skyband.framework.base.items import SCORE, rank_key
from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.schemas import changes_name, identity_columns, now_name, results_schema, stream_columns
from skyband.framework.verify.budget import UNLIMITED, Budget, OutOfTime
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.causes import Change, Rules, Step, impossible
from skyband.framework.verify.replay.clocks import Clocks
from skyband.framework.verify.replay.compare_trajectories import compare_trajectories
from skyband.framework.verify.replay.derived_tables import compare_now, compare_results
from skyband.framework.verify.replay.final_results import compare_final_results
from skyband.framework.verify.stored import (
    BEFORE,
    Item,
    Key,
    Stored,
    exact,
    key_of,
    keys_of,
    micros,
    row_of,
    smallest_first,
    window_for,
)

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
