"""Groups by definition (docs/semantics 13): every event recomputes the result from the rows alive, with fractions where sums are exact.

Shares no code with the operators. Rows are dicts; instants are whole microseconds; a text, number or null is itself.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

Row = dict[str, Any]
Value = Any
"""None for null and NaN; whole numbers, decimals and sums as ``int`` or ``Fraction``; doubles as ``float``; others as they are."""
MONDAY = 1_000_000 * int(datetime(2000, 1, 3, tzinfo=UTC).timestamp())


# ---------------------------------------------------------------- values


def number(value: Any) -> Value:
    """Return a column's value without NaN and -0.0, and with decimals as fractions."""
    if isinstance(value, Decimal):
        return Fraction(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


def nearest(value: Value) -> float | None:
    """Return the double nearest to a number, ties to even, infinite beyond the largest."""
    if value is None or isinstance(value, float):
        return None if value is None or math.isnan(value) else value + 0.0
    value = Fraction(value)
    try:
        return value.numerator / value.denominator  # Python rounds the quotient of whole numbers once
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def total(values: Sequence[Value]) -> Value:
    """Return the exact sum."""
    infinite = {v for v in values if isinstance(v, float) and math.isinf(v)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else None
    return sum((Fraction(v) for v in values), Fraction(0)) if values else None


def variance(values: Sequence[Value], less: int) -> float | None:
    """Return the variance, infinitely precise and rounded once."""
    n = len(values)
    if n <= less or any(isinstance(v, float) and math.isinf(v) for v in values):
        return None
    exact = [Fraction(v) for v in values]
    return nearest((n * sum(v * v for v in exact) - sum(exact) ** 2) / (n * (n - less)))


def root(value: float | None) -> float | None:
    """Return the square root of a double."""
    return None if value is None else math.sqrt(value)


def quantile(values: Sequence[Value], share: str) -> Value:
    """Return the value at the nearest rank."""
    return sorted(values)[math.ceil(Fraction(share) * len(values)) - 1] if values else None


AGGREGATES: dict[str, Callable[[list[Value]], Value]] = {
    "count": len,
    "distinct": lambda values: len(set(values)),
    "sum": total,
    "mean": lambda values: nearest(t / len(values) if (t := total(values)) is not None else None),
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "var_pop": lambda values: variance(values, 0),
    "var_samp": lambda values: variance(values, 1),
    "stddev_pop": lambda values: root(variance(values, 0)),
    "stddev_samp": lambda values: root(variance(values, 1)),
}
AGGREGATES |= {"avg": AGGREGATES["mean"], "variance": AGGREGATES["var_samp"]}
AGGREGATES |= {"stddev": AGGREGATES["stddev_samp"], "std": AGGREGATES["stddev_samp"]}


def ordered(value: Any) -> tuple[int, Any]:
    """Return a key to sort values of one column by: null, NaN, then values, text by its bytes."""
    if value is None:
        return 0, 0
    if isinstance(value, float) and math.isnan(value):
        return 1, 0
    return 2, value.encode() if isinstance(value, str) else value


# ---------------------------------------------------------------- definitions


class Window(NamedTuple):
    """A window of a job or of a query; ``shift`` is what the zone's clock is ahead of UTC."""

    count: int | None = None
    micros: int | None = None
    tumbling: int | None = None
    offset: int = 0
    shift: int = 0
    session: int | None = None

    def bounds(self, at: int) -> tuple[int, int]:
        """Return the calendar window of an instant."""
        assert self.tumbling is not None
        start = MONDAY + self.offset - self.shift
        begin = start + (at - start) // self.tumbling * self.tumbling
        return begin, begin + self.tumbling


@dataclass(frozen=True)
class Query:
    """A group query; ``score``, ``having`` and ``carry`` take the alive rows of a group in their order."""

    name: str
    group: tuple[str, ...]
    score: Callable[[list[Row]], Value]
    having: Callable[[list[Row]], bool | None] | None
    where: Callable[[Row], bool | None] | None
    window: Window | None
    every: int | None
    carry: tuple[tuple[str, Callable[[list[Row]], Value]], ...]
    exact: int | None = None
    """Digits after the point, if the score is an aggregate of a decimal by which groups rank exactly."""
    direction: str = "max"
    k: int | None = None
    ties: bool = False
    above: Value = None
    below: Value = None


@dataclass(frozen=True)
class Job:
    """What decides which rows are objects."""

    window: Window
    tie_break: tuple[str, ...] = ()
    on_duplicate: str = "reject"
    does: Callable[[Row], int] = lambda row: 0
    """0: the row inserts, 1: updates, 2: deletes."""


@dataclass
class Object:
    """An accepted row."""

    seq: int
    at: int
    row: Row
    deleted: bool = False


class Event(NamedTuple):
    """The arrival of an object, or its deletion."""

    at: int
    arrives: bool
    object: Object


@dataclass
class Tables:
    """What a job writes: rows of tables by kind, and counts."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)


# ---------------------------------------------------------------- the job


def answer(job: Job, queries: Sequence[Query], batches: Sequence[tuple[list[Row], int]], end: int) -> Tables:
    """Return the tables of all events before ``end``. ``batches``: rows, and the frontier that they are compared with."""
    out, keys = Tables(), defaultdict[str, list[Row]](list)
    for rows, frontier in batches:
        for row in rows:
            if row["ts"] < frontier:
                _reject(out, "late", row)
            else:
                keys[row["grp"]].append(row)
    for key, rows in keys.items():
        events = list(objects(job, rows, out))
        for query in queries:
            _answer(job, query, key, events, out, end)
    return out


def _reject(out: Tables, reason: str, row: Row) -> None:
    out.counts[reason] += 1
    out.rows["rejected"].append({"reason": reason, "event_time": row["ts"]})


def objects(job: Job, rows: list[Row], out: Tables) -> Iterable[Event]:
    """Yield the arrivals and deletions of a key, in order (1, 10)."""
    last = ("ts", *job.tie_break, "id")
    others = sorted(set(rows[0]) - set(last))

    def place(row: Row) -> tuple[Any, ...]:
        return *(ordered(row[c]) for c in last), job.does(row), *(ordered(row[c]) for c in others)

    objects: list[Object] = []
    for row in sorted(rows, key=place):
        at, does = row["ts"], job.does(row)
        alive = [o for o in objects if o.row["id"] == row["id"] and not o.deleted and _in(job.window, o, at, len(objects))]
        assert len(alive) <= 1
        if does == 2:
            if not alive:
                _reject(out, "no_target", row)
                continue
        elif does == 0 and alive and job.on_duplicate != "replace":
            if job.on_duplicate == "reject":
                _reject(out, "duplicate_id", row)
            else:
                out.counts["filtered"] += 1
            continue
        out.counts["accepted"] += 1
        for o in alive:
            o.deleted = True
            yield Event(at, False, o)
        if does != 2:
            objects.append(Object(len(objects), at, row))
            yield Event(at, True, objects[-1])


def _in(window: Window, o: Object, at: int, objects: int) -> bool:
    """Return True if the window has an object at an instant at which so many objects have arrived."""
    return (
        (window.count is None or o.seq >= objects - window.count)
        and (window.micros is None or at < o.at + window.micros)
        and (window.tumbling is None or at < window.bounds(o.at)[1])
    )


@dataclass
class _State:
    members: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    """The groups in the result after the last event, with their scores."""
    shown: dict[tuple[Any, ...], tuple[Value, Row]] = field(default_factory=dict)
    """The groups in the result as written last, with the values that they had last."""
    points: dict[tuple[Any, ...], tuple[Value, Row]] = field(default_factory=dict)
    removed: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """What has removed the last row of groups without rows."""
    step: int = 0


def _answer(job: Job, query: Query, key: str, events: list[Event], out: Tables, end: int) -> None:
    """Add the rows that one query of one key writes."""
    window = query.window or Window()
    spans = [w for w in (job.window.micros, window.micros, window.session) if w is not None]
    times = sorted({e.at for e in events})
    expiries = {t + s for t in times for s in spans}
    if window.tumbling is not None:
        expiries |= {window.bounds(t)[1] for t in times}
    agenda: list[tuple[int, int, int]] = [(e.at, 1, i) for i, e in enumerate(events)] + [(t, 0, -1) for t in expiries]
    if query.every is not None and times:
        agenda += [(b, 2, -1) for b in range(-(-times[0] // query.every) * query.every, end, query.every)]
    state, came_by, arrived = _State(), list[Object](), 0
    alive: dict[tuple[Any, ...], list[Row]] = {}
    deleted: set[int] = set()
    agenda = sorted(a for a in agenda if a[0] < end)
    for i, (at, phase, n) in enumerate(agenda):
        came, cause = None, "expiry"
        if phase == 0 and window.tumbling is not None and window.bounds(at)[0] == at and state.members:
            _final(query, key, at, state, alive, out)
        if phase == 1:
            event = events[n]
            if event.arrives:
                came_by.append(event.object)
                arrived += 1
                came = event.object.row
            else:
                deleted.add(event.object.seq)
                cause = "delete"
        if phase < 2:
            before, alive = alive, _groups(job, query, [o for o in came_by if o.seq not in deleted], at, arrived)
            for g in before.keys() - alive.keys():
                state.removed[g] = cause
            state.members = _result(query, alive, state.members)
        selected = came is not None and (query.where is None or query.where(came) is True)
        if selected:
            assert came is not None
            g = tuple(came[c] for c in query.group)
            out.counts[f"asked:{query.name}"] += 1
            out.counts[f"unusable:{query.name}"] += None in g or query.score(alive[g]) is None
        if (query.every is not None) != (phase == 2):
            continue
        _change(query, key, at, came if selected else None, state, alive, out)
        if i + 1 == len(agenda) or agenda[i + 1][0] > at or query.every is not None:
            _points(query, key, at, state, out)


def _groups(job: Job, query: Query, objects: list[Object], at: int, arrived: int) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows that count of every group that has some."""
    found: dict[tuple[Any, ...], list[Object]] = defaultdict(list)
    for o in objects:
        g = tuple(o.row[c] for c in query.group)
        if (query.where is None or query.where(o.row) is True) and None not in g:
            found[g].append(o)
    if query.window is not None and query.window.session is not None:
        for g, mine in found.items():
            times = [*(o.at for o in mine), at]
            silences = [i for i in range(len(mine)) if times[i + 1] - times[i] >= query.window.session]
            found[g] = mine[max(silences, default=-1) + 1 :]
    windows = [w for w in (job.window, query.window) if w is not None]
    return {g: rows for g, mine in found.items() if (rows := [o.row for o in mine if all(_in(w, o, at, arrived) for w in windows)])}


def _result(query: Query, alive: dict[tuple[Any, ...], list[Row]], before: dict[tuple[Any, ...], Value]) -> dict[tuple[Any, ...], Value]:
    """Return the scores of the groups in the result."""
    part = {g: rows for g, rows in alive.items() if query.having is None or query.having(rows) is True}
    scores = {g: _ranked(query, s) for g, rows in part.items() if (s := query.score(rows)) is not None}
    if query.k is None:
        low = query.below
        return {g: s for g, s in scores.items() if s > query.above or (g in before and low is not None and s >= low)}
    order = sorted(scores, key=lambda g: _rank(query, g, scores[g]))
    worst = scores[order[: query.k][-1]] if order else None
    return {g: scores[g] for i, g in enumerate(order) if i < query.k or (query.ties and scores[g] == worst)}


def _ranked(query: Query, score: Value) -> Value:
    """Return what a score counts as: its double, or an exact decimal unless it has too many units."""
    if query.exact is not None and abs(score) * 10**query.exact < 2**62:
        return Fraction(score)
    return nearest(score)


def _rank(query: Query, g: tuple[Any, ...], score: Value) -> tuple[Any, ...]:
    return -score if query.direction == "max" else score, *(ordered(v) for v in g)


def _values(query: Query, alive: dict[tuple[Any, ...], list[Row]], g: tuple[Any, ...]) -> Row:
    return {name: of(alive[g]) for name, of in query.carry}


def _columns(query: Query, key: str, g: tuple[Any, ...], score: Value, carried: Row) -> Row:
    return {"grp": key, **dict(zip(query.group, g, strict=True)), **carried, "score": nearest(score)}


def _change(query: Query, key: str, at: int, came: Row | None, state: _State, alive: dict[tuple[Any, ...], list[Row]], out: Tables) -> None:
    """Write the step between the result shown last and that of now, if they differ."""
    now = {g: (s, _values(query, alive, g)) for g, s in state.members.items()}
    shown = state.shown

    def order(groups: Iterable[tuple[Any, ...]], of: dict[tuple[Any, ...], tuple[Value, Row]]) -> list[tuple[Any, ...]]:
        return sorted(groups, key=lambda g: _rank(query, g, of[g][0]))

    left, entered = order(shown.keys() - now.keys(), shown), order(now.keys() - shown.keys(), now)
    own = None if came is None else tuple(came[c] for c in query.group)
    state.step += bool(left or entered)
    changes = [("-", g, shown[g], "displaced" if g in alive else state.removed[g]) for g in left]
    for g in entered:
        changes.append(("+", g, now[g], "boundary" if query.every is not None else "arrival" if g == own else "promoted"))
    for pos, (sign, g, (score, carried), cause) in enumerate(changes):
        made = {"changed_at": at, "step": state.step, "pos": pos, "change": sign, "cause": cause}
        out.rows[f"changes:{query.name}"].append(_columns(query, key, g, score, carried) | made)
        state.points.pop(g, None)
    out.counts["changes"] += len(changes)
    state.shown = now


def _points(query: Query, key: str, at: int, state: _State, out: Tables) -> None:
    """Write the points of one instant, after its last event."""
    for g, (score, carried) in state.shown.items():
        if state.points.get(g) != (score, carried):
            out.rows[f"trajectory:{query.name}"].append(_columns(query, key, g, score, carried) | {"valid_from": at})
            state.points[g] = (score, carried)


def _final(query: Query, key: str, at: int, state: _State, alive: dict[tuple[Any, ...], list[Row]], out: Tables) -> None:
    """Write the result of a calendar window that ends."""
    assert query.window is not None and query.window.tumbling is not None
    order = sorted(state.members, key=lambda g: _rank(query, g, state.members[g]))
    for rank, g in enumerate(order, 1):
        window = {"window_start": at - query.window.tumbling, "window_end": at, "rank": rank}
        out.rows[f"final:{query.name}"].append(_columns(query, key, g, state.members[g], _values(query, alive, g)) | window)
