"""Compare ``<query>`` and ``<query>_now`` with the result of replaying the changes: every column, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from skyband.framework.base.types import STAMP
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import identity_columns, now_schema, results_schema, stream_columns
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.stored import BEFORE, Key, Stored, exact, key_of, keys_of, micros, row_of


def compare_results(stored: Stored, query: QueryNode, changes: pa.Table, intervals: Sequence[tuple[int, int | None]]) -> list[Difference]:
    """Compare ``<query>`` with ``intervals``: the rows of ``changes`` that open and close each."""
    opening, closing = pa.array([a for a, _ in intervals], pa.int64()), pa.array([b for _, b in intervals], pa.int64())
    opened, closed = changes.take(opening), changes.select(["changed_at", "step"]).take(closing)
    made = {
        "valid_from": opened["changed_at"], "valid_to": closed["changed_at"], "from_step": opened["step"], "to_step": closed["step"],
        "is_current": pa.array([b is None for _, b in intervals], pa.bool_()),
    }  # fmt: skip
    schema = results_schema(stored.plan, query)
    expected = pa.table([made[n] if n in made else opened[n] for n in schema.names], names=schema.names)
    streams = stream_columns(stored.plan, query)
    same = (*streams, *identity_columns(stored.plan, query), "from_step")
    return _differences(query.name, expected, stored.table(query.name), schema.names, same, streams, "valid_from")


def compare_now(stored: Stored, query: QueryNode, changes: pa.Table, current: Sequence[int], name: str) -> list[Difference]:
    """Compare ``<query>_now`` with ``current``: the rows of ``changes`` in the current results, by stream and rank."""
    rows = changes.take(pa.array(current, pa.int64()))
    streams = stream_columns(stored.plan, query)
    keys = keys_of(rows, streams)
    ranks = [rank for _, mine in groupby(keys) for rank, _ in enumerate(mine, 1)]
    names = now_schema(stored.plan, query).names
    made: Mapping[str, Any] = {"rank": pa.array(ranks, pa.int32())}
    if stored.derived_upto(query) == stored.last_batch and stored.heads_complete:
        complete = _complete(stored)
        made = {**made, "as_of": pa.array([complete.get(key_of(stored.plan, query, k)) for k in keys], pa.int64()).cast(STAMP)}
    else:  # a killed or running job: its keys are ahead of its results
        names = [n for n in names if n != "as_of"]
    same = (*streams, "rank")
    if query.item.varies:  # ranks and values are as of now, not as of the changes
        same = (*streams, *identity_columns(stored.plan, query))
        names = [n for n in names if n not in {"rank", *(v.name for v in query.item.values), *query.item.varying_columns}]
    expected = pa.table([made[n] if n in made else rows[n] for n in names], names=names)
    return _differences(name, expected, stored.table(name), names, same, streams, None)


def _complete(stored: Stored) -> dict[Key, int]:
    """Return up to when the results of every key are complete: the end of its last batch, or of the job's if that is later."""
    heads, keys = stored.table("heads"), stored.plan.intake.partition_by
    last = stored.frontier(stored.last_batch) - 1
    found = {k: max(BEFORE if t is None else t, last) for k, t in zip(keys_of(heads, keys), micros(heads, "as_of"), strict=True)}
    return found or {(): last}


def _differences(
    table: str, expected: pa.Table, got: pa.Table, names: Sequence[str], same: Sequence[str], streams: Sequence[str], at: str | None
) -> list[Difference]:
    """Return the rows on one side only; two rows that are equal in the columns ``same`` become one difference."""
    sides = exact(expected, names), exact(got, names)
    counts = Counter(sides[0]), Counter(sides[1])
    lone: list[dict[Key, list[int]]] = []
    for side, (rows, table_of_side) in enumerate(zip(sides, (expected, got), strict=True)):
        left = counts[side] - counts[1 - side]
        named = exact(table_of_side, same) if left else []
        mine: dict[Key, list[int]] = {}
        for i, row in enumerate(rows) if left else ():
            if left[row]:
                left[row] -= 1
                mine.setdefault(named[i], []).append(i)
        lone.append(mine)
    out = []
    for which in [*lone[0], *(k for k in lone[1] if k not in lone[0])]:
        missing, found = lone[0].get(which, []), lone[1].get(which, [])
        shown, i = (expected, missing[0]) if missing else (got, found[0])
        when = shown[at].slice(i, 1).cast(pa.int64())[0].as_py() if at is not None else None
        where = place(f"table {table}", streams, keys_of(shown.slice(i, 1), streams)[0], when)
        what = "a row that the changes do not give" if not missing else "a row is missing that the changes give"
        if missing and found:
            unlike = [n for n, a, b in zip(names, sides[0][missing[0]], sides[1][found[0]], strict=True) if a != b]
            what = f"differs from the changes: {', '.join(unlike)}"
        out.append(Difference(where, what, [row_of(expected, i) for i in missing], [row_of(got, i) for i in found], when))
    return out
