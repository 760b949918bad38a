"""Groups: the contract, and every change, cause, value and point against brute force with fractions, written from the definition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from skyband.operators.base import CAUSES, NULL, Arrivals, Calendar, Changes, Kind, State, Window
from skyband.operators.contract import Numbers, check_operator
from skyband.operators.expressions import parse
from skyband.operators.expressions.aggregates import Aggregate, parse_aggregates
from skyband.operators.expressions.ast import Attr
from skyband.operators.groups import Groups, GroupsQuery
from skyband.operators.groups.logic import OF_ROWS
from tests.seeds import seeds

COLUMNS: dict[str, Kind] = {"g": "int", "x": "float", "n": "int", "s": "text", "ok": "bool"}
KEYS = 2
Score = float | Fraction
"""A fraction if it is a decimal: it ranks as that, and its nearest double is shown."""
Row = tuple[Any, ...]
"""time, key, group, x, n, s; of a deletion, at the end, the seq of the row that it deletes."""
TARGET = 6
PLACES = {"x": 3, "n": 4, "s": 5}


def aggregate(function: str, column: str) -> tuple[str, Aggregate]:
    return f"{function}_{column}", parse_aggregates(f"{function}({column})", COLUMNS, "score").aggregates[0]


LAST_TEXT = ("last_s", Aggregate("last", Attr(side="", name="s", type="text")))
CARRY = (
    LAST_TEXT, aggregate("first", "n"), aggregate("max", "n"), aggregate("min", "x"), aggregate("sum", "x"), aggregate("distinct", "s"),
    ("count", Aggregate("count", None)),
)  # fmt: skip


def groups(
    score: str, *queries: GroupsQuery, having: str | None = None, where: str | None = None, scale: int | None = None, **given: Any
) -> Groups:
    """``scale``: n is a decimal with so many digits after the point."""
    given = {"window": Window(count=6, micros=20), **given}
    scales = {} if scale is None else {"n": scale}
    return Groups(
        group=("g",), score=parse_aggregates(score, COLUMNS, "score", scales), queries=queries,
        having=None if having is None else parse_aggregates(having, COLUMNS, "predicate", scales),
        where=None if where is None else parse(where, COLUMNS, ("",), "predicate"), **given,
    )  # fmt: skip


TIME, COUNT = Window(micros=20), Window(count=7)
OPERATORS = {
    "sum": groups("sum(x)", GroupsQuery(k=2), GroupsQuery(k=1, every=7)),
    "sum of whole numbers": groups("sum(n)", GroupsQuery(k=3), window=COUNT),
    "mean": groups("mean(x)", GroupsQuery(k=1), GroupsQuery(above=0.5, below=-1.0), window=TIME),
    "count": groups("count()", GroupsQuery(k=2), GroupsQuery(above=2), GroupsQuery(above=2, every=5), window=TIME),
    "distinct": groups("distinct(s) + distinct(x)", GroupsQuery(k=2), direction="min"),
    "ends": groups("max(x) - min(n)", GroupsQuery(k=2), window=COUNT),
    "first and last": groups("last(x) - first(x)", GroupsQuery(k=2), GroupsQuery(above=0, below=0)),
    "expression": groups("sum(where(ok, x, -1)) / count(x)", GroupsQuery(k=2), having="count() >= 2", where="n >= 0"),
    "quantiles": groups("quantile(x, 0.5) - quantile(x, 0.1) + quantile(n, 0.9)", GroupsQuery(k=2)),
    "carry": groups("sum(x)", GroupsQuery(k=2), GroupsQuery(k=1, every=7), carry=CARRY[1:]),  # codes are not those of texts
    "traced": groups(
        "sum(x)",
        GroupsQuery(k=2, traces=("distinct_s", "min_x")),
        GroupsQuery(k=1, every=7, traces=("first_n", "sum_x")),
        GroupsQuery(k=3, ties=True, traces=("count",)),
        carry=CARRY[1:],
    ),
    "ties": groups("count()", GroupsQuery(k=1, ties=True), GroupsQuery(k=3, ties=True, every=7), GroupsQuery(k=2)),
    "tied sums": groups("sum(where(x > 0, 1, 0))", GroupsQuery(k=2, ties=True), direction="min", window=TIME),
    "variance": groups("var_samp(x) + stddev_pop(n)", GroupsQuery(k=2)),
    "wide": groups("sum(n)", GroupsQuery(k=9), window=Window(count=50)),
    "tumbling": groups(
        "sum(x)", GroupsQuery(k=2), GroupsQuery(above=1, below=0, every=7), window=Window(micros=20, tumbling=Calendar(10, offset=3))
    ),
    "sessions": groups("sum(x) + max(n)", GroupsQuery(k=2), GroupsQuery(above=1, below=0), window=Window(micros=40, session=6)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_contract(name: str) -> None:
    assert sum(check_operator(OPERATORS[name], seed, 60, 2) for seed in seeds(0, 12)) > 0


# ---------------------------------------------------------------- by definition


def exact(values: list[Any]) -> float | Fraction:
    """The sum: a fraction, or an infinity or NaN."""
    endless = {v for v in values if isinstance(v, float) and math.isinf(v)}
    if endless:
        return endless.pop() if len(endless) == 1 else math.nan
    return sum((Fraction(v) for v in values), Fraction(0))


def nearest(x: float | Fraction) -> float:
    if isinstance(x, float):
        return x
    try:
        return x.numerator / x.denominator  # Python rounds the quotient of whole numbers once
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def text_of(x: Score) -> str:
    return (nearest(x) + 0.0).hex()


def known(rows: list[Row], column: int) -> list[Any]:
    return [r[column] for r in rows if r[column] == r[column] and r[column] != NULL]


def quantile(values: list[Any], share: Fraction) -> float:
    return float(sorted(values)[math.ceil(share * len(values)) - 1]) if values else math.nan


def variance(values: list[Any], sample: int) -> float:
    n = len(values)
    if n <= sample or any(isinstance(v, float) and math.isinf(v) for v in values):
        return math.nan
    middle = sum(map(Fraction, values), Fraction(0)) / n
    return nearest(sum(((Fraction(v) - middle) ** 2 for v in values), Fraction(0)) / (n - sample))


SCORES: dict[str, Any] = {
    "sum(x)": lambda rows: nearest(exact(known(rows, 3))) if known(rows, 3) else math.nan,
    "mean(x)": lambda rows: nearest(exact(known(rows, 3)) / len(known(rows, 3))) if known(rows, 3) else math.nan,
    "sum(n)": lambda rows: nearest(exact(known(rows, 4))) if known(rows, 4) else math.nan,
    "mean(n)": lambda rows: nearest(exact(known(rows, 4)) / len(known(rows, 4))) if known(rows, 4) else math.nan,
    "count()": lambda rows: float(len(rows)),
    "count(x)": lambda rows: float(len(known(rows, 3))),
    "distinct(x)": lambda rows: float(len(set(known(rows, 3)))),
    "distinct(s)": lambda rows: float(len(set(known(rows, 5)))),
    "max(x)": lambda rows: max(known(rows, 3), default=math.nan),
    "min(n)": lambda rows: float(min(known(rows, 4), default=math.nan)),
    "quantile(x, 0.5)": lambda rows: quantile(known(rows, 3), Fraction(1, 2)),
    "quantile(n, 0.9)": lambda rows: quantile(known(rows, 4), Fraction(9, 10)),
    "quantile(x, 1)": lambda rows: max(known(rows, 3), default=math.nan),
    "first(x)": lambda rows: (known(rows, 3) or [math.nan])[0],
    "last(x)": lambda rows: (known(rows, 3) or [math.nan])[-1],
    "var_pop(x)": lambda rows: variance(known(rows, 3), 0),
    "variance(x)": lambda rows: variance(known(rows, 3), 1),
    "stddev(x)": lambda rows: math.sqrt(variance(known(rows, 3), 1)),
    "stddev_pop(n)": lambda rows: math.sqrt(variance(known(rows, 4), 0)),
}
CARRIED: dict[str, Any] = {
    "first": lambda values: values[0] if values else NULL, "last": lambda values: values[-1] if values else NULL,
    "max": lambda values: max(values, default=NULL), "min": lambda values: min(values, default=math.nan),
    "sum": lambda values: nearest(exact(values)) if values else math.nan, "distinct": lambda values: len(set(values)),
    "count": len,
}  # fmt: skip
NO_DELETIONS: Mapping[int, str] = {}
MAGNITUDES = ("small", "adversarial", "wild", "endless", "tenths", "spread")
ADVERSARIAL = (1e16, 1.0, -1e16, 1e-3, 3.0, -1.0, 2.0**-1074, -(2.0**-1074), 1e300, -1e300, 2.0**53, 0.1, -0.0)


def random_stream(rng: np.random.Generator, n: int, magnitudes: str) -> list[Row]:
    time, rows = 0, []
    for _ in range(n):
        time += int(rng.choice([0, 0, 1, 2, 9, 30], p=[0.2, 0.2, 0.3, 0.2, 0.08, 0.02]))
        x = {
            "small": lambda: float(rng.integers(-3, 4)),
            "adversarial": lambda: float(rng.choice(ADVERSARIAL)),
            "wild": lambda: float(rng.choice([-1, 1]) * rng.random() * 2.0 ** rng.integers(-1070, 1020)),
            "endless": lambda: float(rng.choice([math.inf, -math.inf, 1.0, 2.0])),
            "spread": lambda: float(rng.choice([-1, 1]) * rng.random() * 2.0 ** rng.integers(0, 60)),
            "tenths": lambda: float(rng.integers(-20, 20)) / 10,
        }[magnitudes]()
        n_ = int(rng.choice([0, 1, 2, 2**53 + 1, -(2**62), 2**62, NULL]))
        group = int(rng.integers(0, 5)) if rng.random() < 0.95 else NULL
        rows.append((time, int(rng.integers(KEYS)), group, math.nan if rng.random() < 0.1 else x, n_, int(rng.integers(4))))
    return rows


@dataclass
class Expected:
    """What one query of one key writes, by definition."""

    operator: Groups
    query: GroupsQuery
    score: Any
    shown: dict[int, Score] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    step: int = 0
    changes: list[Any] = field(default_factory=list)
    points: dict[tuple[int, int], Any] = field(default_factory=dict)
    traced: dict[int, Any] = field(default_factory=dict)
    last: dict[int, list[Any]] = field(default_factory=dict)
    """What the groups shown carry."""
    with_points: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """What points carry of the groups shown."""
    gone: set[int] = field(default_factory=set)

    def result(self, alive: list[Row]) -> dict[int, Score]:
        groups = {r[2] for r in alive if r[2] != NULL}
        scores = {g: self.score([r for r in alive if r[2] == g]) for g in groups}
        scores = {g: s for g, s in scores.items() if s == s}
        q = self.query
        if q.k is not None:
            sign = 1 if self.operator.direction == "min" else -1
            first = sorted(scores, key=lambda g: (sign * scores[g], g))
            last = scores[first[: q.k][-1]] if first else 0.0
            return {g: scores[g] for i, g in enumerate(first) if i < q.k or (q.ties and scores[g] == last)}
        assert q.above is not None
        self.members = {
            g for g, s in scores.items() if s > q.above or (g in self.members and (s >= q.below if q.below is not None else False))
        }
        return {g: scores[g] for g in self.members}

    def event(self, at: int, alive: list[Row], arrived: Any, show: bool, took: Mapping[int, str] = NO_DELETIONS) -> None:
        """``took``: what took the last row of groups that have none."""
        now = self.result(alive)
        if not show:
            return
        sign = 1 if self.operator.direction == "min" else -1
        left = sorted((g for g in self.shown if g not in now), key=lambda g: (sign * self.shown[g], g))
        came = sorted((g for g in now if g not in self.shown), key=lambda g: (sign * now[g], g))
        self.step += bool(left or came)
        here = {r[2] for r in alive}
        every = {g: self.carried([r for r in alive if r[2] == g]) for g in now}
        for g in left:
            self.changes.append(
                (at, self.step, -1, "displaced" if g in here else took.get(g, "expiry"), g, text_of(self.shown[g]), *self.last[g])
            )
        for g in came:
            cause = "boundary" if self.query.every else "arrival" if g == arrived else "promoted"
            self.changes.append((at, self.step, 1, cause, g, text_of(now[g]), *every[g]))
        for g in [*left, *came]:
            self.traced.pop(g, None)
        self.shown, self.last = now, every
        names = [name for name, _ in self.operator.carry]
        places = [names.index(name) for name in self.query.traces]
        self.with_points = {g: tuple(values[i] for i in places) for g, values in every.items()}

    def carried(self, rows: list[Row]) -> list[Any]:
        """What changes carry of a group: whole values as they are, others as text."""
        made = []
        for _, a in self.operator.carry:
            column = PLACES[a.argument.name] if isinstance(a.argument, Attr) else 0
            found = CARRIED[a.function](known(rows, column)) if column else len(rows)
            made.append(found if column > 3 and a.function in OF_ROWS else float(found).hex())
        return made

    def instant(self, at: int) -> None:
        """After all events of an instant."""
        for g, s in self.shown.items():
            more = self.with_points.get(g, ())
            if self.traced.get(g) != (s, more):
                self.traced[g], self.points[at, g] = (s, more), (nearest(s) + 0.0, *more)


def expected(operator: Groups, q: int, score: Any, stream: list[Row], key: int, end: int) -> Expected:
    found, query = Expected(operator, operator.queries[q], score), operator.queries[q]
    mine = [r for r in stream if r[1] == key]
    window, every = operator.window, query.every
    life = window.micros or 10**9
    instants = sorted({t for r in mine for t in (r[0], r[0] + life) if t < end} | ({*range(0, end, every)} if every else set()))
    arrived: list[Row] = []
    for at in instants:

        def alive(at: int = at) -> list[Row]:
            held = arrived if window.count is None else arrived[-window.count :]
            return [r for r in held if r[0] + life > at]

        found.event(at, alive(), None, every is None)
        for r in (r for r in mine if r[0] == at):
            arrived.append(r)
            found.event(at, alive(), r[2], every is None)
        if every and at % every == 0:
            found.event(at, alive(), None, True)
        if not every or at % every == 0:
            found.instant(at)
    return found


def carried_of(values: Mapping[str, Any], i: int) -> Iterator[Any]:
    """Return carried values of row i as ``Expected.carried`` has them."""
    return (float(v[i]).hex() if v.dtype == np.float64 else int(v[i]) for v in values.values())


class Player:
    """Plays a stream through a logic in pieces, restoring it now and then, as the host does."""

    def __init__(self, operator: Groups, rng: np.random.Generator) -> None:
        self.operator, self.rng, self.logic = operator, rng, operator.build(None)
        self.numbers, self.seq, self.rows = Numbers(["$g"]), [0] * KEYS, list[tuple[int, int, Row]]()
        self.changes: dict[tuple[int, int], list[Any]] = {}
        self.points: dict[tuple[int, int], dict[tuple[int, int], Any]] = {}
        self.made: list[Changes] = []

    def block(self, rows: list[tuple[int, int, Row]]) -> Arrivals:
        rows = sorted(rows, key=lambda r: r[0])
        columns = {name: [r[place] for *_, r in rows] for name, place in [("$g", 2), *PLACES.items()]} | {
            "ok": [r[5] % 2 for *_, r in rows]
        }
        arrays = {name: np.array(c, np.float64 if name == "x" else np.int64) for name, c in columns.items()}
        arrays["%n"] = arrays["n"]
        if self.operator.deletes:
            arrays["$target"] = np.array([r[TARGET] if len(r) > TARGET else NULL for *_, r in rows], np.int64)
        key, seq, time = (np.array(a, np.int64) for a in ([r[0] for r in rows], [r[1] for r in rows], [r[2][0] for r in rows]))
        return self.numbers.given(Arrivals(key, seq, time, arrays))

    def play(self, stream: list[Row], end: int, restores: float) -> None:
        at = 0
        while at < len(stream):
            upto = min(len(stream), at + int(self.rng.integers(1, 9)))
            while upto < len(stream) and stream[upto][0] == stream[upto - 1][0]:
                upto += 1
            self.take(stream[at:upto], stream[upto][0] if upto < len(stream) else end)
            at = upto
            if self.rng.random() < restores:
                arrays = self.logic.checkpoint()
                self.logic = self.operator.build(State(arrays, replace(self.block(self.rows), named={})))
                self.forget()

    def take(self, rows: list[Row], until: int) -> None:
        new = []
        for r in rows:
            deletion = len(r) > TARGET
            new.append((r[1], -1 if deletion else self.seq[r[1]], r))
            self.seq[r[1]] += not deletion
        self.rows += [r for r in new if r[1] >= 0]
        made = self.logic.advance(self.block(new), until)
        self.made.append(made)
        value_of = self.numbers.value_of
        for i in range(len(made)):
            row = (
                int(made.at[i]), int(made.step[i]), int(made.sign[i]), CAUSES[made.cause[i]], value_of[made.items[i, 0]],
                float(made.score[i]).hex(), *carried_of(made.values, i),
            )  # fmt: skip
            self.changes.setdefault((int(made.query[i]), int(made.key[i])), []).append(row)
        assert made.traces is not None or not len(made)
        for i in range(len(made.traces) if made.traces is not None else 0):
            assert made.traces is not None
            points = self.points.setdefault((int(made.traces.query[i]), int(made.traces.key[i])), {})
            wanted = {name: made.traces.values[name] for name in self.operator.queries[made.traces.query[i]].traces}
            place = int(made.traces.at[i]), value_of[made.traces.items[i, 0]]
            points[place] = float(made.traces.values["score"][i]), *carried_of(wanted, i)
        self.forget()

    def forget(self) -> None:
        """Forget the groups that the logic does not need: their rows get new numbers, with names."""
        assert self.numbers.keep(set(self.logic.objects().tolist())) is None


def check(operator: Groups, score: str, stream: list[Row], seed: int, restores: float = 0.3) -> int:
    rng, end = np.random.default_rng(seed), stream[-1][0] + 45
    player = Player(operator, rng)
    player.play(stream, end, restores)
    total = 0
    for q in range(len(operator.queries)):
        for key in range(KEYS):
            want = expected(operator, q, SCORES[score], stream, key, end)
            assert player.changes.get((q, key), []) == want.changes
            assert player.points.get((q, key), {}) == want.points
            total += len(want.changes)
    return total


QUERIES = (GroupsQuery(k=2), GroupsQuery(k=1, every=7), GroupsQuery(above=1.0), GroupsQuery(above=2.0, below=0.0), GroupsQuery(k=9))
TIES = (GroupsQuery(k=1, ties=True), GroupsQuery(k=2, ties=True), GroupsQuery(k=2, ties=True, every=5))
WINDOWS = (Window(count=5), Window(micros=20), Window(count=9, micros=12))


def cases() -> Iterator[tuple[str, str]]:
    for score in SCORES:
        yield from ((score, m) for m in MAGNITUDES if "x" in score or m == "small")


@pytest.mark.parametrize(("score", "magnitudes"), list(cases()))
def test_every_event_is_as_defined(score: str, magnitudes: str) -> None:
    total = 0
    for seed in seeds(0, 3):
        rng = np.random.default_rng(seed)
        stream = random_stream(rng, 120, magnitudes)
        total += check(groups(score, *QUERIES, window=WINDOWS[seed % 3]), score, stream, seed)
    assert total


@pytest.mark.parametrize("score", ["count()", "sum(x)", "distinct(x)", "max(x)", "mean(x)"])
def test_groups_that_equal_the_last_one_are_in(score: str) -> None:
    """Many groups and few values: the results are long, and their lengths change."""
    for seed in seeds(0, 5):
        rng = np.random.default_rng(seed)
        groups_, values = int(rng.choice([3, 9, 30])), int(rng.choice([1, 2, 4]))
        stream: list[Row] = [
            (t, key, int(rng.integers(groups_)), float(rng.integers(values)) if rng.random() < 0.9 else math.nan, 0, 0)
            for t, key in zip(np.cumsum(rng.integers(0, 2, 200)).tolist(), rng.integers(0, KEYS, 200).tolist(), strict=True)
        ]
        window = Window(count=int(rng.choice([10, 40])), micros=int(rng.choice([15, 60])))
        assert check(groups(score, *TIES, window=window, direction="min" if seed % 2 else "max"), score, stream, seed)


def test_a_call_has_room_for_all_changes_of_tied_groups() -> None:
    """One group is ahead, then equal again, and each time 50 others leave and enter."""
    stream: list[Row] = [(0, 0, g, 5.0, 0, 0) for g in range(50)]
    operator = groups("last(x)", GroupsQuery(k=1, ties=True), window=Window(micros=10_000))
    stream += [(i, 0, 0, 5.0 + i % 2, 0, 0) for i in range(1, 80)]
    player = Player(operator, np.random.default_rng(0))
    player.take(stream, 1000)
    assert player.changes[0, 0] == expected(operator, 0, SCORES["last(x)"], stream, 0, 1000).changes
    assert len(player.changes[0, 0]) > 79 * 49


@pytest.mark.parametrize("deletes", [False, True])
def test_changes_carry_aggregates_as_of_their_event(deletes: bool) -> None:
    """Whole values, among them some beyond 2^53, are those of rows; a group without rows has none."""
    for seed in seeds(0, 6):
        stream = random_stream(np.random.default_rng(seed), 150, "small")
        operator = groups("sum(x)", *QUERIES, carry=CARRY, window=WINDOWS[seed % 3], deletes=deletes)
        assert check(operator, "sum(x)", stream, seed)


@pytest.mark.parametrize("deletes", [False, True])
def test_points_carry_aggregates_and_follow_them(deletes: bool) -> None:
    """A query has points for what it traces, also where its score stays; others of the operator do not."""
    names = [name for name, _ in CARRY]
    queries = (
        GroupsQuery(k=2, traces=("distinct_s",)), GroupsQuery(k=1, every=7), GroupsQuery(above=1.0, below=0.0, traces=tuple(names)),
        GroupsQuery(k=2, ties=True, traces=("last_s", "first_n", "min_x")), GroupsQuery(k=9),
        GroupsQuery(k=2, every=7, traces=tuple(names)),
        GroupsQuery(k=1, ties=True, every=5, traces=("last_s", "count")), GroupsQuery(above=1.0, below=0.0, every=9, traces=("sum_x",)),
    )  # fmt: skip
    more = 0
    for seed in seeds(0, 6):
        stream = random_stream(np.random.default_rng(seed), 150, "small")
        for direction in ("max", "min"):
            mine = tuple(replace(q, above=None, below=None, k=q.k or 4) for q in queries) if direction == "min" else queries
            given: dict[str, Any] = {"carry": CARRY, "window": WINDOWS[seed % 3], "deletes": deletes, "direction": direction}
            assert check(groups("sum(x)", *mine, **given), "sum(x)", stream, seed)
            player = Player(groups("sum(x)", *mine, **given), np.random.default_rng(seed))
            player.play(stream, stream[-1][0] + 45, 0.0)
            bare = Player(groups("sum(x)", *(replace(q, traces=()) for q in mine), **given), np.random.default_rng(seed))
            bare.play(stream, stream[-1][0] + 45, 0.0)
            assert player.changes == bare.changes
            more += sum(len(points) - len(bare.points[where]) for where, points in player.points.items())
    assert more > 0


def test_what_points_carry_is_carried() -> None:
    with pytest.raises(ValueError, match="not carried"):
        groups("sum(x)", GroupsQuery(k=1, traces=("sum_x",)), carry=CARRY[-1:])


def test_smallest_first() -> None:
    for seed in seeds(0, 4):
        stream = random_stream(np.random.default_rng(seed), 150, "small")
        check(groups("sum(x)", GroupsQuery(k=2), direction="min", window=WINDOWS[seed % 3]), "sum(x)", stream, seed)


def test_groups_that_are_gone_are_dropped() -> None:
    """Groups that come once each: their places are reused, and the next change is as if nothing had been dropped."""
    rng = np.random.default_rng(1)
    stream: list[Row] = [(i // 2, 0, i % 3 if i % 5 else 100 + i, float(rng.integers(5)), 0, 0) for i in range(2000)]
    operator = groups("sum(x)", GroupsQuery(k=3), window=Window(count=20))
    player = Player(operator, rng)
    player.play(stream, 2000, 0.0)
    assert player.logic.counters()["groups"] < 300
    assert player.changes[0, 0] == expected(operator, 0, SCORES["sum(x)"], stream, 0, 2000).changes
