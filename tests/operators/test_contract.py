"""Every operator passes the contract suite, and the suite finds operators that do not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import skyband.operators
from skyband.operators.base import NULL, Calendar, Changes, Column, Window
from skyband.operators.contract import BrokenContract, SnapshotRequest, check_operator, random_rows, snapshot_requests
from skyband.operators.expressions import parse
from skyband.operators.hopping import Hopping
from skyband.operators.loyalty import Loyalty, LoyaltyQuery
from skyband.operators.matches.operator import Matches, ScoredMatches
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.per_window import PerWindow
from skyband.operators.side_by_side import SideBySide
from skyband.operators.similar_sets.operator import SimilarSets
from skyband.operators.single_rows.scores import Linear
from skyband.operators.skyline.chosen import (
    RankedSkyline,
    RankedSkylineDeletes,
    RankedSkylineQuery,
    SizedSkyline,
    SizedSkylineDeletes,
    SizedSkylineQuery,
)
from skyband.operators.skyline.operator import Dimension, Skyline, SkylineDeletes, SkylineQuery
from skyband.operators.threshold.many import ManyThreshold
from skyband.operators.threshold.one_function import Threshold, ThresholdQuery
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from skyband.operators.topk.many import ManyTopK
from skyband.operators.topk.one_function import TopK, TopKDeletes, TopKQuery
from skyband.operators.topk.ordered import OrderedTopK, OrderedTopKDeletes, SortKey, Ties, text_column
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs
from skyband.operators.topk_similar_sets.operator import TopKSimilarSets, TopKSimilarSetsDeletes
from tests.operators import test_groups
from tests.seeds import seeds

SCHEMA: Any = {"x": "float", "y": "float", "n": "int", "t": "text", "ok": "bool", "ts": "time", "#words": "tokens"}
COUNT, TIME, BOTH = Window(12), Window(None, 40), Window(9, 25)
LINEAR = Linear((("x", 1.0), ("n", -0.5)), frozenset({"n"}))
NAN = float("nan")


def row(text: str) -> Any:
    return parse(text, SCHEMA, ("",))


def topk(kind: Any, window: Window, scoring: Any = LINEAR, direction: str = "max", where: Any = None, **bounds: float) -> Any:
    smaller = Window(window.count and window.count // 3, window.micros and window.micros // 2)
    queries = (TopKQuery("all", 3, window, None, **bounds), TopKQuery("less", 1, smaller), TopKQuery("now and then", 2, window, 7))
    return kind(scoring, direction, where, queries if not bounds else queries[:1], 4, window, ("a", "b"))


def ordered(kind: Any, window: Window, ties: Ties) -> Any:
    """By text, then by an expression; of equal rows the one with the smaller x."""
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    keys = (SortKey(text_column("t"), "min"), SortKey(row("x * y"), "max", "area"))
    queries = (TopKQuery("all", 3, window), TopKQuery("less", 1, smaller), TopKQuery("then", 2, window, 9))
    return kind(keys, queries, 3, window, ties, (Column("x", "float"),), where=row("t <> 'b'"), texts=("a", "b"), nulls_last=True)


def thresholds(window: Window, deletes: bool, scoring: Any = LINEAR, where: Any = None) -> Threshold:
    queries = (
        ThresholdQuery("high", window, above=0.0), ThresholdQuery("low", window, at_most=1.0, at_least=-1.0),
        ThresholdQuery("now and then", window, below=3.0, every_micros=11),
    )  # fmt: skip
    return Threshold(scoring, "min", where, queries, window, ("a", "b"), deletes)


def skyline(window: Window, *dims: tuple[str, str], band: int = 1, distinct: bool = False, where: Any = None, kind: Any = Skyline) -> Any:
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    queries = (SkylineQuery("all", window), SkylineQuery("less", smaller), SkylineQuery("now and then", window, 6))
    made: Any = tuple(Dimension(Column(name, SCHEMA[name]), direction) for name, direction in dims)  # type: ignore[arg-type]
    return kind(made, queries, window, band, distinct, where, ("a",))


def ranked(op: Any, scoring: Any, direction: str) -> Any:
    """The two best of a skyline, and the three best with boundaries."""
    queries = tuple(RankedSkylineQuery(q.name, q.window, q.every_micros, 3 if q.every_micros else 2) for q in op.queries)
    kind: Any = RankedSkylineDeletes if isinstance(op, SkylineDeletes) else RankedSkyline
    return kind(op.dimensions, queries, op.window, op.band, op.distinct, op.where, ("a", "b"), scoring=scoring, direction=direction)


def sized(op: Any, *weights: float) -> Any:
    """Two members of a skyline, and three with boundaries."""
    queries = tuple(SizedSkylineQuery(q.name, q.window, q.every_micros, 3 if q.every_micros else 2) for q in op.queries)
    kind: Any = SizedSkylineDeletes if isinstance(op, SkylineDeletes) else SizedSkyline
    return kind(op.dimensions, queries, op.window, op.band, op.distinct, op.where, ("a",), weights=weights)


def pairs(window: Window, scoring: str, where: str | None = None, between: Between | None = None, **bounds: float) -> TopKPairs:
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    queries = (PairQuery("all", 4, window, **bounds), PairQuery("less", 1, smaller, **bounds), PairQuery("then", 2, window, None, None, 9))
    tree = None if where is None else parse(where, SCHEMA)
    return TopKPairs(parse(scoring, SCHEMA), "min", tree, between, queries if not bounds else queries[:2], 5, window, ("a", "b"))


def capped_pairs(window: Window, cap: int) -> CappedTopKPairs:
    op = pairs(window, "abs(a.x - b.x)")
    return CappedTopKPairs(op.scoring, "max", None, None, op.queries, op.keep_k, window, ("a", "b"), max_per_object=cap)


def similar(
    window: Window, similarity: Any, where: str | None = None, between: Between | None = None, kind: Any = TopKSimilarSets, **bounds: float
) -> Any:
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    queries = (PairQuery("all", 4, window, **bounds), PairQuery("less", 1, smaller), PairQuery("then", 2, window, None, None, 9))
    tree = None if where is None else parse(where, SCHEMA)
    return kind(
        tokens="words", similarity=similarity, where=tree, between=between, queries=queries, keep_k=5, window=window, texts=("a", "b")
    )


def similar_enough(window: Window, similarity: Any, bound: str, value: float) -> SimilarSets:
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    queries: Any = tuple(
        BoundedPairQuery(f"{w}, {e}", w, every_micros=e, **{bound: value}) for w, e in ((window, None), (smaller, None), (window, 7))
    )
    return SimilarSets(tokens="words", similarity=similarity, window=window, queries=queries, texts=("a", "b"))


def bounded(window: Window, scoring: str, between: Between | None = None, **bounds: float) -> ThresholdPairs:
    smaller = Window(window.count and window.count // 2, window.micros and window.micros // 2)
    queries = tuple(BoundedPairQuery(f"{w}, {e}", w, every_micros=e, **bounds) for w, e in ((window, None), (smaller, None), (window, 7)))  # type: ignore[arg-type]
    return ThresholdPairs(
        scoring=parse(scoring, SCHEMA), direction="max", between=between, window=window, queries=queries, texts=("a", "b")
    )


def many(window: Window) -> dict[str, Any]:
    """Four queries: own windows where the state's has that end, a box, a predicate, boundaries."""
    low, high = np.full((4, 2), -np.inf), np.full((4, 2), np.inf)
    low[1, 0], high[1, 0] = 0.0, 2.0
    return {
        "names": ("q", "r", "s", "u"), "attributes": ("x", "n"), "weights": np.array([[1, 0.5], [0, -1], [-1, 0], [2, 1.0]]),
        "window": window, "low": low, "high": high, "where": (row("x >= 1"),), "where_of": np.array([-1, -1, 0, -1]),
        "counts": None if window.count is None else np.array([0, 3, 0, 0]), "every": np.array([0, 0, 0, 8]), "ints": frozenset({"n"}),
        "micros": None if window.micros is None else np.array([0, 0, 9, 0]),
    }  # fmt: skip


