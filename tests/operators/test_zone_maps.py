"""Zone maps: boxes hold their objects, maps cover windows, and pairs are the same bytes with maps as without."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from skyband.operators.base import NULL, Arrivals, Ragged, State, Window
from skyband.operators.expressions import parse
from skyband.operators.expressions.compile import compile_pair, matrix
from skyband.operators.matches.operator import ScoredMatches
from skyband.operators.pair_rows.kernels.tables import Objects
from skyband.operators.pair_rows.queries import Between, BoundedPairQuery, PairQuery
from skyband.operators.pair_rows.zone_maps import maps
from skyband.operators.pair_rows.zone_maps.kernels import FIRST_SEQ, GROUP, LEAF, START, STOP_SEQ, no_zones
from skyband.operators.pair_rows.zone_maps.maps import ZoneMap
from skyband.operators.threshold_pairs.operator import ThresholdPairs
from skyband.operators.topk_pairs.operator import CappedTopKPairs, TopKPairs
from tests.seeds import seeds

SCHEMA: Any = {"x": "float", "y": "float", "g": "int", "side": "text"}
SHAPES = ("real", "few", "equal", "rising", "infinite", "heavy")


def values(rng: np.random.Generator, rows: int, shape: str) -> Any:
    x = {
        "real": lambda: rng.normal(size=rows),
        "few": lambda: rng.integers(0, 4, rows).astype(float),
        "equal": lambda: np.ones(rows),
        "rising": lambda: np.arange(rows) / 7.0,
        "infinite": lambda: rng.choice([-np.inf, np.inf, -0.0, 0.0, 1.0, 1e308, -1e308, 5e-324], rows),
        "heavy": lambda: rng.pareto(0.3, rows) * rng.choice([-1.0, 1.0], rows),
    }[shape]()
    x[rng.random(rows) < rng.choice([0.0, 0.02, 0.3])] = np.nan
    return x


def objects_of(rng: np.random.Generator, rows: int, floats: int, integers: int) -> Objects:
    whole = rng.integers(-5, 5, (integers, rows))
    whole[rng.random((integers, rows)) < 0.1] = NULL
    whole[rng.random((integers, rows)) < 0.01] = 2**63 - 1
    f = [values(rng, rows, str(rng.choice(SHAPES))) for _ in range(floats)]
    return Objects(np.array(f).reshape(floats, rows), whole.astype(np.int64), np.arange(rows), np.empty(0, np.int64))


def check_boxes(boxes: Any, members: Any, missing: Any, size: int, positions: Any) -> None:
    """Each box is that of its ``size`` members by definition."""
    for row in range(len(members)):
        for box in np.unique(positions // size):
            mine = members[row, box * size : (box + 1) * size]
            there = mine[~missing(mine)]
            assert boxes[3 * row + 2, box] == (len(there) < size)
            if len(there):
                assert (boxes[3 * row, box], boxes[3 * row + 1, box]) == (there.min(), there.max())
            else:
                assert boxes[3 * row, box] > boxes[3 * row + 1, box]


def check_map(found: ZoneMap, objects: Objects, offset: int, first_alive: int, upto: int) -> None:
    """The segments cover the alive objects, each once, in leaves with right boxes."""
    zones = found.zones
    assert len(zones.segments) == 0 or zones.segments[-1, FIRST_SEQ] <= first_alive < zones.segments[-1, STOP_SEQ]
    assert upto - (zones.segments[0, STOP_SEQ] if len(zones.segments) else first_alive) < GROUP
    assert np.array_equal(zones.segments[:-1, FIRST_SEQ], zones.segments[1:, STOP_SEQ])
    positions = [np.arange(s[START], s[START] + s[STOP_SEQ] - s[FIRST_SEQ]) for s in zones.segments]
    taken = np.concatenate([*positions, np.empty(0, np.int64)]).astype(np.int64)
    assert len(np.unique(taken)) == len(taken)
    for s, place in zip(zones.segments, positions, strict=True):
        seqs = zones.seqs[place]
        assert np.array_equal(np.sort(seqs), np.arange(s[FIRST_SEQ], s[STOP_SEQ]))
        stored = seqs >= -offset  # older ones have left the arena
        assert np.array_equal(zones.floats[:, place[stored]], objects.floats[:, seqs[stored] + offset], equal_nan=True)
        assert np.array_equal(zones.integers[:, place[stored]], objects.integers[:, seqs[stored] + offset])
    for boxes, size in ((zones.leaf_floats, LEAF), (zones.group_floats, GROUP)):
        check_boxes(boxes, zones.floats, np.isnan, size, taken)
    for boxes, size in ((zones.leaf_integers, LEAF), (zones.group_integers, GROUP)):
        check_boxes(boxes, zones.integers, lambda x: x == NULL, size, taken)


@pytest.mark.parametrize("seed", range(6))
def test_a_map_covers_the_window_as_it_slides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, window = 60_000, int(rng.choice([3_000, 9_000, 40_000]))
    objects = objects_of(rng, rows, int(rng.integers(0, 4)), int(rng.integers(0, 3)))
    found, at = ZoneMap(len(objects.floats), len(objects.integers)), 0
    while at < rows:
        at = min(rows, at + int(rng.choice([1, 500, 3_000, 20_000])))
        first_alive = max(0, at - window)
        found.cover(objects, 0, first_alive, at)
        check_map(found, objects, 0, first_alive, at)
    assert len(found.zones.seqs) <= 4 * (window + 8 * GROUP)


def test_a_map_goes_back_and_drops_what_is_newer() -> None:
    rng = np.random.default_rng(1)
    objects, found = objects_of(rng, 20_000, 2, 0), ZoneMap(2, 0)
    for first_alive, upto in ((0, 20_000), (0, 6_000), (3_000, 9_000), (15_000, 15_100), (15_000, 20_000)):
        found.cover(objects, 0, first_alive, upto)
        check_map(found, objects, 0, first_alive, upto)


def test_leaves_hold_neighbours() -> None:
    """Halving at medians makes the mean leaf of uniform points as small as the number of leaves says."""
    rng = np.random.default_rng(2)
    rows = 16 * GROUP
    objects, found = Objects(rng.random((2, rows)), np.empty((0, rows), np.int64), np.arange(rows), np.empty(0, np.int64)), ZoneMap(2, 0)
    found._add(0, objects.floats, objects.integers, np.arange(rows))
    boxes = found.zones.leaf_floats[:, : rows // LEAF]
    area = np.mean((boxes[1] - boxes[0]) * (boxes[4] - boxes[3]))
    assert area < 1.2 * LEAF / rows


JOBS: tuple[tuple[str, str | None, str], ...] = (
    ("abs(a.x - b.x) + abs(a.y - b.y)", None, "min"),
    ("abs(a.x - b.x) + abs(a.y - b.y)", None, "max"),
    ("(a.x - b.x) * (a.x - b.x)", "a.g = b.g", "min"),
    ("(a.x - b.x) / (a.y - b.y)", "a.g <> b.g and a.x < b.x", "max"),
    ("a.x * b.y", "a.side <> 'buy'", "min"),
    ("a.x * 0 + b.x * 0", None, "min"),
)


def rows_of(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    g, side = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    g[rng.random(rows) < 0.05] = NULL
    shape = str(rng.choice(SHAPES))
    return {"x": values(rng, rows, shape), "y": values(rng, rows, str(rng.choice(SHAPES))), "g": g, "side": side}


def case(rng: np.random.Generator) -> tuple[Any, dict[str, Any], Any]:
    text, where, direction = JOBS[rng.integers(0, len(JOBS))]
    rows = int(rng.integers(5_000, 9_000))
    time = np.cumsum(rng.choice([0, 0, 1, 2, 7], rows)).astype(np.int64)
    count = int(rng.choice([2_000, 4_000]))
    window = (Window(count), Window(None, int(time[-1] * count / rows)), Window(count, int(time[-1] / 3)))[rng.integers(0, 3)]
    between = Between("side", "buy", "sell") if rng.random() < 0.3 else None
    k = int(rng.choice([1, 3, 20]))
    queries = (PairQuery("q", k, window), PairQuery("r", 1, window, every_micros=50 if rng.random() < 0.3 else None))
    given = (
        parse(text, SCHEMA), direction, None if where is None else parse(where, SCHEMA), between, queries, k, window, ("buy", "sell"),
    )  # fmt: skip
    columns, kind = rows_of(rng, rows), rng.choice(["plain", "plain", "capped", "matches", "threshold"])
    if kind == "capped" and k > 1:
        return CappedTopKPairs(*given, max_per_object=1), columns, time
    if kind == "matches":
        parts = dict(zip(("scoring", "direction", "where", "between"), given, strict=False))
        asked = tuple(replace(q, every_micros=None) for q in queries)
        return ScoredMatches(**parts, queries=asked, window=window, texts=("buy", "sell")), columns, time
    if kind == "threshold":
        parts = dict(zip(("scoring", "direction", "where", "between"), given, strict=False))
        scores = np.sort(first_scores(parse(text, SCHEMA), columns))
        bound = {"max_score": float(scores[20])} if direction == "min" else {"min_score": float(scores[-20])}
        asked = (BoundedPairQuery("q", window, every_micros=queries[1].every_micros, **bound),)
        return ThresholdPairs(**parts, queries=asked, window=window, texts=("buy", "sell")), columns, time
    return TopKPairs(*given), columns, time


def first_scores(tree: Any, columns: dict[str, Any]) -> Any:
    """The scores of the first rows' pairs, as the operator takes them: infinities, too, nulls not."""
    kernel, rows = compile_pair(tree, None, False, {}), 300
    first = {n: c[:rows] for n, c in columns.items()}
    floats, integers = matrix(first, kernel.float_names, np.float64, rows), matrix(first, kernel.int_names, np.int64, rows)
    out = np.full((rows, rows), np.nan)
    for i in range(1, rows):
        x, y = np.ascontiguousarray(floats[:, i]), np.ascontiguousarray(integers[:, i])
        kernel.score_block(floats, integers, 0, i, x, y, np.empty(0, np.int64), out[i, :i])
    return np.append(out[~np.isnan(out)], np.zeros(41))


