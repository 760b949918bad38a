"""What always holds of results, looked at while they are derived: it costs a sort of what is in memory anyhow.

* after every step, no more items than the query asks for (``QueryType.limits``);
* every item that enters has values within the query's bounds;
* time does not go back from one step to the next, so that intervals of an item never overlap;
* what is open afterwards is what was open before, and what entered, less what left.

That every ``-`` has its ``+`` the derivation itself needs (SKY-E900). What is broken is recorded in ``checks``, before the results are
written, so that nothing of it is forgotten if the run dies; results are written as they are, and the gate does not let them pass.
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
from skyband.framework.quality.outcome import BROKEN, EXAMPLES, Outcome
from skyband.framework.queries.protocol import Limits
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.key_numbers import order_by
from skyband.framework.tables.schemas import fixed_schema, stream_columns
from skyband.framework.tables.writing.sink import Sink

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

AT_MOST: Final = BROKEN + "at_most_k"
IN_BOUNDS: Final = BROKEN + "in_bounds"
IN_ORDER: Final = BROKEN + "no_overlap"
REPLAYS: Final = BROKEN + "replays"
_SLACK: Final = 1e-9
"""Of bounds, relative: they are compared before a score is rounded for the tables."""


def broken(plan: Plan, query: QueryNode, opened: pa.Table, changes: pa.Table, derived: pa.Table, number: I64) -> Iterator[Outcome]:
    """What ``changes``, which made ``derived`` out of the rows ``opened``, break. ``number``: of the key, in every row of both.

    O(n log n) in both, O(n) if they lie in order.
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
        held = np.bincount(before, minlength=int(number.max()) + 1).astype(np.int64)
        sums = np.cumsum(np.where(enters_in_order, 1, -1))
        first = np.append(True, ~same)
        starts = np.nonzero(first)[0]
        behind = np.repeat(np.append(0, sums)[starts], np.diff(np.append(starts, len(stream))))
        many = held[stream] + sums - behind
        wrong = ends & (many > least[order])
        yield from _found(plan, query, AT_MOST, {"most": _shown(limits, "most")}, changes, order[wrong], many[wrong])
    at = changes["changed_at"].cast(pa.int64()).to_numpy()[order]
    back = np.append(False, same & (at[1:] < at[:-1]))
    yield from _found(plan, query, IN_ORDER, {}, changes, order[back], at[back])
    yield from _out_of_bounds(plan, query, limits, changes, np.nonzero(enters)[0])
    open_now = pc.sum(derived["is_current"]).as_py() or 0
    expected = opened.num_rows + int(enters.sum()) - int((~enters).sum())
    if open_now != expected or derived.num_rows != opened.num_rows + int(enters.sum()):
        outcome = Outcome(query.name, None, None, REPLAYS, "{}", "critical", False, {"open": open_now, "by the changes": expected})
        yield replace(outcome, rows=changes.num_rows, unexpected=abs(open_now - expected))


def broken_by_reports(plan: Plan, query: QueryNode, changes: pa.Table) -> Iterator[Outcome]:
    """What rows of a query whose items are told once break: at most so many for an arrival, all within the bounds. O(rows)."""
    limits = _limits(plan, query)
    most = _per_stream(query, limits, changes, "most")
    if most is not None:
        wrong = np.nonzero(changes["pos"].to_numpy() >= most)[0]
        yield from _found(plan, query, AT_MOST, {"most": _shown(limits, "most")}, changes, wrong, changes["pos"].to_numpy()[wrong] + 1)
    yield from _out_of_bounds(plan, query, limits, changes, np.arange(changes.num_rows))


def record(sink: Sink, table: str, found: Sequence[Outcome], first: int, last: int) -> None:
    """Rows of ``checks`` for what batches ``first`` to ``last`` broke in a table, once."""
    if not found:
        return
    made = identity(sink, table)
    rows = [replace(o, table=table, first=first).row(f"{sink.generation}-{last}-{made}", last) for o in found]
    sink.writer.append("checks", pa.Table.from_pylist(rows, fixed_schema("checks")), sink.app_id(f"checks/{table}/{made}"), last)


def identity(sink: Sink, table: str) -> str:
    """Names a table as it was made: made anew, it has another name, and what was broken before does not count."""
    return str(sink.writer.opened(table).metadata().id)[:8]


def columns(plan: Plan, query: QueryNode) -> list[str]:
    """The columns of changes that ``broken_by_reports`` looks at."""
    bounded = [c for limits in _limits(plan, query).values() for c, _, _ in limits.bounds]
    return list(dict.fromkeys([*stream_columns(plan, query), "changed_at", "step", "pos", *bounded]))


def _limits(plan: Plan, query: QueryNode) -> dict[str, Limits]:
    """What bounds results, by the name of the query of a table ("" for an entry that is none)."""
    kind = query_type(query.type)
    if query.members:
        return {a.name: kind.limits(plan, query, a) for a in query.asked}
    return {"": kind.limits(plan, query, query.asked[0] if query.asked else None)}


def _order(stream: I64, step: I64) -> I64:
    """Positions by stream, then step. Changes mostly lie so: then it is a look at them."""
    # Of small numbers the stable sort is one by their digits, in O(n).
    small = stream.astype(np.int16) if len(stream) and stream.max() < 2**15 else stream
    order = np.argsort(small, kind="stable") if len(stream) and stream.min() != stream.max() else np.arange(len(stream))
    by_step, by_stream = step[order], stream[order]
    if np.any((by_step[1:] < by_step[:-1]) & (by_stream[1:] == by_stream[:-1])):
        return order_by(stream, step)
    return order


def _per_stream(query: QueryNode, limits: dict[str, Limits], changes: pa.Table, what: str, n: int = 0) -> F64 | None:
    """For every change the bound of its query: ``most``, or the least or greatest (``what``) of its bounded column ``n``."""

    def of(limit: Limits) -> float | None:
        if what == "most":
            return limit.most
        _, least, greatest = limit.bounds[n]
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
    """A bound for a message: that of the only query, or none in particular."""
    if len(limits) != 1:
        return None
    (limit,) = limits.values()
    return limit.most if what == "most" else limit.bounds[n][1 if what == "least" else 2]


def _found(
    plan: Plan, query: QueryNode, name: str, asked: dict[str, Any], changes: pa.Table, wrong: I64, values: npt.NDArray[Any]
) -> Iterator[Outcome]:
    """The outcome of rows ``wrong`` of the changes, if there are any; ``values``: what each of them shows."""
    if not len(wrong):
        return
    some = changes.take(pa.array(wrong[:EXAMPLES])).select([*stream_columns(plan, query), "step"]).to_pylist()
    examples = [{**row, "found": value} for row, value in zip(some, values[:EXAMPLES].tolist(), strict=True)]
    yield Outcome(
        query.name, None, None, name, json.dumps({k: v for k, v in asked.items() if v is not None}, sort_keys=True), "critical", False,
        None, changes.num_rows, len(wrong), 100 * len(wrong) / changes.num_rows, examples,
    )  # fmt: skip
