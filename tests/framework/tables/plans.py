"""Plans and random change streams for tests of the tables, without compiler or engine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from skyband.framework.base.columns import changes_layout, fixed
from skyband.framework.base.items import SCORE_VALUE, ItemShape, Part, by_score
from skyband.framework.plan.model import Field, IntakeNode, OperatorNode, Plan, QueryNode, SourceNode
from skyband.framework.plan.nodes import Check
from skyband.framework.tables.schemas import changes_schema, heads_schema, skyband_schema
from skyband.operators.base import Column, Window

DAY = 1_577_836_800_000_000
"""2020-01-01 in microseconds."""
WINDOW = Window(1000, 3_600_000_000)


@dataclass(frozen=True)
class Nothing:
    """An operator that is only configuration."""

    state_format: ClassVar[str] = "Nothing"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk_pairs"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    roles: tuple[str, ...] = ("older", "newer")
    columns: tuple[Column, ...] = ()
    window: Window = WINDOW

    def build(self, state: Any) -> Any:
        raise NotImplementedError


def make_plan(
    sink: str, keys: Sequence[str] = (), roles: tuple[str, ...] = ("older", "newer"), direction: Literal["min", "max"] = "min",
    checks: tuple[Check, ...] = (), window: Window = WINDOW,
) -> Plan:  # fmt: skip
    """A plan with two queries that share a state."""
    fields = (
        Field("id", "bigint", "int", "id"), Field("ts", "timestamp", "time", "ts"), Field("grp", "string", "text", "grp"),
        Field("day", "date", "time", "day"), Field("price", "decimal(10,2)", "float", "price"), Field("x", "double", "float", "x"),
    )  # fmt: skip
    intake = IntakeNode(fields, (), (), ("id",), "ts", 0, (), tuple(keys), "checked")
    parts = tuple(Part(r, r) for r in roles)
    item = ItemShape(parts, by_score(parts), (SCORE_VALUE,))
    queries = (
        QueryNode("near", "topk_pairs", 0, 0, 5, window, direction, item, ("x", "price"), None, None, None),
        QueryNode("near3", "topk_pairs", 0, 1, 3, window, direction, item, ("day",), None, None, None),
    )
    operator = OperatorNode("near", Nothing(roles=roles, window=window), 5, window, ("near", "near3"), direction)
    source = SourceNode("csv", "in", (), fields)
    return Plan("tests", source, intake, window, (operator,), queries, sink, None, None, checks, (), 4 if keys else 1)


def roles_of(query: QueryNode) -> tuple[str, ...]:
    return tuple(p.role for p in query.item.parts)


def item_row(seqs: Sequence[int], roles: Sequence[str], carry: Sequence[str]) -> dict[str, Any]:
    """Item columns: everything a function of the seq."""
    row: dict[str, Any] = {}
    values = {"x": lambda s: s / 3, "price": lambda s: None if s % 4 == 0 else f"{s}.25", "day": lambda s: s % 100}
    for role, seq in zip(roles, seqs, strict=True):
        prefix = f"{role}_" if role else ""
        row |= {prefix + "id": seq * 10, prefix + "seq": seq, prefix + "time": DAY + seq}
        row |= {prefix + c: values[c](seq) for c in carry}
    return row


def random_changes(plan: Plan, seed: int, batches: int, steps: int, items: int = 12) -> list[dict[str, list[dict[str, Any]]]]:
    """For every batch, change rows by query: items come and go at random, also within one instant and one batch."""
    rng = random.Random(seed)
    keys = [("a",), ("b",), ("c",)] if plan.intake.partition_by else [()]
    made: list[dict[str, list[dict[str, Any]]]] = []
    held: dict[tuple[str, tuple[str, ...]], set[tuple[int, int]]] = {(q.name, k): set() for q in plan.queries for k in keys}
    step = dict.fromkeys(held, 0)
    at = DAY
    for _ in range(batches):
        batch: dict[str, list[dict[str, Any]]] = {q.name: [] for q in plan.queries}
        for _ in range(rng.randrange(steps + 1)):
            at += rng.choice([0, 0, 1, 1_000_000])
            query = rng.choice(plan.queries)
            key = rng.choice(keys)
            inside = held[query.name, key]
            out = rng.sample(sorted(inside), min(len(inside), rng.randrange(3)))
            pairs = [(i, j) for i in range(items) for j in range(i + 1, items) if (i, j) not in inside]
            room = (query.k or items) - len(inside) + len(out)
            new = rng.sample(pairs, min(len(pairs), rng.randrange(3), room))
            if not out and not new:
                continue
            step[query.name, key] += 1
            changes = [("-", p) for p in out] + [("+", p) for p in new]
            for pos, (sign, pair) in enumerate(changes):
                row = dict(zip(plan.intake.partition_by, key, strict=True))
                row |= {
                    "changed_at": at,
                    "step": step[query.name, key],
                    "pos": pos,
                    "change": sign,
                    "cause": "arrival" if sign == "+" else "expiry",
                }
                seqs = pair if roles_of(query) == ("older", "newer") or sum(pair) % 2 else pair[::-1]
                row |= item_row(seqs, roles_of(query), query.carry) | {"score": float((7 * pair[0] + pair[1]) % 5)}
                batch[query.name].append(row)
            inside -= set(out)
            inside |= set(new)
        made.append(batch)
    return made


ROWS_HAVE = frozenset({"changed_at", "step", "pos", "change", "cause", "batch_id"})
DEFAULTS = {c.name: "" if c.type == "string" else 0 for c in fixed(changes_layout(True), changes_layout(False)) if c.name not in ROWS_HAVE}
"""A value for the columns of changes that the rows of these tests do not have, so that a new column needs no change here."""


def to_table(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table; instants and dates are given as integers, decimals as text. A column of changes that no row has is 0 or ""."""
    columns = []
    for f in schema:
        values = [r[f.name] if f.name in r or f.name not in DEFAULTS else DEFAULTS[f.name] for r in rows]
        if pa.types.is_timestamp(f.type):
            columns.append(pa.array(values, pa.int64()).cast(f.type))
        elif pa.types.is_date(f.type):
            columns.append(pa.array(values, pa.int32()).cast(f.type))
        elif pa.types.is_decimal(f.type):
            columns.append(pa.array(values, pa.string()).cast(f.type))
        else:
            columns.append(pa.array(values, f.type))
    return pa.table(columns, schema=schema)


