"""Random streams of reports on objects and jobs over them, and a run of these: the host's part for operators of objects."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skyband.operators.base import CAUSES, DELETION_TARGET, NULL, Arrivals, Changes, Column, Named, Ragged, State, Window
from skyband.operators.expressions import parse
from skyband.operators.loyalty import Loyalty, LoyaltyQuery
from skyband.operators.loyalty.logic import FEW
from tests.oracles import loyalty as oracle

SCHEMA: Any = {"x": "float", "g": "int"}
UNUSABLE = (NULL, 2, -1)

Row = tuple[Any, ...]
"""Of a change: (query, key, at, step, pos, sign, cause, name, loyalty, slope); of a point: (query, key, at, name, loyalty, slope)."""

CRITERIA: dict[str, Callable[[float], bool | None]] = {
    "x > 1": lambda x: None if np.isnan(x) else x > 1,
    "x > 1 or x is null": lambda x: True if np.isnan(x) else x > 1,
    "not (x = 2)": lambda x: None if np.isnan(x) else x != 2,
}
WHERES: dict[str | None, Callable[[int], bool]] = {None: lambda g: True, "g > 0": lambda g: g > 0, "g = 1": lambda g: g == 1}


@dataclass
class Stream:
    """Rows in time order over all keys. ``name``: of the object, or None; names are tuples of words.

    ``seq``: of each row in its key, -1 for deletions; ``deletes``: for these the row deleted, -1 for others.
    """

    time: Any
    key: Any
    name: list[Any]
    columns: dict[str, Any]
    seq: Any = None
    deletes: Any = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass
class Host:
    """The host: it numbers objects, feeds a logic, and drops the objects that the logic no longer needs.

    ``changes`` and ``points`` have names in place of numbers.
    """

    op: Loyalty
    few: int = FEW
    numbers: dict[tuple[int, Any], int] = field(default_factory=dict)
    names: list[Any] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logic: Any = self.op.build(None)
        self.logic.few = self.few

    def block(self, stream: Stream, lo: int, hi: int) -> Arrivals:
        at = lo + np.argsort(stream.key[lo:hi], kind="stable")
        number, new = np.full(len(at), NULL), []
        for i, row in enumerate(at.tolist()):
            name = stream.name[row]
            if name is None:
                continue
            place = (int(stream.key[row]), name)
            if place not in self.numbers:
                self.numbers[place] = len(self.names)
                new.append(len(self.names))
                self.names.append(name)
            number[i] = self.numbers[place]
        words = [w for n in new for w in self.names[n]]
        start = np.cumsum([0, *(len(self.names[n]) for n in new)]).astype(np.int64)
        named = Named(np.array(new, np.int64), Ragged(start, np.array(words, np.int64)))
        column = self.op.object_column.name
        columns = {c.name: stream.columns[c.name][at] for c in self.op.columns if c.name != column} | {column: number}
        seq = at if stream.seq is None else stream.seq[at]
        return Arrivals(stream.key[at], seq, stream.time[at], columns, {}, {column: named})

    def advance(self, block: Arrivals, until: int) -> None:
        woken = self.logic.wake()
        found = self.logic.advance(block, until)
        assert len(block) or not (len(found) or len(found.traces)) or (woken is not None and woken < until)
        wake = self.logic.wake()
        assert wake is None or wake >= until
        self.changes += self.rows(found)
        t = found.traces
        loyalty = np.rint(t.values["loyalty_seconds"] * 1e6).astype(np.int64)
        for row in zip(*(a.tolist() for a in (t.query, t.key, t.at, t.items[:, 0], loyalty, t.values["slope"])), strict=True):
            self.points.append((*row[:3], self.names[row[3]], *row[4:]))

    def rows(self, c: Changes) -> list[Row]:
        loyalty = np.rint(c.values["loyalty_seconds"] * 1e6).astype(np.int64)
        assert not c.score.any()
        body = [a.tolist() for a in (c.query, c.key, c.at, c.step, c.pos, c.sign, c.cause, c.items[:, 0], loyalty, c.values["slope"])]
        return [(*r[:6], CAUSES[r[6]], self.names[r[7]], *r[8:]) for r in zip(*body, strict=True)]

    def forget(self) -> None:
        needed = set(self.logic.objects().tolist())
        assert needed <= set(self.numbers.values())
        self.numbers = {name: n for name, n in self.numbers.items() if n in needed}

    def restore(self) -> None:
        wake = self.logic.wake()
        arrays = pickle.loads(pickle.dumps(dict(self.logic.checkpoint())))
        none = np.empty(0, np.int64)
        self.logic = pickle.loads(pickle.dumps(self.op)).build(State(arrays, Arrivals(none, none, none, {})))
        self.logic.few = self.few
        assert self.logic.wake() == wake


@dataclass
class Case:
    """A stream, an operator over it, and the instant at which the run ends."""

    stream: Stream
    op: Loyalty
    end: int
    criteria: str | None
    where: str | None

    def reports(self, key: int) -> list[oracle.Report]:
        """The usable reports of a key."""
        s, found = self.stream, []
        for i in np.flatnonzero(s.key == key).tolist():
            if not WHERES[self.where](int(s.columns["g"][i])) or s.name[i] is None or (s.seq is not None and s.seq[i] < 0):
                continue
            gone = np.flatnonzero(s.deletes == i) if s.deletes is not None else []
            on = s.columns["u"][i]
            update = {0: False, 1: True}.get(int(on)) if self.criteria is None else CRITERIA[self.criteria](float(s.columns["x"][i]))
            if update is not None:
                found.append(oracle.Report(int(s.time[i]), s.name[i], bool(update), int(s.time[gone[0]]) if len(gone) else oracle.FOREVER))
        return found

    def queries(self) -> list[oracle.Query]:
        return [oracle.Query(q.k, q.at_least, q.every, q.trace_all) for q in self.op.queries]

    def expected(self, every_instant: bool) -> tuple[list[Row], list[Row]]:
        """Changes and points by definition, as ``Host`` gives them in one call."""
        window, stale = int(self.op.window.micros or 0), self.op.stale_after
        changes: list[Row] = []
        points: list[Row] = []
        queries = self.queries()
        for i, q in enumerate(queries):
            for key in sorted(set(self.stream.key.tolist())):
                reports = self.reports(key)
                if not reports:
                    continue
                at: Sequence[int] = range(reports[0].time, self.end)
                if not every_instant:
                    at = oracle.instants(oracle.spans(reports, stale), window, queries, self.end)
                changes += [(i, key, *c) for c in oracle.changes(reports, stale, window, q, at)]
                points += [(i, key, *p) for p in oracle.points(reports, stale, window, q, at)]
        return changes, points


def run(case: Case, cuts: Sequence[int], restore: bool = False, forget: bool = True, few: int = FEW) -> Host:
    """The stream cut at the instants ``cuts``; with ``restore`` the logic is saved and restored at each; ``few`` as the logic's."""
    host, s = Host(case.op, few), case.stream
    fed = 0
    for until in [*sorted(set(cuts)), case.end]:
        upto = fed + int(np.searchsorted(s.time[fed:], until))
        host.advance(host.block(s, fed, upto), until)
        fed = upto
        if forget:
            host.forget()
        if restore:
            host.restore()
    host.changes.sort(key=lambda r: r[:2])
    host.points.sort(key=lambda r: r[:2])
    return host


