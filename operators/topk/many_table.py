"""Many top-k queries as the table their kernels read, and the state a query and key begins with."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import F64, I64, NEVER, AnyArray
from skyband.operators.single_rows.arrays import spans, widened
from skyband.operators.single_rows.kernels.replay_state import Records
from skyband.operators.single_rows.score_programs import program_scores
from skyband.operators.topk.kernels.many_lists import NO_SEQ, QueryLists
from skyband.operators.topk.kernels.many_queries import QueryTable
from skyband.operators.topk.many_configuration import ManyTopKConfiguration


def query_table(op: ManyTopKConfiguration, sign: F64, list_size: I64) -> QueryTable:
    """Return the queries of ``op``: ``sign`` float64 (Q,) turns their scores into internal ones, ``list_size`` int64 (Q,)."""
    q, d = len(op.names), len(op.attributes)
    program, weights = op.functions(sign)
    none = np.full(q, np.nan)
    least, most = (none if bound is None else bound for bound in (op.min_score, op.max_score))
    least, most = np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)
    low = np.full((q, d), -np.inf) if op.low is None else np.ascontiguousarray(op.low, np.float64)
    high = np.full((q, d), np.inf) if op.high is None else np.ascontiguousarray(op.high, np.float64)
    count, micros, every, where = op.filled()
    k = np.ascontiguousarray(op.k, np.int64)
    boxed: AnyArray = np.asarray(((low > -np.inf) | (high < np.inf)).any(axis=1))
    return QueryTable(
        k, count, micros, every, list_size, where, column=np.cumsum(np.where(every > 0, k, 0)) - np.where(every > 0, k, 0),
        weights=weights, low=low, high=high, columns=np.ascontiguousarray(weights.T), floor=np.where(sign > 0, least, -most),
        ceiling=np.where(sign > 0, most, -least), boxed=boxed, program=program,
    )  # fmt: skip


def scores_of(table: QueryTable, queries: I64, values: F64) -> F64:
    """Return the internal score of row i of ``values`` float64 (d, rows) for query i of ``queries`` int64 (rows,). O(rows)."""
    weights = table.weights[queries]
    if table.program.result >= 0:
        return program_scores(table.program, [*values, *weights.T])
    score: F64 = weights[:, 0] * values[0]
    for t in range(1, len(values)):
        score += weights[:, t] * values[t]
    score += 0.0
    return score


def no_records(table: QueryTable) -> Records:
    """Return the records of no key."""
    q, columns = len(table.k), int(table.k[table.every > 0].sum())
    step, wake, due, shown = (np.empty((q, 0), np.int64) for _ in range(4))
    seq, time, deleted = (np.empty((0, columns), np.int64) for _ in range(3))
    return Records(step, wake, due, shown, np.empty((0, columns), np.float64), seq, time, deleted)


def no_lists(table: QueryTable) -> QueryLists:
    """Return the lists of no key."""
    q, none = len(table.k), np.empty(0, np.int64)
    begin, room, size, limit, cut, full, oldest = (np.empty((q, 0), np.int64) for _ in range(7))
    return QueryLists(begin, room, size, limit, np.empty((q, 0)), cut, full, oldest, np.empty(0), none, none, 0)


def wider_records(records: Records, keys: int) -> Records:
    """Return the same with room for ``keys`` keys."""
    step, shown = (widened(a, keys, 0, 1) for a in (records.step, records.shown))
    wake, due = (widened(a, keys, NEVER, 1) for a in (records.wake, records.due))
    columns = (records.shown_score, records.shown_seq, records.shown_time, records.shown_deleted)
    return Records(step, wake, due, shown, *(widened(a, keys, 0, 0) for a in columns))


def wider_lists(lists: QueryLists, table: QueryTable, keys: int) -> QueryLists:
    """Return the same with empty lists for the keys up to ``keys``."""
    new = keys - lists.begin.shape[1]
    begin, room, size = (widened(a, keys, 0, 1) for a in (lists.begin, lists.room, lists.size))
    return lists._replace(
        begin=begin, room=room, size=size,
        limit=np.concatenate([lists.limit, np.repeat(table.list_size[:, None], new, axis=1)], axis=1),
        cutoff=np.concatenate([lists.cutoff, np.repeat(table.floor[:, None], new, axis=1)], axis=1),
        cut=widened(lists.cut, keys, -1, 1), full=widened(lists.full, keys, 1, 1), oldest=widened(lists.oldest, keys, NO_SEQ, 1),
    )  # fmt: skip


SAVED_RECORDS = {
    "step": "step", "wake_at": "wake", "due": "due", "rep_n": "shown", "rep_s": "shown_score", "rep_q": "shown_seq", "rep_t": "shown_time",
    "rep_d": "shown_deleted",
}  # fmt: skip
SAVED_LISTS = {"l_m": "size", "l_size": "limit", "l_thr": "cutoff", "l_cut": "cut", "l_full": "full", "l_old": "oldest"}
"""The names in a checkpoint of the fields of ``Records`` and of ``QueryLists``."""


def saved(records: Records, lists: QueryLists) -> dict[str, AnyArray]:
    """Return the part a checkpoint keeps: the fields of ``SAVED_RECORDS`` and ``SAVED_LISTS``, and in ``lists`` all lists' seqs."""
    out: dict[str, AnyArray] = {name: np.array(getattr(records, field)) for name, field in SAVED_RECORDS.items()}
    out.update({name: np.array(getattr(lists, field)) for name, field in SAVED_LISTS.items()})
    out["lists"] = lists.seq[spans(lists.begin.ravel(), lists.size.ravel())]
    return out
