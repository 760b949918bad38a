"""What brute force makes of statistics is the definition: a look at all rows before each row."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.verify.brute_force.objects import Accepted
from skyband.framework.verify.brute_force.statistics import with_statistics
from skyband.operators.window_statistics.configuration import Function
from tests.operators.test_window_statistics import by_definition
from tests.seeds import seeds
from tests.specs import plan_of_text

SPEC = """\
job: statistics
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, g: string, h: bigint, x: double, d: "decimal(18,2)", gone: boolean}}
  id: [id]
  event_time: {{column: ts}}
deletes: gone
window: {{time: 1 hour, count: 12}}
stats:
  whole: {{mean: x, stddev: x, min: d, max: h, sum: h, count: g}}
  parts: {{mean: d, stddev: d, max: x, sum: d, count: x, by: [g], window: {window}, at_least: 2}}
scoring:
  newest: {{expression: id}}
queries:
  all: {{type: topk, scoring: newest, k: 1}}
sink: {{path: out}}
"""
X = (None, 0.0, -0.0, math.nan, 1.5, math.inf, 0.1, -2.0)
D = (None, Decimal("0.10"), Decimal("-0.10"), Decimal("9007199254740993.01"))


def objects(rng: random.Random, n: int) -> Accepted:
    """One key's objects, of which some are deleted."""
    rows = [
        {"id": i, "g": rng.choice(["a", "b", None]), "h": rng.choice([None, 0, 2**53 + 1]), "x": rng.choice(X), "d": rng.choice(D)}
        for i in range(n)
    ]
    time, at = [], 0
    for _ in rows:
        at += 1_000_000 * rng.randrange(3)
        time.append(at)
    gone = sorted(rng.sample(range(n), n // 4))
    deletions = sorted((time[min(after, n - 1)], after, seq) for seq in gone for after in [rng.randrange(seq + 1, n + 1)])
    schema = pa.schema([("id", pa.int64()), ("g", pa.string()), ("h", pa.int64()), ("x", pa.float64()), ("d", pa.decimal128(18, 2))])
    return Accepted((), pa.Table.from_pylist(rows, schema), time, {seq: at for at, _, seq in deletions}, deletions)


def definition(plan: Plan, mine: Accepted) -> dict[str, list[float]]:
    """Every statistic of every object, NaN for null, by a look at all objects before it."""
    rows, found = mine.rows.to_pylist(), dict[str, list[float]]()
    for node in plan.statistics:
        before = [[rows[s] for s in range(seq) if _counts(node, mine, rows, s, seq)] for seq in range(len(rows))]
        for name, (function, column) in zip(node.columns, node.functions, strict=True):
            decimal = column == "d" and function not in ("min", "max")
            found[name] = []
            for row, counted in zip(rows, before, strict=True):
                values = [_exact(r[column], decimal) for r in counted if not _null(r[column])]
                value = by_definition(cast(Function, function), values, 2 if decimal else 0, node.at_least)
                found[name].append(math.nan if any(row[c] is None for c in node.by) else value)
    return found


def _counts(node: Any, mine: Accepted, rows: list[dict[str, Any]], seq: int, following: int) -> bool:
    window = node.window
    deleted = any(target == seq and before <= following for _, before, target in mine.deletions)
    inside = mine.time[seq] + window.micros > mine.time[following] and seq >= following - window.count
    return inside and not deleted and all(rows[seq][c] == rows[following][c] for c in node.by)


def _null(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _exact(value: Any, decimal: bool) -> Any:
    if isinstance(value, str):
        return 1
    if isinstance(value, Decimal):  # an extreme is the double that the column is in expressions
        return int(value * 100) if decimal else pa.scalar(value).cast(pa.float64()).as_py()
    return value


@pytest.mark.parametrize("window", ["{time: 5 seconds, count: 6}", "{count: 5}"])
def test_brute_force_is_the_definition(window: str) -> None:
    plan = plan_of_text(SPEC.format(window=window))
    for seed in seeds(0, 10):
        mine = objects(random.Random(seed), 30)
        found = with_statistics(plan, mine).rows
        for name, want in definition(plan, mine).items():
            got = [math.nan if v is None else v for v in found[name].to_pylist()]
            assert [v.hex() for v in got] == [v.hex() for v in want], (seed, name)
