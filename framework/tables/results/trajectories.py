"""Compute time-varying values of items, and what they carry, at an instant from the points of their trajectories.

A point has a value and its slope, valid from ``valid_from`` until the item's next point. Values with a slope are stored in seconds but are
whole microseconds. Computed in microseconds, a value is the same from whichever earlier point it is computed. Other values are constant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.items import ItemShape
from skyband.framework.tables.render import key_numbers, last_of_each

I64 = npt.NDArray[np.int64]


def values_at(rows: pa.Table, points: pa.Table, item: ItemShape, named: Sequence[str], at: I64) -> pa.Table:
    """Return intervals with time-varying values as of ``at`` (microseconds, one per row), from the latest of ``points`` by then.

    An interval has the values as of its ``valid_from``. ``named``: the columns that identify items and their streams. O(n log n).
    SkybandError SKY-E900 if an interval begins after its instant.
    """
    points = pa.concat_tables([rows.select(points.column_names).cast(points.schema), points])
    number, of_point = (
        key_numbers([rows, points], named) if named else (np.zeros(rows.num_rows, np.int64), np.zeros(points.num_rows, np.int64))
    )
    since = _micros(points)
    # Sort points and instants together, points first: the point before an instant gives its value.
    order = np.lexsort((np.repeat([0, 1], [len(since), len(at)]), np.append(since, at), np.append(of_point, number)))
    is_point = order < len(since)
    before = np.maximum.accumulate(np.where(is_point, np.arange(len(order)), -1))[~is_point]
    of_row = order[~is_point] - len(since)
    found = np.empty(len(at), np.int64)
    found[of_row] = np.where(before < 0, -1, order[before]) if len(order) else -1
    if (found < 0).any() or not np.array_equal(of_point[found], number) if len(at) else False:
        raise SkybandError("SKY-E900", "the value of an item is requested for an instant before it entered the result")
    varying = item.time_varying
    assert varying is not None
    columns = {name: points[name].take(pa.array(found)) for name in item.varying_columns}
    if varying.slope is not None:
        value = points[varying.value].to_numpy()[found]
        slope = points[varying.slope].cast(pa.int64()).to_numpy()[found]
        micros = np.round(value * 1e6).astype(np.int64) + slope * (at - since[found])
        columns |= {varying.value: pa.array(micros / 1e6), varying.slope: pa.array(slope).cast(rows.schema.field(varying.slope).type)}
    for name, column in columns.items():
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)
    return rows


def latest_known(rows: pa.Table, points: pa.Table, streams: Sequence[str], at: I64) -> I64:
    """Return for each interval the later of ``at``, up to which it is complete, and the last known instant of its stream.

    For a key without new rows, ``at`` is that of its last rows; its results may have changed since. O(n log n).
    """
    known = np.append(_micros(rows), _micros(points))
    every = pa.concat_tables([rows.select(streams), points.select(streams).cast(rows.select(streams).schema)]) if streams else None
    number = key_numbers([every], streams)[0] if every is not None else np.zeros(len(known), np.int64)
    newest = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest, number, known)
    found: I64 = np.maximum(at, newest[number[: rows.num_rows]])
    return found


def latest_points(points: pa.Table, named: Sequence[str]) -> pa.Table:
    """Return the last point of every item. O(n log n)."""
    ordered = points.take(pa.array(np.argsort(_micros(points), kind="stable")))
    (number,) = key_numbers([ordered], named) if named else (np.zeros(ordered.num_rows, np.int64),)
    return ordered.take(pa.array(last_of_each(number)))


def _micros(points: pa.Table) -> I64:
    found: I64 = pc.cast(points["valid_from"], pa.int64()).to_numpy()
    return found
