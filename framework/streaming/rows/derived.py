"""Compute the columns that are functions of one row's texts, by Arrow's kernels (``operators.expressions.leaves``)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.operators import jit
from skyband.operators.base import I64, NULL, Ragged
from skyband.operators.expressions.ast import Attr, Call, Literal_, Node
from skyband.operators.expressions.leaves import limit_of

_Text: TypeAlias = pa.ChunkedArray | pa.Scalar


def derived(node: Node, rows: pa.Table) -> pa.ChunkedArray:
    """Return a function of texts for every row: a text, or a whole number. O(characters), and for edit distances their product."""
    if isinstance(node, Call) and node.fn == "edit_distance":
        found = _distances(_text(node.args[0], rows), _text(node.args[1], rows), limit_of(node), rows.num_rows)
        return pa.chunked_array([pa.array(found, mask=found == NULL)])
    if isinstance(node, Call) and node.fn == "length":
        return pc.utf8_length(_text(node.args[0], rows)).cast(pa.int64())
    return _text(node, rows)


def characters(text: pa.ChunkedArray | pa.Array) -> Ragged:
    """Return the code points of texts; a null is the one value ``NULL``. O(characters)."""
    whole = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    null = whole.is_null().to_numpy(zero_copy_only=False)
    whole = pc.fill_null(whole.cast(pa.large_string()), "")
    start = np.append(0, np.cumsum(pc.utf8_length(whole).to_numpy(zero_copy_only=False))).astype(np.int64)
    _, offsets, data = whole.buffers()
    values = np.empty(0, np.int64)
    if data is not None and len(whole):
        ends = np.frombuffer(offsets, np.int64)[[whole.offset, whole.offset + len(whole)]]
        joined = data[int(ends[0]) : int(ends[1])].to_pybytes().decode()
        values = np.frombuffer(joined.encode("utf-32-le"), "<u4").astype(np.int64)
    if null.any():
        values = np.insert(values, start[:-1][null], NULL)
        start += np.append(0, np.cumsum(null))
    return Ragged(start, values)


def _text(node: Node, rows: pa.Table) -> _Text:
    """Return a text for every row, or one for all."""
    if isinstance(node, Attr):
        return rows[node.name].cast(pa.string())
    if isinstance(node, Literal_):
        return pa.scalar(node.value, pa.string())
    assert isinstance(node, Call), node
    text = _text(node.args[0], rows)
    if node.fn == "lower":
        return pc.utf8_lower(text)
    numbers = [int(n.value) for n in node.args[1:] if isinstance(n, Literal_) and n.value is not None]
    return _substring(text, *numbers)


def _substring(text: _Text, position: int, count: int | None = None) -> _Text:
    """Return ``count`` code points from a position on, as Spark: 1 is the first, -1 the last, 0 the first too."""
    first = position - 1 if position > 0 else position
    stop = None if count is None else first + max(count, 0)
    if position < 0 and stop is not None and stop >= 0:
        stop = None  # up to the end, or beyond it
    return pc.utf8_slice_codeunits(text, first, stop)


def _distances(x: _Text, y: _Text, limit: int, rows: int) -> I64:
    constant = isinstance(y, pa.Scalar)
    own, other = (y, x) if constant else (x, y)
    of_x, of_y = (characters(pa.array([v.as_py()], pa.string()) if isinstance(v, pa.Scalar) else v) for v in (own, other))
    found = np.empty(rows, np.int64)
    if jit.HAVE_NUMBA:
        from skyband.operators.expressions.kernels.edit_distance import edit_distances

        edit_distances(of_x.start, of_x.values, of_y.start, of_y.values, limit, found)
    else:
        from skyband.operators.expressions.of_pool import edit_distances as plain_edit_distances

        plain_edit_distances(of_x, of_y, limit, found)
    return found
