"""Pairs whose columns have to be equal, by the hash index: brute force's changes, the bytes of a scan, and few pairs that are scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators import threads
from skyband.operators.base import DELETION_TARGET, NULL, Arrivals, State, Window
from skyband.operators.contract import SnapshotRequest, check_operator, random_rows
from skyband.operators.expressions import parse
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows import segments
from skyband.operators.pair_rows.hash_index import index
from skyband.operators.pair_rows.hash_index.equalities import Equality, equalities
from skyband.operators.pair_rows.kernels.tables import INDEXED
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.pair_rows.zone_maps import maps
from skyband.operators.pair_rows.zone_maps.kernels import GROUP
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from skyband.operators.topk_pairs import long_runs
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs
from tests.operators import test_capped_pairs, test_pairs_deletes, test_scored_partners, test_shards_pairs, test_topk_pairs
from tests.operators.pairs_host import SCORES, TEXTS, Case, Score, deleting, random_bounded_case, random_case, random_matches_case
from tests.operators.sharded import cuts_of, plain_changes, sharded_changes
from tests.seeds import seeds

SCHEMA: Any = {"x": "float", "y": "float", "g": "int", "h": "int", "side": "text", "t": "time", "ok": "bool", "name": "text"}


def same(a: Any, b: Any) -> bool:
    """Equal, and both known."""
    return bool(a == b and a != NULL)


JOINS: dict[str, Score] = {
    "a.g = b.g": lambda a, b: same(a["g"], b["g"]),
    "a.x = b.y": lambda a, b: a["x"] == b["y"],
    "b.x = a.g and a.side = b.side": lambda a, b: a["g"] != NULL and float(a["g"]) == b["x"] and same(a["side"], b["side"]),
    "a.h = b.g and a.x <= b.y": lambda a, b: same(a["h"], b["g"]) and a["x"] <= b["y"],
    "a.ok = b.ok and a.t = b.t": lambda a, b: same(a["t"], b["t"]) and same(a["ok"], b["ok"]),
}
"""Conditions with equalities, and what they say."""

MAKE: dict[str, Callable[..., Case]] = {
    "topk": random_case,
    "capped": test_capped_pairs.capped_case,
    "bounded": random_bounded_case,
    "matches": random_matches_case,
}
CHECK: dict[str, Callable[[Case, int], None]] = {
    "topk": test_topk_pairs.check,
    "capped": test_capped_pairs.check,
    "bounded": test_scored_partners.check,
    "matches": test_scored_partners.check,
}
SHARE, ALL_BITS = 1, 2**32 - 1


def joined(kind: str, seed: int, rows: int = 60) -> Case:
    """A random job and stream, with equalities of columns of few values."""
    case, rng = MAKE[kind](seed, rows), np.random.default_rng(seed + 4)
    where, score = str(rng.choice(list(JOINS))), str(rng.choice(["abs(a.x - b.x)", "a.x - b.y"]))
    between = Between("side", "buy", "sell") if rng.random() < 0.4 else None
    op = replace(case.op, scoring=parse(score, SCHEMA), where=parse(where, SCHEMA), between=between, texts=TEXTS)
    n = len(case.stream)
    more = {"h": rng.integers(0, 3, n), "t": rng.integers(0, 3, n) * 10**15, "ok": rng.integers(0, 2, n)}
    for column in more.values():
        column[rng.random(n) < 0.1] = NULL
    stream = replace(case.stream, columns={**case.stream.columns, **more})
    return replace(case, op=op, stream=stream, score=SCORES[score], where=JOINS[where])


def use(patch: pytest.MonkeyPatch, bits: int = ALL_BITS, share: int = SHARE, pauses: tuple[int, int] = (1, 4)) -> None:
    """Use the index in windows of any size; with a ``share`` of 1 however many objects it looks at."""
    patch.setattr(index, "LEAST_OBJECTS", 0)
    patch.setattr(index, "SHARE", share)
    patch.setattr(index, "PAUSES", pauses)
    patch.setattr(index, "HASH_BITS", bits)


USES: dict[str, dict[str, Any]] = {
    "always": {},
    "two hashes": {"bits": 1},
    "one hash": {"bits": 0},
    "off and on": {"share": 6},
}
"""Hashes that differ, hashes that collide, and an index that is given up and tried again all the time."""


@pytest.mark.parametrize("how", USES)
@pytest.mark.parametrize("kind", MAKE)
def test_brute_force(kind: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, **USES[how])
    for seed in seeds(0, 40):
        CHECK[kind](joined(kind, seed), seed)


@given(st.sampled_from(sorted(MAKE)), st.sampled_from(sorted(USES)), st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(kind: str, how: str, seed: int, rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        use(patch, **USES[how])
        CHECK[kind](joined(kind, seed, rows), seed)


@pytest.mark.parametrize("kind", MAKE)
def test_brute_force_with_deletions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    for seed in seeds(0, 40):
        test_pairs_deletes.check(deleting(joined(kind, seed), seed), seed)


def operators() -> dict[str, Any]:
    """One of every form, over columns of few values."""
    both, by_time, less = Window(7, 12), Window(None, 9), Window(4, 5)
    score, where, sides = parse("abs(a.x - b.x)", SCHEMA), parse("a.g = b.h", SCHEMA), Between("side", "buy", "sell")
    best = (PairQuery("all", 3, both), PairQuery("less", 1, less), PairQuery("then", 2, both, every_micros=5))
    of_sides = {"scoring": score, "direction": "max", "where": parse("a.g = b.h and a.t <= b.t", SCHEMA), "between": sides, "texts": TEXTS}
    return {
        "topk": TopKPairs(score, "min", where, None, best, 4, both, TEXTS),
        "topk, sides": TopKPairs(**of_sides, queries=(PairQuery("q", 2, by_time),), keep_k=2, window=by_time),
        "capped": CappedTopKPairs(score, "max", where, None, best, 4, both, TEXTS, max_per_object=1),
        "bounded": ThresholdPairs(
            scoring=score, direction="min", where=parse("a.name = b.name and a.ok = b.ok", SCHEMA), window=both, texts=TEXTS,
            queries=(BoundedPairQuery("near", both, max_score=1.0), BoundedPairQuery("then", less, max_score=9.0, every_micros=4)),
        ),
        "bounded, sides": ThresholdPairs(**of_sides, queries=(BoundedPairQuery("any", by_time, -1.0),), window=by_time),
        "matches": ScoredMatches(**of_sides, queries=(PairQuery("two", 2, by_time), PairQuery("one", 1, Window(None, 2))), window=by_time),
    }  # fmt: skip


@given(st.sampled_from(sorted(operators())), st.integers(0, 2**32), st.integers(1, 24), st.integers(1, 3), st.booleans())
def test_changes_do_not_depend_on_cuts_restarts_and_timers(name: str, seed: int, rows: int, keys: int, deletes: bool) -> None:
    operator = replace(operators()[name], deletes=deletes)
    kept = isinstance(operator, ThresholdPairs)
    requests = [SnapshotRequest(10**6, q.window) if kept and not q.every_micros else None for q in operator.queries]
    with pytest.MonkeyPatch.context() as patch:
        use(patch)
        check_operator(operator, seed, rows, keys, requests if kept or isinstance(operator, ScoredMatches) else None)


@pytest.mark.parametrize("name", operators())
def test_shards_give_the_same_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    operator, found = operators()[name], 0
    for seed in seeds(0, 12):
        if isinstance(operator, TopKPairs):
            found += test_shards_pairs.check(operator, seed, of=1 + seed % 3, block=1 + seed % 4)
            continue
        rng = np.random.default_rng(seed)
        stream = random_rows(operator, rng, 200, 2)
        got = sharded_changes(operator, stream, 1 + seed % 3, cuts_of(stream, rng, 0.05), rng)
        assert got.changes == plain_changes(operator, stream).changes
        found += got.found
    assert found > 0


# Long streams: the index beside a scan.


def values(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """Keys of which some are frequent, and others."""
    few, many = rng.integers(0, 4, rows), rng.integers(0, 500, rows)
    g = np.where(rng.random(rows) < rng.choice([0.0, 0.1, 0.5]), few, many)
    columns = {"x": np.round(rng.random(rows) * 50), "y": rng.integers(0, 300, rows) * 1.0, "g": g, "h": rng.permutation(g)}
    columns |= {"side": rng.integers(0, 3, rows), "t": rng.integers(0, 100, rows), "ok": rng.integers(0, 2, rows)}
    for name in ("g", "side"):
        columns[name][rng.random(rows) < 0.02] = NULL
    columns["y"][rng.random(rows) < 0.02] = np.nan
    return columns


WHERE = ("a.g = b.g", "a.g = b.h and a.x <= b.x", "a.y = b.y", "a.y = b.h and b.ok = a.ok", "a.ok = b.ok")


def long_case(rng: np.random.Generator) -> tuple[Any, dict[str, Any], Any]:
    """An operator, the columns of a stream of one key, and its times."""
    rows, k = int(rng.integers(5_000, 9_000)), int(rng.choice([1, 3, 20]))
    time = np.cumsum(rng.choice([0, 0, 1, 2, 7], rows)).astype(np.int64)
    count = int(rng.choice([300, 1_500, 4_000]))
    window = (Window(count), Window(None, int(time[-1] * count / rows)), Window(count, int(time[-1] / 3)))[rng.integers(0, 3)]
    between = Between("side", "buy", "sell") if rng.random() < 0.3 else None
    direction = str(rng.choice(["min", "max"]))
    given = {
        "scoring": parse("abs(a.x - b.x)", SCHEMA), "direction": direction, "where": parse(str(rng.choice(WHERE)), SCHEMA),
        "between": between, "window": window, "texts": TEXTS, "deletes": bool(rng.random() < 0.2),
    }  # fmt: skip
    queries = (PairQuery("q", k, window), PairQuery("r", 1, window, every_micros=50 if rng.random() < 0.3 else None))
    kind = rng.choice(["topk", "topk", "capped", "bounded", "matches"])
    if kind == "matches":
        return ScoredMatches(**given, queries=tuple(replace(q, every_micros=None) for q in queries)), values(rng, rows), time
    if kind == "bounded":
        bound = {"max_score": 1.0} if direction == "min" else {"min_score": 45.0}
        return ThresholdPairs(**given, queries=(BoundedPairQuery("q", window, **bound),)), values(rng, rows), time
    capped = CappedTopKPairs(**given, queries=queries, keep_k=k, max_per_object=1)
    return capped if kind == "capped" else TopKPairs(**given, queries=queries, keep_k=k), values(rng, rows), time


def run(op: Any, columns: dict[str, Any], time: Any, cuts: list[int], restore: bool = False) -> tuple[bytes, dict[str, int]]:
    """The bytes of all changes, and the counters of the search."""
    logic, parts, counted = op.build(None), [], dict[str, int]()
    given = {**columns, DELETION_TARGET: np.full(len(time), NULL)}

    def block(lo: int, hi: int) -> Arrivals:
        return Arrivals(np.zeros(hi - lo, np.int64), np.arange(lo, hi), time[lo:hi], {n: c[lo:hi] for n, c in given.items()})

    for lo, hi in pairwise(cuts):
        until = int(time[hi]) if hi < len(time) else int(time[-1]) + 1000
        parts.append(logic.advance(block(lo, hi), until))
        counted = {name: counted.get(name, 0) + n for name, n in logic.counters().items()}
        if restore and hi < len(time):
            logic = op.build(State(logic.checkpoint(), block(max(0, hi - 6_000), hi)))
    fields = ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")
    found = [np.concatenate([getattr(p, f) for p in parts]) for f in fields]
    by = np.lexsort((found[4], found[3], found[0]))
    return b"".join(np.ascontiguousarray(x[by]).tobytes() for x in found), counted


@pytest.mark.parametrize("seed", seeds(0, 30))
def test_the_index_gives_the_bytes_of_a_scan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own choice of when the index, a scan, and zone maps are used, which has several cuts and threads."""
    rng = np.random.default_rng(seed)
    op, columns, time = long_case(rng)
    rows = len(time)
    ends = np.flatnonzero(time[1:] > time[:-1]) + 1  # rows of one instant come together
    cuts = sorted({0, rows, *rng.choice(ends, int(rng.integers(0, 4))).tolist()})
    monkeypatch.setattr(maps, "LEAST_OBJECTS", int(rng.choice([GROUP, 2**60])))
    monkeypatch.setattr(maps, "LEAST_PAIRS", 1)
    monkeypatch.setattr(segments, "LEAST_ROWS", int(rng.choice([1_000, 2**60])))
    threads.allow(int(rng.choice([1, 3])))
    try:
        by_index, counted = run(op, columns, time, cuts, restore=bool(rng.integers(0, 2)))
    finally:
        threads.allow(1)
    monkeypatch.setattr(index, "LEAST_OBJECTS", 2**60)
    by_scan, every = run(op, columns, time, [0, rows])
    assert by_index == by_scan
    assert every["candidates"] > 0 and counted["scored"] >= 0


