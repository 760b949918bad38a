"""A look-up table as rows are joined with it: the needed columns only, in one order, checked to have one row for a key and an instant.

Two readings of equal tables give equal Arrow tables, whatever the order of rows and files.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.plan.nodes import LookupNode

ON: Final = "__on_"
"""Prefix of the columns of the key; its number follows. None of them is ever null."""
START: Final = "__start"
END: Final = "__end"
"""The columns of the interval of validity, half open; null: without an end on that side."""
MOST_ROWS: Final = 1_000_000
MOST_BYTES: Final = 256 << 20
"""Most rows and bytes of a table: each task of a run holds it in memory."""
_SHOWN: Final = 60
"""Most characters of a value in a message."""


def nodes(plan: Plan) -> list[tuple[LookupNode, SourceNode]]:
    """Return the look-ups of a plan, each with where its table is."""
    return list(zip(plan.intake.lookups, plan.lookups, strict=True))


def on_names(node: LookupNode) -> list[str]:
    """Return the columns of the key."""
    return [f"{ON}{i}" for i in range(len(node.on))]


def schema(node: LookupNode, source: SourceNode) -> pa.Schema:
    """Return the columns of a checked table: its key, its interval (with ``as_of``), and what rows take under its new names."""
    types = {f.name: arrow_type(f.type) for f in source.fields}
    fields = [pa.field(name, types[column]) for name, (_, column) in zip(on_names(node), node.on, strict=True)]
    if node.valid is not None:
        fields += [pa.field(START, STAMP), pa.field(END, STAMP)]
    return pa.schema(fields + [pa.field(new, types[column]) for new, column in node.take])


def checked(node: LookupNode, source: SourceNode, rows: pa.Table) -> pa.Table:
    """Return the table that ``rows``, with the columns of the look-up's schema, make.

    Rows whose key has a null, and rows that are valid at no instant, match nothing and are left out. O(n log n).
    Raises SkybandError SKY-E320 if two rows have one key (with ``as_of``: at one instant), SKY-E321 if the table is too large.
    """
    columns = [rows[column] for _, column in node.on]
    if node.valid is not None:
        columns += [rows[column].cast(STAMP) for column in node.valid]
    columns += [rows[column] for _, column in node.take]
    to = schema(node, source)
    made = pa.table([c.cast(t) for c, t in zip(columns, to.types, strict=True)], schema=to)
    if made.num_rows > MOST_ROWS or made.nbytes > MOST_BYTES:
        said = f"look-up {node.name}: its table has more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20} MiB"
        raise SkybandError("SKY-E321", said, hint="each task holds it in memory: join larger tables where the source's data is written")
    names = on_names(node)
    made = made.filter(_all([pc.is_valid(made[name]) for name in names]))
    if node.valid is not None:
        made = made.filter(pc.fill_null(pc.less(made[START], made[END]), True))
    order = {name: made[name] for name in names}
    if node.valid is not None:
        # A row without a start is valid from the beginning of time; the sort would put nulls last.
        order[START] = pc.fill_null(made[START].cast(pa.int64()), -(2**63))
    made = made.take(pc.sort_indices(pa.table(order), sort_keys=[(name, "ascending") for name in order])).combine_chunks()
    _check_unique(node, made)
    return made


def _check_unique(node: LookupNode, table: pa.Table) -> None:
    """Raise SkybandError SKY-E320 for the first two neighbors with one key and, with ``as_of``, intervals that overlap."""
    if table.num_rows < 2:
        return
    first, second = table.slice(0, table.num_rows - 1), table.slice(1)
    same = _all([pc.equal(first[name], second[name]) for name in on_names(node)])
    if node.valid is not None:
        # In the order of their starts, null first: the second begins before the first ends.
        apart = pc.less_equal(first[END], second[START])
        same = pc.and_(same, pc.invert(pc.fill_null(apart, False)))
    where = np.flatnonzero(same.to_numpy())
    if not len(where):
        return
    at = int(where[0])
    key = ", ".join(f"{column} = {_shown(table[name][at].as_py())}" for name, (_, column) in zip(on_names(node), node.on, strict=True))
    if node.valid is None:
        said = f"look-up {node.name}: two rows have the key {key}"
        raise SkybandError("SKY-E320", said, hint="leave one row for each key, or give them intervals of validity: as_of")
    spans = " and ".join(f"[{_instant(table[START][i])}, {_instant(table[END][i])})" for i in (at, at + 1))
    said = f"look-up {node.name}: two rows with the key {key} are valid at the same time: {spans}"
    raise SkybandError("SKY-E320", said, hint="intervals are half open: end each where the next begins")


def _all(conditions: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    found = conditions[0]
    for other in conditions[1:]:
        found = pc.and_(found, other)
    return found


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _instant(value: pa.Scalar) -> str:
    return str(value.as_py()).removesuffix("+00:00") if value.is_valid else "..."