def many_topk(window: Window, deletes: bool) -> ManyTopK:
    k, bounds = np.array([1, 3, 2, 2]), np.array([NAN, 0.0, NAN, NAN])
    return ManyTopK(**many(window), k=k, largest=np.array([True, False, True, True]), min_score=bounds, deletes=deletes)


def many_thresholds(window: Window, deletes: bool) -> ManyThreshold:
    return ManyThreshold(
        **many(window), direction="min", above=np.array([0.0, NAN, 1.0, -1.0]), at_most=np.array([NAN, 1.0, 2.0, NAN]), deletes=deletes
    )


def of_family(op: Any) -> Any:
    """The same queries of products and squares instead of weighted sums."""
    schema: Any = {**SCHEMA, "c": "float", "e": "float"}
    return replace(op, score=parse("(c + x) * (c + n) - e * x * x", schema, ("",)), parameters=("c", "e"))


def loyalty(queries: tuple[LoyaltyQuery, ...], **given: Any) -> Loyalty:
    return Loyalty(object=("n",), window=TIME, queries=queries, **given)


def side_by_side(kind: str) -> SideBySide:
    def named(i: int) -> Any:
        if kind == "skyline":
            return replace(skyline(BOTH, ("x", "min"), ("y", "max")), queries=(SkylineQuery(f"q{i}", BOTH),))
        if kind == "threshold":
            return replace(thresholds(BOTH, True, row("x * y")), queries=(ThresholdQuery(f"q{i}", BOTH, above=0.0),))
        every = 6 if i == 1 else None
        return replace(topk(TopK if kind == "topk" else TopKDeletes, BOTH, row("x * y")), queries=(TopKQuery(f"q{i}", 2, BOTH, every),))

    parts = tuple(named(i) for i in range(3))
    return SideBySide(parts, () if kind == "skyline" else tuple((("y", float(i)),) for i in range(3)))