def one_key(rows: int, values_of_key: int) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(1)
    return {"x": rng.random(rows), "g": rng.integers(0, values_of_key, rows)}, np.arange(rows)


def closest(window: Window) -> TopKPairs:
    where = parse("a.g = b.g", SCHEMA)
    return TopKPairs(parse("abs(a.x - b.x)", SCHEMA), "min", where, None, (PairQuery("q", 3, window),), 3, window)


def test_only_rows_with_equal_columns_are_scored() -> None:
    columns, time = one_key(20_000, 1_000)
    _, counted = run(closest(Window(2_000)), columns, time, [0, 10_000, 20_000])
    assert counted["scored"] < 20_000 * (2_000 / 1_000 + 1) + 300 * 256
    assert counted["skipped"] > 19_000 * 1_900


def test_a_column_of_few_values_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is given up at once, and tried again after longer and longer pauses."""
    monkeypatch.setattr(long_runs, "LEAST_ROWS", 2**60)
    columns, time = one_key(20_000, 2)
    logic = closest(Window(2_000)).build(None)
    logic.advance(Arrivals(np.zeros(20_000, np.int64), time, time, columns), 20_000)
    assert logic.work[INDEXED] == 0
    assert logic.counters()["scored"] > 18_000 * 1_900


def test_conjuncts_of_columns_of_both_rows_are_found() -> None:
    def found(where: str) -> tuple[Equality, ...]:
        return equalities(parse(where, SCHEMA))

    assert found("a.g = b.g and (a.x < b.x and b.side = a.name)") == (Equality("g", "g", False), Equality("name", "side", False))
    assert found("a.g = b.x and a.y = b.y") == (Equality("g", "x", True), Equality("y", "y", True))
    assert found("a.t = b.t and a.g = b.g and b.g = a.g") == (Equality("t", "t", False), Equality("g", "g", False))
    assert found("lower(a.name) = lower(b.side)") == (Equality("=lower(name)", "=lower(side)", False),)
    for other in ("a.g = b.g or a.x = b.x", "not (a.g = b.g)", "a.g <> b.g", "a.g = a.h", "a.g = 3", "a.g + 1 = b.g", "a.g <= b.g"):
        assert found(other) == ()
    assert equalities(None) == ()
