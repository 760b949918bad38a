"""Top-k by several sort keys: the contract of operators, and every change as the definition of SQL's ranks gives it, event by event."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.operators.base import CAUSES, DELETION_TARGET, NULL, Arrivals, Changes, Column, Ragged, State, Window, units_column
from skyband.operators.contract import check_operator
from skyband.operators.expressions import parse
from skyband.operators.single_rows.scores import Linear
from skyband.operators.state_keys import state_keys
from skyband.operators.topk.one_function_configuration import TopKQuery
from skyband.operators.topk.ordered import MAX_KEYS, SCORE, OrderedTopK, OrderedTopKDeletes, SortKey, Ties, text_column
from skyband.operators.topk.ordered_logic import Texts, floats_of_words, words_of_floats, words_of_ints
from tests.seeds import cases, seeds

X, I, T, B = Column("x", "float"), Column("i", "int"), text_column("t"), Column("b", "bool")
TIES: tuple[Ties, ...] = ("break", "include", "dense", "exclude")
DOUBLE = Linear((("x", 2.0),))


def by_count(ks: Sequence[int] = (3, 1, 2)) -> dict[str, Any]:
    """A count window, two smaller ones and boundaries."""
    w = Window(9)
    queries = (TopKQuery("a", ks[0], w), TopKQuery("b", ks[1], Window(4)), TopKQuery("e", ks[2], w, every_micros=7))
    return {"queries": queries, "keep_k": max(ks), "window": w}


def by_time() -> dict[str, Any]:
    """A time window, a smaller one and boundaries."""
    w = Window(None, 40)
    queries = (TopKQuery("a", 3, w), TopKQuery("b", 2, Window(None, 11)), TopKQuery("e", 2, w, every_micros=13))
    return {"queries": queries, "keep_k": 3, "window": w}


def by_both() -> dict[str, Any]:
    """A window of count and time, and one of fewer rows."""
    w = Window(12, 60)
    return {"queries": (TopKQuery("a", 2, w), TopKQuery("e", 4, Window(5, 60), every_micros=13)), "keep_k": 4, "window": w}


KEYS: dict[str, tuple[SortKey, ...]] = {
    "number": (SortKey(X, "max"),),
    "text and whole number": (SortKey(T, "min"), SortKey(I, "max")),
    "score": (SortKey(DOUBLE, "min", SCORE),),
    "truth value and function": (SortKey(B, "max"), SortKey(DOUBLE, "max", "twice"), SortKey(T, "max")),
    "instant and decimal": (SortKey(Column("z", "time"), "min"), SortKey(units_column("d"), "max")),
}
WINDOWS = {"count": by_count(), "time": by_time(), "both": by_both()}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("keys", KEYS)
def test_contract(keys: str, window: str) -> None:
    changes = 0
    for seed in seeds(0, 6):
        for kind, ties in product((OrderedTopK, OrderedTopKDeletes), TIES):
            odd = seed % 2 == 1
            op = kind(KEYS[keys], ties=ties, tie_break=(T,) if odd else (), oldest=odd, nulls_last=odd, **WINDOWS[window])
            changes += check_operator(op, seed, rows=50)
    assert changes > 0


# The definition: after every event the rows of the window, ranked as SQL does, compared with the result before it.


@dataclass(frozen=True)
class Case:
    """Rows of two keys in order: (time, key, x, text, deleted seq or None)."""

    rows: tuple[tuple[int, int, float | None, str | None, int | None], ...]
    op: OrderedTopK
    cuts: tuple[int, ...]


def value(x: float | None, text: str | None, key: SortKey | Column) -> Any:
    of = key.of if isinstance(key, SortKey) else key
    return text.encode() if of == T and text is not None else None if of == T else 2 * x if of == DOUBLE and x is not None else x


@dataclass(frozen=True)
class Row:
    seq: int
    time: int
    x: float | None
    text: str | None


def rank(op: OrderedTopK, row: Row, columns: Sequence[Any]) -> tuple[Any, ...]:
    """SQL's order: nulls last, whatever the direction. Bytes are turned by complement, with an end after all of them."""
    found: list[Any] = []
    for key in columns:
        v, largest = value(row.x, row.text, key), isinstance(key, SortKey) and key.direction == "max"
        if v is None:
            found.append((1, 0))
        elif isinstance(v, bytes):
            found.append((0, (*(-b for b in v), 1) if largest else tuple(v)))
        else:
            found.append((0, -v if largest else v))
    return tuple(found)