def without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([f for f in schema if f.name not in names])


def batch_blocks(plan: Plan, changes: dict[str, list[dict[str, Any]]], number: int) -> dict[str, pa.Table]:
    """What the host hands to the sink for one batch: changes, a bucket or two of skyband, heads, rejected; ``runs`` is the caller's."""
    blocks: dict[str, pa.Table] = {}
    for q in plan.queries:
        if changes[q.name]:
            blocks[f"changes:{q.name}"] = to_table(changes[q.name], without(changes_schema(plan, q), "batch_id"))
    keys = plan.intake.partition_by
    rows, heads = [], []
    buckets = {number % plan.buckets, (number + 1) % plan.buckets}
    for bucket in sorted(buckets):
        key = dict.fromkeys(keys, "abcd"[bucket])
        rows = [
            key | item_row((i, i + number + 1), roles_of(plan.queries[0]), ("x", "price", "day")) | {"score": float(i), "bucket": bucket}
            for i in range(number % 3)
        ]
        blocks[f"skyband:near:{bucket}"] = to_table(rows, skyband_schema(plan, plan.operators[0]))
        heads.append(key | {"bucket": bucket, "last_seq": number, "last_time": DAY + number, "as_of": DAY + number})
    blocks["heads"] = to_table(heads if keys else heads[:1], heads_schema(plan))
    if number % 2:
        stamp = pa.timestamp("us", "UTC")
        blocks["rejected"] = pa.table(
            {
                "reason": ["late"],
                "text": ["{}"],
                "origin": pa.array([None], pa.string()),
                "event_time": pa.array([DAY], pa.int64()).cast(stamp),
            }
        )
    return blocks
