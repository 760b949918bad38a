"""The numbers of shards among those of buckets: negative, so that they have states of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.shards import Share


@dataclass(frozen=True, slots=True)
class Shards:
    """``of`` shards of each of ``buckets``."""

    of: int
    buckets: int

    def number(self, bucket: int, shard: int) -> int:
        """Return the number of a shard."""
        return -1 - (bucket * self.of + shard)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all shards."""
        yield from (self.number(bucket, shard) for bucket in range(self.buckets) for shard in range(self.of))

    def place(self, number: int) -> tuple[int, int]:
        """Return (bucket, shard) of a number."""
        return divmod(-1 - number, self.of)


def several(of: int, buckets: int) -> Shards | None:
    """Return the ``of`` shards of each of ``buckets``, None for one: then a bucket searches itself."""
    return Shards(of, buckets) if of > 1 else None


# The messages of shards to their bucket: the pairs that they found for its operators, as one table a call.

_SAID: Final = b"skyband"
_SCHEMA: Final = pa.schema(
    [
        ("operator", pa.int16()), ("query", pa.int64()), ("key", pa.int64()), ("older", pa.int64()), ("newer", pa.int64()),
        ("score", pa.float64()),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Taken:
    """What a shard, or its bucket, has taken in a call: so many accepted rows, of all events before ``until``."""

    rows: int
    until: int


def found_table(share: Share, taken: Taken, found: Mapping[str, FoundPairs]) -> pa.Table:
    """Return the message of a shard: the pairs found by operator name, and how many rows it has taken."""
    said = {"shard": share.number, "of": share.of, "rows": taken.rows, "until": taken.until, "operators": list(found)}
    operator = np.repeat(np.arange(len(found), dtype=np.int16), [len(pairs) for pairs in found.values()])
    columns = [operator, *(_all([getattr(p, name) for p in found.values()]) for name in _SCHEMA.names[1:])]
    return pa.table(columns, schema=_SCHEMA.with_metadata({_SAID: json.dumps(said).encode()}))


def _all(parts: Sequence[Any]) -> Any:
    # A copy even of one part: kernels are compiled for arrays that can be written.
    return np.concatenate(parts)


def pairs_found(messages: Sequence[bytes | pa.Buffer], taken: Taken) -> dict[str, FoundPairs]:
    """Return the pairs that all shards have found, by operator name.

    Raises SkybandError SKY-E900 if a shard is missing, has taken other rows than the bucket, or sent what cannot be read: pairs would be
    lost.
    """
    parts: dict[str, list[FoundPairs]] = {}
    came: list[tuple[int, int]] = []
    for message in messages:
        try:
            table = bytes_table(message)
            said = json.loads((table.schema.metadata or {})[_SAID])
            came.append((int(said["shard"]), int(said["of"])))
            theirs, names = Taken(said["rows"], said["until"]), list(said["operators"])
            columns = [table[name].to_numpy() for name in _SCHEMA.names]
        except (pa.ArrowException, KeyError, TypeError, ValueError) as e:
            raise _broken("a message cannot be read") from e
        if theirs != taken:
            raise _broken(f"shard {came[-1][0]} has taken {counted(theirs.rows, 'row')} up to {theirs.until}, and its bucket {taken}")
        if parts and list(parts) != names:
            raise _broken("they have searched for different queries")
        ends = np.searchsorted(columns[0], np.arange(len(names) + 1))
        for i, name in enumerate(names):
            parts.setdefault(name, []).append(FoundPairs(*(c[ends[i] : ends[i + 1]] for c in columns[1:])))
    of = came[0][1] if came else 1
    if sorted(came) != [(shard, of) for shard in range(of)]:
        raise _broken(f"{len(came)} of {of} shards have sent what they found")
    return {name: FoundPairs(*(_all([getattr(p, c) for p in pairs]) for c in _SCHEMA.names[1:])) for name, pairs in parts.items()}


def _broken(why: str) -> SkybandError:
    return SkybandError(
        "SKY-E900", f"the shards of a bucket do not agree with it: {why}", hint="please report this; the next run repeats the batch"
    )
