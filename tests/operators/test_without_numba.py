"""Without Numba every operator writes the same bytes: random streams through the compiled kernels and through their Python twins."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.operators.contract import random_rows
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.topk_similar_sets import deletes as deletes_logic
from tests.operators import (
    host,
    loyalty_host,
    pairs_host,
    sets_host,
    sharded,
    test_capped_pairs,
    test_contract,
    test_deleted_sets,
    test_groups,
    test_hash_index,
    test_ranked_skyline,
    test_scored_partners,
    test_shards_sets,
    test_sized_skyline,
    test_skyline,
    test_skyline_deletes,
    test_threshold,
    test_topk,
    test_topk_single,
    threshold_many_host,
    topk_host,
)
from tests.operators.expression_families import FAMILIES, with_family
from tests.seeds import seeds

ROOT = Path(__file__).resolve().parents[2]


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def topk(seed: int) -> Iterable[Any]:
    for deletes in (False, True):
        op, stream = test_topk_single.random_case(seed, deletes)
        yield topk_host.drive(op, stream, [], int(stream.time[-1]) + 50, False)[0]


def topk_long_blocks(_seed: int) -> Iterable[Any]:
    yield test_topk_single.long_block_changes()


def threshold(seed: int) -> Iterable[Any]:
    yield single_rows(*test_threshold.random_case(seed), seed)


def many_queries(random_op: Callable[..., Any], seed: int) -> Iterable[Any]:
    rng = rng_of(seed)
    d, deletes = int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    op = random_op(rng, d, int(rng.integers(1, 7)), test_topk_single.random_window(rng), deletes, bool(rng.random() < 0.4))
    if seed % 2:
        op = with_family(rng, op, str(rng.choice(list(FAMILIES))))
    shape = str(rng.choice(test_topk_single.SHAPES))
    stream = topk_host.random_stream(rng, int(rng.integers(1, 120)), int(rng.integers(1, 4)), d, shape, deletes)
    yield single_rows(op, stream, seed)


def topk_many(seed: int) -> Iterable[Any]:
    return many_queries(test_topk.random_op, seed)


def threshold_many(seed: int) -> Iterable[Any]:
    return many_queries(threshold_many_host.random_op, seed)


def single_rows(op: Any, stream: Any, seed: int) -> Any:
    rows, logic = topk_host.drive(op, stream, topk_host.cuts_of(stream, rng_of(seed), 0.3), int(stream.time[-1]) + 50, True)
    return rows, host.band_of(logic)


def skyline_deletes(seed: int) -> Iterable[Any]:
    case = test_skyline_deletes.Case(seed, n=40)
    blocks, logic = test_skyline_deletes.play(case, case.cuts(3))
    yield test_skyline.tuples(blocks), {name: array.tobytes() for name, array in logic.checkpoint().items()}


def ranked_skyline(seed: int) -> Iterable[Any]:
    case = test_ranked_skyline.Case(seed, seed % 2 == 1, n=40)
    blocks, logic = test_ranked_skyline.play(case, case.stream.cuts(3))
    yield test_ranked_skyline.tuples(blocks), {name: array.tobytes() for name, array in logic.checkpoint().items()}


def sized_skyline(seed: int) -> Iterable[Any]:
    case = test_sized_skyline.Case(seed, seed % 2 == 1, n=40)
    blocks, logic = test_sized_skyline.play(case, case.stream.cuts(3))
    yield test_sized_skyline.tuples(blocks), {name: array.tobytes() for name, array in logic.checkpoint().items()}


def skyline(seed: int) -> Iterable[Any]:
    case = test_skyline.Case(seed, n=40)
    blocks, logic = test_skyline.play(case, case.cuts(3))
    yield test_skyline.tuples(blocks), {name: array.tobytes() for name, array in logic.checkpoint().items()}


def pairs(module: Any, make: Callable[[int, int], Any], seed: int) -> Iterable[Any]:
    case = make(seed, 40)
    rows, logic = module.drive(case, module.cuts_of(case.stream, rng_of(seed), 0.3), restore=True)
    yield pairs_host.text_of(rows), host.band_of(logic)


def topk_pairs(seed: int) -> Iterable[Any]:
    return pairs(pairs_host, pairs_host.random_case, seed)


def capped_pairs(seed: int) -> Iterable[Any]:
    return pairs(pairs_host, test_capped_pairs.capped_case, seed)


def deleted_pairs(seed: int) -> Iterable[Any]:
    made = (pairs_host.random_case, test_capped_pairs.capped_case, pairs_host.random_bounded_case, pairs_host.random_matches_case)[seed % 4]
    return pairs(pairs_host, lambda *given: pairs_host.deleting(made(*given), seed), seed)


def joined_pairs(seed: int) -> Iterable[Any]:
    """Pairs with equal columns, by the hash index."""
    kinds = list(test_hash_index.MAKE)
    with pytest.MonkeyPatch.context() as patch:
        test_hash_index.use(patch, **list(test_hash_index.USES.values())[seed % 3])
        yield from pairs(pairs_host, lambda *given: test_hash_index.joined(kinds[seed % 4], *given), seed)


def pairs_of_shards(seed: int) -> Iterable[Any]:
    """What two shards find of pairs, plain or capped, and what the merge makes of it."""
    operator = (pairs_host.random_case, test_capped_pairs.capped_case)[seed % 2](seed, 40).op
    rows = random_rows(operator, rng_of(seed), 60, 2)
    yield sharded.sharded_changes(operator, rows, 2, sharded.cuts_of(rows, rng_of(seed), 0.3), rng_of(seed))


def threshold_pairs(seed: int) -> Iterable[Any]:
    return pairs(pairs_host, pairs_host.random_bounded_case, seed)


def scored_matches(seed: int) -> Iterable[Any]:
    return pairs(pairs_host, pairs_host.random_matches_case, seed)


def topk_similar_sets(seed: int) -> Iterable[Any]:
    return pairs(sets_host, sets_host.random_case, seed)


def similar_sets(seed: int) -> Iterable[Any]:
    return pairs(sets_host, sets_host.random_pairs_case, seed)


def matches(seed: int) -> Iterable[Any]:
    return pairs(sets_host, sets_host.random_matches_case, seed)


def pairs_of_texts(seed: int) -> Iterable[Any]:
    operators = [op for name, op in test_contract.OPERATORS.items() if "texts" in name]
    return in_two_calls(operators[seed % len(operators)], seed)


def deleted_sets(seed: int) -> Iterable[Any]:
    """Lists of the best pairs are short, so that windows are joined."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletes_logic, "PLACES", (2, 0))
        for kind in test_deleted_sets.CASES:
            yield from in_two_calls(test_deleted_sets.deletable(kind, seed).op, seed)


