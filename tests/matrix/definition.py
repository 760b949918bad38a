"""What the tables of a case hold by definition, computed by ``tests.oracles`` from its rows: no code of the product decides anything."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.matrix.case import (
    DISK,
    GROUPS,
    LOYALTY,
    MINUTE,
    PAIR_CONDITIONS,
    PAIR_SCORES,
    PAIRS,
    ROW_CONDITIONS,
    ROW_SCORES,
    SETS,
    Case,
    Query,
    Row,
)
from tests.oracles import events as oracle
from tests.oracles import groups, loyalty, pairs, sets, skyline, topk

Key = tuple[Any, ...]
Stream = Sequence[groups.Event]
"""The rows of a key as events: objects that arrive, numbered from 0, and such that are deleted."""

MONDAY = 946_857_600_000_000
"""Midnight of Monday, 3 January 2000: tumbling windows are counted from there."""
SIGNS = {-1: "-", 1: "+"}


@dataclass
class Expected:
    """``changes`` by query: (key, at, step, pos, sign, cause, item, values) in order; ``points``: (key, valid_from, item, values);
    ``finals``: (key, window_end, rank, item, values). An item is what identifies it: numbers of objects, a group, or an object's name."""

    rejected: Counter[str] = field(default_factory=Counter)
    filtered: int = 0
    accepted: int = 0
    changes: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    points: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    finals: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


def definition(case: Case) -> Expected:
    """Return what the job's tables hold after all batches and a finish."""
    out = Expected()
    streams, end = _accepted(case, out)
    for query in case.queries:
        out.changes[query.name] = []
        if query.type in (*GROUPS, *LOYALTY):
            out.points[query.name] = []
        if query.type != "matches" and ("tumbling" in query.window or ("session" in query.window and query.type not in GROUPS)):
            out.finals[query.name] = []
    for key, stream in sorted(streams.items()):
        taken: dict[str, tuple[Stream, list[tuple[Any, ...]]]] = {}
        for query in case.queries:
            source, window = stream, case.window
            if "from" in query.fields:
                source, window = entries(*taken[query.fields["from"]], {} if query.type in LOYALTY else query.window), {}
            made = _answer(case, query, key, source, taken, window, end, out)
            out.changes[query.name] += [(key, *row) for row in made]
            taken[query.name] = source, made
    return out


# ---------------------------------------------------------------- rows


def _does(case: Case, row: Row) -> int:
    if case.options["corrections"] == "op":
        return {"i": 0, "u": 1, "d": 2}[row["what"]]
    return 2 if case.options["deletes"] == "deletes" and row["what"] == "d" else 0


def _reason(case: Case, row: Row) -> str | None:
    """Return why a row is rejected when it is read."""
    if case.options["rules"] == "rule rejects" and row["x"] is not None and not row["x"] < 5:
        return "rule:small_x"
    if row["id"] is None:
        return "null_id"
    if any(row[c] is None for c in case.keys):
        return "null_key"
    if case.options["corrections"] == "op" and row["what"] not in ("i", "u", "d"):
        return "bad_op"
    for query in case.queries:
        if query.type in LOYALTY and "from" not in query.fields and "of" not in query.fields and _does(case, row) < 2:
            selected = query.where is None or ROW_CONDITIONS[query.where](row) is True
            if selected and row["side"] is None:
                return "null_object:side"
    return None


