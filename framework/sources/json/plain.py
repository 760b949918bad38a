"""Finds JSON files that Spark's own reader reads correctly: each line is one object and nothing else. Imports no Spark.

That reader is twice as fast as ``json.spark_reader`` but silently drops what it cannot read. So each file is checked before its rows count.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.nested import path_of
from skyband.framework.sources.options import LISTING
from skyband.framework.sources.text.options import folded
from skyband.operators.jit import HAVE_NUMBA

_PIECE: Final = 16 << 20
_KINDS: Final = {"timestamp": 1, "date": 2, "double": 3, "float": 3}


def may_be_plain(source: SourceNode) -> bool:
    """Return True if Spark's own reader may read files of ``source``, provided that they are plain."""
    path = str(source.path).removeprefix("file://")
    bare = not set(folded(source.options)) - LISTING
    names = [str(f.source_name) for f in source.fields]
    ascii_names = all(n.isascii() and not set(n) & set('"\\') for n in names)
    decimals = any(f.type.startswith("decimal") for f in source.fields)
    return source.format == "json" and HAVE_NUMBA and bare and ascii_names and not decimals and "://" not in path


def why_not_plain(source: SourceNode, path: str) -> str | None:
    """Return why the file at ``path`` needs ``json.spark_reader``; None if it is plain. Raises OSError. O(bytes)."""
    from skyband.framework.sources.json.line_kernel import plain_lines

    declared: dict[str, int] = {}
    for f in source.fields:
        inside = path_of(source, str(f.source_name))
        for name in {str(f.source_name)} if inside is None else {str(f.source_name), inside[-1]}:
            if (kind := _KINDS.get(f.type, 0)) and declared.setdefault(name, kind) != kind:
                return "two columns of objects have one name and two types"
    spelled = np.frombuffer("".join(declared).encode() or b" ", np.uint8)
    ends = np.cumsum([0, *map(len, declared)]).astype(np.int64)
    kinds = np.array([*declared.values()], np.int64)
    if not re.search(r"\.(json|jsonl|ndjson|txt)$", path):
        return "a file is packed, or named otherwise"
    with open(path, "rb") as file:
        first = True
        while piece := file.read(_PIECE):
            piece += file.readline() if not piece.endswith(b"\n") else b""
            if first:
                piece, first = piece.removeprefix(b"\xef\xbb\xbf"), False
            if not is_text(piece):
                return "a file has bytes that are no UTF-8"
            if not plain_lines(np.frombuffer(piece, np.uint8), spelled, ends, kinds):
                return "a file has lines that are not one plain object"
    return None


def is_text(piece: bytes) -> bool:
    """Return True if bytes are UTF-8. O(bytes)."""
    offsets: Any = pa.py_buffer(np.array([0, len(piece)], np.int32))
    try:
        pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(piece)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
