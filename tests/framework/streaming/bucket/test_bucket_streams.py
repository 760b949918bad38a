"""Queries over queries in a bucket: equal to jobs of their own over the changes that they take, however rows are cut."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Plan, StreamNode
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket.test_bucket import MINUTE, batches_of, keeping_a_journal
from tests.seeds import seeds
from tests.specs import plan_of_text

SPEC = """\
job: chains
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, user: string, place: string, x: double, gone: boolean}}
  id: [id]
  event_time: {{column: ts, watermark: 5 minutes}}
  partition_by: [grp]
{deletes}window: {window}
scoring:
  x: {{expression: x}}
  far: {{expression: abs(a.x - b.x)}}
  again: {{expression: best_score, direction: min}}
  value: {{expression: busy_score}}
  close: {{expression: "abs(a.busy_score - b.busy_score)", direction: min}}
  gap: {{expression: far_score}}
  visits: {{expression: distinct_user}}
queries:
  best: {{type: topk, scoring: x, k: 3, carry: [user, x]}}
  rare: {{type: topk, scoring: x, k: 2, every: 4 minutes, carry: [user]}}
  busy: {{type: topk_groups, group: user, score: sum(x), k: 2}}
  spots: {{type: topk_groups, group: place, score: count(), k: 2, carry: [distinct(user), last(user), sum(x), last(ts), first(id)]}}
  lively: {{type: threshold_groups, group: place, score: sum(x), above: 1, below: 0, carry: [last(user)]}}
  hourly: {{type: topk_groups, group: place, score: count(), k: 2, every: 4 minutes, carry: [last(user)]}}
  far: {{type: topk_pairs, scoring: far, k: 2}}
  calm: {{type: topk_loyalty, object: user, criteria: x > 1, k: 1}}
  worst: {{type: topk, from: best, scoring: again, k: 1, carry: [best_cause, best_time]}}
  sky: {{type: skyline, from: best, dimensions: {{best_score: max, best_seq: min}}}}
  late: {{type: topk, from: best, scoring: again, k: 2, where: "best_cause <> 'arrival'", window: {{time: 3 minutes}}}}
  two: {{type: topk_groups, from: best, group: user, score: count(), k: 1, window: {{count: 2}}}}
  shown: {{type: threshold, from: rare, scoring: rare, at_least: 0}}
  high: {{type: threshold, from: busy, scoring: value, above: 1}}
  skyline: {{type: skyline, from: spots, dimensions: {{spots_score: max, distinct_user: max}}}}
  varied: {{type: topk, from: spots, scoring: visits, k: 1, where: "last_user <> 'c'", carry: [sum_x, last_ts, first_id]}}
  guests: {{type: topk_groups, from: lively, group: last_user, score: count(), k: 1}}
  regulars: {{type: topk_groups, from: hourly, group: place, score: count(), k: 1}}
  places: {{type: topk_loyalty, of: spots, k: 1, window: {{time: 30 minutes}}}}
  pairs: {{type: topk_pairs, from: busy, scoring: close, k: 1}}
  wide: {{type: threshold, from: far, scoring: gap, at_least: 1}}
  held: {{type: topk_loyalty, from: rare, object: user, criteria: rare_score > 0, k: 2, window: {{time: 12 minutes}}}}
  steady: {{type: topk_loyalty, of: busy, k: 1, window: {{time: 30 minutes}}}}
  often: {{type: threshold_loyalty, of: best, object: user, at_least: 2 minutes, window: {{time: 20 minutes}}}}
  third: {{type: topk, from: worst, scoring: worst, k: 1}}
  regular: {{type: threshold_loyalty, of: third, object: id, at_least: 1 minutes, window: {{time: 10 minutes}}}}
  calmer: {{type: topk_groups, from: calm, group: user, score: count(), k: 1}}
  top_steady: {{type: topk_loyalty, of: steady, k: 1, window: {{time: 50 minutes}}}}
