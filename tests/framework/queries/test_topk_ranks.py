"""Results that other systems give for their own tests of ranking: texts, RANK, DENSE_RANK, NULLS LAST and updated rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.jobs import cli

HEAD = """\
job: ranks
source:
  format: json
  path: in
  schema: {n: bigint, at: timestamp, SCHEMA}
  id: [ID]
  event_time: {column: at, watermark: 0 seconds, tie_break: [n]}
  MORE
window: {time: 3650 days}
queries:
  best: {type: topk, QUERY}
sink: {path: out}
tests:
  - name: ranks
    rows:
"""


def spec(schema: str, query: str, rows: list[str], expected: list[str], id: str = "n", more: str = "") -> str:
    """A spec whose test has ``rows``, a second apart, and the current result ``expected``."""
    text = HEAD.replace("SCHEMA", schema).replace("ID", id).replace("QUERY", query).replace("MORE", more)
    text += "".join(f"      - {{n: {n}, at: 2024-01-01 00:00:{n:02}, {row}}}\n" for n, row in enumerate(rows))
    return text + "    expect:\n      best_now:\n" + "".join(f"        - {{{row}}}\n" for row in expected)


# Flink's top-n of a text column over an aggregation: every row is the highest price of a shop so far, and replaces that of the shop.
HIGHEST = [
    "shop: 11, price: '100'", "shop: 11, price: '200'", "shop: 12, price: '400'", "shop: 12, price: '600'", "shop: 10, price: '600'",
    "shop: 10, price: '700'", "shop: 9, price: '800'", "shop: 9, price: '900'", "shop: 8, price: '110'", "shop: 8, price: '120'",
    "shop: 7, price: '812'", "shop: 6, price: '900'", "shop: 11, price: '800'", "shop: 8, price: '200'", "shop: 5, price: '800'",
    "shop: 4, price: '910'", "shop: 3, price: '110'", "shop: 2, price: '900'", "shop: 1, price: '700'",
]  # fmt: skip
# RisingWave's RANK() <= 3 in three groups of five values, of which the third comes twice.
FIVES = [f"x: {x}, y: {y}" for x in (1, 2, 3) for y in (1, 2, 3, 4, 5)] + [f"x: {x}, y: 3" for x in (1, 2, 3)]
# Feldera's DENSE_RANK() <= 2 of products by revenue in regions.
REVENUES = [
    ("APAC", "laptop", "5000.00"), ("APAC", "phone", "3500.00"), ("APAC", "tablet", "3500.00"), ("APAC", "monitor", "1200.00"),
    ("EMEA", "laptop", "4800.00"), ("EMEA", "desk", "4800.00"), ("EMEA", "chair", "800.00"), ("US", "phone", "6200.00"),
]  # fmt: skip
BEST = [REVENUES[i] for i in (0, 2, 1, 5, 4, 6, 7)]
# Materialize's towns, of which one has no number.
TOWNS = [("Los Angeles", 3979576), ("San Diego", None), ("San Francisco", 881549), ("San Jose", 1021795)]

CASES = {
    "the smallest texts of rows that are updated": spec(
        "shop: int, price: string", "k: 3, order: [{expression: price, direction: min}]", HIGHEST,
        ["rank: 1, shop: 3, price: '110'", "rank: 2, shop: 8, price: '200'", "rank: 3, shop: 12, price: '600'"], id="shop",
        more="on_duplicate: replace",
    ),
    "rank() <= 3": spec(
        "x: int, y: int", "k: 3, order: [{expression: y, direction: min}], ties: include", FIVES,
        [f"x: {x}, y: {y}" for x in (1, 2, 3) for y in (1, 2, 3, 3)], more="partition_by: [x]",
    ),
    "dense_rank() <= 2": spec(
        "region: string, product: string, revenue: 'decimal(10,2)'", "k: 2, order: [{expression: revenue}], ties: dense, carry: [product]",
        [f"region: {r}, product: {p}, revenue: '{v}'" for r, p, v in REVENUES],
        [f"region: {r}, product: {p}, revenue: {v}" for r, p, v in BEST], more="partition_by: [region]",
    ),
    "nulls last fill up": spec(
        "town: string, people: bigint", "k: 4, order: [{expression: people}], nulls: last, carry: [town]",
        [f"town: {t}, people: {'null' if p is None else p}" for t, p in TOWNS],
        ["rank: 1, town: Los Angeles", "rank: 2, town: San Jose", "rank: 3, town: San Francisco", "rank: 4, town: San Diego"],
    ),
    "the largest texts": spec(
        "v: string", "k: 3, order: [{expression: v}]", [f"v: {v}" for v in "abcbd"], ["rank: 1, v: d", "rank: 2, v: c", "rank: 3, v: b"],
    ),
    "rows that tie across the k-th place are left out": spec(
        "v: int", "k: 3, order: [{expression: v}], ties: exclude", [f"v: {v}" for v in (5, 4, 4, 4, 1)], ["rank: 1, v: 5"],
    ),
    "the oldest of equal rows first": spec(
        "v: int", "k: 2, order: [{expression: v}], tie_break: oldest", [f"v: {v}" for v in (4, 5, 4, 5, 5)], ["n: 1", "n: 3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_result_is_theirs(tmp_path: Path, case: str) -> None:
    path = tmp_path / "ranks.yaml"
    path.write_text(CASES[case], encoding="utf-8")
    assert cli.main(["test", str(path)]) == 0
