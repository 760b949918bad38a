"""The messages of shards to their bucket: the pairs that they found for its operators, as one table a call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.rows.blocks import bytes_table
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.shards import Share

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
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def pairs_found(messages: Sequence[bytes | pa.Buffer], taken: Taken) -> dict[str, FoundPairs]:
    """Return the pairs that all shards have found, by operator name.

    Raises SkybandError SKY-E900 if a shard is missing, or has taken other rows than the bucket: pairs would be lost.
    """
    parts: dict[str, list[FoundPairs]] = {}
    came, of = set(), 1
    for message in messages:
        table = bytes_table(message)
        said = json.loads(table.schema.metadata[_SAID])
        if Taken(said["rows"], said["until"]) != taken:
            raise _broken(f"shard {said['shard']} has taken {said['rows']} rows up to {said['until']}, and its bucket {taken}")
        of = said["of"]
        came.add(said["shard"])
        operator = table["operator"].to_numpy()
        columns = [table[name].to_numpy() for name in _SCHEMA.names[1:]]
        ends = np.searchsorted(operator, np.arange(len(said["operators"]) + 1))
        for i, name in enumerate(said["operators"]):
            parts.setdefault(name, []).append(FoundPairs(*(c[ends[i] : ends[i + 1]] for c in columns)))
    if len(came) != of or len(messages) != of:
        raise _broken(f"{len(came)} of {of} shards have sent what they found")
    return {name: FoundPairs(*(_all([getattr(p, c) for p in pairs]) for c in _SCHEMA.names[1:])) for name, pairs in parts.items()}


def _broken(why: str) -> SkybandError:
    return SkybandError(
        "SKY-E900", f"the shards of a bucket do not agree with it: {why}", hint="please report this; the next run repeats the batch"
    )
