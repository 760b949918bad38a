"""Filters, derived columns and row rules over columns of files, against their definition row by row."""

from __future__ import annotations

import math
import random
import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.reasons import REASON
from skyband.framework.plan.model import IntakeNode
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.values import arrow_table
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake
from skyband.framework.streaming.rows.config import WARNED
from tests.seeds import seeds
from tests.specs import plan_of_text, spec_text

STEPS = (
    '{derive: {n: "int(s)"}}',
    '{derive: {cents: {sql: "cast(x * 100 as decimal(9,2))", type: "decimal(9,2)"}}}',
    "{where: \"s is null or s <> 'dropped'\"}",
    '{derive: {day: "to_date(ts)", late: "ts + interval 1 hour"}}',
    '{where: "n is null or n < 900"}',
    '{derive: {place: "concat(g, \'-\', upper(g))", twice: {sql: "x + x", type: float}, high: "x > 50"}}',
)
RULES = (
    '{name: finite, expect: "not isnan(x)"}',
    '{name: small, expect: "x < 100 or n is null"}',
    "{name: early, expect: \"day < date '2030-01-01'\", severity: warn}",
    '{name: low, expect: "id < 90", severity: fail}',
    "{name: known, expect: \"g <> '?'\"}",
    '{name: cheap, expect: "cents < 50", severity: warn}',
    '{name: least, expect: "id > -90", severity: fail}',
)
INSTANTS = [
    None, 0, -1, 1_577_836_800_000_000, 1_900_000_000_000_000, 253_402_128_000_000_000, 253_402_128_000_000_001, 253_402_300_799_999_999,
]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "id": [None, *range(-95, 95), 2**63 - 1, -(2**63)],
    "ts": INSTANTS,
    "x": [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 0.005, 1.005, 49.995, 50.5, 99.99, 100.0, 1e300],
    "s": [None, "", "dropped", "7", " 12 ", "no number", "1.5", "899", "900", "99999999999", "-3"],
    "g": [None, "a", "b?", "?"],
}


def intake(*steps: str, rules: tuple[str, ...] = (), key: str | None = "[g]") -> IntakeNode:
    return plan_of_text(
        spec_text(
            "small", "{id: bigint, ts: timestamp, x: double, s: string, g: string}", format="parquet", partition_by=key,
            **({"transform": steps} if steps else {}), quality={"rows": rules} if rules else "{max_rejected: 100%}",
            window="{count: 4}", scoring={"high": "{expression: x, direction: max}"}, queries={"best": "{type: topk, scoring: high, k: 2}"},
        )
    ).intake  # fmt: skip


def table(node: IntakeNode, rows: list[dict[str, Any]]) -> pa.Table:
    return arrow_table(rows, [f for f in node.fields if f.source_name is not None])


def random_rows(chosen: random.Random, count: int) -> list[dict[str, Any]]:
    return [{name: chosen.choice(values) for name, values in VALUES.items()} for _ in range(count)]