def result(op: OrderedTopK, query: TopKQuery, rows: Sequence[Row]) -> list[Row]:
    """The rows by RANK() <= k, DENSE_RANK() <= k, or ROW_NUMBER() <= k; or those whose peers all have ROW_NUMBER() <= k."""
    rows = [r for r in rows if op.nulls_last or value(r.x, r.text, op.keys[0]) is not None]
    low, high = query.min_score, query.max_score
    rows = [r for r in rows if (low is None or 2 * (r.x or 0) >= low) and (high is None or 2 * (r.x or 0) <= high)]
    of = {r.seq: rank(op, r, op.keys) for r in rows}
    ordered = sorted(rows, key=lambda r: (of[r.seq], rank(op, r, op.tie_break), r.seq if op.oldest else -r.seq))
    if op.ties == "break":
        return ordered[: query.k]
    if op.ties == "include":
        return [r for r in ordered if 1 + sum(of[s.seq] < of[r.seq] for s in rows) <= query.k]
    if op.ties == "dense":
        return [r for r in ordered if 1 + len({of[s.seq] for s in rows if of[s.seq] < of[r.seq]}) <= query.k]
    return [r for r in ordered if sum(of[s.seq] <= of[r.seq] for s in rows) <= query.k]


def definition(case: Case, query: TopKQuery, of_key: int, until: int) -> Iterator[tuple[Any, ...]]:
    """Yield (at, step, pos, sign, cause, seq) of every change before ``until``."""
    op, window = case.op, query.window.within(case.op.window)
    rows: list[Row] = []
    gone: set[int] = set()
    events: list[tuple[int, int, int, Any]] = []
    mine = [r for r in case.rows if r[1] == of_key]
    for i, (time, _, x, text, deleted) in enumerate(mine):
        events.append((time, 1, i, (x, text, deleted)))
        if window.micros is not None and deleted is None:
            events.append((time + window.micros, 0, 0, None))
    if query.every_micros:
        last = max((e[0] for e in events), default=0) + query.every_micros
        events += [(b, 2, 0, None) for b in range(0, last + query.every_micros, query.every_micros)]
    events = [e for e in dict.fromkeys(events) if e[0] < until]
    shown: list[Row] = []
    step = 0
    for time, phase, _, row in sorted(events, key=lambda e: e[:3]):
        arrived = None
        if phase == 1:
            x, text, deleted = row
            if deleted is not None:
                gone.add(deleted)
            else:
                arrived = Row(len(rows), time, x, text)
                rows.append(arrived)
        if bool(query.every_micros) != (phase == 2):
            continue
        alive = [r for r in rows if window.count is None or r.seq >= len(rows) - window.count]
        alive = [r for r in alive if window.micros is None or r.time + window.micros > time]
        now = result(op, query, [r for r in alive if r.seq not in gone])
        left, entered = [r for r in shown if r not in now], [r for r in now if r not in shown]
        if not left and not entered:
            continue
        step += 1
        left.sort(key=lambda r: (rank(op, r, op.keys), rank(op, r, op.tie_break), r.seq if op.oldest else -r.seq))
        for pos, r in enumerate(left):
            yield time, step, pos, -1, "delete" if r.seq in gone else "displaced" if r in alive else "expiry", r.seq
        for pos, r in enumerate(entered, len(left)):
            yield time, step, pos, 1, "boundary" if query.every_micros else "arrival" if r is arrived else "promoted", r.seq
        shown = now


def arrivals(case: Case, first: int, end: int) -> Arrivals:
    """The rows [first, end) as the host passes them."""
    seqs: dict[int, int] = {}
    numbers = []
    for _, key, _, _, deleted in case.rows:
        numbers.append(-1 if deleted is not None else seqs.get(key, 0))
        seqs[key] = seqs.get(key, 0) + (deleted is None)
    at = sorted(range(first, end), key=lambda i: case.rows[i][1])
    texts = [[NULL] if case.rows[i][3] is None else [ord(c) for c in str(case.rows[i][3])] for i in at]
    start = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(np.int64)
    columns: dict[str, Any] = {"x": np.array([np.nan if case.rows[i][2] is None else case.rows[i][2] for i in at], np.float64)}
    if case.op.deletes:
        columns[DELETION_TARGET] = np.array([NULL if case.rows[i][4] is None else case.rows[i][4] for i in at], np.int64)
    return Arrivals(
        np.array([case.rows[i][1] for i in at], np.int64), np.array([numbers[i] for i in at], np.int64),
        np.array([case.rows[i][0] for i in at], np.int64), columns,
        {"~t": Ragged(start, np.array([c for t in texts for c in t], np.int64))} if T in case.op.columns else {},
    )  # fmt: skip