def random_queries(rng: np.random.Generator, window: int) -> tuple[LoyaltyQuery, ...]:
    """One to four queries."""
    found = []
    for _ in range(int(rng.integers(1, 5))):
        every = int(rng.choice([1, 2, 3, 7, 10, 50])) if rng.random() < 0.25 else None
        trace_all = bool(rng.random() < 0.4)
        if rng.random() < 0.6:
            found.append(LoyaltyQuery(int(rng.choice([1, 1, 2, 3, 5, 20])), None, every, trace_all))
        else:
            theta = int(rng.choice([1, window, max(1, window // 2), int(rng.integers(1, window + 1))]))
            found.append(LoyaltyQuery(None, theta, every, trace_all))
    return tuple(found)


def random_names(rng: np.random.Generator, n: int) -> list[Any]:
    """Different names of a word or several, some the beginning of others."""
    found: dict[Any, None] = {}
    words = [-(2**63) + 1, -3, 0, 1, 2, 7, 2**62]
    long = rng.random() < 0.5
    while len(found) < n:
        size = int(rng.integers(1, 4)) if long else 1
        found[tuple(int(rng.choice(words)) if long else int(rng.integers(-20, 20)) for _ in range(size))] = None
    return list(found)


def random_case(seed: int, rows: int = 40, objects: int = 7, scale: int = 1) -> Case:
    """Tiny domains: ties, bursts, redundant reports, gaps beyond T; ``scale`` stretches all durations."""
    rng = np.random.default_rng(seed)
    window = int(rng.choice([1, 2, 5, 8, 20, 33]))
    gaps = rng.choice(np.array([(0, 1, 2), (0, 0, 1), (1, 1, 1), (0, 3, 50), (2, 7, 11)])[int(rng.integers(5))], rows)
    time = np.cumsum(gaps) * scale + int(rng.choice([0, -40, 1_600_000_000_000_000]))
    if scale > 1:
        time = np.sort(time + rng.integers(0, 3, rows))
    keys = int(rng.integers(1, 4))
    some: list[Any] = random_names(rng, int(rng.integers(1, objects + 1)))
    picked = [some[int(i)] if rng.random() > 0.04 else None for i in rng.integers(0, len(some), rows)]
    on = rng.integers(0, 2, rows)
    if rng.random() < 0.5:
        on = (rng.random(rows) < 0.7).astype(np.int64)
    bad = rng.random(rows) < float(rng.choice([0.0, 0.1]))
    on[bad] = rng.choice(UNUSABLE, int(bad.sum()))
    x = rng.integers(0, 4, rows).astype(np.float64)
    x[rng.random(rows) < 0.08] = np.nan
    key = rng.integers(0, keys, rows)
    order: dict[int, int] = {}
    key = np.array([order.setdefault(k, len(order)) for k in key.tolist()], np.int64)
    g = rng.choice([0, 1, 2, NULL], rows)
    criteria = None if rng.random() < 0.5 else str(rng.choice(list(CRITERIA)))
    where = [None, None, "g > 0", "g = 1"][int(rng.integers(4))]
    stale = None if rng.random() < 0.5 else int(rng.choice([1, 2, 4, 9, 60])) * scale
    op = Loyalty(
        object=("a", "b"), criteria=None if criteria is None else parse(criteria, SCHEMA, ("",)),
        updates=None if criteria is not None else Column("u", "int"), where=None if where is None else parse(where, SCHEMA, ("",)),
        stale_after=stale, window=Window(None, window * scale), queries=random_queries(rng, window * scale),
    )  # fmt: skip
    end = int(time[-1]) + int(rng.choice([1, 5, 2 * window, 3 * window + 20])) * scale
    return Case(Stream(time, key, picked, {"u": on, "x": x, "g": g}), op, end, criteria, where)


def with_deletions(case: Case, seed: int) -> Case:
    """The case with some rows turned into deletions of others before them, most of them late ones."""
    rng, s = np.random.default_rng(seed), case.stream
    share = float(rng.choice([0.05, 0.3, 0.5]))
    seq, deletes, target = np.full(len(s), -1), np.full(len(s), -1), np.full(len(s), NULL)
    count: dict[int, int] = {}
    alive: dict[int, list[int]] = {}
    for i, key in enumerate(s.key.tolist()):
        mine = alive.setdefault(key, [])
        if mine and rng.random() < share:
            deletes[i] = mine.pop(-1 - int(rng.integers(min(len(mine), int(rng.choice([1, 3, 20]))))))
            target[i] = seq[deletes[i]]
        else:
            seq[i] = count.get(key, 0)
            count[key] = int(seq[i]) + 1
            mine.append(i)
    columns = s.columns | {DELETION_TARGET: target}
    return replace(case, stream=replace(s, columns=columns, seq=seq, deletes=deletes), op=replace(case.op, deletes=True))


def random_cuts(case: Case, rng: np.random.Generator, share: float) -> list[int]:
    """Instants between the first row and the end."""
    first = int(case.stream.time[0])
    rows = [int(t) for t in np.unique(case.stream.time) if rng.random() < share]
    return [*rows, *rng.integers(first, case.end, 1 + int(share * 10)).tolist()]
