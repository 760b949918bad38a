"""Q top-k queries of one form as their kernels read them: a table for all of them, and a row of it for one."""

from __future__ import annotations

from typing import NamedTuple

from skyband.operators.base import F64, I64, AnyArray
from skyband.operators.jit import jit
from skyband.operators.single_rows.kernels.replay_state import Query
from skyband.operators.single_rows.score_programs import ScoreProgram

REFILLS, ROWS_READ, TESTS, WILD, UNUSABLE, OUTSIDE = range(6)
"""Places of the work counters: refills of lists, rows read for them, (row, query) tests by the grid, rows outside the grid, rows without a
value, and those of the rows outside whose values are finite."""

COUNTERS = 8


class QueryTable(NamedTuple):
    """The queries, a row per query; nothing here ever changes. Scores are *internal*: larger is better, NaN is in no result.

    int64 (Q,): ``k`` how many items a result has; ``counts`` and ``micros`` the window, each ``UNBOUNDED`` for none; ``every``
    microseconds between boundaries, 0 for changes per event; ``list_size`` how many candidates a list is filled with at least; ``where``
    the bit of a row's flags that must be set, -1 for no predicate; ``column`` the first of a query's columns in ``Records``.

    ``program``: the function's steps, or none for weighted sums. float64 (Q, constants): ``weights``, the constants of each query; of
    weighted sums, a weight per attribute, negated for queries of the smallest scores. float64 (constants, Q): ``columns``, the same by
    constant. float64 (Q, d): ``low`` and ``high``, the closed constraint boxes, infinite for none. float64 (Q,): ``floor`` and
    ``ceiling``, the least and the largest score that may be in a result. bool (Q,): ``boxed``, whether there is a box.
    """

    k: I64
    counts: I64
    micros: I64
    every: I64
    list_size: I64
    where: I64
    column: I64
    weights: F64
    low: F64
    high: F64
    columns: F64
    floor: F64
    ceiling: F64
    boxed: AnyArray
    program: ScoreProgram


class TableQuery(NamedTuple):
    """One query of the table.

    ``base``: its number, k, window and boundaries; ``list_size``, ``where``, ``floor``, ``ceiling``, ``boxed``, ``program``: as in the
    table; ``weights`` float64 (constants,), ``low``, ``high`` float64 (d,).
    """

    base: Query
    list_size: int
    where: int
    floor: float
    ceiling: float
    boxed: bool
    weights: F64
    low: F64
    high: F64
    program: ScoreProgram


@jit
def query_of(table: QueryTable, query: int) -> TableQuery:
    """Return row ``query`` of the table."""
    base = Query(query, table.k[query], table.counts[query], table.micros[query], table.every[query], table.column[query])
    return TableQuery(
        base, table.list_size[query], table.where[query], table.floor[query], table.ceiling[query], table.boxed[query],
        table.weights[query], table.low[query], table.high[query], table.program,
    )  # fmt: skip
