"""Binary blocks: Arrow tables and named NumPy arrays as bytes, for the shuffle and for state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_ALIGN = 64


def table_bytes(table: pa.Table) -> bytes:
    """Return an Arrow table (or record batch) as one IPC stream. O(bytes)."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    out = pa.BufferOutputStream()
    _write(table, out)
    return bytes(out.getvalue().to_pybytes())


def write_table(table: pa.Table, path: Path) -> None:
    """Write the bytes of ``table_bytes`` to a file. O(bytes)."""
    with pa.OSFile(str(path), "wb") as out:
        _write(table, out)


def _write(table: pa.Table, out: pa.NativeFile) -> None:
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def bytes_table(data: bytes | pa.Buffer) -> pa.Table:
    """Return the table of ``table_bytes``; its columns point into ``data`` (no copy)."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def arrays_bytes(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return named fixed-width arrays as one value: a JSON header, then each array's bytes, aligned to 64."""
    header = json.dumps([[n, a.dtype.str, list(a.shape)] for n, a in arrays.items()]).encode()
    parts = [len(header).to_bytes(8, "little"), header]
    at = 8 + len(header)
    for a in arrays.values():
        pad = -at % _ALIGN
        raw = np.ascontiguousarray(a).tobytes()
        parts += [b"\0" * pad, raw]
        at += pad + len(raw)
    return b"".join(parts)


def bytes_arrays(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return writable copies of the arrays of ``arrays_bytes``."""
    size = int.from_bytes(data[:8], "little")
    at = 8 + size
    out: dict[str, npt.NDArray[Any]] = {}
    for name, dtype, shape in json.loads(data[8 : 8 + size]):
        at += -at % _ALIGN
        count = int(np.prod(shape, dtype=np.int64))
        out[name] = np.frombuffer(data, np.dtype(dtype), count, at).reshape(shape).copy()
        at += count * np.dtype(dtype).itemsize
    return out
