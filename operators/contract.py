"""The contract of ``base`` as a check that every operator must pass, on random streams with many ties.

For authors of operators, who call it from their tests with a few configurations and many seeds::

    assert sum(check_operator(MyOperator(...), seed) for seed in range(50)) > 0

It compares runs of one stream, cut and restored in different ways, with the run in one call. Other tests must show that results are right.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from skyband.operators.base import (
    CAUSES,
    DELETION_TARGET,
    F64,
    I64,
    NULL,
    AnyArray,
    Arrivals,
    Changes,
    Finals,
    Items,
    Logic,
    Named,
    Operator,
    Ragged,
    State,
    Traces,
    Window,
)

# Random rows: for any operator's columns, full of ties, nulls, equal times and bursts larger than the window.


GAPS = ((0, 0, 1, 2, 7), (0, 0, 1, 2, 7), (1,), (0, 0, 0, 40), (3, 11), (0, 1))
"""Steps of the clock between rows, in units; one of these per stream."""

OTHER_TEXTS = 3
"""Texts in the stream besides the constants of the plan."""

TOKENS, LARGEST_SET = 9, 6
"""Different tokens of a column of sets, and tokens of its largest; some sets are empty."""

RAGGED = ("tokens", "characters")
"""Kinds of columns with several values a row."""

REACH = 12
"""A deletion names one of this many newest objects of its key, alive in the operator's window or not."""


