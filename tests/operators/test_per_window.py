"""Windows of rows that follow each other: the operator inside, run apart for each window of each key, says the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from skyband.operators import per_window
from skyband.operators.base import CAUSES, DELETION_TARGET, Arrivals, Calendar, Ragged, State, Window
from skyband.operators.calendar import window_ends, window_starts
from skyband.operators.contract import Rows, random_rows
from skyband.operators.per_window import PerWindow
from skyband.operators.state_keys import state_keys
from skyband.operators.topk.one_function import TopK, TopKDeletes
from tests.operators.test_contract import COUNT, OPERATORS, SHORT, TIME, row, topk
from tests.operators.test_contract import per_window as restarting
from tests.seeds import cases, seeds

NAMES = [name for name in OPERATORS if name.startswith("per ")]
Row = tuple[Any, ...]


def windows_of(op: PerWindow, time: list[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first row, row after the last, start, end) of the windows of one key, one row at a time."""
    begin = 0
    for i in range(1, len(time) + 1):
        if i < len(time) and op.session is not None and time[i] - time[i - 1] < op.session:
            continue
        if i < len(time) and op.calendar is not None and time[i] < int(window_ends(op.calendar, np.array([time[begin]]))[0]):
            continue
        if op.calendar is not None:
            start, end = (int(f(op.calendar, np.array([time[begin]]))[0]) for f in (window_starts, window_ends))
        else:
            assert op.session is not None
            start, end = time[begin], time[i - 1] + op.session
        yield begin, i, start, end
        begin = i


def by_definition(op: PerWindow, stream: Rows) -> tuple[list[Row], list[Row]]:
    """Return changes and final results: each window of each key by a logic of its own."""
    changes: list[Row] = []
    finals: list[Row] = []
    codes = stream.first_codes()
    for key in np.unique(stream.key).tolist():
        mine = np.flatnonzero(stream.key == key)
        objects = mine[stream.seq[mine] >= 0]
        steps: dict[int, int] = {}
        for first, after, start, end in windows_of(op, stream.time[objects].tolist()):
            inside = mine[(stream.time[mine] < end) & (mine >= objects[first])]
            inside = inside[(stream.seq[inside] >= first) & (stream.seq[inside] < after) | (stream.target[inside] >= first)]
            given = stream.block(inside, codes)
            columns = dict(given.columns)
            if DELETION_TARGET in columns:
                columns[DELETION_TARGET] = np.where(given.seq < 0, columns[DELETION_TARGET] - first, columns[DELETION_TARGET])
            seq = np.where(given.seq < 0, -1, given.seq - first)
            alone = Arrivals(np.zeros(len(seq), np.int64), seq, given.time, columns, given.ragged)
            found = op.inner.build(None).advance(alone, min(end, stream.end))
            result: dict[int, dict[tuple[int, ...], float]] = {}
            last: dict[int, int] = {}
            for i in range(len(found)):
                query, item = int(found.query[i]), tuple((found.items[i] + first).tolist())
                last[query] = int(found.step[i])
                shown = result.setdefault(query, {})
                shown[item] = float(found.score[i])
                if found.sign[i] < 0:
                    del shown[item]
                changes.append(
                    (query, key, steps.get(query, 0) + int(found.step[i]), int(found.pos[i]), int(found.at[i]), int(found.sign[i]),
                     CAUSES[found.cause[i]], item, found.score[i].tobytes())
                )  # fmt: skip
            for query in last:
                steps[query] = steps.get(query, 0) + last[query]
            if end >= stream.end or not op.lasting:
                continue
            for query, shown in result.items():
                ranked = sorted(
                    shown, key=lambda i: ((-shown[i] if op.largest[-1] else shown[i]) if shown[i] == shown[i] else 0, -min(i), -max(i))
                )
                steps[query] += bool(ranked)
                for pos, item in enumerate(ranked):
                    bits = np.float64(shown[item]).tobytes()
                    changes.append((query, key, steps[query], pos, end, -1, "expiry", item, bits))
                    finals.append((query, key, start, end, pos + 1, item, bits))
    return sorted(changes), sorted(finals)


def played(op: PerWindow, stream: Rows, rng: np.random.Generator, restore: bool = False) -> tuple[list[Row], list[Row]]:
    """Return changes and final results of the operator, in calls cut at random instants."""
    logic = op.build(None)
    codes = stream.first_codes()
    changes: list[Row] = []
    finals: list[Row] = []
    cuts = sorted(rng.integers(int(stream.time[0]), stream.end + 1, int(rng.integers(0, 30))).tolist())
    fed = 0
    for until in [*cuts, stream.end]:
        upto = max(fed, int(np.searchsorted(stream.time, until)))
        found = logic.advance(stream.block(np.arange(fed, upto), codes), until)
        fed = upto
        for i in range(len(found)):
            plain = (int(found.query[i]), int(found.key[i]), int(found.step[i]), int(found.pos[i]), int(found.at[i]), int(found.sign[i]))
            changes.append((*plain, CAUSES[found.cause[i]], tuple(found.items[i].tolist()), found.score[i].tobytes()))
        if (f := found.finals) is not None:
            columns = zip(f.query.tolist(), f.key.tolist(), f.start.tolist(), f.end.tolist(), f.rank.tolist(), strict=True)
            finals += [(*c, tuple(i), s.tobytes()) for c, i, s in zip(columns, f.items.tolist(), f.values["score"], strict=True)]
        if restore:
            logic = op.build(State(logic.checkpoint(), stream.block(np.flatnonzero(stream.seq[:fed] >= 0), codes)))
    return sorted(changes), sorted(finals)


