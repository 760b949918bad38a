"""Parses cells of text that Spark and Skyband read alike; a column with any other spelling is left to Spark.

Whole numbers of digits with or without a minus, ``true`` and ``false``, days (``2024-02-29``) and instants of the years 1900 to 9999
(``2024-02-29 23:59:59.123456``, with or without fraction, ``T`` for the space, ``Z`` or an offset such as ``+05:30``), decimal fractions. A
null stays one. No cell is empty: that is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.types import arrow_type
from skyband.operators.jit import HAVE_NUMBA

Read = Callable[[pa.Array, pa.DataType], pa.Array | None]

LEAST: Final = 1 << 18
"""Least characters of a column that compiled code reads: loading it takes half a second."""
ENOUGH: Final = 1 << 24
"""Characters that Arrow parses in a process before compiled code takes over, which is four times as fast."""

_NAIVE: Final = pa.timestamp("us")
_DAY: Final = r"(19|[2-9][0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}"
_OFFSET: Final = "[+-](0[0-9]:[0-5][0-9]|1[0-7]:[0-5][0-9]|18:00)"
"""The offset of a zone: at most 18 hours, as Java has it."""
_INSTANT: Final = rf"^{_DAY}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?(Z|{_OFFSET})?$"
_FRACTION: Final = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE]-?[0-9]{1,2})?$"


def read(column: pa.Array, type_: str, least: int = LEAST) -> pa.Array | None:
    """Return a column of texts as a spec's type; None if a cell has another spelling. KeyError for a type not in ``READABLE``. O(bytes).

    ``least``: see ``LEAST``. The result depends neither on it nor on what was read before.
    """
    few, many = READABLE[type_]
    data = column.buffers()[2] if len(column) else None
    size = 0 if data is None else data.size
    if HAVE_NUMBA and size and (size >= least or _Spent.by_arrow >= ENOUGH):
        return many(column, arrow_type(type_))
    _Spent.by_arrow += size
    return few(column, arrow_type(type_))


class _Spent:
    """Counts the characters that this process has parsed with Arrow."""

    by_arrow = 0


def _cast(pattern: str) -> Read:
    """Return a parser that casts cells matching ``pattern`` with Arrow."""

    def parse(column: pa.Array, type_: pa.DataType) -> pa.Array | None:
        if not pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py():
            return None
        try:
            return _finite((_instants(column) if pa.types.is_timestamp(type_) else column).cast(type_))
        except pa.ArrowInvalid:
            return None

    return parse


def _instants(column: pa.Array) -> pa.Array:
    """Return instants of cells of ``_INSTANT``; those without an offset are of UTC. Raises ArrowInvalid for other days and times."""
    bare = pc.utf8_rtrim(column, "Z")
    shifted = pc.match_substring_regex(column, rf"{_OFFSET}$")
    if not pc.any(shifted).as_py():
        return bare.cast(_NAIVE)
    # Arrow wants a zone in every cell, or in none.
    return pc.if_else(shifted, column, pc.binary_join_element_wise(bare, "Z", "")).cast(pa.timestamp("us", "UTC"))


def _compiled(kernel: str, dtype: Any, *more: int) -> Read:
    def parse(column: pa.Array, type_: pa.DataType) -> pa.Array | None:
        from skyband.framework.sources.csv import cell_kernels

        out = np.zeros(len(column), dtype)
        if not getattr(cell_kernels, kernel)(*_buffers(column), out, *more):
            return None
        return pa.Array.from_buffers(type_, len(column), [column.buffers()[0], pa.py_buffer(out)], column.null_count)

    return parse


def _texts(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column


def _booleans(column: pa.Array, type_: pa.DataType) -> pa.Array | None:
    known = pc.is_in(column, value_set=pa.array(["true", "false", None]))
    return pc.equal(column, "true") if pc.all(known, min_count=0).as_py() else None


def _fractions(column: pa.Array, type_: pa.DataType) -> pa.Array | None:
    from skyband.framework.sources.csv.cell_kernels import plain_fractions

    if not plain_fractions(*_buffers(column)):
        return None
    try:
        return _finite(column.cast(type_))
    except pa.ArrowInvalid:
        return None


def _finite(column: pa.Array) -> pa.Array | None:
    """Return ``column``; None if it has numbers too large for their type, which Arrow makes infinite."""
    floats = pa.types.is_floating(column.type)
    return None if floats and not pc.all(pc.is_finite(column), min_count=0).as_py() else column


def _buffers(column: pa.Array) -> tuple[Any, Any]:
    """Return the offsets, int32 (cells + 1,), and the characters, uint8."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[: len(column) + 1]
    return offsets, np.frombuffer(column.buffers()[2], np.uint8)


READABLE: Final[Mapping[str, tuple[Read, Read]]] = {
    "string": (_texts, _texts),
    "int": (_cast("^-?[0-9]{1,10}$"), _compiled("whole", np.int32, 10, 31)),
    "bigint": (_cast("^-?[0-9]{1,19}$"), _compiled("whole", np.int64, 19, 63)),
    "double": (_cast(_FRACTION), _fractions),
    "float": (_cast(_FRACTION), _fractions),
    "boolean": (_booleans, _booleans),
    "date": (_cast(f"^{_DAY}$"), _compiled("days", np.int32)),
    "timestamp": (_cast(_INSTANT), _compiled("instants", np.int64)),
}
"""Type of a spec -> (parser of short columns, parser of long columns)."""
