"""Split the state of one bucket into those of several. Each gets the keys with its hash and continues them byte for byte.

The number of buckets may grow to a multiple, so that every new bucket has all its keys from one old bucket. Uses no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.bucket.objects import OBJECT_KEY
from skyband.framework.streaming.bucket.operator_host import FIRST
from skyband.framework.streaming.bucket.state_names import CHUNK, SEEN
from skyband.framework.streaming.bucket.store import address, split_address
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.config import KEY_HASHES, HostConfig
from skyband.operators.state_keys import state_keys

I64 = npt.NDArray[np.int64]


class Division:
    """The state ``values`` of a bucket, parsed once, to be split among ``buckets``, a multiple of the former number.

    All operators of ``config`` support that (``plan.growth``). Raises ValueError for an unknown value of the state.
    """

    def __init__(self, config: HostConfig, values: Mapping[str, bytes], buckets: int) -> None:
        self.operators = {node.name: node.operator for node in config.operators}
        self.buckets = buckets
        self.core: dict[str, Any] = json.loads(values["core"])
        self.keys = blocks.bytes_arrays(values["keys"])
        self.bucket_of: I64 = self.keys["d1"] % buckets
        """The bucket of every key."""
        self.key_rows = blocks.bytes_table(values["key_rows"]) if "key_rows" in values else None
        """The values of every key; None before the first key."""
        self.rest = {n: _read(n, values[n]) for n in values if n not in ("core", "keys", "key_rows")}

    def numbers(self) -> list[int]:
        """Return the buckets that get a key, or a row that waits, whose key may be new."""
        waiting = self.rest["pending"][KEY_HASHES[0]].to_numpy() % self.buckets
        return [int(n) for n in np.unique(np.concatenate([self.bucket_of, waiting]))]

    def of(self, number: int) -> dict[str, bytes]:
        """Return the state of bucket ``number``. O(state)."""
        keys = np.flatnonzero(self.bucket_of == number)
        core = {name: list(v) if isinstance(v, list) else v for name, v in self.core.items()}
        values = {"keys": blocks.arrays_bytes({name: a[keys] for name, a in self.keys.items()})}
        if self.key_rows is not None and len(keys):
            values["key_rows"] = blocks.table_bytes(self.key_rows.take(pa.array(keys)))
        for name, value in self.rest.items():
            what, _, of = name.partition("/")
            if what in (CHUNK, SEEN):
                kept = _kept_rows(value, keys)
                if kept.num_rows:
                    values[name] = blocks.table_bytes(kept)
                else:
                    core[what].remove(int(of))
            elif what == "operator":
                divisible = state_keys(self.operators[of])
                assert divisible is not None, of
                values[name] = blocks.arrays_bytes(divisible.picked(value, keys))
            elif what == "retained":
                values[name] = _renumbered(value, keys)[0].tobytes()
            elif what == FIRST:
                mine = np.append(value, np.zeros(max(0, len(self.bucket_of) - len(value)), np.int64))
                values[name] = mine[keys].tobytes()
            elif what == "objects":
                mine = pc.or_(pc.is_in(value[OBJECT_KEY], pa.array(keys)), pc.is_null(value[OBJECT_KEY]))
                values[name] = blocks.table_bytes(_with_keys(value.filter(mine), keys))
            elif what == "pending":
                hashes = value[KEY_HASHES[0]].to_numpy() % self.buckets
                values[name] = blocks.table_bytes(value.filter(pa.array(hashes == number)))
            elif what == "deleted":
                at, mine = _renumbered(value["at"], keys)
                values[name] = blocks.arrays_bytes({"at": at, "time": value["time"][mine]})
            else:
                # Texts by their codes: the next save drops those of other keys.
                values[name] = value
        return values | {"core": json.dumps(core).encode()}


def _read(name: str, value: bytes) -> Any:
    what = name.partition("/")[0]
    if what in ("operator", "deleted"):
        return blocks.bytes_arrays(value)
    if what in (CHUNK, SEEN, "objects", "pending"):
        return blocks.bytes_table(value)
    if what in ("retained", FIRST):
        return np.frombuffer(value, np.int64)
    if what != "texts":
        raise ValueError(f"unknown value of a state: {name}")
    return value


def _renumbered(at: I64, keys: I64) -> tuple[I64, I64]:
    """Return (the addresses of ``keys`` with the keys' new numbers, their positions)."""
    key, seq = split_address(at)
    mine = np.flatnonzero(np.isin(key, keys))
    return address(np.searchsorted(keys, key[mine]), seq[mine]), mine


def _kept_rows(rows: pa.Table, keys: I64) -> pa.Table:
    at, mine = _renumbered(rows["__at"].to_numpy(), keys)
    kept = rows.take(pa.array(mine))
    return kept.set_column(kept.column_names.index("__at"), "__at", pa.array(at))


def _with_keys(objects: pa.Table, keys: I64) -> pa.Table:
    """Return the objects with their keys' new numbers; the last row has none (``ObjectNumbers.saved``)."""
    key = objects[OBJECT_KEY].to_pylist()[:-1]
    new = [*np.searchsorted(keys, np.array(key, np.int64)).tolist(), None]
    return objects.set_column(objects.column_names.index(OBJECT_KEY), OBJECT_KEY, pa.array(new, pa.int64()))
