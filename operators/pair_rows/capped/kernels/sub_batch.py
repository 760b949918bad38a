"""What every operator of pairs with a cap per object does with a sub-batch, whatever found its candidates."""

from __future__ import annotations

from skyband.operators.base import I64
from skyband.operators.jit import maker
from skyband.operators.pair_rows.capped.kernels.skyband import merge
from skyband.operators.pair_rows.capped.kernels.tables import Buffers
from skyband.operators.pair_rows.capped.limits import Limits
from skyband.operators.pair_rows.kernels.skyband import store
from skyband.operators.pair_rows.kernels.tables import FIRST_ALIVE, FIRST_STORED, Skyband, Sources


@maker
def pairs_of(sources: Sources) -> int:
    """Return an upper bound of the pairs in ``sources``."""
    size = sources.batch.size
    return int(len(sources.skyband.score) + sources.candidates.found + size * (size - 1) // 2)


@maker
def merge_sub_batch(
    limits: Limits, keys: I64, key: int, first_alive: int, sources: Sources, skyband: Skyband, end: int, buffers: Buffers
) -> tuple[Skyband, int]:
    """Make the sub-batch part of the key's state; ``first_alive`` after its last arrival. Return the states' arena and its end."""
    keys[key, FIRST_ALIVE] = first_alive
    length = merge(limits, first_alive, keys[key, FIRST_STORED], sources.batch, sources.candidates, sources.skyband, buffers)
    return store(keys, key, buffers.merged, length, skyband, end)
