"""Top-k of one scoring function, a block at a time: the kernels Python calls.

Groups of arrays come as plain tuples, in the order of the fields of the NamedTuple they become here: for a call from Python a NamedTuple
costs about 0.6 microseconds more than a tuple, which blocks of few rows would feel.
"""

from __future__ import annotations

from typing import Any

from skyband.operators.base import F64
from skyband.operators.jit import jit
from skyband.operators.single_rows.blocks import Block
from skyband.operators.single_rows.kernels.replay_state import Records
from skyband.operators.topk.kernels.bands import absorb
from skyband.operators.topk.kernels.compact import compact
from skyband.operators.topk.kernels.one_function import replay_block
from skyband.operators.topk.kernels.state import Ends, Keys, Members, Queries, Scratch

Plain = tuple[Any, ...]


@jit
def advance_bands(
    queries: Plain, block: Plain, scores: F64, keys: Plain, members: Plain, end: int, records: Plain, scratch: Plain,
    since: int, until: int, piece: int,
) -> tuple[Plain, int, int, Plain, int]:  # fmt: skip
    """Run ``replay_block`` without deletions on skybands, then ``absorb``; return their results with groups as plain tuples."""
    table, rows, all_keys = Queries(*queries), Block(*block), Keys(*keys)
    bands, room = Members(*members), Scratch(*scratch)
    none = rows.deletion_row
    found, changes, refills = replay_block(
        table, rows, scores, all_keys, bands, Ends(False, none, none), Records(*records), room, since, until, piece
    )  # fmt: skip
    bands, end = absorb(table, rows, scores, all_keys, bands, end, until, room)
    moved = bands.score, bands.seq, bands.time, bands.dominators
    return (found.numbers, found.score), changes, refills, moved, end


@jit
def advance_windows(
    queries: Plain, block: Plain, scores: F64, keys: Plain, members: Plain, ends: Plain, records: Plain, scratch: Plain,
    since: int, until: int, piece: int,
) -> tuple[Plain, int, int, Plain]:  # fmt: skip
    """Run ``replay_block`` with deletions on all alive candidates, then ``compact``; return their results with groups as plain tuples."""
    table, rows, all_keys = Queries(*queries), Block(*block), Keys(*keys)
    kept, gone = Members(*members), Ends(*ends)
    found, changes, refills = replay_block(
        table, rows, scores, all_keys, kept, gone, Records(*records), Scratch(*scratch), since, until, piece
    )  # fmt: skip
    kept = compact(table, rows, scores, all_keys, kept, gone, until)
    return (found.numbers, found.score), changes, refills, (kept.score, kept.seq, kept.time, kept.dominators)
