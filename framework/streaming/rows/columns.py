"""Convert Arrow columns to the flat NumPy columns that operators take; text becomes codes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.rows.derived import characters, derived
from skyband.operators.base import NULL, AnyArray, Column, Ragged


def micros(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a timestamp column as int64 microseconds since 1970 UTC, null as ``NULL``."""
    return ints(column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def ints(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return an integer column as int64, null as ``NULL``."""
    column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(NULL, pa.int64()))
    return _own(column)


def floats(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return a numeric column as float64, null as NaN."""
    column = column.cast(pa.float64())
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(float("nan"), pa.float64()))
    return _own(column)


def units(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return decimals of up to 18 digits as int64 numbers of their smallest units, null as ``NULL``. O(n)."""
    parts = [np.empty(0, np.int64)]
    for chunk in column.chunks:
        n, first = len(chunk), chunk.offset
        low = np.frombuffer(chunk.buffers()[1], np.int64)[2 * first : 2 * (first + n) : 2]  # the low words of numbers of 128 bits
        parts.append(np.where(chunk.is_null().to_numpy(zero_copy_only=False), NULL, low) if chunk.null_count else low)
    return np.concatenate(parts)


def _own(column: pa.ChunkedArray) -> AnyArray:
    """Return the values as a writable array: kernels are compiled for those, and Arrow's memory is read-only."""
    return np.require(column.to_numpy(), requirements=["C", "W"])


def vectors(column: pa.ChunkedArray, dimension: int) -> npt.NDArray[np.float64]:
    """Return lists of ``dimension`` numbers as float64 (n, dimension), a null list as NaN. O(n dimension)."""
    out = np.full((len(column), dimension), np.nan)
    at = 0
    for chunk in column.chunks:
        there = chunk.is_valid().to_numpy(zero_copy_only=False)
        out[at : at + len(chunk)][there] = chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
        at += len(chunk)
    return out


def ragged(column: pa.ChunkedArray) -> Ragged:
    """Return a column of lists of codes, none null, as ``Ragged``."""
    whole = column.combine_chunks()
    starts = whole.offsets.to_numpy().astype(np.int64)
    values = whole.values.to_numpy()[starts[0] : starts[-1]]
    return Ragged(starts - starts[0], np.require(values, requirements=["C", "W"]))


class TextCodes:
    """The codes of one bucket's texts: constants of the spec first, then values in the order in which they appear.

    Rebuilt from the window when state is read back: results depend on equality of codes, never on their values. Only the codes that stand
    in an operator's own arrays have to stay: state keeps those (``held``).
    """

    def __init__(self, constants: tuple[str, ...], held: pa.Table | None = None) -> None:
        self.values = pa.array(constants, pa.string())
        self.numbers = np.arange(len(constants))
        self.constants = len(constants)
        if held is not None and held.num_rows:
            self.values = pa.concat_arrays([self.values, *held["value"].chunks])
            self.numbers = np.append(self.numbers, held["code"].to_numpy())

    def encode(self, column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """Return the codes of a text column, null as ``NULL``; new values get the next codes. O(n + values), all in Arrow's kernels."""
        column = column.cast(pa.string())
        places = pc.index_in(column, value_set=self.values)
        fresh = pc.and_(places.is_null(), column.is_valid())
        if pc.any(fresh).as_py():
            new = pc.unique(column.filter(fresh))
            self.values = pa.concat_arrays([self.values, new])
            self.numbers = np.append(self.numbers, self.numbers.max(initial=-1) + 1 + np.arange(len(new)))
            places = pc.index_in(column, value_set=self.values)
        place = ints(places)
        return np.where(place == NULL, NULL, np.append(self.numbers, NULL)[np.maximum(place, -1)])

    def decode(self, codes: npt.NDArray[np.int64]) -> pa.Array:
        """Return the texts of codes, ``NULL`` as null. O(n log values)."""
        known = codes != NULL
        return self.values.take(pa.array(np.searchsorted(self.numbers, np.where(known, codes, 0)), mask=~known))

    def held(self, columns: list[pa.ChunkedArray]) -> pa.Table:
        """Return ``value`` and ``code`` of the texts in ``columns`` that are not constants, by code, as ``__init__`` takes them."""
        seen = [pc.index_in(c.cast(pa.string()), value_set=self.values).drop_null().to_numpy() for c in columns]
        place = np.unique(np.concatenate([*seen, np.empty(0, np.int32)]))
        place = place[place >= self.constants].astype(np.int64)
        place = place[np.argsort(self.numbers[place])]
        return pa.table({"value": self.values.take(pa.array(place)), "code": self.numbers[place]})


def operator_column(rows: pa.Table, wanted: Column, codes: TextCodes) -> AnyArray:
    """Return one attribute of ``rows`` as an operator wants it: float64 for kind ``float``, int64 otherwise.

    Raises pa.ArrowInvalid if the column cannot be read as its kind (a plan never asks for that).
    """
    column, kind = stream_column(rows, wanted), wanted.kind
    if kind == "vector":
        return vectors(column, wanted.dimension)
    if kind == "float":
        return floats(column)
    if kind == "text":
        return codes.encode(column)
    if kind == "time":
        return micros(column)
    if kind == "units":
        return units(column)
    return ints(column)


def ragged_column(rows: pa.Table, wanted: Column) -> Ragged:
    """Return a column of kind ``tokens`` or ``characters``."""
    column = stream_column(rows, wanted)
    return characters(column) if wanted.kind == "characters" else ragged(column)


def stream_column(rows: pa.Table, wanted: Column) -> pa.ChunkedArray:
    """Return the values of a column before they are coded."""
    return rows[wanted.sources[0]] if wanted.expression is None else derived(wanted.expression, rows)
