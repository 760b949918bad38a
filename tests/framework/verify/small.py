"""A small job's tables as a run leaves them, made without Spark; bucket, sink and the derivation of results are the real ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from skyband.framework.base.messages import ACCEPTED, CHANGED, COUNTS, FRONTIER, NEWEST, PENDING, ROWS_IN, Skyband, Tally, parse_kind
from skyband.framework.base.reasons import FILTERED, REASONS
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.bucket_states import text_of
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.rebuild.new_states import written
from skyband.framework.streaming.rows import reports, tokens
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.verify.brute_force.sample import Compared, compare_rows
from skyband.framework.verify.budget import Budget, Sample
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.reconciliation import compare_row_counts
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import replay
from skyband.framework.verify.stored import Stored
from skyband.framework.verify.verification import missing_values
from skyband.jobs.spec import load_plan

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BATCHES = 5


def make(spec: Path, rows: list[list[object]], states: bool = False) -> Plan:
    """Runs the job of ``spec`` over ``rows`` in some batches and a finish; its plan. ``states``: whether it leaves those of buckets."""
    plan = load_plan(str(spec))
    home = Path(plan.sink) / "_skyband"
    home.mkdir(parents=True)
    (home / "job.json").write_text(json.dumps({"generation": "g"}))
    sink = Sink(plan, writer_for(plan.sink), "g")
    sink.ensure_all()
    size = -(-len(rows) // BATCHES)
    parts = [rows[i : i + size] for i in range(0, len(rows), size)]
    newest = max(t for t in _rows(plan, rows)["ts"].cast(pa.int64()).to_pylist() if t is not None)
    finish = (newest // 1000 + 1, newest + 1)
    config = HostConfig.of(plan, (finish,), "test")
    buckets = [Bucket(config, n) for n in range(plan.buckets)]
    watermark, pending, newest_so_far, frontier = 0, 0, None, None
    for number, part in enumerate([*parts, []]):
        if not part:
            watermark = finish[0]
        table = _rows(plan, part)
        counts, blocks = Tally({ROWS_IN: table.num_rows}), defaultdict(list)
        for bucket in buckets:
            mine = table.filter(pa.array([k % plan.buckets == bucket.number for k in _keys(plan, table)], pa.bool_()))
            for kind, data in bucket.run([table_bytes(mine)] if mine.num_rows else [], watermark):
                if kind == COUNTS:
                    counts.add(data)
                elif isinstance(parse_kind(kind), Skyband):
                    blocks[kind] = [bytes_table(data)]
                else:
                    blocks[kind].append(bytes_table(data))
        pending += counts[PENDING]
        newest_so_far = max(filter(None, (newest_so_far, counts.get(NEWEST))), default=None)
        frontier = max(filter(None, (frontier, counts.get(FRONTIER))), default=None)
        rejected = {f"rejected_{c.name}": sum(counts[n] for n in c.counts) for c in REASONS}
        row: dict[str, Any] = {
            "batch_id": number, "batch_time": datetime.now(UTC), "rows_in": counts[ROWS_IN], "filtered": counts[FILTERED],
            "rejected": sum(rejected.values()),
            "accepted": counts[ACCEPTED], "pending": pending, "pending_change": counts[PENDING], "changes": counts[CHANGED],
            "frontier": _instant(frontier), "newest": _instant(newest_so_far), "counters": json.dumps(counts.counters()), **rejected,
        }  # fmt: skip
        if states and not part:
            row["state"] = text_of({b.number: written(StateFiles(home / "state"), b.number, b.save()[0]) for b in buckets})
        merged = {kind: pa.concat_tables(tables) for kind, tables in blocks.items()}
        sink.commit(number, merged | {"runs": sink.runs_row(row)})
        seen = [t for t in table["ts"].cast(pa.int64()).to_pylist() if t is not None]
        watermark = max(watermark, max(seen, default=0) // 1000 - plan.intake.delay_ms)
    derive(sink, len(parts))
    return plan


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


def _keys(plan: Plan, table: pa.Table) -> list[int]:
    return table["__k1"].to_pylist() if plan.intake.partition_by else [0] * table.num_rows


def _rows(plan: Plan, rows: list[list[object]]) -> pa.Table:
    """Rows of ``tests.spark.jobs`` as they come to the host."""
    schema = HostConfig.of(plan, (), "test").row_schema()
    named = dict(zip(("id", "ts", "grp", "x", "y", "side"), zip(*rows, strict=True) if rows else [()] * 6, strict=True))
    text = {n: pa.array([None if v == "" else str(v) for v in values], pa.string()) for n, values in named.items()}
    text["ts"] = pc.replace_substring(text["ts"], "Z", "")
    made = {
        n: c.cast(pa.timestamp("us")).cast(schema.field(n).type) if n == "ts" else c.cast(schema.field(n).type) for n, c in text.items()
    }
    key = pa.array([ord(str(g)[0]) for g in named["grp"]], pa.int64())
    if "words" in schema.names:  # as the spec of kind "sets" derives them
        said = [
            " " if y == 3 and x is not None and x < 6 else " ".join([g, s, *([] if x is None else [str(x)]), f"y{int(y)}"])
            for g, s, x, y in zip(*(made[n].to_pylist() for n in ("grp", "side", "x", "y")), strict=True)
        ]
        made["words"] = pa.array(said, pa.string())
        for node in plan.intake.tokens:
            made[node.codes] = tokens.usable(node, tokens.sets(node, pa.chunked_array([made["words"]]), tokens.key_of("test")))
    if "who" in schema.names:  # as the spec of kind "loyalty" derives them
        three = list(zip(*(made[n].to_pylist() for n in ("side", "x", "y")), strict=True))
        made["who"] = pa.array([None if y == 3 and x is not None and x < 1 else f"{s}{y}" for s, x, y in three], pa.string())
        made["busy"] = pa.array([None if x is None or x == 11 else x > 5 for _, x, _ in three], pa.bool_())
        tenths = [None if x is None or y == 1 else Decimal(repr(x / 10)).quantize(Decimal("0.01"), ROUND_HALF_UP) for _, x, y in three]
        made["price"] = pa.array(tenths, pa.decimal128(10, 2))
    made |= {"__h1": made["id"], "__h2": made["id"], "__k1": key, "__k2": key, "__origin": pa.nulls(len(rows), pa.string())}
    table = pa.table({n: made[n] for n in schema.names}).cast(schema)
    for node in plan.intake.tokens:  # rows without a usable set do not get to the host
        table = table.filter(pc.is_null(tokens.reasons(node, table[node.codes].combine_chunks())))
    for node in plan.intake.reports:  # nor such as are no reports
        table = table.filter(pc.is_null(reports.reasons(node, table, plan.texts, plan.intake)))
    return table


def found(plan: Plan, rows: list[list[object]] | None = None) -> list[Difference]:
    """Everything that replay and books find, and, with the source's ``rows``, brute force."""
    stored = tables_of(plan)
    clocks = Clocks(stored)
    told = [*_replayed(stored, clocks, [q.name for q in plan.every_query]), *compare_row_counts(stored, clocks)]
    if rows is None:
        return told
    source = _rows(plan, rows).select([f.name for f in plan.intake.fields])
    sample = compare_rows(stored, clocks, source, Sample(3, 30, 1), Budget(None))
    in_steps = [q for q in plan.queries if q.item.lasting]
    assert sample.results > 10 * len(plan.queries) and sample.steps >= 10 * len(in_steps) and not sample.skipped
    return told + sample.differences


