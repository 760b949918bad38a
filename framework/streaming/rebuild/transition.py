"""Move a bucket's state from one set of operators to another, without its input: what is removed goes, what is new is empty.

The other operators keep their values byte for byte. The window's rows are written again, with the columns and the rows that the new set
needs. Columns that rows of before lack are null in them: an operator that begins now asks for later rows only. Uses no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.streaming.bucket.fill_files import FILLED
from skyband.framework.streaming.bucket.operator_host import FIRST, OperatorHost, objects_value
from skyband.framework.streaming.bucket.sequence import Keys
from skyband.framework.streaming.bucket.state_names import CHUNK, JOURNAL, SEEN
from skyband.framework.streaming.bucket.store import WindowStore, distinct
from skyband.framework.streaming.rebuild.backfill import only
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import HostConfig

I64 = npt.NDArray[np.int64]
_SEQUENCER = ("keys", "key_rows", "pending", "deleted")
"""Values of a bucket's state that belong to no operator."""
_PARTS = ("operator", "retained", FIRST)
"""Values of a bucket's state that belong to one operator."""
_BYTES = "bytes"


def changed(config: HostConfig, was: Mapping[str, bytes], fresh: Collection[str]) -> dict[str, bytes]:
    """Return all values of the state that continues ``was`` with the operators of ``config``, of which those named ``fresh`` are empty.

    ``was``: the values of a state that has no journal. Raises ValueError if an operator of ``config`` is neither in it nor ``fresh``.
    O(rows of the window).
    """
    lost = [o.name for o in config.operators if o.name not in fresh and f"operator/{o.name}" not in was]
    if lost or any(name.startswith(f"{JOURNAL}/") for name in was):
        raise ValueError(f"no state of {', '.join(lost)}" if lost else "the state has a journal")
    core: dict[str, Any] = json.loads(was["core"])
    keys, until = Keys.restore(blocks.bytes_arrays(was["keys"])), int(core["until"])
    texts = blocks.bytes_table(was["texts"]) if was.get("texts") else None
    whole = OperatorHost(config, TextCodes(config.texts, texts))
    whole.retained = [np.frombuffer(was.get(f"retained/{o.name}", b"") if o.name not in fresh else b"", np.int64) for o in config.operators]
    whole._pin()
    values = {name: was[name] for name in _SEQUENCER if name in was}
    for node in config.operators:
        if node.name not in fresh:
            values |= {f"{part}/{node.name}": was[name] for part in _PARTS if (name := f"{part}/{node.name}") in was}
        elif keys.next_seq[: keys.known].any():
            values[f"{FIRST}/{node.name}"] = keys.next_seq[: keys.known].tobytes()
    values |= _begun(config, [o.name for o in config.operators if o.name in fresh])
    for named, numbers in whole.objects.items():
        name = objects_value(named)
        values[name] = was[name] if name in was else blocks.table_bytes(numbers.saved())
    rows = _rows(was, core)
    core = {k: v for k, v in core.items() if k not in (CHUNK, SEEN, f"next_{CHUNK}", f"next_{SEEN}")}
    for name, store in whole._stores():
        _load(store, rows)
        store.expire(keys.next_seq, until)
        store.rewrite()
        for number, chunk in store.unsaved(keys.next_seq, until):
            values[f"{name}/{number}"] = blocks.table_bytes(chunk)
        core |= {name: [c.number for c in store.chunks], f"next_{name}": store.next_chunk}
    coded = whole.coded({o.name: blocks.bytes_arrays(was[f"operator/{o.name}"]) for o in config.operators if o.name not in fresh})
    if coded:
        values["texts"] = blocks.table_bytes(whole.codes.held(coded))
    core[_BYTES] = sum(len(value) for name, value in values.items() if not name.startswith((f"{CHUNK}/", f"{SEEN}/")))
    return values | {"core": json.dumps(core).encode()} | ({FILLED: was[FILLED]} if FILLED in was else {})


def _begun(config: HostConfig, fresh: Collection[str]) -> dict[str, bytes]:
    """Return the values of operators before their first row."""
    host = OperatorHost.new(only(config, fresh))
    values: dict[str, bytes] = {}
    for node, logic in zip(host.operators, host.logics, strict=True):
        values[f"retained/{node.name}"] = b""
        values[f"operator/{node.name}"] = blocks.arrays_bytes(logic.checkpoint())
    return values


def _rows(was: Mapping[str, bytes], core: Mapping[str, Any]) -> pa.Table:
    """Return the rows that the state keeps, by address: those of the window, and the hashes of their ids where these are apart."""
    chunks, seen = ([blocks.bytes_table(was[f"{name}/{n}"]) for n in core.get(name, ())] for name in (CHUNK, SEEN))
    tables = [pa.concat_tables(parts).combine_chunks() for parts in (chunks, seen) if parts]
    if not tables:
        return pa.table({"__at": pa.array([], pa.int64()), "__time": pa.array([], pa.int64())})
    tables = [t.take(pa.array(np.argsort(t["__at"].to_numpy(), kind="stable"))) for t in tables]
    at = distinct(np.concatenate([t["__at"].to_numpy() for t in tables]))
    time = np.empty(len(at), np.int64)
    columns: dict[str, pa.ChunkedArray] = {}
    for table in tables:
        here = table["__at"].to_numpy()
        place = np.searchsorted(here, at)
        found = np.append(here, -1)[place] == at
        time[found] = table["__time"].to_numpy()[place[found]]
        index = pa.array(place, mask=~found)
        columns |= {n: table[n].take(index) for n in table.column_names if n not in ("__at", "__time")}
    return pa.table({**columns, "__at": at, "__time": time})


def _load(store: WindowStore, rows: pa.Table) -> None:
    """Give the store its columns of ``rows``: a column that is not there is null, a list of it empty."""
    made = {}
    for field in store.schema:
        if field.name in rows.column_names:
            made[field.name] = rows[field.name].cast(field.type)
        elif pa.types.is_list(field.type):
            made[field.name] = pa.chunked_array([pa.array([[]] * rows.num_rows, field.type)])
        else:
            made[field.name] = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    if rows.num_rows:
        store.load(0, pa.table({**made, "__at": rows["__at"], "__time": rows["__time"]}))
        store.chunks = []