def played(case: Case, until: int) -> list[Changes]:
    """The operator's changes, cut at ``case.cuts`` and restored there from what it retains."""
    logic = case.op.build(None)
    found, fed = [], 0
    for cut in (*case.cuts, until):
        upto = next((i for i, r in enumerate(case.rows) if r[0] >= cut), len(case.rows))
        found.append(logic.advance(arrivals(case, fed, max(fed, upto)), cut))
        fed = max(fed, upto)
        every = arrivals(case, 0, fed)
        objects = every.seq >= 0
        if not case.op.deletes:
            kept = set(zip(*(a.tolist() for a in logic.retained()), strict=True))
            objects = np.array([(k, s) in kept for k, s in zip(every.key.tolist(), every.seq.tolist(), strict=True)], bool)
        picked = [i for i in np.flatnonzero(objects).tolist()]
        ragged = {
            name: Ragged(
                np.concatenate([[0], np.cumsum([r.start[i + 1] - r.start[i] for i in picked])]).astype(np.int64),
                np.concatenate([np.empty(0, np.int64), *(r.values[r.start[i] : r.start[i + 1]] for i in picked)]),
            )
            for name, r in every.ragged.items()
        }
        rows = replace(
            every, key=every.key[picked], seq=every.seq[picked], time=every.time[picked],
            columns={n: c[picked] for n, c in every.columns.items()}, ragged=ragged,
        )  # fmt: skip
        logic = case.op.build(State(pickle.loads(pickle.dumps(logic.checkpoint())), rows))
    return found


PLAIN = [(SortKey(X, "max"),), (SortKey(T, "max"), SortKey(X, "min")), (SortKey(X, "min"), SortKey(T, "min")), (SortKey(T, "min"),)]
VALUES, STRINGS = (None, 0.0, -0.0, 1.0, 2.0), (None, "", "a", "ab", "b")


@st.composite
def drawn(draw: st.DrawFn) -> Case:
    """Rows of tiny domains: nearly everything ties, many are null, instants are equal, fewer rows than k."""
    deletes = draw(st.booleans())
    scored = draw(st.booleans())
    keys = draw(
        st.sampled_from(
            [(SortKey(DOUBLE, d, SCORE),) for d in ("min", "max")]
            if scored
            else [
                (SortKey(X, "max"),),
                (SortKey(T, "max"), SortKey(X, "min")),
                (SortKey(X, "min"), SortKey(T, "min")),
                (SortKey(T, "min"),),
            ]
        )
    )
    window = draw(st.sampled_from([Window(3), Window(None, 6), Window(4, 7)]))
    nulls = draw(st.booleans())
    bounds: dict[str, float] = {} if not scored or nulls else draw(st.sampled_from([{}, {"min_score": 1.0}, {"max_score": 3.0}]))
    queries = tuple(TopKQuery(f"q{n}", draw(st.integers(1, 3)), window, draw(st.sampled_from([None, 4])), **bounds) for n in range(2))
    smaller = replace(queries[0], name="small", window=Window(2) if window.count else Window(None, 3))
    op = (OrderedTopKDeletes if deletes else OrderedTopK)(
        keys, (*queries, smaller), 3, window, draw(st.sampled_from(TIES)), draw(st.sampled_from([(), (T,), (X,)])), draw(st.booleans()),
        nulls,
    )  # fmt: skip
    rows: list[Any] = []
    time, counts, gone = 0, [0, 0], set[tuple[int, int]]()
    for _ in range(draw(st.integers(0, 14))):
        time += draw(st.sampled_from([0, 0, 1, 2, 5]))
        key = draw(st.integers(0, 1)) if rows else 0
        live = [s for s in range(counts[key]) if (key, s) not in gone] if deletes else []
        if live and draw(st.integers(0, 3)) == 0:
            target = draw(st.sampled_from(live))
            gone.add((key, target))
            rows.append((time, key, None, None, target))
            continue
        counts[key] += 1
        rows.append(
            (time, key, draw(st.sampled_from([None, 0.0, -0.0, 1.0, 2.0])), draw(st.sampled_from([None, "", "a", "ab", "b"])), None)
        )
    cuts = tuple(sorted(draw(st.lists(st.integers(0, time + 9), max_size=4))))
    return Case(tuple(rows), op, cuts)


@given(drawn())
@settings(max_examples=cases(600))
def test_changes_are_those_of_the_definition(case: Case) -> None:
    until = max([r[0] for r in case.rows], default=0) + 30
    found = played(case, until)
    for number, query in enumerate(case.op.queries):
        for key in (0, 1):
            got = [
                (int(c.at[i]), int(c.step[i]), int(c.pos[i]), int(c.sign[i]), CAUSES[c.cause[i]], int(c.items[i, 0]))
                for c in found
                for i in np.flatnonzero((c.query == number) & (c.key == key)).tolist()
            ]
            assert got == list(definition(case, query, key, until)), (query, key)


# State and words.