def _accepted(case: Case, out: Expected) -> tuple[dict[Key, Stream], int]:
    """Return the events of every key, and the instant before which all is complete."""
    keys: dict[Key, list[Row]] = defaultdict(list)
    latest, frontier = -1, 0
    for batch in case.batches:
        moved = latest
        for row in batch:
            reason = _reason(case, row)
            if reason is not None:
                out.rejected[reason] += 1
                continue
            moved = max(moved, row["ts"])
            if row["ts"] < frontier:
                out.rejected["late"] += 1
            else:
                keys[tuple(row[c] for c in case.keys)].append(row)
        latest = moved
        frontier = max(frontier, (latest // 1000 - case.watermark * 60_000) * 1000)
    options = case.options
    on_duplicate = options["corrections"] if options["corrections"] in ("keep_first", "replace") else "reject"
    window = groups.Window(count=case.window.get("count"), micros=_micros(case.window))
    job = groups.Job(window, ("side",), on_duplicate, lambda row: _does(case, row))
    tables = groups.Tables()
    streams = {key: list(groups.objects(job, rows, tables)) for key, rows in keys.items()}
    out.rejected.update({r: n for r, n in tables.counts.items() if r in ("duplicate_id", "no_target")})
    out.filtered, out.accepted = tables.counts["filtered"], tables.counts["accepted"]
    if options["source"] in DISK:  # a run declares its input complete up to the newest row
        return streams, latest + 1
    return streams, max([latest, *(_closing(query, latest) for query in case.queries)]) + 1


def _closing(query: Query, latest: int) -> int:
    """Return the instant at which all is closed that the newest row has opened: a window, a session, or what is due at a boundary."""
    found = [latest]
    if "tumbling" in query.window:
        length = query.window["tumbling"] * MINUTE
        found.append(latest - (latest - MONDAY) % length + length)
    if "session" in query.window:
        found.append(latest + query.window["session"] * MINUTE)
    if query.every is not None:
        opened = latest + ("hop" in query.window)
        found.append(opened + -opened % (query.every * MINUTE))
    return max(found)


def _micros(window: dict[str, int]) -> int | None:
    return window["time"] * MINUTE if "time" in window else None


def _least(*ends: int | None) -> int | None:
    return min((e for e in ends if e is not None), default=None)


def entries(stream: Stream, changes: Iterable[tuple[Any, ...]], window: dict[str, int]) -> Stream:
    """Return the stream that a result of rows makes: entries arrive, and are deleted when they leave (docs/semantics 15).

    The deletion of one that has left ``window``, that of the query that takes them, does nothing.
    """
    rows = {e.object.seq: e.object.row for e in stream if e.arrives}
    alive: dict[Any, groups.Object] = {}
    made, number = list[groups.Event](), 0
    for at, _, _, sign, _, item, *_ in changes:
        if sign == "+":
            alive[item] = groups.Object(number, at, {**rows[item[0]], "ts": at})
            number += 1
            made.append(groups.Event(at, True, alive[item]))
        elif groups._in(groups.Window(window.get("count"), _micros(window)), gone := alive.pop(item), at, number):
            made.append(groups.Event(at, False, gone))
    return made


# ---------------------------------------------------------------- queries


def _answer(
    case: Case, query: Query, key: Key, stream: Stream, taken: dict[str, tuple[Stream, list[tuple[Any, ...]]]], window: dict[str, int],
    end: int, out: Expected,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Return (at, step, pos, sign, cause, item, values) of a query's changes for one key."""
    count, micros = _least(window.get("count"), query.window.get("count")), _least(_micros(window), _micros(query.window))
    if query.type not in GROUPS and ("tumbling" in query.window or "session" in query.window):
        return _restarted(case, query, key, stream, window, end, out)
    if "hop" in query.window:
        return _hopping(case, query, key, stream, window, end, out)
    if query.type in ("topk", "threshold"):
        return _by_score(query, stream, count, micros, end)
    if query.type == "skyline":
        return _skyline(query, stream, count, micros, end)
    if query.type in PAIRS:
        return _pairs(query, stream, count, micros, end)
    if query.type in SETS:
        return _sets(query, stream, count, micros, end)
    if query.type in GROUPS:
        return _groups(query, key, stream, window, end, out)
    length = _micros(query.window) or _micros(case.window)
    assert length is not None
    if "of" in query.fields:
        return _loyalty(query, key, _reports_of(*taken[query.fields["of"]], query), length, end, out)
    return _loyalty(query, key, _reports(query, stream), length, end, out)


def _windows(query: Query, objects: Sequence[groups.Object]) -> Iterable[tuple[int, int, int]]:
    """Yield (first object, the object after the last, end) of each of the windows that follow each other."""
    first = 0
    for i, o in enumerate(objects):
        following = objects[i + 1] if i + 1 < len(objects) else None
        if "session" in query.window:
            end = o.at + query.window["session"] * MINUTE
        else:
            length = query.window["tumbling"] * MINUTE
            end = objects[first].at - (objects[first].at - MONDAY) % length + length
        if following is None or following.at >= end:
            yield first, i + 1, end
            first = i + 1


def _restarted(
    case: Case, query: Query, key: Key, stream: Stream, window: dict[str, int], end: int, out: Expected
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Return the changes of a query that is restarted in each window: there by itself, and then everything leaves."""
    objects = [e.object for e in stream if e.arrives]
    alone = replace(query, window={})
    made: list[tuple[Any, ...]] = []
    step = 0
    for first, after, until in _windows(query, objects):
        mine = [
            groups.Event(e.at, e.arrives, groups.Object(e.object.seq - first, e.object.at, e.object.row))
            for e in stream if first <= e.object.seq < after and e.at < until
        ]  # fmt: skip
        result: dict[tuple[int, ...], tuple[Any, ...]] = {}
        last = 0
        for at, inside, pos, sign, cause, item, values in _answer(case, alone, key, mine, {}, window, min(until, end), out):
            item = tuple(seq + first for seq in item)
            if sign == "+":
                result[item] = values
            else:
                del result[item]
            last = inside
            made.append((at, step + inside, pos, sign, cause, item, values))
        step += last
        if until >= end or not result or query.type == "matches":
            continue
        step += 1
        for pos, item in enumerate(sorted(result, key=lambda i: _rank(query, i, result[i]))):
            made.append((until, step, pos, "-", "expiry", item, result[item]))
            out.finals[query.name].append((key, until, pos + 1, item, result[item]))
    return made


def _hopping(
    case: Case, query: Query, key: Key, stream: Stream, window: dict[str, int], end: int, out: Expected
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Return the changes of a query over windows [b - T, b): as if all rows came one instant later, with boundaries where they are."""
    later = [groups.Event(e.at + 1, e.arrives, groups.Object(e.object.seq, e.object.at + 1, e.object.row)) for e in stream]
    made = _answer(case, replace(query, window={"time": query.window["hop"]}), key, later, {}, window, end, out)
    if query.type not in ("topk", "threshold", "skyline"):
        return made
    return [(*change, (values[0], values[1] - 1, *values[2:])) for *change, values in made]


def _rank(query: Query, item: tuple[int, ...], values: tuple[Any, ...]) -> tuple[float, ...]:
    """Return what a result is sorted by: the score by its direction, then the newer first."""
    largest = query.fields.get("similarity") != "hamming" if query.type in SETS else query.scoring is not None and query.scoring[1] == "max"
    score = 0.0 if query.type == "skyline" else float(values[-1])
    return (-score if largest else score, -min(item), -max(item))


def _every(query: Query) -> int | None:
    return None if query.every is None else query.every * MINUTE


def _selected(query: Query, row: Row) -> bool:
    return query.where is None or ROW_CONDITIONS[query.where](row) is True


def _by_score(query: Query, stream: Stream, count: int | None, micros: int | None, end: int) -> list[tuple[Any, ...]]:
    assert query.scoring is not None
    of, fields = ROW_SCORES[query.scoring[0]], query.fields
    rows = {e.object.seq: e.object for e in stream}
    scores = {seq: of(o.row) if _selected(query, o.row) else math.nan for seq, o in rows.items()}
    given = [topk.Event(e.at, scores[e.object.seq]) if e.arrives else topk.Event(e.at, target=e.object.seq) for e in stream]
    inf = math.inf

    def accept(s: float) -> bool:
        least, most = fields.get("min_score", fields.get("at_least", -inf)), fields.get("max_score", fields.get("at_most", inf))
        return least <= s <= most and s > fields.get("above", -inf) and s < fields.get("below", inf)

    asked = topk.Query(fields.get("k"), count, micros, query.scoring[1] == "max", _every(query), accept)
    return [
        (at, step, pos, SIGNS[sign], cause, (seq,), (rows[seq].row["id"], rows[seq].at, score))
        for _, _, at, step, pos, sign, cause, seq, score in topk.replay(0, 0, given, asked, end)
    ]


class _Skyline:
    """A skyline query over a key's events, by definition."""

    def __init__(self, events: Stream, dominates: Any, usable: Any, band: int, count: int | None, micros: int | None) -> None:
        self.events, self.dominates, self.usable, self.band, self.micros, self.count = events, dominates, usable, band, micros, count
        self.times = np.array([e.at for e in events if e.arrives], np.int64)
        self.arrived, self.deleted = 0, set[int]()

    def enter(self, row: int) -> None:
        event = self.events[row]
        if event.arrives:
            self.arrived += 1
        else:
            self.deleted.add(event.object.seq)

    def alive(self, t: int) -> Any:
        index = np.arange(len(self.times))
        found = (index < self.arrived) & ~np.isin(index, sorted(self.deleted))
        found &= True if self.count is None else index >= self.arrived - self.count
        return found & (True if self.micros is None else self.times + self.micros > t)

    def result(self, t: int) -> list[int]:
        return sorted(skyline.members(self.dominates, self.usable, self.alive(t), self.band), reverse=True)

    def left(self, item: int, t: int) -> str:
        return "delete" if item in self.deleted else "displaced" if self.alive(t)[item] else "expiry"

    def brought(self, item: int, row: int) -> bool:
        return self.events[row].arrives and self.events[row].object.seq == item


def _skyline(query: Query, stream: Stream, count: int | None, micros: int | None, end: int) -> list[tuple[Any, ...]]:
    objects = [e.object for e in stream if e.arrives]
    dimensions, fields = query.fields["dimensions"], query.fields
    values = np.array([[o.row[c] for c in dimensions] for o in objects], object).reshape(-1, len(dimensions))
    usable = np.array([_selected(query, o.row) and all(o.row[c] is not None for c in dimensions) for o in objects], bool)
    for i, good in enumerate(usable):
        if not good:  # compared with nothing
            values[i] = ["" if c == "side" else 0 for c in dimensions]
    levels = [1, 1] if "prefer" in fields else [2]
    directions, order = list(dimensions.values()), list(range(len(dimensions)))
    if "prefer" in fields:  # the preferred dimension first
        order = sorted(order, key=lambda j: list(dimensions)[j] != fields["prefer"][0])
    directions = [directions[j] for j in order]
    dominates = skyline.prioritised(values[:, order], directions, usable, "distinct" in fields, levels)
    watched = _Skyline(stream, dominates, usable, fields.get("band", 1), count, micros)
    at = oracle.instants([e.at for e in stream], [o.at for o in objects], micros, _every(query), end)
    return [
        (t, step, pos, SIGNS[sign], cause, (seq,), (objects[seq].row["id"], objects[seq].at))
        for t, step, pos, sign, cause, seq in oracle.changes(at, _every(query), watched)
    ]


def _events(stream: Stream) -> list[tuple[int, int | None]]:
    return [(e.at, None if e.arrives else e.object.seq) for e in stream]


def _items(found: Iterable[tuple[Any, ...]], objects: Sequence[groups.Object]) -> list[tuple[Any, ...]]:
    return [
        (at, step, pos, SIGNS[sign], cause, (first, second), (objects[first].row["id"], objects[second].row["id"], score))
        for _, _, at, step, pos, sign, cause, first, second, score in found
    ]


def _sides(query: Query) -> tuple[str, Any, Any] | None:
    between = query.fields.get("between")
    return None if between is None else (between["column"], between["a"], between["b"])


def _pairs(query: Query, stream: Stream, count: int | None, micros: int | None, end: int) -> list[tuple[Any, ...]]:
    assert query.scoring is not None
    objects = [e.object for e in stream if e.arrives]
    of, fields = PAIR_SCORES[query.scoring[0]], query.fields
    where = None if query.where is None else PAIR_CONDITIONS[query.where]

    def score(a: Row, b: Row) -> float:
        return of(a, b) if where is None or where(a, b) is True else math.nan

    given = pairs.Stream(
        [o.at for o in objects], [o.row for o in objects], score, query.scoring[1] == "max", _sides(query), _events(stream)
    )  # fmt: skip
    bounds = fields.get("min_score", -math.inf), fields.get("max_score", math.inf)
    asked = pairs.Query(fields.get("k", 10**9), count, micros, *bounds, _every(query), fields.get("max_per_object"))
    return _items((pairs.matches if query.type == "matches" else pairs.replay)(0, 0, given, asked, end), objects)


def _sets(query: Query, stream: Stream, count: int | None, micros: int | None, end: int) -> list[tuple[Any, ...]]:
    objects = [e.object for e in stream if e.arrives]
    fields = query.fields
    where: Callable[[Row, Row], bool | None] = (lambda a, b: True) if query.where is None else PAIR_CONDITIONS[query.where]
    words: list[frozenset[Any]] = [frozenset((o.row["words"] or "").split()) for o in objects]
    given = sets.Stream(
        [o.at for o in objects], [o.row for o in objects], words, fields["similarity"], lambda a, b: where(a, b) is True, _sides(query),
        _events(stream),
    )  # fmt: skip
    asked = sets.Query(fields.get("k", 10**9), count, micros, fields.get("min_score", fields.get("max_score")), _every(query))
    return _items(sets.replay(0, 0, given, asked, end), objects)


def _groups(query: Query, key: Key, stream: Stream, window: dict[str, int], end: int, out: Expected) -> list[tuple[Any, ...]]:
    fields = query.fields
    aggregates: dict[str, Callable[[list[Row]], Any]] = {
        "count()": len,
        "last(y)": lambda rows: groups.AGGREGATES["last"]([r["y"] for r in rows if r["y"] is not None]),
        "sum(x)": lambda rows: groups.AGGREGATES["sum"]([r["x"] for r in rows if r["x"] is not None]),
        "max(y)": lambda rows: groups.AGGREGATES["max"]([r["y"] for r in rows if r["y"] is not None]),
        "distinct(side)": lambda rows: len({r["side"] for r in rows if r["side"] is not None}),
    }
    carry = tuple((_aggregate(c), aggregates[c]) for c in fields.get("carry", ()))
    own = {kind: n * (1 if kind == "count" else MINUTE) for kind, n in query.window.items()}
    asked = groups.Query(
        query.name, tuple(fields["group"]), aggregates[fields["score"]],
        (lambda rows: len(rows) >= 2) if "having" in fields else None,
        None if query.where is None else ROW_CONDITIONS[query.where],
        groups.Window(own.get("count"), own.get("time"), own.get("tumbling"), session=own.get("session")) if own else None,
        _every(query), carry, None, fields.get("direction", "max"), fields.get("k"), "ties" in fields, fields.get("above"),
        fields.get("below"),
    )  # fmt: skip
    tables = groups.Tables()
    job = groups.Job(groups.Window(window.get("count"), _micros(window)))
    groups._answer(job, asked, "", list(stream), tables, end)

    def item(row: Row) -> tuple[Any, ...]:
        return tuple(row[c] for c in fields["group"])

    def values(row: Row) -> tuple[Any, ...]:
        return (row["score"], *(row[name] for name, _ in carry))

    out.points[query.name] += [(key, r["valid_from"], item(r), values(r)) for r in tables.rows[f"trajectory:{query.name}"]]
    if query.name in out.finals:
        out.finals[query.name] += [(key, r["window_end"], r["rank"], item(r), values(r)) for r in tables.rows[f"final:{query.name}"]]
    found = tables.rows[f"changes:{query.name}"]
    return [(r["changed_at"], r["step"], r["pos"], r["change"], r["cause"], item(r), values(r)) for r in found]


def _aggregate(text: str) -> str:
    name, _, column = text.removesuffix(")").partition("(")
    return f"{name}_{column}" if column else name


def _reports(query: Query, stream: Stream) -> list[loyalty.Report]:
    deleted = {e.object.seq: e.at for e in stream if not e.arrives}
    made = []
    for e in stream:
        if e.arrives and _selected(query, e.object.row) and e.object.row["side"] is not None:
            on = ROW_CONDITIONS[query.fields["criteria"]](e.object.row)
            if on is not None:
                made.append(loyalty.Report(e.at, (e.object.row["side"],), on, deleted.get(e.object.seq, loyalty.FOREVER)))
    return made


def _reports_of(stream: Stream, changes: Iterable[tuple[Any, ...]], query: Query) -> list[loyalty.Report]:
    """Return the reports of the members of a result: on and off, one for an object and a step."""
    rows = {e.object.seq: e.object.row for e in stream if e.arrives}
    members: Counter[Any] = Counter()
    made = []
    steps: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for change in changes:
        steps[change[1]].append(change)
    for _, step in sorted(steps.items()):
        before = Counter(members)
        for _, _, _, sign, _, item, *_ in step:
            name = (rows[item[0]]["side"],) if "object" in query.fields else item
            if None not in name:
                members[name] += 1 if sign == "+" else -1
        for name in members:
            if (before[name] > 0) != (members[name] > 0):
                made.append(loyalty.Report(step[0][0], name, members[name] > 0))
    return made


def _loyalty(query: Query, key: Key, reports: list[loyalty.Report], length: int, end: int, out: Expected) -> list[tuple[Any, ...]]:
    fields = query.fields
    stale = int(fields["stale_after"].split()[0]) * MINUTE if "stale_after" in fields else None
    least = int(fields["at_least"].split()[0]) * MINUTE if "at_least" in fields else None
    asked = loyalty.Query(fields.get("k"), least, _every(query), fields.get("trace") == "all")
    at = loyalty.instants(loyalty.spans(reports, stale), length, [asked], end)
    out.points[query.name] += [(key, p.at, p.object, (p.loyalty, p.slope)) for p in loyalty.points(reports, stale, length, asked, at)]
    return [
        (c.at, c.step, c.pos, SIGNS[c.sign], c.cause, c.object, (c.loyalty, c.slope))
        for c in loyalty.changes(reports, stale, length, asked, at)
    ]