def changes_of(op: Any, columns: dict[str, Any], time: Any, cuts: list[int], restore: bool) -> tuple[bytes, int]:
    """The bytes of all changes, and how many pairs were skipped."""
    logic, parts, skipped = op.build(None), [], 0
    for lo, hi in pairwise(cuts):
        until = int(time[hi]) if hi < len(time) else int(time[-1]) + 1000
        block = Arrivals(np.zeros(hi - lo, np.int64), np.arange(lo, hi), time[lo:hi], {n: c[lo:hi] for n, c in columns.items()})
        parts.append(logic.advance(block, until))
        skipped += logic.counters()["skipped"]
        if restore and hi < len(time):
            alive = max(0, hi - 6_000)
            rows = Arrivals(
                np.zeros(hi - alive, np.int64), np.arange(alive, hi), time[alive:hi], {n: c[alive:hi] for n, c in columns.items()}
            )
            logic = op.build(State(logic.checkpoint(), rows))
    fields = ("query", "key", "at", "step", "pos", "sign", "cause", "score", "items")
    order = [np.concatenate([getattr(p, f) for p in parts]) for f in fields]
    by = np.lexsort((order[4], order[3], order[0]))
    return b"".join(np.ascontiguousarray(x[by]).tobytes() for x in order), skipped


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small windows have maps, too, whether they pay or not."""
    monkeypatch.setattr(maps, "LEAST_OBJECTS", GROUP)
    monkeypatch.setattr(maps, "LEAST_PAIRS", 1)
    monkeypatch.setattr(maps, "SCORED_COST", 0)
    monkeypatch.setattr(maps, "BOUND_COST", 0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", seeds(0, 30))
def test_pairs_are_the_same_with_a_map(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    op, columns, time = case(rng)
    rows = len(time)
    ends = np.flatnonzero(time[1:] > time[:-1]) + 1  # rows of one instant come together
    cuts = sorted({0, rows, *rng.choice(ends, int(rng.integers(0, 4))).tolist()})
    with_map, skipped = changes_of(op, columns, time, cuts, restore=bool(rng.integers(0, 2)))
    monkeypatch.setattr(maps, "LEAST_OBJECTS", 2**60)
    without, none = changes_of(op, columns, time, [0, rows], restore=False)
    assert with_map == without
    assert none == 0 <= skipped


@pytest.mark.usefixtures("always")
def test_maps_follow_texts_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps hold places of texts in the pool, which is copied as objects leave the window."""
    rng = np.random.default_rng(8)
    rows, window, schema = 6_000, Window(1_500), {"x": "float", "name": "text"}
    x, length = np.round(rng.random(rows) * 50), rng.integers(0, 6, rows)
    start = np.append(0, np.cumsum(length))
    letters = rng.integers(97, 100, int(start[-1]))
    score = parse("abs(a.x - b.x) + edit_distance(a.name, b.name)", schema)
    op = TopKPairs(score, "min", None, None, (PairQuery("q", 5, window),), 5, window)

    def run() -> tuple[list[Any], int, int]:
        logic: Any = op.build(None)
        items, skipped = [], 0
        for lo in range(0, rows, 500):
            texts = Ragged(start[lo : lo + 501] - start[lo], letters[start[lo] : start[lo + 500]])
            at = np.arange(lo, lo + 500)
            found = logic.advance(Arrivals(np.zeros(500, np.int64), at, at, {"x": x[lo : lo + 500]}, {"~name": texts}), lo + 500)
            items += zip(found.score.tolist(), found.items.tolist(), found.step.tolist(), strict=True)
            skipped += logic.counters()["skipped"]
        return items, skipped, logic.windows.pool.moves

    with_maps, skipped, moves = run()
    monkeypatch.setattr(maps, "LEAST_OBJECTS", 2**60)
    assert run()[0] == with_maps
    assert moves > 2 and skipped > 0