def in_two_calls(operator: Any, seed: int) -> Iterable[Any]:
    """The changes of a random stream that is cut in two."""
    rows = random_rows(operator, rng_of(seed), 60, 2)
    logic, codes = operator.build(None), rows.first_codes()
    half = int(np.searchsorted(rows.time, rows.time[len(rows) // 2]))
    for at, until in ((np.arange(half), int(rows.time[half])), (np.arange(half, len(rows)), rows.end)):
        found = logic.advance(rows.block(at, codes), until)
        yield [x.tolist() for x in (found.query, found.key, found.at, found.step, found.pos, found.sign, found.score, found.items)]


def shards(seed: int) -> Iterable[Any]:
    """What shards and a merge leave, and how many pairs were found."""
    for operators in (test_shards_sets.operators(), test_scored_partners.operators()):
        rng, op = rng_of(seed), list(operators.values())[seed % len(operators)]
        stream = random_rows(op, rng, 150, 2)
        yield sharded.sharded_changes(op, stream, 1 + seed % 3, sharded.cuts_of(stream, rng, 0.1), rng)


def loyalty(seed: int) -> Iterable[Any]:
    case = loyalty_host.random_case(seed, 30)
    run = loyalty_host.run(case, loyalty_host.random_cuts(case, rng_of(seed), 0.4), restore=True, few=seed % 3)
    yield run.changes, run.points, sorted(run.logic.objects().tolist())


def groups(seed: int) -> Iterable[Any]:
    operator = list(test_groups.OPERATORS.values())[seed % len(test_groups.OPERATORS)]
    player = test_groups.Player(operator, rng_of(seed))
    stream = test_groups.random_stream(rng_of(seed), 60, test_groups.MAGNITUDES[seed % len(test_groups.MAGNITUDES)])
    player.play(stream, stream[-1][0] + 45, 0.3)
    yield sorted(player.changes.items()), sorted(player.points.items())
    finals = [made.finals for made in player.made if made.finals is not None]
    yield [[a.tolist() for a in (f.query, f.key, f.start, f.end, f.rank, f.values["score"])] for f in finals]


Trace = Callable[[int], Iterable[Any]]
"""What a random job of a seed writes, as values with an exact ``repr``."""

TRACES: dict[str, tuple[Trace, int, int]] = {
    "topk": (topk, 0, 40),
    "topk_long_blocks": (topk_long_blocks, 0, 1),
    "topk_many": (topk_many, 0, 30),
    "threshold": (threshold, 0, 60),
    "threshold_many": (threshold_many, 0, 60),
    "skyline": (skyline, 0, 40),
    "skyline deletes": (skyline_deletes, 0, 30),
    "ranked skyline": (ranked_skyline, 0, 20),
    "sized skyline": (sized_skyline, 0, 20),
    "topk_pairs": (topk_pairs, 500, 580),
    "capped_pairs": (capped_pairs, 500, 560),
    "deleted_pairs": (deleted_pairs, 500, 560),
    "joined_pairs": (joined_pairs, 500, 560),
    "pairs_of_shards": (pairs_of_shards, 500, 540),
    "threshold_pairs": (threshold_pairs, 500, 560),
    "scored_matches": (scored_matches, 500, 560),
    "topk_similar_sets": (topk_similar_sets, 500, 560),
    "similar_sets": (similar_sets, 500, 540),
    "matches": (matches, 500, 540),
    "pairs_of_texts": (pairs_of_texts, 500, 560),
    "deleted_sets": (deleted_sets, 500, 530),
    "shards": (shards, 500, 521),
    "loyalty": (loyalty, 500, 530),
    "groups": (groups, 0, 45),
}
"""Operators: the trace of one seed, the first seed and the one behind the last."""


def digest(name: str) -> str:
    """Return a hash of an operator's traces."""
    trace, first, end = TRACES[name]
    whole = hashlib.sha256()
    for seed in seeds(first, end):
        for part in trace(seed):
            whole.update(f"{part!r}\n".encode())
    return whole.hexdigest()


@pytest.fixture(scope="module")
def without() -> dict[str, str]:
    """The digest of every trace, by one process without Numba."""
    code = (
        "import json; from tests.operators.test_without_numba import HAVE_NUMBA, TRACES, digest; "
        "print(json.dumps({} if HAVE_NUMBA else {name: digest(name) for name in TRACES}))"
    )
    environment = {**os.environ, "SKYBAND_NO_NUMBA": "1"}
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found: dict[str, str] = json.loads(run.stdout)
    return found


@pytest.mark.long
@pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off")
@pytest.mark.parametrize("name", TRACES)
def test_the_bytes_are_the_same_without_numba(name: str, without: dict[str, str]) -> None:
    assert without[name] == digest(name)
