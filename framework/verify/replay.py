"""A change stream replayed item by item, by its definition: the independent check of the derived results (docs/semantics.md, tables)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.items import SCORE, rank_key
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.delta_read import open_table, read
from skyband.framework.tables.schemas import identity_columns, stream_columns

Key = tuple[Any, ...]
Item = tuple[Any, ...]
"""Values of the identity columns of an item."""


@dataclass(slots=True)
class Replayed:
    """``differences`` says in words what does not fit; empty means all is as it must be."""

    changes: int = 0
    steps: int = 0
    differences: list[str] = field(default_factory=list)


def table_rows(plan: Plan, name: str) -> pa.Table:
    """A whole table of the job. SkybandError SKY-E400 if it is not there."""
    return _table(f"{plan.sink.removeprefix('file://')}/{name}")


@lru_cache(maxsize=32)
def _table(path: str) -> pa.Table:
    root, _, name = path.rpartition("/")
    return read(open_table(root, name))


def _micros(table: pa.Table, name: str) -> list[int | None]:
    micros: list[int | None] = table[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    return micros


def derived_upto(plan: Plan, query: QueryNode) -> int:
    """The batch up to which the results of ``query`` have been derived; -1 if none. (A killed or running job may be ahead of that.)

    Where nothing is derived, since its items are told once: the last complete batch.
    """
    root = plan.sink.removeprefix("file://")
    generation = json.loads((Path(root) / "_skyband" / "job.json").read_text())["generation"]
    last = f"{query.name}_now" if query.item.lasting else "runs"
    version = open_table(root, last).transaction_version(f"{plan.job}/{generation}/{last}")
    return -1 if version is None else int(version)


def complete_until(plan: Plan) -> dict[Key, int]:
    """Per key the last microsecond up to which its results are complete and in the result tables."""
    heads, runs = table_rows(plan, "heads"), table_rows(plan, "runs")
    upto = min(derived_upto(plan, q) for q in plan.queries)
    frontiers = [f for f, b in zip(_micros(runs, "frontier"), runs["batch_id"].to_pylist(), strict=True) if f is not None and b <= upto]
    frontier = max(frontiers, default=-(2**62))
    if upto < max(runs["batch_id"].to_pylist(), default=-1):
        # Batches not derived yet: only what every key had reached by then counts.
        return dict.fromkeys(_keys(heads, plan.intake.partition_by), frontier - 1)
    keys = _keys(heads, plan.intake.partition_by)
    return {k: max(a or frontier, frontier - 1) for k, a in zip(keys, _micros(heads, "as_of"), strict=True)}


def runs_gone(plan: Plan) -> str | None:
    """What can no longer be added up over ``runs``, whose old rows are dropped (``run.keep``); None if all rows are there."""
    batches = pc.unique(table_rows(plan, "runs")["batch_id"])
    every = pc.max(batches).as_py() + 1 if len(batches) else 0
    if every == len(batches):
        return None
    first = f"batch {pc.min(batches).as_py():,}"
    return f"rows of {every - len(batches):,} of {every:,} batches are no longer kept (run.keep); sums over it begin with {first}"


def _keys(table: pa.Table, names: Sequence[str]) -> list[Key]:
    columns = [table[n].to_pylist() for n in names]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


@dataclass(slots=True)
class _Interval:
    start: int
    end: int | None
    item: Item
    columns: dict[str, Any]


@lru_cache(maxsize=32)
def _by_key(plan: Plan, query: QueryNode) -> dict[Key, list[_Interval]]:
    rows = table_rows(plan, query.name)
    named = identity_columns(plan, query)
    needed = list(dict.fromkeys([*named, *(v.name for v in query.item.values), *(c for term in query.item.rank for c in term.columns)]))
    columns = {n: rows[n].to_pylist() for n in needed}
    items = list(zip(*[columns[n] for n in named], strict=True))
    out: dict[Key, list[_Interval]] = {}
    keys, starts, ends = _keys(rows, stream_columns(plan, query)), _micros(rows, "valid_from"), _micros(rows, "valid_to")
    for i, key in enumerate(keys):
        out.setdefault(key, []).append(_Interval(starts[i] or 0, ends[i], items[i], {n: c[i] for n, c in columns.items()}))
    return out


def result_at(plan: Plan, query: QueryNode, key: Key, at: int) -> list[tuple[Item, float]]:
    """(item, score or 0.0) of the result of ``key`` after all events with time <= ``at``, in rank order, from the results table.

    Of items that are told once: those told at ``at``, in order.
    """
    if not query.item.lasting:
        return _told(plan, query).get((key, at), [])
    turned = bool(query.members) and key[0] in query.turned
    rank = rank_key(query.item, (query.direction == "min") != turned)
    here = [x for x in _by_key(plan, query).get(key, []) if x.start <= at and (x.end is None or at < x.end)]
    return [(x.item, x.columns.get(SCORE, 0.0)) for x in sorted(here, key=lambda x: rank(x.columns))]


@lru_cache(maxsize=32)
def _told(plan: Plan, query: QueryNode) -> dict[tuple[Key, int], list[tuple[Item, float]]]:
    rows = table_rows(plan, f"{query.name}_changes").sort_by([("step", "ascending"), ("pos", "ascending")])
    items = zip(*[rows[n].to_pylist() for n in identity_columns(plan, query)], strict=True)
    scores = rows[SCORE].to_pylist() if query.item.scored else [0.0] * rows.num_rows
    out: dict[tuple[Key, int], list[tuple[Item, float]]] = {}
    for key, at, item, score in zip(_keys(rows, stream_columns(plan, query)), _micros(rows, "at"), items, scores, strict=True):
        out.setdefault((key, at or 0), []).append((item, score))
    return out


def change_times(plan: Plan, query: QueryNode, key: Key) -> list[int]:
    """The instants at which the result of ``key`` changed, and those just before: where a mistake is most likely to show."""
    rows = table_rows(plan, f"{query.name}_changes")
    at = {t for k, t in zip(_keys(rows, stream_columns(plan, query)), _micros(rows, "at"), strict=True) if k == key and t is not None}
    return sorted(at | {t - 1 for t in at})


def replay(plan: Plan, query: QueryNode) -> Replayed:
    """Replays ``<query>_changes`` and compares the intervals with ``<query>``; of items that are told once, that they are."""
    rows = table_rows(plan, f"{query.name}_changes")
    rows = rows.filter(pc.less_equal(rows["batch_id"], derived_upto(plan, query)))
    keys = _keys(rows, stream_columns(plan, query))
    lasting = query.item.lasting
    columns = [rows["step"].to_pylist(), rows["pos"].to_pylist(), rows["change"].to_pylist() if lasting else ["+"] * rows.num_rows]
    order = sorted(range(rows.num_rows), key=lambda i: (repr(keys[i]), columns[0][i], columns[1][i]))
    items = list(zip(*[rows[n].to_pylist() for n in identity_columns(plan, query)], strict=True))
    at = _micros(rows, "at")
    out = Replayed(changes=rows.num_rows)
    held: dict[tuple[Key, Item], tuple[int | None, int]] = {}
    intervals: set[tuple[Any, ...]] = set()
    before: tuple[Key | None, int, int, int] = (None, 0, -1, 0)
    for i in order:
        key, (step, pos, change), item = keys[i], (c[i] for c in columns), items[i]
        if key != before[0]:
            before = (key, 0, -1, -(2**62))
        follows = (step == before[1] and pos == before[2] + 1) or (step == before[1] + 1 and pos == 0)
        if not follows or (at[i] or 0) < before[3]:
            out.differences.append(f"key {key}: step {step} pos {pos} does not follow step {before[1]} pos {before[2]}")
        out.steps += pos == 0
        before = (key, step, pos, at[i] or 0)
        if (change == "+") == ((key, item) in held):
            out.differences.append(
                f"key {key}: step {step} has {change} of {item}, which is {'already' if change == '+' else 'not'} in the result"
            )
        elif change == "+":
            held[key, item] = (at[i], step)
        else:
            start, from_step = held.pop((key, item))
            intervals.add((key, item, start, at[i], from_step, step))
    if not lasting:
        out.differences += _away_from_arrivals(rows, query)
        return out
    intervals |= {(key, item, start, None, from_step, None) for (key, item), (start, from_step) in held.items()}
    _compare(out, plan, query, intervals)
    return out


def _away_from_arrivals(rows: pa.Table, query: QueryNode) -> list[str]:
    """Items that were not told at the time of the newest of their rows."""
    arrived = pc.max_element_wise(*[rows[p.prefix + "time"].cast(pa.int64()) for p in query.item.rows])
    wrong = rows.filter(pc.not_equal(rows["at"].cast(pa.int64()), arrived))
    return [f"step {step} is not at the arrival of one of its rows" for step in pc.unique(wrong["step"]).to_pylist()]


def _compare(out: Replayed, plan: Plan, query: QueryNode, intervals: set[tuple[Any, ...]]) -> None:
    rows = table_rows(plan, query.name)
    items = list(zip(*[rows[n].to_pylist() for n in identity_columns(plan, query)], strict=True))
    steps = [rows[n].to_pylist() for n in ("from_step", "to_step")]
    got = list(
        zip(_keys(rows, stream_columns(plan, query)), items, _micros(rows, "valid_from"), _micros(rows, "valid_to"), *steps, strict=True)
    )
    for extra in sorted(set(got) - intervals, key=repr):
        out.differences.append(f"table {query.name} has an interval the changes do not give: {extra}")
    for missing in sorted(intervals - set(got), key=repr):
        out.differences.append(f"table {query.name} lacks an interval the changes give: {missing}")
    if len(got) != len(set(got)):
        out.differences.append(f"table {query.name} has {len(got) - len(set(got))} intervals twice")
    if pc.any(pc.is_null(rows["from_step"])).as_py():
        out.differences.append(f"table {query.name} has intervals without a first step")
