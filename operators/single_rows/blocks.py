"""One call's arrivals and deletions, cut by key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.operators.base import DELETION_TARGET, I64, NULL, AnyArray, Arrivals, Column

DELETION_COLUMN = Column(DELETION_TARGET, "int")


class Block(NamedTuple):
    """The rows of one call by key, and its deletions.

    int64 (keys of the block,), keys ascending: ``keys``; ``begin``, ``end``: key ``keys[g]`` has rows [begin[g], end[g]);
    ``deletion_begin``, ``deletion_end``: its deletions; ``first_seq``: the seq of its first row, or of the one to come.

    int64 (rows,): ``time``, the objects' instants. int64 (deletions,), by key and then by instant: ``deletion_row``, the row a deletion
    comes before; ``deletion_time``, its instant; ``deletion_seq``, the seq of the object it deletes.
    """

    keys: I64
    begin: I64
    end: I64
    deletion_begin: I64
    deletion_end: I64
    first_seq: I64
    time: I64
    deletion_row: I64
    deletion_time: I64
    deletion_seq: I64


def columns_of(arrivals: Arrivals, objects: I64 | None, names: tuple[str, ...]) -> dict[str, AnyArray]:
    """Return the columns of the objects at the positions ``objects`` (None: all rows are objects)."""
    return {n: arrivals.columns[n] if objects is None else arrivals.columns[n][objects] for n in names}


def cut(arrivals: Arrivals, next_seq: I64, also: I64, deletes: bool) -> tuple[Block, I64 | None]:
    """Cut ``arrivals`` by key, adding the keys of ``also`` (sorted; those without rows get empty parts). O(rows), no Python per key.

    ``next_seq`` int64 (keys,): the seq each key's next object has. Return the block and the positions of its objects in the arrivals
    (None: all of them).
    """
    key = np.asarray(arrivals.key, np.int64)
    time = np.ascontiguousarray(arrivals.time, np.int64)
    seq = np.asarray(arrivals.seq, np.int64)
    none = np.empty(0, np.int64)
    rows: I64 | None = None
    before = gone_at = gone_seq = gone_key = none
    if deletes and len(key):
        target = np.asarray(arrivals.columns[DELETION_TARGET], np.int64)
        is_object = target == NULL
        if not is_object.all():
            gone = np.flatnonzero(~is_object)
            rows = np.flatnonzero(is_object)
            before = np.cumsum(is_object)[gone]
            gone_at, gone_seq, gone_key = time[gone], target[gone], key[gone]
            key, time, seq = key[rows], np.ascontiguousarray(time[rows]), seq[rows]
    if len(key) and key[0] == key[-1] and len(gone_key) == 0 and (len(also) == 0 or (len(also) == 1 and also[0] == key[0])):
        keys, begin, end = key[:1].copy(), np.zeros(1, np.int64), np.full(1, len(key))  # one global stream
    else:
        keys = np.unique(np.concatenate([key[_first(key)], gone_key[_first(gone_key)], also]))
        begin, end = np.searchsorted(key, keys), np.searchsorted(key, keys, "right")
    first_seq = next_seq[keys]
    some = end > begin
    first_seq[some] = seq[begin[some]]
    block = Block(
        keys, begin, end, np.searchsorted(gone_key, keys), np.searchsorted(gone_key, keys, "right"), first_seq,
        time, before, gone_at, gone_seq,
    )  # fmt: skip
    return block, rows


def _first(key: I64) -> I64:
    """Return the positions where a sorted key column starts a new key."""
    return np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.int64)


def last_key(arrivals: Arrivals) -> int:
    """Return the largest key of the arrivals, or -1."""
    return int(arrivals.key[-1]) if len(arrivals) else -1