def texts(rows: pa.Table, names: list[str]) -> list[str]:
    """Values as text, in which null is not NaN, 1 not True, and zero has a sign; instants that Python has not as numbers."""
    columns = [rows[n].cast(pa.int64()) if pa.types.is_timestamp(rows[n].type) else rows[n] for n in names]
    return [repr(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@pytest.mark.parametrize("seed", seeds(0, 60))
def test_columns_are_evaluated_as_rows_are(seed: int) -> None:
    chosen = random.Random(seed)
    # Steps need those before them: a prefix, and any rules that its columns suffice for.
    length = chosen.randrange(1, len(STEPS) + 1)
    rules = tuple(r for r in chosen.sample(RULES, chosen.randrange(len(RULES) + 1)) if length > 3 or not {"day", "cents", "n"} & words(r))
    node = intake(*STEPS[:length], rules=rules, key="[place]" if length == len(STEPS) else "[g]")
    rows = random_rows(chosen, chosen.choice([0, 1, 3, 200]))
    names = [f.name for f in node.fields] + [REASON, *([WARNED] if node.rules_of("warn") else [])]
    made, expected = ArrowIntake(node).judged(table(node, rows), "a"), Rows(node).table(rows)
    assert texts(made, names) == texts(expected, names)
    assert made.select(names).schema == expected.select(names).schema
    assert (WARNED in made.column_names) == bool(node.rules_of("warn"))


def words(rule: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in rule).split())


def test_the_first_reason_counts() -> None:
    node = intake(
        '{where: "s is null or s <> \'dropped\'"}', '{where: "x is null or x <> 7"}',
        rules=('{name: a, expect: "x < 5"}', '{name: b, expect: "x < 3"}', '{name: stop, expect: "x <> 9", severity: fail}',
               '{name: odd, expect: "x <> 1", severity: warn}'),
    )  # fmt: skip
    cases: list[tuple[dict[str, Any], str | None, str | None]] = [
        ({}, None, None),
        ({"x": 1.0}, None, "odd"),
        ({"x": None}, None, None),
        ({"x": 4.0}, "rule:b", None),
        ({"x": 6.0, "id": None}, "rule:a,b", None),
        ({"x": 9.0, "ts": None}, "stops:stop", None),
        ({"x": 9.0, "s": "dropped"}, "filtered", None),
        ({"x": 7.0}, "filtered", None),
        ({"x": 1.0, "s": "dropped", "id": None}, "filtered", "odd"),
        ({"id": None, "ts": None}, "null_id", None),
        ({"ts": None, "g": None}, "null_time", None),
        ({"ts": -1, "g": None}, "time_range", None),
        ({"g": None}, "null_key", None),
    ]
    rows = [{"id": n, "ts": 0, "x": 2.0, "s": None, "g": "a"} | case for n, (case, _, _) in enumerate(cases)]
    made = ArrowIntake(node).judged(table(node, rows), "a")
    assert made[REASON].to_pylist() == [reason for _, reason, _ in cases]
    assert made[WARNED].to_pylist() == [warned for _, _, warned in cases]


def test_decimals_keep_their_digits() -> None:
    node = intake('{derive: {d: {sql: "cast(s as decimal(38,10))", type: "decimal(38,10)"}, e: {sql: "d * 2", type: "decimal(20,3)"}}}')
    given = ["9999999999999999999999999999.9999999999", "-0.0000000001", "12.3456", None]
    rows = [{"id": 1, "ts": 0, "x": 0.0, "s": s, "g": "a"} for s in given]
    made = ArrowIntake(node).judged(table(node, rows).slice(0), "a")
    assert made["d"].to_pylist() == [Decimal(given[0]), Decimal("-1e-10"), Decimal("12.3456"), None]
    assert made["e"].to_pylist() == [None, Decimal("0.000"), Decimal("24.691"), None]
    parts = table(node, rows)
    assert ArrowIntake(node).judged(parts.slice(2, 2), "a")["e"].to_pylist() == [Decimal("24.691"), None]


def test_a_value_that_only_spark_evaluates_leaves_the_file_to_spark() -> None:
    node = intake('{derive: {low: "lower(s)"}}', rules=("{name: r, expect: \"low <> 'a'\"}",))
    rows = [{"id": 1, "ts": 0, "x": 0.0, "s": s, "g": "a"} for s in ("A", "Ä")]
    assert ArrowIntake(node).judged(table(node, rows[:1]), "a")[REASON].to_pylist() == ["rule:r"]
    with pytest.raises(UnsupportedFile, match="derived column low uses letters outside of ASCII"):
        ArrowIntake(node).judged(table(node, rows), "a")


def test_threads_share_an_intake() -> None:
    node = intake(*STEPS, rules=RULES, key="[place]")
    shared, names = ArrowIntake(node), [f.name for f in node.fields] + [REASON, WARNED]
    parts = [table(node, random_rows(random.Random(n), 300)) for n in range(6)]
    found: dict[int, list[str]] = {}

    def work(n: int) -> None:
        for _ in range(3):
            found[n] = texts(shared.judged(parts[n], "a"), names)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: texts(ArrowIntake(node).judged(part, "a"), names) for n, part in enumerate(parts)}