def of_tables(plan: Plan, name: str) -> list[Difference]:
    """What the tables alone show: replay of one query, and books."""
    stored = tables_of(plan)
    if lacking := missing_values(stored):
        return lacking
    clocks = Clocks(stored)
    return [*_replayed(stored, clocks, [name]), *compare_row_counts(stored, clocks)]


def _replayed(stored: Stored, clocks: Clocks, names: list[str]) -> list[Difference]:
    parts = [(part, clocks.part(part)) for part in stored.parts()]
    told = [d for part, mine in parts for q in part.plan.queries if q.name in names for d in replay(part, q, mine).differences]
    return told + [d for _, mine in parts for d in mine.differences]


def of_results(plan: Plan) -> Compared:
    """Everything of the queries over results held against the tables of the queries that they take."""
    stored = tables_of(plan)
    return compare_rows(stored, Clocks(stored), None, Sample(everything=True), Budget(None))


def of_source(plan: Plan, name: str, rows: list[list[object]]) -> Compared:
    """Everything of one query held against the source's ``rows``."""
    (query,) = [q for q in plan.queries if q.name == name]
    operators = tuple(replace(o, skyband=o.skyband and i == query.operator) for i, o in enumerate(plan.operators))
    stored = tables_of(replace(plan, queries=(query,), operators=operators, streams=()))
    source = _rows(plan, rows).select([f.name for f in plan.intake.fields])
    return compare_rows(stored, Clocks(stored), source, Sample(everything=True), Budget(None))


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A job's tables as its run left them, opened and read once, and those that have been altered since, in memory."""

    left: Stored
    altered: dict[str, pa.Table] = field(default_factory=dict)


_LEFT: dict[str, Stored] = {}
"""The tables that runs have left, by sink."""
_DAMAGED: dict[str, _Damaged] = {}
"""By the sink of the plan that ``copied`` has returned."""


def copied(plan: Plan) -> Plan:
    """Return the plan of a copy of the job's tables, for ``altered``. The copy is in memory: only ``tables_of`` knows its sink."""
    if plan.sink not in _LEFT:
        _LEFT[plan.sink] = Stored(plan)
    made = replace(plan, sink=f"{plan.sink}, copy {len(_DAMAGED)}")
    _DAMAGED[made.sink] = _Damaged(_LEFT[plan.sink])
    return made


def tables_of(plan: Plan) -> Stored:
    """Return the tables of a job, or of a copy with what was altered."""
    if plan.sink not in _DAMAGED:
        return Stored(plan)
    damaged = _DAMAGED[plan.sink]
    made = copy(damaged.left)
    made.plan = made.job_plan = replace(plan, sink=damaged.left.plan.sink)
    made._read = _Tables(damaged)
    return made


class _Tables(dict[str, pa.Table]):
    """Tables by name: altered ones, then those that the run left."""

    def __init__(self, damaged: _Damaged) -> None:
        super().__init__(damaged.altered)
        self._left = damaged.left

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> pa.Table:
        return self._left.table(name)


def altered(plan: Plan, name: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None]) -> None:
    """Replace the table ``name`` by rows that ``change`` has altered in place (or returns), as no commit of the job's own would.

    That of a copy is replaced in memory, any other one in the sink.
    """
    rows = tables_of(plan).table(name)
    made = rows.to_pylist()
    given = change(made)
    table = pa.Table.from_pylist(made if given is None else given, rows.schema)
    if plan.sink in _DAMAGED:
        _DAMAGED[plan.sink].altered[name] = table
    else:
        write_deltalake(f"{plan.sink}/{name}", table, mode="overwrite")