def per_window(op: Any, calendar: Calendar | None = None, session: int | None = None, largest: bool = True) -> PerWindow:
    """The queries of ``op`` without boundaries, in each window."""
    if isinstance(op, SideBySide):
        op = replace(op, parts=tuple(replace(p, queries=tuple(replace(q, every_micros=None) for q in p.queries)) for p in op.parts))
    elif hasattr(op, "queries"):
        op = replace(op, queries=tuple(q for q in op.queries if not getattr(q, "every_micros", None)))
    else:
        op = replace(op, every=None)
    return PerWindow(op, calendar, session, (largest,), not isinstance(op, Matches | ScoredMatches))


def hopping(op: Any, every: int = 7) -> Hopping:
    """The queries of ``op`` with boundaries, over the windows that end before them."""
    return Hopping(replace(op, queries=tuple(replace(q, every_micros=every) for q in op.queries)))


SHORT, LONG = Calendar(10, offset=3), Calendar(35)


MATCHES = ScoredMatches(
    scoring=parse("abs(a.x - b.x) + a.n", SCHEMA),
    direction="min",
    window=BOTH,
    queries=(PairQuery("one", 1, BOTH), PairQuery("few", 3, Window(4), None, 2.0)),
    between=Between("t", "a", "b"),
    texts=("a", "b"),
)