sink: {{path: out}}
"""
SPEC = SPEC.replace("  gap:", "  rare: {{expression: rare_score}}\n  worst: {{expression: worst_score}}\n  gap:")
CASES = [("{time: 7 minutes}", ""), ("{time: 7 minutes}", "deletes: gone\n"), ("{count: 4}", "deletes: gone\n")]
Row = dict[str, Any]


def plan_of(window: str, deletes: str) -> Plan:
    """Return the plan for a window; loyalty over rows needs one of time."""
    lines = SPEC.format(window=window, deletes=deletes).splitlines(keepends=True)
    return plan_of_text("".join(line for line in lines if "time" in window or not line.startswith("  calm")))


def random_rows(seed: int) -> list[Row]:
    rng = random.Random(seed)
    rows: list[Row] = []
    for i in range(rng.randrange(1, 50)):
        rows.append(
            {"id": i, "ts": MINUTE * (i // rng.choice([1, 2, 3])), "grp": rng.choice("pq"), "user": rng.choice(["a", "b", "c", None]),
             "place": rng.choice(["u", "v", "w", "w", None]), "x": rng.choice([None, 0.0, 1.0, 1.0, 2.0, -1.0, 3.5]), "gone": False}
        )  # fmt: skip
        if rng.random() < 0.2:
            rows.append({**rng.choice(rows), "ts": rows[-1]["ts"], "gone": True})
    if rng.random() < 0.3:  # silence, after which all windows are empty
        rows.append({**rows[-1], "id": 99, "ts": rows[-1]["ts"] + 3 * 1440 * MINUTE, "gone": False})
    return sorted(rows, key=lambda r: r["ts"])


def table_of(config: HostConfig, rows: list[Row]) -> pa.Table:
    schema = config.row_schema()
    made = [{**r, "__k1": ord(r["grp"]), "__k2": ord(r["grp"]), "__h1": r["id"], "__h2": r["id"]} for r in rows]
    kinds = {f.name: pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type for f in schema}
    return pa.table({n: pa.array([m.get(n) for m in made], kind) for n, kind in kinds.items()}).cast(schema)


def drive(plan: Plan, batches: list[list[Row]], restore: bool, end: int | None = None) -> dict[str, list[Row]]:
    """Return the rows of tables that a bucket sends, by kind, up to ``end`` (microseconds; None: the newest row)."""
    config = HostConfig.of(plan, (), "test")
    bucket, state, out = Bucket(config, 0), dict[str, bytes](), defaultdict[str, list[Row]](list)
    watermark, newest = 0, 0
    for batch in [*batches, []]:
        newest = max([newest, *(r["ts"] for r in batch)])
        if not batch:
            watermark = (newest if end is None else end) // 1000 + 1
        for kind, block in bucket.run([table_bytes(table_of(config, batch))] if batch else [], watermark, flush=not batch):
            if kind != "counts" and not kind.startswith(("heads", "skyband")):
                out[kind] += bytes_table(block).to_pylist()
        watermark = max(watermark, newest // 1000 - plan.intake.delay_micros // 1000, 0)
        values, dropped = bucket.save()
        state |= values
        for name in dropped:
            del state[name]
        if restore:
            bucket = Bucket.restore(config, 0, state.get)
    return out


def texts(out: dict[str, list[Row]]) -> dict[str, list[str]]:
    return {kind: sorted(map(repr, rows)) for kind, rows in out.items() if rows}


def micros(at: Any) -> int:
    return int(pa.scalar(at, pa.timestamp("us", "UTC")).value)


def entries(plan: Plan, node: StreamNode, out: dict[str, list[Row]], until: int) -> Iterable[tuple[Row, bool]]:
    """Yield the rows that a result makes up, and whether each deletes, by definition: one change, or point, after another."""
    of, columns = node.of, dict(node.columns)
    item = next(q.item for q in plan.every_query if q.name == of)
    identity = item.identity(plan.intake.partition_by)
    events = [(micros(r["changed_at"]), 0, r["step"], r["pos"], r) for r in out[f"changes:{of}"]]
    if f"{of}_score" in columns.values():
        events += [(micros(r["valid_from"]), 1, 0, 0, r) for r in out[f"trajectory:{of}"]]
    carried = item.carried if item.time_varying is not None else ()
    varying = [f"{of}_score", *(columns[c.name] for c in carried)]
    alive: dict[Any, tuple[int, int, Row]] = {}
    made = 0

    def renewals(upto: int) -> Iterable[tuple[Row, bool]]:
        nonlocal made
        while node.renewed and alive and (due := min(alive, key=lambda i: alive[i][:2])) and alive[due][0] + node.renewed < upto:
            at, _, row = alive[due]
            made += 1
            alive[due] = (at + node.renewed, made, {**row, "ts": at + node.renewed})
            yield row | {"ts": at + node.renewed}, True
            yield alive[due][2], False

    for at, phase, _, _, row in sorted(events, key=lambda e: e[:4]):
        named = tuple(row[c] for c in identity)
        yield from renewals(at)
        entry = {new: row[old] for old, new in columns.items() if old in row} | {"ts": at}
        entry |= {f"{of}_cause": row.get("cause"), f"{of}_change": row.get("change", "+"), **{k: row[k] for k in plan.intake.partition_by}}
        if phase == 0 and row.get("change") == "-":
            del alive[named]
            yield entry, True
        elif not item.lasting:
            yield entry, False
        elif phase == 0 or (named in alive and any(alive[named][2][c] != entry[c] for c in varying)):
            if phase:
                yield entry, True
            made += 1
            alive[named] = (at, made, entry)
            yield entry, False
    yield from renewals(until)


def switches(node: StreamNode, keys: tuple[str, ...], out: dict[str, list[Row]]) -> Iterable[tuple[Row, bool]]:
    """Yield the reports on members by definition, step after step."""
    inside: dict[Any, int] = defaultdict(int)
    column = {new: old for old, new in node.columns} | {f"{node.of}_cause": "cause", f"{node.of}_change": "change"}
    rows = sorted(out[f"changes:{node.of}"], key=lambda r: (r["step"], r["pos"]))

    def named(row: Row) -> tuple[Any, ...]:
        return tuple(row[column.get(c, c)] for c in node.objects)

    for step in sorted({r["step"] for r in rows}):
        mine = [r for r in rows if r["step"] == step]
        before = dict(inside)
        for r in mine:
            inside[named(r)] += 1 if r["change"] == "+" else -1
        for name, r in {named(r): r for r in mine}.items():
            if None not in name and (inside[name] > 0) != (before.get(name, 0) > 0):
                row = {c: r[c] for c in keys} | dict(zip(node.objects, name, strict=True))
                yield row | {f"in_{node.of}": inside[name] > 0, "ts": micros(r["changed_at"])}, False


def as_a_job(plan: Plan, node: StreamNode, out: dict[str, list[Row]], until: int) -> dict[str, list[str]]:
    """Return what a job of its own makes of the stream: rows with ids that are their places, in the order of these."""
    own, keys = node.plan, plan.intake.partition_by
    deletes = own.intake.deletes is not None
    found: dict[str, list[Row]] = defaultdict(list)
    for key in sorted({r["grp"] for rows in out.values() for r in rows if "grp" in r}):
        mine = {kind: [r for r in rows if r.get("grp") == key] for kind, rows in out.items()}
        made = defaultdict(list, mine)
        stream = list(entries(plan, node, made, until) if node.takes == "entries" else switches(node, keys, made))
        intake = replace(own.intake, deletes=own.intake.deletes if deletes else None, tie_break=("__place",))
        fields = (*intake.fields, replace(intake.fields[0], name="__place", type="bigint", kind="int"))
        job = replace(own, intake=replace(intake, fields=fields))
        config = HostConfig.of(job, (), "test")
        item = next(q.item for q in plan.every_query if q.name == node.of)
        rows, identity = [], [dict(node.columns).get(c, c) for c in item.identity(keys)]
        numbers: dict[Any, int] = {}
        for place, (row, gone) in enumerate(stream):
            at = row["ts"]
            number = numbers.setdefault(tuple(row.get(c) for c in identity) if deletes else place, len(numbers))
            rows.append({**row, own.intake.event_time: at, "__place": place, "__hash": number, f"{node.of}_change": "-" if gone else "+"})
        schema = config.row_schema()
        columns = {
            f.name: [ord(key) if f.name in ("__k1", "__k2") else r["__hash"] if f.name in ("__h1", "__h2") else r.get(f.name) for r in rows]
            for f in schema
        }
        kinds = {f.name: pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type for f in schema}
        table = pa.table({n: pa.array(columns[n], kind) for n, kind in kinds.items()}).cast(schema)
        bucket = Bucket(config, 0)
        sent = [*(bucket.run([table_bytes(table)], 0) if rows else []), *bucket.run([], until // 1000)]
        for kind, block in sent:
            if kind.startswith(("changes", "trajectory")):
                found[kind] += bytes_table(block).to_pylist()
            # A row may have left its window when its item leaves.
            assert kind != "rejected" or {r["reason"] for r in bytes_table(block).to_pylist()} == {"no_target"}
    return texts(found)


@pytest.mark.parametrize(("window", "deletes"), CASES)
def test_a_query_over_a_result_is_a_job_over_its_changes(window: str, deletes: str) -> None:
    plan = plan_of(window, deletes)
    kinds = set()
    for seed in seeds(0, 12):
        rows = random_rows(seed)
        end = rows[-1]["ts"] + 100 * MINUTE
        out = drive(plan, [rows], restore=False, end=end)
        kinds |= {kind for kind, made in out.items() if made}
        for node in plan.streams:
            expected = as_a_job(plan, node, out, end + 1000)
            mine = {kind: made for kind, made in out.items() if kind.rpartition(":")[2] in {q.name for q in node.plan.queries}}
            assert texts(mine) == expected, (seed, node.name)
    assert {f"changes:{q.name}" for q in plan.every_query} <= kinds


@pytest.mark.parametrize(("window", "deletes"), CASES)
def test_cuts_restarts_and_a_journal_leave_no_trace(window: str, deletes: str) -> None:
    plan = plan_of(window, deletes)
    for seed in seeds(20, 5):
        rows, rng = random_rows(seed), random.Random(seed)
        whole = texts(drive(plan, [rows], restore=False))
        batches = batches_of(rows, [rng.randrange(1, 4) for _ in range(15)])
        assert texts(drive(plan, batches, restore=False)) == whole
        assert texts(drive(plan, batches, restore=True)) == whole
        with keeping_a_journal():
            assert texts(drive(plan, batches, restore=True)) == whole
            crowded = [rng.random() < 0.3 for _ in range(200)]
            with patch.object(Bucket, "crowded", property(lambda _: crowded.pop())):  # noqa: B023 - used at once
                assert texts(drive(plan, batches, restore=True)) == whole


def test_the_columns_of_a_stream_have_the_types_of_its_rows() -> None:
    plan = plan_of("{time: 7 minutes}", "")
    for stream in HostConfig.of(plan, (), "test").streams:
        assert all(f.type == arrow_type(stream.host.intake.field(f.name).type) for f in stream.entry_schema())
