"""Top-k pairs against brute force after every event: ties, NaN, infinities, predicates, sides, boundaries, cuts, restarts, snapshots."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Arrivals, Window
from skyband.operators.expressions import parse
from skyband.operators.pair_rows.queries import Between, PairQuery
from skyband.operators.topk_pairs.operator import TopKPairs
from tests.operators.pairs_host import SCHEMA, Case, band_of, cuts_of, drive, random_case, random_stream, text_of
from tests.oracles import pairs as oracle
from tests.seeds import seeds

ROOT = Path(__file__).resolve().parent.parent.parent


def check(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed + 1)
    want = text_of(case.expected())
    whole, logic = drive(case, [])
    assert text_of(whole) == want
    check_state(case, logic)
    assert text_of(drive(case, cuts_of(case.stream, rng, 1.0))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.2), sub_batch=int(rng.integers(1, 12)))[0]) == want
    assert text_of(drive(case, cuts_of(case.stream, rng, 0.7), restore=True, loose=int(rng.integers(0, 4)))[0]) == want


def check_state(case: Case, logic: Any) -> None:
    """Snapshots and skyband by definition, as of the end."""
    op = case.op
    lowest = op.queries[0].min_score if op.direction == "min" else None
    highest = op.queries[0].max_score if op.direction == "max" else None
    for key in range(int(case.stream.key.max()) + 1):
        stream = case.key_stream(key)
        n = len(stream.times)
        for i, q in enumerate(op.queries):
            got = logic.snapshot(key, op.keep_k, q.window, i)
            want = oracle.snapshot(stream, dataclasses.replace(case.query(q), k=op.keep_k), case.end - 1, n)
            assert list(zip(*got.items.T.tolist(), got.score.tolist(), strict=True)) == want
        largest = oracle.Query(
            op.keep_k, op.window.count, op.window.micros, -np.inf if lowest is None else lowest, np.inf if highest is None else highest
        )
        band = [r[1:] for r in band_of(logic) if r[0] == key]
        assert len(set(band)) == len(band)
        assert set(band) == oracle.skyband(stream, op.keep_k, largest, case.end - 1, n)


@pytest.mark.parametrize("part", range(8))
def test_brute_force(part: int) -> None:
    for seed in seeds(part * 40, part * 40 + 40):
        check(random_case(seed), seed)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_brute_force_drawn(seed: int, rows: int) -> None:
    check(random_case(seed, rows), seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_brute_force_everything(part: int) -> None:
    for seed in range(part * 150, part * 150 + 150):
        check(random_case(10**6 + seed, rows=90, everything=True), seed)


def closest(window: Window, k: int, **more: Any) -> TopKPairs:
    tree = parse("abs(a.x - b.x) + abs(a.y - b.y)", SCHEMA)
    return TopKPairs(tree, "min", None, None, (PairQuery("q", k, window, **more),), k, window)


def rows_from(x: Any, y: Any, start: int = 0, key: Any = None) -> Arrivals:
    seq = np.arange(start, start + len(x))
    return Arrivals(np.zeros(len(x), np.int64) if key is None else key, seq, seq, {"x": x, "y": y})


@pytest.mark.parametrize(("k", "n"), [(1, 4000), (20, 4000), (60, 2000)])
def test_size_laws(k: int, n: int) -> None:
    """E|skyband| = K + 2K ln(N / sqrt(2K)); candidates per arrival = sub-batch / 2 + 2 sqrt(2K) (docs/algorithms D2)."""
    logic = closest(Window(n), k).build(None)
    rng = np.random.default_rng(k)
    sizes = []
    for start in range(0, 3 * n, n // 4):
        logic.advance(rows_from(rng.random(n // 4), rng.random(n // 4), start), start + n // 4)
        if start >= n:
            sizes.append(len(logic.skyband()))
            counters = logic.counters()
    assert 0.75 < np.mean(sizes) / (k + 2 * k * np.log(n / np.sqrt(2 * k))) < 1.25
    assert counters["candidates"] / counters["objects"] < 1.5 * 2 * np.sqrt(2 * k)


def test_a_long_stream_keeps_the_arena_small() -> None:
    logic = closest(Window(50), 3).build(None)
    rng = np.random.default_rng(1)
    for start in range(0, 20_000, 100):
        logic.advance(rows_from(rng.random(100), rng.random(100), start), start + 100)
    assert len(logic.windows.objects.times) < 2000
    assert len(logic.skybands.score) < 20_000


def test_many_keys_at_once_equal_each_key_alone() -> None:
    rng = np.random.default_rng(5)
    stream = random_stream(rng, 600, 150, "few")
    op = closest(Window(4, 90), 2, every_micros=None)
    together: Any = op.build(None)
    edges = [0, *cuts_of(stream, rng, 0.02), 600]
    assert len(edges) > 3
    untils = [*(int(stream.time[at]) for at in edges[1:-1]), int(stream.time[-1]) + 500]
    parts = [together.advance(stream.block(lo, hi), until) for lo, hi, until in zip(edges, edges[1:], untils, strict=False)]
    for key in range(int(stream.key.max()) + 1):
        mine = stream.block(0, 600)
        keep = mine.key == key
        alone: Any = op.build(None)
        one = Arrivals(np.zeros(int(keep.sum()), np.int64), mine.seq[keep], mine.time[keep], {n: c[keep] for n, c in mine.columns.items()})
        want = alone.advance(one, int(stream.time[-1]) + 500)
        for name in ("at", "step", "pos", "sign", "cause", "score", "items"):
            got = np.concatenate([getattr(p, name)[p.key == key] for p in parts])
            assert np.array_equal(got, getattr(want, name))


def test_unusable_objects_are_counted() -> None:
    logic = closest(Window(10), 2).build(None)
    logic.advance(rows_from(np.array([1.0, np.nan, 2.0]), np.array([np.nan, np.nan, 1.0])), 10)
    assert logic.counters()["unusable:0"] == 2
    assert logic.counters()["unusable:0"] == 0


def test_wrong_configurations_are_refused() -> None:
    tree = parse("a.x - b.x", SCHEMA)
    w = Window(10)
    good = PairQuery("q", 2, w)

    def build(queries: tuple[PairQuery, ...] = (good,), k: int = 5, window: Window = w, between: Between | None = None) -> TopKPairs:
        return TopKPairs(tree, "min", None, between, queries, k, window, ("buy", "sell"))

    for wrong in (
        {"queries": ()}, {"queries": (good, good)}, {"queries": (PairQuery("q", 0, w),)}, {"queries": (PairQuery("q", 6, w),)},
        {"queries": (PairQuery("q", 1, Window(11)),)}, {"queries": (PairQuery("q", 1, Window(None, 5)),)}, {"window": Window()},
        {"queries": (PairQuery("q", 1, w, min_score=float("nan")),)}, {"queries": (PairQuery("q", 1, w, every_micros=0),)},
        {"queries": (good, PairQuery("r", 1, w, min_score=1.0))}, {"between": Between("side", "buy", "buy")},
        {"between": Between("side", "buy", "hold")}, {"between": Between("x", 1, 2, "float")},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            build(**wrong)  # type: ignore[arg-type]
    logic = build().build(None)
    for k, n in ((6, 10), (0, 10), (2, 11)):
        with pytest.raises(ValueError, match=r"."):
            logic.snapshot(0, k, Window(n))
    logic.advance(Arrivals(np.zeros(1, np.int64), np.array([0]), np.array([3]), {"x": np.ones(1)}), 4)
    with pytest.raises(ValueError, match="seqs"):
        logic.advance(Arrivals(np.zeros(1, np.int64), np.array([3]), np.array([5]), {"x": np.ones(1)}), 9)


ROOMS_OF_PAIRS = ("pair_rows", "set_index", "topk_pairs", "topk_similar_sets")


def kernels_of_pairs() -> dict[tuple[str, str], tuple[str, ast.FunctionDef, dict[str, tuple[str, str]]]]:
    """(module, name) -> "leaf" or "counting", the function, and the functions that the names of its module stand for."""
    modules = {}
    for path in sorted(p for room in ROOMS_OF_PAIRS for p in (ROOT / "operators" / room).rglob("*.py")):
        module = "skyband." + path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        modules[module] = ast.parse(path.read_text(encoding="utf-8")).body
    kernels = {}
    for module, body in modules.items():
        names = {a.asname or a.name: (n.module, a.name) for n in body if isinstance(n, ast.ImportFrom) and n.module for a in n.names}
        names |= {node.name: (module, node.name) for node in body if isinstance(node, ast.FunctionDef)}
        for node in body:
            if isinstance(node, ast.FunctionDef):
                decorators = [ast.unparse(d) for d in node.decorator_list]
                kind = "leaf" if decorators in (["inner"], ["inner_inlined"], ["jit(_nrt=False)"]) else "counting"
                kernels[module, node.name] = (kind, node, names)
    return kernels


def test_leaves_call_leaves_and_hand_arrays_to_leaves_only() -> None:
    """A leaf counts no references: an array it got from a counting kernel would leak, one it gave to such a kernel be freed too early."""
    kernels = kernels_of_pairs()
    assert {"part", "replay_query", "merge", "find_set_partners"} <= {name for (_, name), (kind, *_) in kernels.items() if kind == "leaf"}
    for kind, node, names in kernels.values():
        calls = {c.func.id for c in ast.walk(node) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}
        called = {kernels[names[name]][:2] for name in calls if names.get(name) in kernels}
        if kind == "leaf":
            assert {callee.name for other, callee in called if other != "leaf"} == set(), node.name
        else:
            returned = [ast.unparse(callee.returns or ast.Constant(None)) for other, callee in called if other == "leaf"]
            assert set(re.findall(r"\w+", " ".join(returned))) <= {"tuple", "int", "float", "bool", "None"}, node.name


def test_functions_are_unpacked_without_a_tuple() -> None:
    """Python makes a tuple of four values and more, and Numba warns of one that begins with a function, on the terminal of a first run."""
    functions = {"count_as_a", "score_as_a", "bound_as_a", "count_as_b", "score_as_b", "bound_as_b"}
    found = 0
    rooms = [ROOT / "operators" / room for room in ("pair_rows", "topk_pairs")]
    for path in sorted(p for room in rooms for form in ("kernels/*.py", "kernels.py") for p in room.rglob(form)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                first = node.value.elts[0]
                if isinstance(first, ast.Attribute) and first.attr in functions:
                    assert len(node.value.elts) <= 3, f"{path.name}:{node.lineno}"
                    found += 1
    assert found > 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("fn", "text", "direction"), [(0, "abs(a.x - b.x) + abs(a.y - b.y)", "min"), (2, "abs(a.x - b.x) * abs(a.y - b.y)", "max")]
)
def test_the_benchmarks_scase_finds_the_same_skyband(fn: int, text: str, direction: Any) -> None:
    from bench import scase_numba

    rng = np.random.default_rng(3)
    x = rng.integers(0, 60, (900, 2)) / 8.0
    window = Window(200)
    logic = TopKPairs(parse(text, SCHEMA), direction, None, None, (PairQuery("q", 4, window),), 4, window).build(None)
    logic.advance(rows_from(np.ascontiguousarray(x[:, 0]), np.ascontiguousarray(x[:, 1])), 900)
    band = logic.skyband()
    ks, ko, ts, to = np.empty(5000), np.empty(5000, np.int64), np.empty(5000), np.empty(5000, np.int64)
    m, _, _ = scase_numba.run(scase_numba.pair_score, (x, fn), 4, 200, 0, 900, ks, ko, 0, ts, to, 0)
    assert ko[:m].tolist() == band.items[:, 0].tolist()
    assert np.array_equal(ks[:m] if fn == 0 else -ks[:m], band.score)
