"""Recompute from the source, by the definition, which rows a job accepts.

Only reading and row rules are shared with the run. Order, numbers, deletions and the duplicate check are recomputed row by row.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from skyband.framework.base.messages import DELETED, KEPT_FIRST, REPLACED
from skyband.framework.base.reasons import DUPLICATE_ID, LATE, NO_TARGET, REASON, TOO_FAR_AHEAD
from skyband.framework.plan.model import IntakeNode, Plan
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.streaming.bucket.operations import DELETE, INSERT, OPERATION, UPDATE
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.taken_rows import passing_rows, taken_rows
from skyband.framework.streaming.rows import operations, rejects, reports, tokens, vectors
from skyband.framework.verify.brute_force.expressions import holds
from skyband.framework.verify.brute_force.objects import Accepted, values_of
from skyband.framework.verify.budget import UNLIMITED, Budget
from skyband.operators.base import Window
from skyband.operators.expressions.canonical import attributes


def source_rows(spark: SparkSession, plan: Plan, layout: Layout, job: JobFile) -> pa.Table:
    """Return all rows read from the source so far that the intake passes. Raises SkybandError SKY-E301 if they cannot be read again."""
    rows = taken_rows(spark, plan, layout, job).where(f"{REASON} is null")
    return usable(plan, rows.select(*[f"`{f.name}`" for f in plan.intake.fields]).toArrow())


def source_rows_by_arrow(plan: Plan, layout: Layout, job: JobFile, budget: Budget = UNLIMITED) -> pa.Table | None:
    """Return the same rows read in this process; None if Spark has to read them. Raises SKY-E301 too, and OutOfTime."""
    parts = passing_rows(plan, layout, job)
    if parts is None:
        return None
    found = []
    try:
        for part in parts:
            budget.check()
            found.append(part)
    except UnsupportedFile:
        return None
    return usable(plan, pa.concat_tables(found)) if found else None


def usable(plan: Plan, found: pa.Table) -> pa.Table:
    """Return the rows of the intake whose operations, tokens, vectors and reports a run can use."""
    if plan.intake.operations is not None:
        found = found.filter(pc.is_null(operations.reasons(plan.intake.operations, found)))
    for node in plan.intake.tokens:
        found = found.filter(pc.is_null(tokens.reasons(node, tokens.sets(node, found[node.column], tokens.key_of("")))))
    for vector in plan.intake.vectors:
        found = found.filter(pc.is_null(vectors.reasons(vector, found[vector.column])))
    for reporting in plan.intake.reports:
        found = found.filter(pc.is_null(reports.reasons(reporting, found, plan.texts, plan.intake)))
    return found


def without_late(rows: pa.Table, rejected: pa.Table) -> pa.Table:
    """Return ``rows`` less the multiset of rows that ``rejected`` holds as late, or as too far ahead of the clock when they came."""
    late = Counter(rejected.filter(pc.is_in(rejected["reason"], pa.array([LATE, TOO_FAR_AHEAD])))["text"].to_pylist())
    if not late:
        return rows
    texts = rejects.json_rows(rows.combine_chunks()).to_pylist()
    keep = []
    for text in texts:
        if late.get(text, 0):
            late[text] -= 1
            keep.append(False)
        else:
            keep.append(True)
    return rows.filter(pa.array(keep))


def with_operations(plan: Plan, rows: pa.Table) -> pa.Table:
    """Return ``rows`` with a column that says what each does, if not every row inserts."""
    node, feed = plan.intake.deletes, plan.intake.operations
    if node is not None:
        values = {c.name: values_of(rows[c.name], c.kind) for c in attributes(node)}
        deletes = np.broadcast_to(holds(node)(values, values), rows.num_rows)
        return rows.append_column(OPERATION, pa.array([DELETE if d else INSERT for d in deletes], pa.int8()))
    if feed is not None:
        does = {**dict.fromkeys(feed.insert, INSERT), **dict.fromkeys(feed.update, UPDATE), **dict.fromkeys(feed.delete, DELETE)}
        return rows.append_column(OPERATION, pa.array([does[str(v)] for v in rows[feed.column].to_pylist()], pa.int8()))
    return rows


def accepted(
    rows: pa.Table, node: IntakeNode, window: Window, until: dict[tuple[Any, ...], int], budget: Budget = UNLIMITED
) -> dict[tuple[Any, ...], Accepted]:
    """Return the accepted objects of the keys in ``until`` (key -> last complete instant, microseconds), in order, without duplicates.

    A deletion ends the life of an object, and so does a row that replaces it; a deletion without a target is left out. Raises OutOfTime.
    """
    keys = [rows[n].to_pylist() for n in node.partition_by]
    times = rows[node.event_time].cast(pa.int64()).to_pylist()
    members: dict[tuple[Any, ...], list[int]] = {k: [] for k in until}
    for i, key in enumerate(budget.checked(zip(*keys, strict=True) if keys else [()] * len(times))):
        if key in members and times[i] <= until[key]:
            members[key].append(i)
    operation = [OPERATION] if OPERATION in rows.column_names else []
    names = dict.fromkeys([*node.tie_break, *node.id, *operation, *sorted(f.name for f in node.fields)])
    columns = [n for n in names if n != node.event_time]
    compared = rejects.comparable(rows)
    out = {}
    for key, index in members.items():
        mine = rows.take(pa.array(index, pa.int64()))
        values = [compared[n].take(pa.array(index, pa.int64())).to_pylist() for n in columns]
        mine_times = [times[i] for i in index]
        # Only rows of the same instant, which are few, are compared column by column.
        order: list[int] = []
        for _, group in groupby(sorted(range(len(index)), key=mine_times.__getitem__), key=mine_times.__getitem__):
            tied = list(group)
            order += tied if len(tied) == 1 else sorted(tied, key=lambda r, v=values: [sortable(c[r]) for c in v])  # type: ignore[misc]
        out[key] = _number(key, mine, mine_times, order, node, window, budget)
    return out


def sortable(value: Any) -> tuple[int, Any]:
    """Return a sort key: nulls first, then NaN, then values; text by its UTF-8 bytes."""
    if value is None:
        return (0, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (2, value.encode() if isinstance(value, str) else value)


def _number(
    key: tuple[Any, ...], rows: pa.Table, times: list[int], order: list[int], node: IntakeNode, window: Window, budget: Budget
) -> Accepted:
    if node.unique == "assumed":
        return Accepted(key, rows.take(pa.array(order, pa.int64())), [times[i] for i in order], {})
    names = list(zip(*[rows[n].to_pylist() for n in node.id], strict=True))
    operation = rows[OPERATION].to_pylist() if OPERATION in rows.column_names else [INSERT] * rows.num_rows
    alive: deque[tuple[int, int]] = deque()  # (row, seq) of the window, with deleted ones, which still count
    holder: dict[tuple[Any, ...], int] = {}  # id -> seq of the live object with that id
    deleted: dict[int, int] = {}
    deletions: list[tuple[int, int, int]] = []
    kept: list[int] = []
    rejected: dict[str, list[int]] = {DUPLICATE_ID: [], NO_TARGET: []}
    counts: Counter[str] = Counter()

    def leave() -> None:
        i, seq = alive.popleft()
        if holder.get(names[i]) == seq:
            del holder[names[i]]

    for i in budget.checked(order):
        while alive and window.micros and times[alive[0][0]] + window.micros <= times[i]:
            leave()
        if names[i] in holder:
            if operation[i] == INSERT and node.on_duplicate != "replace":
                if node.on_duplicate == "reject":
                    rejected[DUPLICATE_ID].append(i)
                else:
                    counts[KEPT_FIRST] += 1
                continue
            counts[DELETED if operation[i] == DELETE else REPLACED] += 1
            seq = holder.pop(names[i])
            deleted[seq] = times[i]
            deletions.append((times[i], len(kept), seq))
        elif operation[i] == DELETE:
            rejected[NO_TARGET].append(i)
        if operation[i] == DELETE:
            continue
        holder[names[i]] = len(kept)
        alive.append((i, len(kept)))
        kept.append(i)
        if window.count and len(alive) > window.count:
            leave()
    left_out = {reason: rows.take(pa.array(mine, pa.int64())) for reason, mine in rejected.items() if mine}
    return Accepted(key, rows.take(pa.array(kept, pa.int64())), [times[i] for i in kept], deleted, deletions, left_out, counts)