OPERATORS: dict[str, Any] = {
    "topk, count": topk(TopK, COUNT),
    "topk, time, expression": topk(TopK, TIME, row("where(ok, x, y) + n"), "min", row("t = 'a' or x > y")),
    "topk, both": topk(TopK, BOTH, max_score=2.0),
    "topk deletes, count": topk(TopKDeletes, COUNT, direction="min", min_score=0.0),
    "topk deletes, time": topk(TopKDeletes, TIME, row("ts - ts + 1 second")),
    "topk deletes, both": topk(TopKDeletes, BOTH, where=row("t <> 'b'")),
    "topk, sort keys, count": ordered(OrderedTopK, COUNT, "break"),
    "topk, sort keys, time, ties": ordered(OrderedTopK, TIME, "include"),
    "topk deletes, sort keys, both, ties": ordered(OrderedTopKDeletes, BOTH, "exclude"),
    "thresholds, count": thresholds(COUNT, False, row("x + n"), row("ok")),
    "thresholds, time, deletes": thresholds(TIME, True),
    "thresholds, both, deletes": thresholds(BOTH, True, where=row("t in ('a', 'b')")),
    "skyline, count": skyline(COUNT, ("x", "min"), ("n", "max"), ("t", "equal")),
    "skyline, time, band": skyline(TIME, ("x", "max"), ("ts", "min"), band=3, where=row("t <> 'a'")),
    "skyline, both, distinct": skyline(BOTH, ("x", "min"), ("y", "min"), ("ok", "max"), distinct=True),
    "skyline deletes, count": skyline(COUNT, ("x", "min"), ("n", "max"), ("t", "equal"), kind=SkylineDeletes),
    "skyline deletes, time, band": skyline(TIME, ("x", "max"), ("ts", "min"), band=3, where=row("t <> 'a'"), kind=SkylineDeletes),
    "skyline deletes, both, distinct": skyline(BOTH, ("x", "min"), ("y", "min"), ("ok", "max"), distinct=True, kind=SkylineDeletes),
    "ranked skyline, count": ranked(skyline(COUNT, ("x", "min"), ("n", "max"), ("t", "equal")), row("where(t = 'b', y, n)"), "max"),
    "ranked skyline, time, band": ranked(skyline(TIME, ("x", "max"), ("ts", "min"), band=3, where=row("t <> 'a'")), LINEAR, "min"),
    "ranked skyline deletes, both": ranked(
        skyline(BOTH, ("x", "min"), ("y", "min"), ("ok", "max"), distinct=True, kind=SkylineDeletes), LINEAR, "min"
    ),
    "ranked skyline deletes, time": ranked(skyline(TIME, ("x", "max"), ("n", "min"), band=2, kind=SkylineDeletes), row("x * y"), "max"),
    "sized skyline, count": sized(skyline(COUNT, ("x", "min"), ("n", "max")), 0.5, 0.5),
    "sized skyline, time, band": sized(
        skyline(TIME, ("x", "max"), ("ts", "min"), ("y", "min"), band=3, where=row("t <> 'a'")), 0.25, 0.0, 0.75
    ),
    "sized skyline deletes, both": sized(
        skyline(BOTH, ("x", "min"), ("y", "min"), ("ok", "max"), distinct=True, kind=SkylineDeletes), 0.5, 0.25, 0.25
    ),
    "sized skyline deletes, time": sized(skyline(TIME, ("x", "max"), ("n", "min"), band=2, kind=SkylineDeletes), 0.125, 0.875),
    "pairs, count": pairs(COUNT, "abs(a.x - b.x) + a.n", "a.t <> b.t"),
    "capped pairs": capped_pairs(BOTH, 2),
    "pairs, both, deletes": replace(pairs(BOTH, "abs(a.x - b.x) + a.n", "a.t <> b.t"), deletes=True),
    "pairs of texts, sides, deletes": replace(
        pairs(TIME, "edit_distance(lower(a.t), b.t) - jaccard(a.words, b.words)", between=Between("t", "a", "b")), deletes=True
    ),
    "capped pairs, deletes": replace(capped_pairs(COUNT, 2), deletes=True),
    "pairs, time": pairs(TIME, "a.x - b.y", max_score=1.0),
    "pairs, both, sides": pairs(BOTH, "abs(a.x - b.x)", between=Between("t", "a", "b")),
    "pairs of texts": pairs(BOTH, "edit_distance(a.t, b.t) + abs(a.x - b.x) / 10", "length(a.t) > 0 and edit_distance(a.t, b.t, 3) > 0"),
    "pairs of texts, sides": pairs(TIME, "edit_distance(lower(a.t), b.t) - jaccard(a.words, b.words)", between=Between("t", "a", "b")),
    "similar texts": similar(COUNT, "dice", "edit_distance(a.t, b.t) > 1 or overlap(a.words, b.words) > 2"),
    "similar sets, count": similar(COUNT, "jaccard", "a.t <> b.t"),
    "similar sets, time": similar(TIME, "cosine", min_score=0.5),
    "similar sets deletes, count": similar(COUNT, "jaccard", "a.t <> b.t", kind=TopKSimilarSetsDeletes),
    "similar sets deletes, both, sides": similar(BOTH, "hamming", between=Between("t", "a", "b"), kind=TopKSimilarSetsDeletes),
    "similar sets, both, sides": similar(BOTH, "hamming", between=Between("t", "a", "b")),
    "similar enough, count": similar_enough(COUNT, "dice", "min_score", 0.5),
    "similar enough, time": similar_enough(TIME, "overlap", "min_score", 2.0),
    "similar enough, both": similar_enough(BOTH, "hamming", "max_score", 3.0),
    "loyalty, updates": loyalty((LoyaltyQuery(1), LoyaltyQuery(3, None, 7), LoyaltyQuery(None, 9)), updates=Column("ok", "bool")),
    "loyalty, criteria": loyalty(
        (LoyaltyQuery(2, trace_all=True), LoyaltyQuery(None, 20)),
        criteria=row("x > 0"),
        where=row("n > 0"),
        stale_after=9,
    ),
    "loyalty deletes, updates": loyalty(
        (LoyaltyQuery(1), LoyaltyQuery(3, None, 7), LoyaltyQuery(None, 9)), updates=Column("ok", "bool"), deletes=True
    ),
    "loyalty deletes, criteria": loyalty((LoyaltyQuery(2, trace_all=True),), criteria=row("x > 0"), stale_after=9, deletes=True),
    "matches": Matches(
        tokens="words",
        similarity="jaccard",
        window=BOTH,
        queries=(PairQuery("one", 1, BOTH), PairQuery("few", 3, Window(4), 0.4)),
        between=Between("t", "a", "b"),
        texts=("a", "b"),
    ),
    "matches by score": MATCHES,
    "bounded pairs, count": bounded(COUNT, "abs(a.x - b.x)", min_score=1.0, max_score=3.0),
    "bounded pairs, time": bounded(TIME, "a.x - b.y", min_score=0.0),
    "bounded pairs, both, sides": bounded(BOTH, "a.n * b.x", Between("t", "a", "b"), max_score=0.0),
    "many topk, count": many_topk(COUNT, False),
    "many topk, time, deletes": many_topk(TIME, True),
    "many topk, both, deletes": many_topk(BOTH, True),
    "many thresholds, count": many_thresholds(COUNT, False),
    "many thresholds, time, deletes": many_thresholds(TIME, True),
    "many thresholds, both": many_thresholds(BOTH, False),
    "many topk of a family": of_family(many_topk(BOTH, True)),
    "many thresholds of a family": of_family(many_thresholds(BOTH, True)),
    "side by side, topk": side_by_side("topk"),
    "side by side, topk deletes": side_by_side("topk deletes"),
    "side by side, threshold": side_by_side("threshold"),
    "side by side, skyline": side_by_side("skyline"),
    "hopping, topk": hopping(topk(TopK, TIME, row("x + n"))),
    "hopping, topk deletes, both": hopping(topk(TopKDeletes, BOTH), 5),
    "hopping, thresholds": hopping(thresholds(TIME, True), 11),
    "hopping, skyline": hopping(skyline(TIME, ("x", "min"), ("n", "max"), ("t", "equal")), 10),
    "hopping, pairs, sides": hopping(pairs(TIME, "abs(a.x - b.x)", between=Between("t", "a", "b"))),
    "hopping, similar enough": hopping(similar_enough(BOTH, "dice", "min_score", 0.5), 9),
    "per window, topk": per_window(topk(TopK, Window(None, 40), row("x + n")), SHORT),
    "per window, topk, smallest, count": per_window(topk(TopK, COUNT, direction="min"), LONG, largest=False),
    "per window, topk deletes": per_window(topk(TopKDeletes, BOTH), LONG),
    "per session, topk": per_window(topk(TopK, TIME), session=4),
    "per session, topk deletes, both": per_window(topk(TopKDeletes, BOTH), session=6),
    "per window, thresholds": per_window(thresholds(TIME, True), SHORT, largest=False),
    "per window, skyline": per_window(skyline(TIME, ("x", "min"), ("n", "max"), ("t", "equal")), SHORT),
    "per window, skyline deletes": per_window(skyline(TIME, ("x", "max"), ("ts", "min"), band=3, kind=SkylineDeletes), LONG),
    "per session, ranked skyline": per_window(ranked(skyline(TIME, ("x", "max"), ("ts", "min"), band=3), LINEAR, "min"), session=5),
    "per window, pairs, sides": per_window(pairs(TIME, "abs(a.x - b.x)", between=Between("t", "a", "b")), SHORT, largest=False),
    "per session, pairs of texts": per_window(pairs(TIME, "edit_distance(a.t, b.t) + a.n"), session=4, largest=False),
    "per window, pairs, deletes": per_window(replace(pairs(TIME, "abs(a.x - b.x)"), deletes=True), LONG, largest=False),
    "per window, bounded pairs": per_window(bounded(TIME, "a.x - b.y", min_score=0.0), SHORT),
    "per window, similar sets": per_window(similar(TIME, "jaccard", "a.t <> b.t"), SHORT),
    "per session, similar enough": per_window(similar_enough(BOTH, "dice", "min_score", 0.5), session=4),
    "per window, matches": per_window(MATCHES, SHORT),
    "per window, many topk": per_window(many_topk(TIME, True), SHORT),
    "per session, many thresholds": per_window(many_thresholds(BOTH, False), session=5, largest=False),
    "per window, side by side": per_window(side_by_side("topk"), SHORT),
}


