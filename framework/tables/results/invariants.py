"""Check the invariants of results while they are derived. This costs one sort of data that is in memory anyway.

* After every step, a result has no more items than the query allows (``QueryType.limits``).
* Every item that enters has values within the query's bounds.
* Time does not decrease from one step to the next, so the intervals of an item never overlap.
* The open intervals afterwards are those open before, plus those that entered, minus those that left.

The derivation itself requires a ``+`` for every ``-`` (SKY-E900). Violations are recorded in ``checks`` before the results are written, so
that they survive if the run is killed. The results are written in any case, but the gate does not publish them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.queries.protocol import Limits
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.outcome import BROKEN, EXAMPLES, Outcome
from skyband.framework.tables.render import order_by
from skyband.framework.tables.schemas import fixed_schema, stream_columns
from skyband.framework.tables.writing.sink import Sink

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

AT_MOST: Final = BROKEN + "at_most_k"
IN_BOUNDS: Final = BROKEN + "in_bounds"
IN_ORDER: Final = BROKEN + "no_overlap"
REPLAYS: Final = BROKEN + "replays"
_SLACK: Final = 1e-9
"""The relative tolerance of bounds: scores are compared with them before they are rounded for the tables."""


def broken(plan: Plan, query: QueryNode, opened: pa.Table, changes: pa.Table, derived: pa.Table, number: I64) -> Iterator[Outcome]:
    """Yield the invariants that ``changes`` violate, which lead from the open rows ``opened`` to ``derived``.

    ``number``: the number of the key in every row of both. O(n log n), O(n) if the rows are in order.
    """
    if not changes.num_rows:
        return
    limits = _limits(plan, query)
    enters = pc.equal(changes["change"], "+").to_numpy()
    before, stream = number[: opened.num_rows], number[opened.num_rows :]
    order = _order(stream, changes["step"].to_numpy())
    stream, step, enters_in_order = stream[order], changes["step"].to_numpy()[order], enters[order]
    same = stream[1:] == stream[:-1]
    ends = np.append(~same | (step[1:] != step[:-1]), True)

    least = _per_stream(query, limits, changes, "most")
    if least is not None:
        sizes = np.bincount(before, minlength=int(number.max()) + 1).astype(np.int64)
        sums = np.cumsum(np.where(enters_in_order, 1, -1))
        first = np.append(True, ~same)
        starts = np.nonzero(first)[0]
        offset = np.repeat(np.append(0, sums)[starts], np.diff(np.append(starts, len(stream))))
        size = sizes[stream] + sums - offset
        wrong = ends & (size > least[order])
        yield from _found(plan, query, AT_MOST, {"most": _shown(limits, "most")}, changes, order[wrong], size[wrong])
    at = changes["changed_at"].cast(pa.int64()).to_numpy()[order]
    decreases = np.append(False, same & (at[1:] < at[:-1]))
    yield from _found(plan, query, IN_ORDER, {}, changes, order[decreases], at[decreases])
    yield from _out_of_bounds(plan, query, limits, changes, np.nonzero(enters)[0])
    open_now = pc.sum(derived["is_current"]).as_py() or 0
    expected = opened.num_rows + int(enters.sum()) - int((~enters).sum())
    if open_now != expected or derived.num_rows != opened.num_rows + int(enters.sum()):
        outcome = Outcome(query.name, None, None, REPLAYS, "{}", "critical", False, {"open": open_now, "by the changes": expected})
        yield replace(outcome, rows=changes.num_rows, unexpected=abs(open_now - expected))


def broken_by_reports(plan: Plan, query: QueryNode, changes: pa.Table) -> Iterator[Outcome]:
    """Yield the invariants that items reported once violate: the number for each arrival, and the bounds. O(rows)."""
    limits = _limits(plan, query)
    most = _per_stream(query, limits, changes, "most")
    if most is not None:
        wrong = np.nonzero(changes["pos"].to_numpy() >= most)[0]
        yield from _found(plan, query, AT_MOST, {"most": _shown(limits, "most")}, changes, wrong, changes["pos"].to_numpy()[wrong] + 1)
    yield from _out_of_bounds(plan, query, limits, changes, np.arange(changes.num_rows))


def record(sink: Sink, table: str, found: Sequence[Outcome], first: int, last: int) -> None:
    """Record in ``checks``, once, what the batches ``first`` to ``last`` violated in a table."""
    if not found:
        return
    made = identity(sink, table)
    rows = [replace(o, table=table, first=first).row(f"{sink.generation}-{last}-{made}", last) for o in found]
    sink.writer.append("checks", pa.Table.from_pylist(rows, fixed_schema("checks")), sink.app_id(f"checks/{table}/{made}"), last)


def identity(sink: Sink, table: str) -> str:
    """Return an id of this incarnation of a table: violations of a former incarnation do not count."""
    return str(sink.writer.opened(table).metadata().id)[:8]


def columns(plan: Plan, query: QueryNode) -> list[str]:
    """Return the columns of changes that ``broken_by_reports`` reads."""
    bounded = [c for limits in _limits(plan, query).values() for c, _, _ in limits.bounds]
    return list(dict.fromkeys([*stream_columns(plan, query), "changed_at", "step", "pos", *bounded]))


def _limits(plan: Plan, query: QueryNode) -> dict[str, Limits]:
    """Return the limits of results by query of a table of queries ("" for a single query)."""
    plan = plan.of(query.name)
    kind = query_type(query.type)
    if query.members:
        return {a.name: kind.limits(plan, query, a) for a in query.asked}
    return {"": kind.limits(plan, query, query.asked[0] if query.asked else None)}


def _order(stream: I64, step: I64) -> I64:
    """Return positions by stream, then step. Changes are mostly in that order: then no sort is needed."""
    # The stable sort of small integers is a radix sort, in O(n).
    small = stream.astype(np.int16) if len(stream) and stream.max() < 2**15 else stream
    order = np.argsort(small, kind="stable") if len(stream) and stream.min() != stream.max() else np.arange(len(stream))
    by_step, by_stream = step[order], stream[order]
    if np.any((by_step[1:] < by_step[:-1]) & (by_stream[1:] == by_stream[:-1])):
        return order_by(stream, step)
    return order


def _per_stream(query: QueryNode, limits: dict[str, Limits], changes: pa.Table, what: str, n: int = 0) -> F64 | None:
    """Return for every change the limit of its query: ``most``, or the least or greatest value (``what``) of bounded column ``n``."""

    def of(limit: Limits) -> float | None:
        if what == "most":
            return limit.most
        _, least, greatest = limit.bounds[n]
        least = least if limit.least_shown is None else limit.least_shown
        return least if what == "least" else greatest

    none = -np.inf if what == "least" else np.inf
    values = {name: none if (v := of(limit)) is None else float(v) for name, limit in limits.items()}
    if all(v == none for v in values.values()):
        return None
    if not query.members:
        return np.full(changes.num_rows, values[""])
    named = changes[QUERY_COLUMN].combine_chunks().dictionary_encode()
    by_code = np.array([values.get(n, none) for n in named.dictionary.to_pylist()])
    found: F64 = by_code[named.indices.to_numpy(zero_copy_only=False)]
    return found


def _out_of_bounds(plan: Plan, query: QueryNode, limits: dict[str, Limits], changes: pa.Table, rows: I64) -> Iterator[Outcome]:
    for n, (column, _, _) in enumerate(next(iter(limits.values())).bounds):
        values = changes[column].to_numpy()[rows]
        wrong = np.isnan(values)
        for what, sign in (("least", 1.0), ("greatest", -1.0)):
            bound = _per_stream(query, limits, changes, what, n)
            if bound is not None:
                at = bound[rows]
                finite = np.isfinite(at)
                slack = _SLACK * np.maximum(1.0, np.abs(np.where(finite, at, 0.0)))
                wrong |= finite & (sign * values < sign * at - slack)
        bounds = {"column": column, "least": _shown(limits, "least", n), "greatest": _shown(limits, "greatest", n)}
        yield from _found(plan, query, IN_BOUNDS, bounds, changes, rows[wrong], values[wrong])


def _shown(limits: dict[str, Limits], what: str, n: int = 0) -> Any:
    """Return a limit for a message: that of the only query, None if there are several."""
    if len(limits) != 1:
        return None
    (limit,) = limits.values()
    return limit.most if what == "most" else limit.bounds[n][1 if what == "least" else 2]


def _found(
    plan: Plan, query: QueryNode, name: str, arguments: dict[str, Any], changes: pa.Table, wrong: I64, values: npt.NDArray[Any]
) -> Iterator[Outcome]:
    """Yield an outcome if any rows of the changes are ``wrong``; ``values``: the value found in each of them."""
    if not len(wrong):
        return
    some = changes.take(pa.array(wrong[:EXAMPLES])).select([*stream_columns(plan, query), "step"]).to_pylist()
    examples = [{**row, "found": value} for row, value in zip(some, values[:EXAMPLES].tolist(), strict=True)]
    yield Outcome(
        query.name, None, None, name, json.dumps({k: v for k, v in arguments.items() if v is not None}, sort_keys=True), "critical", False,
        None, changes.num_rows, len(wrong), 100 * len(wrong) / changes.num_rows, examples,
    )  # fmt: skip