@pytest.mark.parametrize("ties", TIES)
def test_the_state_forgets_rows_that_cannot_return(ties: Ties) -> None:
    rng = np.random.default_rng(4)
    n, w = 4000, Window(1000)
    op = OrderedTopK((SortKey(X, "max"),), (TopKQuery("a", 5, w),), 5, w, ties)
    logic = op.build(None)
    x = rng.random(n) if ties != "dense" else np.floor(rng.random(n) * 100)
    logic.advance(Arrivals(np.zeros(n, np.int64), np.arange(n), np.arange(n), {"x": x}), n)
    size, expected = len(logic.skyband()), 5 * (1 + np.log(1000 / 5))
    assert size < (2 * expected if ties != "dense" else 500)
    assert len(logic.retained()[0]) == size


def test_a_state_is_divided_by_keys() -> None:
    op = OrderedTopK(KEYS["text and whole number"], **by_count())
    rng = np.random.default_rng(5)
    n = 60
    texts = [rng.integers(97, 100, int(rng.integers(0, 6))) for _ in range(n)]
    key = np.sort(rng.integers(0, 4, n))
    seq = np.arange(n) - np.searchsorted(key, key)
    start = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(np.int64)
    rows = Arrivals(key, seq, np.arange(n), {"i": rng.integers(0, 3, n)}, {"~t": Ragged(start, np.concatenate(texts))})
    logic = op.build(None)
    logic.advance(rows, n)
    divisible, arrays = state_keys(op), logic.checkpoint()
    assert divisible is not None and len(arrays["text_words"]) > 0
    some = np.array([1, 3])
    mine = divisible.picked(arrays, some)
    for number, old in enumerate(some.tolist()):
        for name, owner in (("member_seq", "member_key"), ("shown_words", "shown_key"), ("text_words", "text_key")):
            assert mine[name][mine[owner] == number].tolist() == arrays[name][arrays[owner] == old].tolist()
        assert mine["step"][:, number].tolist() == arrays["step"][:, old].tolist()


@given(
    st.lists(st.text(max_size=9) | st.none() | st.sampled_from(["\U0001f600", "￿", "\0", "\0\0", "ab" * 5, "ab" * 5 + "c"]), max_size=12)
)
@settings(max_examples=cases(300))
def test_texts_rank_by_their_utf_8(texts: list[str | None]) -> None:
    texts = [t if t is None else t.encode("utf-8", "ignore").decode() for t in texts]
    points = [[NULL] if t is None else [ord(c) for c in t] for t in texts]
    start = np.concatenate([[0], np.cumsum([len(p) for p in points])]).astype(np.int64)
    given = Texts.of(Ragged(start, np.array([c for p in points for c in p], np.int64)))
    for largest in (False, True):
        words = given.ranked(largest).tolist()
        for a, b in product(range(len(texts)), repeat=2):
            one, two = texts[a], texts[b]
            if one is None or two is None:
                assert (words[a] < words[b]) == (one is not None and two is None)
            else:
                less = one.encode() > two.encode() if largest else one.encode() < two.encode()
                assert (words[a] < words[b]) == less and (words[a] == words[b]) == (one == two)


@given(st.lists(st.floats() | st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324]), min_size=1))
def test_words_of_numbers_keep_their_order_and_their_bits(values: list[float]) -> None:
    x = np.array(values, np.float64)
    for largest in (False, True):
        words = words_of_floats(x, largest)
        order = np.lexsort((np.where(np.isnan(x), 0, -x if largest else x), np.isnan(x)))
        assert (words[order][:-1] <= words[order][1:]).all()
        assert (floats_of_words(words, largest) + 0.0).tobytes() == np.where(np.isnan(x), np.nan, x + 0.0).tobytes()
    whole = np.array([NULL, NULL + 1, -1, 0, 1, 2**63 - 1])
    assert np.argsort(words_of_ints(whole, False)).tolist() == [1, 2, 3, 4, 5, 0]
    assert np.argsort(words_of_ints(whole, True)).tolist() == [5, 4, 3, 2, 1, 0]


def test_what_an_operator_refuses() -> None:
    w = Window(5)
    one = (TopKQuery("a", 1, w),)
    bounded = (TopKQuery("a", 1, w, min_score=1.0),)
    node = parse("x + 1", {"x": "float"}, ("",), "score")
    for keys, more in (
        ((), {}), ((SortKey(X, "max"),) * (MAX_KEYS + 1), {}), ((SortKey(X, "max"),), {"queries": bounded}),
        ((SortKey(node, "max", SCORE),), {"queries": bounded, "nulls_last": True}), ((SortKey(X, "max"),), {"keep_k": 0}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"sort key|bounds|k ="):
            OrderedTopK(keys, **({"queries": one, "keep_k": 1, "window": w} | more))