@pytest.mark.usefixtures("always")
def test_most_pairs_are_skipped_where_bounds_say_much() -> None:
    rng = np.random.default_rng(3)
    rows, window = 30_000, Window(8_000)
    columns: dict[str, Any] = {"x": rng.random(rows), "y": rng.random(rows)}
    op = TopKPairs(parse(JOBS[1][0], SCHEMA), "max", None, None, (PairQuery("q", 5, window),), 5, window)
    _, skipped = changes_of(op, columns, np.arange(rows), [0, rows], restore=False)
    assert skipped > 0.6 * rows * 8_000


def test_a_map_that_does_not_pay_is_dropped() -> None:
    """A constant score ties with the bar everywhere."""
    rng = np.random.default_rng(4)
    rows, window = 12_000, Window(6_000)
    columns: dict[str, Any] = {"x": rng.random(rows), "y": rng.random(rows)}
    op = TopKPairs(parse("a.x * b.y", SCHEMA), "min", None, None, (PairQuery("q", 1, window),), 1, window)
    logic: Any = op.build(None)
    logic.advance(Arrivals(np.zeros(rows, np.int64), np.arange(rows), np.arange(rows), columns), rows)
    assert all(state.map is None or state.kept for state in logic.shortcuts.maps.keys.values())


def test_room_is_used_again() -> None:
    found = ZoneMap(1, 0)
    assert len(no_zones(1, 0).seqs) == 0
    rows = 200_000
    objects = Objects(np.arange(rows, dtype=float)[None], np.empty((0, rows), np.int64), np.arange(rows), np.empty(0, np.int64))
    for at in range(10_000, rows, 3_000):
        found.cover(objects, 0, at - 10_000, at)
    assert len(found.zones.seqs) <= 32 * GROUP