@dataclass(frozen=True)
class Rows:
    """Accepted rows of one bucket in the order of their instants, over all keys; all arrays have one entry per row.

    A deletion has ``seq`` -1 and the deleted object's seq in ``target``, which is ``NULL`` for objects. ``text`` columns hold numbers
    of texts, which ``block`` turns into codes; ``object`` columns values, which ``Numbers`` turns into numbers; ``sets`` those of columns
    of tokens, and the texts of those of characters. ``end``: an instant after the last row. ``constants``: so many texts have fixed codes.
    """

    time: I64
    key: I64
    seq: I64
    target: I64
    values: Mapping[str, AnyArray]
    kinds: Mapping[str, str]
    constants: int
    end: int
    sets: Mapping[str, list[I64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def first_codes(self) -> I64:
        """Return a code for every text."""
        return np.arange(self.constants + OTHER_TEXTS)

    def block(self, at: AnyArray, codes: I64) -> Arrivals:
        """Return the rows at the positions ``at`` (ascending), by key, with texts under ``codes``."""
        order = at[np.argsort(self.key[at], kind="stable")]
        columns = {name: self.column(name, order, codes) for name in self.values}
        ragged = {name: _ragged([sets[i] for i in order.tolist()], codes, self.kinds[name]) for name, sets in self.sets.items()}
        return Arrivals(self.key[order], self.seq[order], self.time[order], columns, ragged)

    def column(self, name: str, at: AnyArray, codes: I64) -> AnyArray:
        """Return one column of the rows ``at``."""
        values: AnyArray = self.values[name][at]
        if self.kinds[name] != "text":
            return values
        return np.where(values == NULL, NULL, codes[np.maximum(values, 0)])


def _ragged(sets: list[I64], codes: I64, kind: str) -> Ragged:
    """Sets of tokens, with codes that depend on those of texts: other ones once these are; or texts, whose characters do not."""
    start = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    values = np.concatenate([np.empty(0, np.int64), *sets])
    return Ragged(start, values if kind == "characters" else values * 1_000_003 + codes[-1])


class Numbers:
    """The host's numbers for objects: one for every value of a column and key, a new one for an object that was forgotten."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.number_of: dict[tuple[str, int, int], int] = {}
        """(column, key, value) to the number of an object that is still needed."""
        self.value_of: list[int] = []
        """The value of every number there ever was."""

    def given(self, rows: Arrivals) -> Arrivals:
        """``rows`` with numbers in the columns of kind ``object``, whose values are the objects' names, and with the names of new ones."""
        columns, named = dict(rows.columns), {}
        for name in self.names:
            first = len(self.value_of)
            columns[name] = self._numbered(name, rows)
            new = np.arange(first, len(self.value_of))
            named[name] = Named(new, Ragged(np.arange(len(new) + 1), np.array(self.value_of[first:], np.int64)))
        return replace(rows, columns=columns, named=named)

    def _numbered(self, name: str, rows: Arrivals) -> I64:
        out = np.full(len(rows), NULL)
        for i, (key, value) in enumerate(zip(rows.key.tolist(), rows.columns[name].tolist(), strict=True)):
            if value == NULL:
                continue
            if (name, key, value) not in self.number_of:
                self.number_of[name, key, value] = len(self.value_of)
                self.value_of.append(value)
            out[i] = self.number_of[name, key, value]
        return out

    def keep(self, needed: set[int]) -> int | None:
        """Forget all others; a number of ``needed`` that is none, if there is one."""
        unknown = needed - set(self.number_of.values())
        self.number_of = {name: n for name, n in self.number_of.items() if n in needed}
        return min(unknown, default=None)

    def known(self) -> set[tuple[int, int]]:
        """(key, number) of the objects that are not forgotten."""
        return {(key, n) for (_, key, _), n in self.number_of.items()}


def random_rows(operator: Operator, rng: np.random.Generator, rows: int, keys: int) -> Rows:
    """Return a stream of up to ``rows`` rows for the columns ``operator`` asks for, with deletions if it reads ``$target``."""
    n = int(rng.integers(1, rows + 1)) if rng.random() < 0.2 else rows
    kinds: dict[str, str] = {c.name: c.kind for c in operator.columns}
    constants = constant_texts(operator)
    unit = _unit(operator, rng)
    gaps = rng.choice(GAPS[rng.integers(len(GAPS))], n) * unit
    if unit > 1:
        gaps += (gaps > 0) * rng.integers(0, 2, n)
    key = rng.integers(0, keys, n)
    if rng.random() < 0.1:
        key.sort()
    if rng.random() < 0.5:  # a burst: many rows at one instant, more than the window holds if that is possible
        size = min(n, (operator.window.count or 8) + 3)
        first = int(rng.integers(0, n - size + 1))
        gaps[first + 1 : first + size] = 0
        if rng.random() < 0.5:
            key[first : first + size] = key[first]
    time = np.cumsum(gaps) + int(rng.choice([-50, 100, 1_600_000_000_000_000]))
    names: dict[int, int] = {}
    key = np.array([names.setdefault(k, len(names)) for k in key.tolist()], np.int64)
    deletes = DELETION_TARGET in kinds
    seq, target = _numbered(key, rng, float(rng.choice([0.1, 0.4])) if deletes else 0.0)
    plain = {c.name: c for c in operator.columns if c.name != DELETION_TARGET and c.kind not in RAGGED}
    values = {
        name: _vectors(rng, n, c.dimension) if c.kind == "vector" else _column(c.kind, rng, n, constants) for name, c in plain.items()
    }
    sets = {name: _sets(rng, n) if kind == "tokens" else _texts(rng, n) for name, kind in kinds.items() if kind in RAGGED}
    for c in operator.columns:
        if c.kind == "object":  # named by a column the operator reads too, or by one of its own
            values[c.name] = values.get(c.name[1:], _column("int", rng, n, constants))
    if deletes:
        values[DELETION_TARGET] = target
    spare = [1, 5 * unit, 200 * unit, 2 * (operator.window.micros or unit)]
    return Rows(time.astype(np.int64), key, seq, target, values, kinds, constants, int(time[-1]) + int(rng.choice(spare)), sets)


def constant_texts(operator: Any) -> int:
    """Return how many text constants the plan gave codes to: those of the operator, or of its parts."""
    parts: tuple[Any, ...] = getattr(operator, "parts", ())
    return max([len(getattr(operator, "texts", ())), *(constant_texts(p) for p in parts)])


def _unit(operator: Operator, rng: np.random.Generator) -> int:
    """What the clock advances by: a few dozen rows fit into a time window."""
    if operator.window.micros is None:
        return int(rng.choice([1, 1, 1000]))
    return max(1, operator.window.micros // int(rng.choice([4, 20, 60])))


def _numbered(key: I64, rng: np.random.Generator, share: float) -> tuple[I64, I64]:
    """(seq, target): rows numbered by key, about ``share`` of them turned into deletions of objects that came before."""
    seq, target = np.empty(len(key), np.int64), np.full(len(key), NULL)
    count: dict[int, int] = {}
    gone: set[tuple[int, int]] = set()
    for i, k in enumerate(key.tolist()):
        next_seq = count.get(k, 0)
        live = [s for s in range(max(0, next_seq - REACH), next_seq) if (k, s) not in gone] if share else []
        if live and rng.random() < share:
            target[i] = live[int(rng.integers(len(live)))]
            gone.add((k, int(target[i])))
            seq[i] = -1
        else:
            seq[i] = next_seq
            count[k] = next_seq + 1
    return seq, target


def _column(kind: str, rng: np.random.Generator, n: int, constants: int) -> AnyArray:
    """Return one column; about one row in twenty is null in some columns."""
    null = rng.random(n) < rng.choice([0.0, 0.05, 0.05])
    if kind == "float":
        x = _floats(rng, n)
        x[null] = np.nan
        return x
    if kind == "text":
        y = rng.integers(0, constants + OTHER_TEXTS, n)
    elif kind == "bool":
        y = rng.integers(0, 2, n)
    elif kind == "time":
        y = np.cumsum(rng.integers(-2, 5, n)) * int(rng.choice([1, 1_000_000])) + int(rng.choice([0, 1_600_000_000_000_000]))
    else:
        y = rng.integers(-1, 5, n) + int(rng.choice([0, 0, 0, 2**53]))
    y = y.astype(np.int64)
    y[null] = NULL
    return y


def _vectors(rng: np.random.Generator, n: int, dimension: int) -> F64:
    """Vectors of few different numbers, so that many are alike; about one row in twenty is null."""
    x = rng.integers(-1, 3, (n, dimension)).astype(np.float64)
    x[rng.random(n) < 0.05] = np.nan
    return x


def _sets(rng: np.random.Generator, n: int) -> list[I64]:
    """Token sets, many of them alike: a walk through small subsets of few tokens."""
    found = [rng.permutation(TOKENS)[: int(rng.integers(0, LARGEST_SET + 1))] for _ in range(n)]
    again = rng.random(n) < 0.3
    for i in range(1, n):
        if again[i]:
            found[i] = rng.permutation(found[i - int(rng.integers(1, min(i, 8) + 1))])
    return found


def _texts(rng: np.random.Generator, n: int) -> list[I64]:
    """Texts as code points, some null or empty, few of them longer than a word of a kernel's bits."""
    found = [rng.integers(97, 100, int(rng.choice([0, 2, 4, 9, 70], p=[0.1, 0.3, 0.3, 0.25, 0.05]))) for _ in range(n)]
    null = rng.random(n) < 0.05
    return [np.array([NULL]) if null[i] else text for i, text in enumerate(found)]


def _floats(rng: np.random.Generator, n: int) -> F64:
    """float64[n]: ties, slopes, both zeros, infinities."""
    shape = rng.integers(7)
    up = (np.arange(n) // 2).astype(np.float64)
    if shape <= 1:
        x = rng.integers(0, 4, n).astype(np.float64)
        return np.where((x == 0) & (rng.random(n) < 0.5), -0.0, x)
    if shape == 2:
        return rng.choice([-np.inf, np.inf, -0.0, 0.0, 1.0], n)
    if shape == 3:
        return rng.normal(size=n)
    walk: F64 = np.cumsum(rng.integers(-2, 3, n)).astype(np.float64)
    return walk if shape == 4 else up if shape == 5 else -up


# The checks.


# Texts for changes and items in the messages of ``contract``, sortable forms for comparing them, and checks of trajectories.

Item = tuple[int, ...]
"""The seqs of an item's rows, or the numbers of its objects."""


def row_of(c: Changes, i: int) -> str:
    """Return a change as text."""
    sign = "+" if c.sign[i] > 0 else "-"
    cause = CAUSES[c.cause[i]] if 0 <= c.cause[i] < len(CAUSES) else f"cause {c.cause[i]}"
    return (
        f"query {c.query[i]} key {c.key[i]} at {c.at[i]} step {c.step[i]} pos {c.pos[i]}: "
        f"{sign} {tuple(c.items[i].tolist())} {float(c.score[i])!r} ({cause})"
    )


def instant_of(wake: int | None) -> str:
    """Return the result of ``wake`` as text."""
    return "never" if wake is None else str(wake)


def items_of(found: Items) -> list[tuple[int, Item]]:
    """Return (key, seqs) of every item."""
    return list(zip(found.key.tolist(), map(tuple, found.items.tolist()), strict=True))


def bytes_of(found: Items) -> list[tuple[Any, ...]]:
    """Return the rows of a skyband in a canonical order."""
    extra = [[x.tobytes() for x in found.extra[name]] for name in sorted(found.extra)]
    return sorted(zip(items_of(found), (s.tobytes() for s in found.score), *extra, strict=True))


Point = tuple[tuple[int, ...], ...]


def find_mistake(traces: Traces, since: int, until: int, known: set[tuple[int, int]], width: int) -> str | None:
    """Return the first mistake in the points of one call, or None; ``known`` holds (key, number) of the objects."""
    kinds = {"query": np.int16, "key": np.int64, "at": np.int64, "items": np.int64}
    for name, dtype in kinds.items():
        a, shape = getattr(traces, name), (len(traces), width) if name == "items" else (len(traces),)
        if a.dtype != dtype or a.shape != shape:
            return f"Traces.{name} is {a.dtype}{list(a.shape)}, not {np.dtype(dtype)}{list(shape)}"
    places = list(zip(traces.query.tolist(), traces.key.tolist(), traces.at.tolist(), strict=True))
    if places != sorted(places):
        return "points are not in the order of (query, key, at)"
    points = [(*place, tuple(item)) for place, item in zip(places, traces.items.tolist(), strict=True)]
    if len(set(points)) < len(points):
        return "an item has two points at one instant"
    for query, key, at, item in points:
        if not since <= at < until:
            return f"a point of query {query} at {at}, outside of the instants of the call, {since} to {until}"
        if any((key, part) not in known for part in item):
            return f"a point of {item} of key {key}, which is not known"
    return None


def follow_scores(shown: dict[tuple[int, int], dict[tuple[int, ...], float]], traces: Traces) -> None:
    """Give the items in ``shown``, the results by (query, key), the scores of their points, for operators whose scores vary with time."""
    if "score" not in traces.values:
        return
    for i, score in enumerate(traces.values["score"].tolist()):
        result, item = shown.get((int(traces.query[i]), int(traces.key[i])), {}), tuple(traces.items[i].tolist())
        if item in result:
            result[item] = score


def bytes_of_traces(parts: Sequence[tuple[Traces, I64]]) -> list[Point]:
    """Return all points of a run by (query, key, at), with the items of the second element and the bytes of their values."""
    found = []
    for traces, items in parts:
        values = [[x.tobytes() for x in traces.values[name]] for name in sorted(traces.values)]
        columns = (traces.query.tolist(), traces.key.tolist(), traces.at.tolist(), map(tuple, items.tolist()))
        found += list(zip(*columns, *values, strict=True))
    return sorted(found, key=lambda p: p[:3])


# Final results of windows, and items, in forms that two runs of the contract's streams can be compared by.


def items_as(values: I64 | None, items: I64) -> I64:
    """Return items with what the numbers of objects stand for, ``values``; None: items are rows."""
    return items if values is None or not len(items) else values[items]


def final_rows(finals: Finals | None, values: I64 | None) -> list[tuple[Any, ...]]:
    """Return final results as rows: query, key, start, end, rank, item, bytes of the values."""
    if finals is None:
        return []
    bits = [[x.tobytes() for x in finals.values[name]] for name in sorted(finals.values)]
    columns = (finals.query, finals.key, finals.start, finals.end, finals.rank)
    return list(zip(*(c.tolist() for c in columns), map(tuple, items_as(values, finals.items).tolist()), *bits, strict=True))


COLUMNS = {
    "query": np.int16, "key": np.int64, "at": np.int64, "step": np.int64, "pos": np.int32, "sign": np.int8, "cause": np.int8,
    "score": np.float64, "items": np.int64,
}  # fmt: skip
CALLS: int = 20
"""The number of wake-ups followed one by one between two rows; the rest, mostly boundaries, are processed in one call."""
_LEAVES = tuple(map(CAUSES.index, ("expiry", "delete", "displaced", "crossing")))
_ENTERS = tuple(map(CAUSES.index, ("arrival", "promoted", "crossing", "boundary")))

Object = tuple[int, int]  # (key, seq, or number of what rows report on)


class BrokenContract(AssertionError):
    """An operator breaks the contract of ``base``; the message says how and in which run."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Arguments with which ``snapshot`` returns a query's own result."""

    k: int
    window: Window


def check_operator(
    operator: Operator, seed: int = 0, rows: int = 90, keys: int = 3, requests: Sequence[SnapshotRequest | None] | None = None
) -> int:
    """Raise ``BrokenContract`` if ``operator`` breaks the contract on the random stream of ``seed``; return the number of changes.

    ``advance`` must return the same well-formed changes, byte for byte, for all cuts of the stream and after restores from a pickled
    checkpoint and the kept rows. ``wake`` must never be too late. ``retained`` must name every row outside the window that a later change
    names. ``skyband`` must contain the current results, and ``snapshot`` with ``requests[query]`` must equal the replayed result (None: not
    compared; by default, the operator's ``queries`` without boundaries).

    Windows should be smaller than ``rows`` / ``keys``, so that objects expire. Calls every method O(rows) times in each of 7 runs.
    """
    rng = np.random.default_rng(seed)
    stream = random_rows(operator, rng, rows, max(1, int(rng.integers(1, keys + 1))))
    own = snapshot_requests(operator, len(stream)) if requests is None else tuple(requests)
    instants = np.unique(stream.time)
    between = rng.integers(int(instants[0]) - 2, stream.end + 1, len(instants) // 4 + 2)
    everywhere = sorted([*instants.tolist(), *between.tolist()])  # cuts between rows, and some cuts twice
    some = sorted(rng.choice(everywhere, max(1, len(everywhere) // 6)).tolist())
    runs = (
        _Run("in one call", [], "never"), _Run("cut at every instant", everywhere, "never"), _Run("cut at some instants", some, "never"),
        _Run("restored at every cut", everywhere, "always"), _Run("restored at some cuts", some, "sometimes"),
        _Run("woken when it asks to be", instants.tolist(), "never", True),
        _Run("woken when it asks to be and restored", some, "always", True),
    )  # fmt: skip
    reference: _Player | None = None
    for run in runs:
        player = _Player(operator, stream, run, own, np.random.default_rng(seed + 1), f"{type(operator).__name__}, seed {seed}, {run.name}")
        try:
            player.play()
        except Exception as e:
            if not isinstance(e, BrokenContract):
                e.add_note(f"while the contract was checked: {player.what}")
            raise
        if reference is None:
            reference = player
        else:
            player.compare(reference)
    assert reference is not None
    return len(reference.changes())


def snapshot_requests(operator: Any, rows: int) -> tuple[SnapshotRequest | None, ...]:
    """Return the requests of ``operator.queries``: their window, and their ``k``, the state's ``band``, or all items.

    The request is None for queries with boundaries, and for operators with ``lasting = False``, which keep no results.
    """
    lasting = getattr(operator, "lasting", True)
    found: list[SnapshotRequest | None] = []
    for q in getattr(operator, "queries", ()):
        k = getattr(q, "k", None) or getattr(operator, "band", None) or max(rows, 1) ** len(operator.roles)
        every = getattr(q, "every_micros", None) or getattr(q, "every", None)
        found.append(None if every or not lasting else SnapshotRequest(k, getattr(q, "window", operator.window)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Run:
    """Where a run is cut, whether it is restored there, and whether the host also calls at every ``wake``."""

    name: str
    cuts: list[int]
    restore: str
    wakes: bool = False


class _Player:
    """Plays one run of a stream: feeds the logic, checks every answer, and records the changes."""

    def __init__(
        self, operator: Operator, stream: Rows, run: _Run, requests: Sequence[SnapshotRequest | None], rng: np.random.Generator, what: str
    ) -> None:
        self.operator, self.stream, self.run, self.requests, self.rng, self.what = operator, stream, run, requests, rng, what
        self.logic: Logic = operator.build(None)
        self.codes, self.width = stream.first_codes(), len(operator.roles)
        self.until, self.fed = int(stream.time.min(initial=0)) - 10, 0
        self.parts: list[Changes] = []
        self.traces: list[tuple[Traces, I64]] = []  # the points of every call, with their items as values of objects
        self.finals: list[tuple[Any, ...]] = []
        self.steps: dict[tuple[int, int], tuple[int, int]] = {}
        """(query, key) to its last step and the instant of that step."""
        self.shown: dict[tuple[int, int], dict[Item, float]] = {}
        self.known: set[Object] = set()
        """The rows that the host still has: those it must keep, and new arrivals."""
        self.deleted: set[Object] = set()
        self.unusable: dict[str, int] = {}
        self.numbers = Numbers([c.name for c in operator.columns if c.kind == "object"])

    def fail(self, text: str) -> NoReturn:
        """Raise ``BrokenContract`` with the run's name and ``text``."""
        raise BrokenContract(f"{self.what}: {text}")

    def changes(self) -> Changes:
        """Return all changes so far, by (query, key, step, pos)."""
        every = {f: np.concatenate([getattr(p, f) for p in self.parts]) for f in COLUMNS}
        order = np.lexsort((every["pos"], every["step"], every["key"], every["query"]))
        sorted_: dict[str, Any] = {f: a[order] for f, a in every.items()}
        names = self.parts[0].values if self.parts else {}
        return Changes(**sorted_, values={n: np.concatenate([p.values[n] for p in self.parts])[order] for n in names})

    # ---------------------------------------------------------------- the host's side

    def play(self) -> None:
        """Play the whole stream."""
        for until in [*self.run.cuts, self.stream.end]:
            upto = self.fed + int(np.searchsorted(self.stream.time[self.fed :], until))
            if self.run.wakes:
                self.sleep(int(self.stream.time[self.fed]) if upto > self.fed else until)
            self.advance(upto, until)
            self.look()
            if self.run.restore == "always" or (self.run.restore == "sometimes" and self.rng.random() < 0.5):
                self.restore()
        if self.logic.counters().keys() != self.logic.counters().keys():
            self.fail("counters() has other names when nothing was done")

    def sleep(self, until: int) -> None:
        """Advance to each instant that ``wake`` returns, up to ``until``; nothing may change before it."""
        for _ in range(CALLS):
            wake = self.logic.wake()
            if wake is None or wake >= until:
                break
            self.advance(self.fed, wake)
            self.advance(self.fed, wake + 1)
        self.advance(self.fed, until)

    def advance(self, upto: int, until: int) -> Changes:
        """Process the stream's rows up to position ``upto`` and every event before ``until``, and check the changes."""
        at = np.arange(self.fed, upto)
        arrivals, twin = self.block(at), self.block(at)
        wake = self.logic.wake()
        if wake is not None and wake < self.until:
            self.fail(f"wake() says {wake}, but everything before {self.until} was done")
        objects = self.stream.seq[at] >= 0
        self.known |= set(zip(self.stream.key[at][objects].tolist(), self.stream.seq[at][objects].tolist(), strict=True))
        if self.numbers.names:
            self.known = self.numbers.known()
        gone = at[~objects]
        self.deleted |= set(zip(self.stream.key[gone].tolist(), self.stream.target[gone].tolist(), strict=True))
        self.fed = upto
        found = self.logic.advance(arrivals, until)
        for name in ("key", "seq", "time"):
            if getattr(arrivals, name).tobytes() != getattr(twin, name).tobytes():
                self.fail(f"advance() wrote into the arrivals' {name}")
        for name, column in twin.columns.items():
            if arrivals.columns[name].tobytes() != column.tobytes():
                self.fail(f"advance() wrote into the arrivals' column {name}")
        self.well_formed(found, until)
        if not len(at) and len(found) and (wake is None or wake > int(found.at.min())):
            self.fail(f"wake() is too late: it said {instant_of(wake)}, but without any row {row_of(found, int(found.at.argmin()))}")
        for name, rows in twin.ragged.items():
            given = arrivals.ragged[name]
            if given.start.tobytes() + given.values.tobytes() != rows.start.tobytes() + rows.values.tobytes():
                self.fail(f"advance() wrote into the arrivals' tokens {name}")
        values = np.array(self.numbers.value_of, np.int64) if self.numbers.names else None
        if found.traces is not None:
            if why := find_mistake(found.traces, self.until, until, self.known, self.width):
                self.fail(why)
            follow_scores(self.shown, found.traces)
            self.traces.append((found.traces, items_as(values, found.traces.items)))
        self.finals += final_rows(found.finals, values)
        self.until = max(self.until, until)
        # Numbers of objects depend on the cuts: two runs are compared by what they stand for.
        self.parts.append(replace(found, items=items_as(values, found.items)))
        for name, n in self.logic.counters().items():
            if name.startswith(("unusable:", "asked:")):
                self.unusable[name] = self.unusable.get(name, 0) + int(n)
        return found

    def block(self, at: AnyArray) -> Arrivals:
        """Return the rows at the positions ``at`` as the host passes them: texts as codes, objects as numbers."""
        block = self.stream.block(at, self.codes)
        return self.numbers.given(block) if self.numbers.names else block

    def forget(self) -> None:
        """Forget the objects that the logic no longer needs, as the host does."""
        if self.numbers.names:
            logic: Any = self.logic
            unknown = self.numbers.keep(set(logic.objects().tolist()))
            if unknown is not None:
                self.fail(f"objects() names {unknown}, which is no object, or was not needed before")
            self.known = self.numbers.known()

    def alive(self) -> AnyArray:
        """Return the positions of the objects alive in the operator's window after every event before ``until``."""
        s, window = self.stream, self.operator.window
        keep = s.seq[: self.fed] >= 0
        if window.count is not None:
            next_seq = np.zeros(int(s.key.max(initial=0)) + 1, np.int64)
            np.maximum.at(next_seq, s.key[: self.fed], s.seq[: self.fed] + 1)
            keep &= s.seq[: self.fed] >= next_seq[s.key[: self.fed]] - window.count
        if window.micros is not None:
            keep &= s.time[: self.fed] + window.micros >= self.until
        return np.flatnonzero(keep)

    def objects(self, at: AnyArray) -> set[Object]:
        """Return (key, seq) of the rows ``at``."""
        return set(zip(self.stream.key[at].tolist(), self.stream.seq[at].tolist(), strict=True))

    def retained(self) -> set[Object]:
        """Return the rows that the host must keep."""
        key, seq = self.logic.retained()
        return set(zip(key.tolist(), seq.tolist(), strict=True))

    def restore(self) -> None:
        """Restore the logic from its pickled checkpoint and the kept rows."""
        arrays = dict(self.logic.checkpoint())
        for name, a in arrays.items():
            if not isinstance(a, np.ndarray) or a.ndim not in (1, 2) or a.dtype.hasobject:
                self.fail(f"checkpoint() has {name!r}, which is no array of one or two axes and a fixed width")
        wake, band = self.logic.wake(), bytes_of(self.logic.skyband())
        s, keeps, kept = self.stream, self.operator.keeps, np.empty(0, np.int64)
        if keeps == "retained":
            named = self.retained()
            objects = np.flatnonzero(s.seq[: self.fed] >= 0)
            kept = np.array([i for i in objects.tolist() if (int(s.key[i]), int(s.seq[i])) in named], np.int64)
        elif keeps == "window":
            kept = self.loose(self.alive())
        self.recode(kept if keeps == "retained" else kept[:0])
        arrays = pickle.loads(pickle.dumps(arrays))
        operator: Operator = pickle.loads(pickle.dumps(self.operator))
        self.logic = operator.build(State(arrays, self.block(kept)))
        if self.logic.wake() != wake:
            self.fail(f"wake() says {instant_of(wake)} before a restore and {instant_of(self.logic.wake())} after it")
        if bytes_of(self.logic.skyband()) != band:
            self.fail("skyband() is another one after a restore")
        self.forget()

    def loose(self, alive: AnyArray) -> AnyArray:
        """Return the objects of the window and, for each key, none, some or all of those before them."""
        spare = int(self.rng.choice([0, 3, len(self.stream)]))
        objects = np.flatnonzero(self.stream.seq[: self.fed] >= 0)
        picked = []
        for key in np.unique(self.stream.key[objects]).tolist():
            mine = objects[self.stream.key[objects] == key]
            first = len(mine) - int(np.count_nonzero(self.stream.key[alive] == key))
            picked.append(mine[max(0, first - spare) :])
        return np.sort(np.concatenate(picked)) if picked else objects

    def recode(self, kept: AnyArray) -> None:
        """Assign new codes to texts, as the host may, except constants and texts of the rows ``kept``."""
        fixed = set(range(self.stream.constants))
        for name, kind in self.stream.kinds.items():
            if kind == "text":
                fixed |= set(self.stream.values[name][kept].tolist())
        free = np.array([i for i in range(len(self.codes)) if i not in fixed], np.int64)
        unused = np.setdiff1d(np.arange(3 * len(self.codes)), np.delete(self.codes, free))
        self.codes = self.codes.copy()
        self.codes[free] = self.rng.permutation(unused[unused >= self.stream.constants])[: len(free)]

    # ---------------------------------------------------------------- what is checked

    def well_formed(self, found: Changes, until: int) -> None:
        """Check columns, order, steps, instants and causes of changes, and that items enter and leave in turn."""
        for name, dtype in COLUMNS.items():
            a = getattr(found, name)
            shape = (len(found), self.width) if name == "items" else (len(found),)
            if a.dtype != dtype or a.shape != shape:
                self.fail(f"Changes.{name} is {a.dtype}{list(a.shape)}, not {np.dtype(dtype)}{list(shape)}")
        if np.any((found.score == 0) & np.signbit(found.score)):
            self.fail("a score is -0.0: it must be folded into 0.0")
        last: tuple[int, ...] = ()
        for i in range(len(found)):
            query, key, at, step, pos, sign, cause = (int(getattr(found, f)[i]) for f in list(COLUMNS)[:7])
            item: Item = tuple(found.items[i].tolist())
            place = (query, key, step, pos)
            if last and place <= last:
                self.fail(f"changes are not in the order of (query, key, step, pos): {row_of(found, i)}")
            before, when = self.steps.get((query, key), (0, self.until))
            if last[:3] == place[:3]:
                j = i - 1
                if pos != int(found.pos[j]) + 1 or at != int(found.at[j]) or sign < int(found.sign[j]):
                    self.fail(f"a step has one instant, its pos count up by one, its - come first: {row_of(found, j)}; {row_of(found, i)}")
            elif step != before + 1 or pos != 0:
                self.fail(f"after step {before} there must come step {before + 1} from pos 0: {row_of(found, i)}")
            elif at < when:
                self.fail(f"the instants of a query's changes go back, from {when}: {row_of(found, i)}")
            if not self.until <= at < until:
                self.fail(f"a change outside of the instants of the call, {self.until} to {until}: {row_of(found, i)}")
            if sign not in (-1, 1) or cause not in (_ENTERS if sign > 0 else _LEAVES):
                causes = ", ".join(CAUSES[c] for c in (_ENTERS if sign > 0 else _LEAVES))
                self.fail(f"a sign is + or -, and this one's cause one of {causes}: {row_of(found, i)}")
            self.named(found, i, key, item)
            # Of an item that many rows report on, the host does not know the rows: any deletion of its key will do.
            if CAUSES[cause] == "delete" and not any(k == key and (self.numbers.names or seq in item) for k, seq in self.deleted):
                self.fail(f"nothing of the item was deleted: {row_of(found, i)}")
            result = self.shown.setdefault((query, key), {})
            if (item in result) == (sign > 0):
                self.fail(f"an item enters only when it is out and leaves only when it is in: {row_of(found, i)}")
            if sign > 0:
                result[item] = float(found.score[i])
            else:
                del result[item]
            last, self.steps[query, key] = place, (step, at)

    def named(self, found: Changes, i: int, key: int, item: Item) -> None:
        """Check that the host has the rows of a change's item."""
        for seq in item:
            if (key, seq) not in self.known:
                had = "neither in the window nor retained" if self.operator.keeps == "window" else "not retained"
                self.fail(
                    f"seq {seq} of key {key} was {had} at the cut before {self.until}, or never came, and is named: {row_of(found, i)}"
                )

    def look(self) -> None:
        """Check after a cut what the logic retains, and that skyband and snapshots contain the result."""
        band = self.logic.skyband()
        in_band = items_of(band)
        if band.items.shape != (len(band), self.width) or np.any(np.diff(band.key) < 0) or len(set(in_band)) < len(in_band):
            self.fail("skyband() is not grouped by key, has an item twice, or items of another width")
        for key, item in in_band:
            if any((key, seq) not in self.known for seq in item):
                self.fail(f"skyband() names {item} of key {key}, a row of which was not retained")
        named = self.retained()
        if not self.numbers.names and not named <= self.known:
            self.fail(f"retained() names (key, seq) {min(named - self.known)}, which never came or was not retained before")
        self.known = named | (self.objects(self.alive()) if self.operator.keeps == "window" else set())
        self.forget()
        held = set(in_band)
        for (query, key), result in sorted(self.shown.items()):
            request = self.requests[query] if query < len(self.requests) else None
            if request is None:
                continue
            missing = [item for item in result if (key, item) not in held]
            if held and missing:
                self.fail(f"skyband() lacks {missing[0]} of key {key}, which is in the result of query {query} before {self.until}")
            got = self.logic.snapshot(key, request.k, request.window, query)
            mine = dict(zip([item for _, item in items_of(got)], got.score.tolist(), strict=True))
            if repr(sorted(mine.items())) != repr(sorted(result.items())) or len(got) != len(mine):
                self.fail(
                    f"snapshot(key {key}, k {request.k}, {request.window}, query {query}) before {self.until} is {mine}, "
                    f"but the changes replayed give {result}"
                )

    def compare(self, reference: _Player) -> None:
        """Raise unless this run made the same changes as ``reference``, with the same counts of unusable objects."""
        mine, theirs = self.changes(), reference.changes()
        if mine.values.keys() == theirs.values.keys() and all(
            a.tobytes() == b.tobytes()
            for a, b in [
                *((getattr(mine, f), getattr(theirs, f)) for f in COLUMNS),
                *((mine.values[n], theirs.values[n]) for n in mine.values),
            ]
        ):
            if (bytes_of_traces(self.traces), sorted(self.finals)) != (bytes_of_traces(reference.traces), sorted(reference.finals)):
                self.fail("the points of trajectories or the final results of windows depend on cuts and restores")
            if self.unusable != reference.unusable:
                self.fail(f"counters() say {self.unusable}, in one call {reference.unusable}")
            return
        for i in range(max(len(mine), len(theirs))):
            a, b = (row_of(c, i) if i < len(c) else "no further change" for c in (mine, theirs))
            if a != b:
                self.fail(f"the changes depend on cuts and restores: here {a}; in one call {b}")
        self.fail("scores or values differ from those of one call, scores perhaps in bits that do not show")
