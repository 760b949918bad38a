"""Operators that search for the partners of each arrival by a score: what shards and a merge say is what the operator says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.contract import random_rows
from skyband.operators.shards import BLOCK, Shardable
from tests.operators.sharded import SHARDS, cuts_of, plain_changes, sharded_changes
from tests.operators.test_scored_partners import operators


def shardable(name: str, deletes: bool) -> Any:
    """An operator whose windows are longer than a block."""
    op = replace(operators()[name], deletes=deletes)
    assert isinstance(op, Shardable)
    assert op.can_be_sharded
    return op


@given(st.sampled_from(sorted(operators())), st.booleans(), st.sampled_from(SHARDS), st.integers(0, 2**32), st.integers(1, 3))
def test_shards_and_a_merge_give_the_changes_of_the_operator(name: str, deletes: bool, of: int, seed: int, keys: int) -> None:
    rng = np.random.default_rng(seed)
    op = shardable(name, deletes)
    stream = random_rows(op, rng, int(rng.integers(1, 3 * BLOCK)), keys)
    cuts = cuts_of(stream, rng, 0.2)
    assert replace(sharded_changes(op, stream, of, []), found=0) == plain_changes(op, stream)
    assert replace(sharded_changes(op, stream, of, cuts, rng), found=0) == plain_changes(op, stream, cuts)