@pytest.mark.parametrize("name", NAMES)
def test_each_window_is_as_if_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = OPERATORS[name]
    some = 0
    for seed in seeds(0, 12):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(per_window, "FORGET", int(rng.choice([0, 1, 5, 1024])))
        monkeypatch.setattr(per_window, "GENERATIONS", int(rng.choice([1, 2, 8])))
        stream = random_rows(op, rng, 90, 3)
        expected = by_definition(op, stream)
        assert played(op, stream, rng) == expected
        some += len(expected[0])
    assert some > 0


def test_logics_without_open_windows_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_window, "FORGET", 4)
    op = restarting(topk(TopK, TIME), SHORT)
    logic = op.build(None)
    for i in range(200):
        at = np.array([100 + 10 * i])
        columns = {"x": np.array([1.0]), "n": np.array([1])}
        logic.advance(Arrivals(np.zeros(1, np.int64), np.array([i]), at, columns), int(at[0]) + 1)
        assert sum(g.count for g in logic._generations) < 20
    assert logic._generations[-1].first > 180


def test_a_deletion_after_the_window_has_ended_changes_nothing() -> None:
    op = restarting(topk(TopKDeletes, Window(None, 40), row("x")), Calendar(10))
    logic = op.build(None)
    key, none = np.zeros(1, np.int64), np.array([-(2**63)])
    first = logic.advance(Arrivals(key, np.array([0]), np.array([5]), {"x": np.array([1.0]), DELETION_TARGET: none}), 12)
    assert first.sign.tolist() == [1, -1, 1, -1] and first.at.tolist() == [5, 10, 5, 10]
    deleted = Arrivals(key, np.array([-1]), np.array([15]), {"x": np.array([np.nan]), DELETION_TARGET: np.array([0])})
    assert len(logic.advance(deleted, 30)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_the_keys_goes_on_as_in_the_whole(name: str) -> None:
    op = OPERATORS[name]
    compared = 0
    for seed in range(50, 50 + max(5, cases(8))):
        rng = np.random.default_rng(seed)
        stream = random_rows(op, rng, 90, 4)
        codes = stream.first_codes()
        half = int(stream.time[len(stream) // 2])
        cut = int(np.searchsorted(stream.time, half))
        logic = op.build(None)
        logic.advance(stream.block(np.arange(cut), codes), half)
        keys = np.unique(rng.integers(0, int(stream.key.max()) + 1, 2))
        divisible = state_keys(op)
        assert divisible is not None
        kept = np.flatnonzero((stream.seq[:cut] >= 0) & np.isin(stream.key[:cut], keys))
        rows, rest = stream.block(kept, codes), stream.block(np.arange(cut, len(stream)), codes)
        mine = np.isin(rest.key, keys)
        picked = op.build(State(divisible.picked(logic.checkpoint(), keys), renamed(rows, keys)))
        part = picked.advance(renamed(chosen(rest, mine), keys), stream.end)
        whole = logic.advance(rest, stream.end)
        of = np.isin(whole.key, keys)
        for column in ("query", "at", "step", "pos", "sign", "cause", "score", "items"):
            assert getattr(part, column).tobytes() == getattr(whole, column)[of].tobytes()
        assert part.key.tolist() == np.searchsorted(keys, whole.key[of]).tolist()
        compared += len(part)
    assert compared > 0


def renamed(rows: Arrivals, keys: Any) -> Arrivals:
    return Arrivals(np.searchsorted(keys, rows.key), rows.seq, rows.time, rows.columns, rows.ragged)


def chosen(rows: Arrivals, mine: Any) -> Arrivals:
    at = np.flatnonzero(mine)
    ragged = {}
    for name, a in rows.ragged.items():
        parts = [a.values[a.start[i] : a.start[i + 1]] for i in at.tolist()]
        start = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
        ragged[name] = Ragged(start, np.concatenate([np.empty(0, np.int64), *parts]))
    return Arrivals(rows.key[at], rows.seq[at], rows.time[at], {n: a[at] for n, a in rows.columns.items()}, ragged)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: PerWindow(topk(TopK, COUNT), None, None, (True,)), "not both or neither"),
        (lambda: PerWindow(topk(TopK, COUNT), SHORT, 5, (True,)), "not both or neither"),
        (lambda: PerWindow(OPERATORS["loyalty, updates"], SHORT, None, (True,)), "objects that rows report on"),
    ],
)
def test_what_cannot_restart_is_refused(made: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made()