def requests(op: Any) -> list[SnapshotRequest | None] | None:
    """What to ask ``snapshot`` for, for operators without ``queries``; None: the suite reads it off those."""
    if isinstance(op, PerWindow):
        return requests(op.inner) or list(snapshot_requests(op.inner, 99))
    if isinstance(op, SideBySide):
        return [snapshot_requests(p, 99)[0] for p in op.parts]
    if isinstance(op, SimilarSets | ThresholdPairs):
        return [None if q.every_micros else SnapshotRequest(10**6, q.window) for q in op.queries]
    if not isinstance(op, ManyTopK | ManyThreshold):
        return None
    found: list[SnapshotRequest | None] = []
    for q in range(len(op.names)):
        count = (0 if op.counts is None else int(op.counts[q])) or op.window.count
        micros = (0 if op.micros is None else int(op.micros[q])) or op.window.micros
        k = int(op.k[q]) if isinstance(op, ManyTopK) else 99
        found.append(None if op.every is not None and op.every[q] else SnapshotRequest(k, Window(count, micros)))
    return found


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_keeps_the_contract(name: str) -> None:
    op = OPERATORS[name]
    assert sum(check_operator(op, seed, 60, 2, requests(op)) for seed in seeds(100, 108)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_keeps_the_contract_on_many_streams(name: str) -> None:
    op = OPERATORS[name]
    assert sum(check_operator(op, seed, 160, 4, requests(op)) for seed in range(1000, 1200)) > 0


def test_no_operator_is_forgotten() -> None:
    found = set()
    for module in pkgutil.walk_packages(skyband.operators.__path__, "skyband.operators."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name and isinstance(getattr(kind, "state_format", None), str) and hasattr(kind, "build"):
                found.add(kind)
    # Groups have their columns, and keep the contract, in a module of their own.
    assert found and found == {type(op) for op in [*OPERATORS.values(), *test_groups.OPERATORS.values()]}


def test_the_rows_are_full_of_what_breaks_operators() -> None:
    op = replace(many_thresholds(COUNT, True), where=(row("x >= 1 and t <> 'b' and ok"),), texts=("a", "b"))
    seen: set[str] = set()
    for seed in range(60):
        rows = random_rows(op, np.random.default_rng(seed), 90, 3)
        x, target = rows.values["x"], rows.values["$target"]
        assert (np.diff(rows.time) >= 0).all() and rows.end > rows.time[-1]
        assert ((rows.seq < 0) == (target != NULL)).all() and (rows.target == target).all()
        seen |= {name for name, found in {
            "nan": np.isnan(x), "inf": x == np.inf, "-inf": x == -np.inf, "-0.0": (x == 0) & np.signbit(x), "text": rows.values["t"] == 1,
            "other text": rows.values["t"] >= 2, "no text": rows.values["t"] == NULL, "no int": rows.values["n"] == NULL,
            "no bool": rows.values["ok"] == NULL, "before 1970": rows.time < 0, "before 2020": rows.time > 10**15,
        }.items() if found.any()}  # fmt: skip
        for key in range(int(rows.key.max()) + 1):
            mine = np.flatnonzero(rows.key == key)
            objects = mine[rows.seq[mine] >= 0]
            assert (rows.seq[objects] == np.arange(len(objects))).all()
            come = np.cumsum(rows.seq[mine] >= 0)
            age = (come - target[mine])[target[mine] != NULL]
            assert (age > 0).all()
            seen |= {"deleted in the window"} if (age <= COUNT.count).any() else set()
            if len(objects) and np.unique(rows.time[objects], return_counts=True)[1].max() > 12:
                seen.add("burst")
    assert len(seen) == 13, seen


# ---------------------------------------------------------------- operators that break it


class Wrapped:
    """A logic that does as another, but for what a subclass changes."""

    def __init__(self, op: Broken, state: Any) -> None:
        self.op = op
        self.inner: Any = op.operator.build(state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(frozen=True)
class Broken:
    """An operator with the logic ``kind``."""

    operator: Any
    kind: type[Wrapped]
    state_format: ClassVar[str] = "Broken"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk"})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "operator":
            raise AttributeError(name)
        return getattr(self.operator, name)

    def build(self, state: Any) -> Wrapped:
        return self.kind(self, state)


class DependsOnCuts(Wrapped):
    """Says that everything in a call happened at its last change."""

    def advance(self, arrivals: Any, until: int) -> Changes:
        found = self.inner.advance(arrivals, until)
        at = found.at.copy()
        if len(arrivals) and len(at):
            at[:] = at.max()
        return replace(found, at=at)


class LosesState(Wrapped):
    """Forgets the steps at a restore."""

    def checkpoint(self) -> Any:
        arrays = self.inner.checkpoint()
        return arrays | {"step": np.zeros_like(arrays["step"])}


class LosesALittle(Wrapped):
    """Forgets the best of the skyband at a restore."""

    def checkpoint(self) -> Any:
        arrays = self.inner.checkpoint()
        return arrays | {"cs": arrays["cs"] - (np.arange(len(arrays["cs"])) == 0)}


class WakesLate(Wrapped):
    """Sleeps one instant too long."""

    def wake(self) -> int | None:
        found: int | None = self.inner.wake()
        return None if found is None else found + 1


class NeverWakes(Wrapped):
    """Sleeps on."""

    def wake(self) -> None:
        return None


class WakesLateOnceRestored(Wrapped):
    """Knows the next instant only until it is restored."""

    def __init__(self, op: Broken, state: Any) -> None:
        super().__init__(op, state)
        self.restored = state is not None

    def wake(self) -> int | None:
        found: int | None = self.inner.wake()
        return None if self.restored else found


class ForgetsToRetain(Wrapped):
    """Names all rows but the oldest of the first key."""

    def retained(self) -> Any:
        key, seq = self.inner.retained()
        return key[1:], seq[1:]


class RetainsTheUnknown(Wrapped):
    """Names a row that has not come."""

    def retained(self) -> Any:
        key, seq = self.inner.retained()
        return np.append(key, 0), np.append(seq, 10**6)


class SkybandWithoutTheBest(Wrapped):
    """Leaves out the first item."""

    def skyband(self) -> Any:
        found = self.inner.skyband()
        return replace(found, key=found.key[1:], items=found.items[1:], score=found.score[1:])


class SnapshotOfOneLess(Wrapped):
    """Forgets the last of the result."""

    def snapshot(self, *asked: Any) -> Any:
        found = self.inner.snapshot(*asked)
        return replace(found, key=found.key[:-1], items=found.items[:-1], score=found.score[:-1])


class EntersTwice(Wrapped):
    """Says + where it should say -."""

    def advance(self, arrivals: Any, until: int) -> Changes:
        found = self.inner.advance(arrivals, until)
        return replace(found, sign=np.abs(found.sign), cause=np.full_like(found.cause, 3))


class WrongCause(Wrapped):
    """Something was deleted, in a stream without deletions."""

    def advance(self, arrivals: Any, until: int) -> Changes:
        found = self.inner.advance(arrivals, until)
        return replace(found, cause=np.where(found.sign < 0, 1, found.cause).astype(np.int8))


class SkipsSteps(Wrapped):
    """Counts steps by two."""

    def advance(self, arrivals: Any, until: int) -> Changes:
        found = self.inner.advance(arrivals, until)
        return replace(found, step=2 * found.step)


class NegativeZero(Wrapped):
    """Gives -0.0 for 0.0."""

    def advance(self, arrivals: Any, until: int) -> Changes:
        found = self.inner.advance(arrivals, until)
        return replace(found, score=np.where(found.score == 0, -0.0, found.score))


class WritesIntoRows(Wrapped):
    """Fills nulls in the columns it was given, which are the next operator's too."""

    def advance(self, arrivals: Any, until: int) -> Changes:
        found: Changes = self.inner.advance(arrivals, until)
        arrivals.columns["x"][:] = 0.0
        return found


class SavesObjects(Wrapped):
    """Saves an array of Python objects."""

    def checkpoint(self) -> Any:
        return self.inner.checkpoint() | {"more": np.array([None])}


BROKEN: dict[Callable[..., Any], str] = {
    DependsOnCuts: "the changes depend on cuts and restores|instants of a query's changes|step has one instant",
    LosesState: "restored at every cut: after step .* there must come step",
    LosesALittle: "skyband\\(\\) is another one after a restore",
    WakesLate: "wake\\(\\) is too late|wake\\(\\) says .* but everything before",
    NeverWakes: "wake\\(\\) is too late: it said never, but without any row query",
    WakesLateOnceRestored: "restored at every cut: wake\\(\\) is too late: it said never",
    ForgetsToRetain: "was not retained",
    RetainsTheUnknown: "retained\\(\\) names .* which never came",
    SkybandWithoutTheBest: "skyband\\(\\) lacks",
    SnapshotOfOneLess: "snapshot\\(.* but the changes replayed give",
    EntersTwice: "enters only when it is out",
    WrongCause: "nothing of the item was deleted",
    SkipsSteps: "there must come step 1 from pos 0",
    NegativeZero: "-0.0",
    WritesIntoRows: "wrote into the arrivals' column x",
    SavesObjects: "'more', which is no array",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("window", [TIME, BOTH], ids=["time", "both"])
def test_a_broken_operator_is_reported_in_words(kind: Any, window: Window) -> None:
    queries = (TopKQuery("all", 3, window), TopKQuery("one", 1, window))
    broken: Any = Broken(TopK(Linear((("x", 1.0),)), "max", None, queries, 4, window), kind)
    with pytest.raises(BrokenContract, match=BROKEN[kind]) as told:
        for seed in range(6):
            check_operator(broken, seed)
    assert str(told.value).startswith("Broken, seed ")


def test_the_wrapped_operator_itself_is_sound() -> None:
    good: Any = Broken(topk(TopK, BOTH), Wrapped)
    assert sum(check_operator(good, seed) for seed in range(6)) > 0
