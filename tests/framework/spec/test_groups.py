"""What is said about mistakes of queries about groups."""

from __future__ import annotations

import pytest

from skyband.framework.spec.load import validate_text

SPEC = """\
job: small
source:
  format: csv
  path: in
  schema:
    {id: bigint, ts: timestamp, host: string, x: double, price: "decimal(10,2)", large: "decimal(38,4)", score: string, last_x: string}
  id: [id]
  event_time: {column: ts}
window: {time: 1 hour}
queries:
  q: {ENTRY}
sink: {path: out}
"""
TOP, ABOVE = "type: topk_groups, k: 3, ", "type: threshold_groups, above: 3, "


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        (TOP + "group: x, score: count()", "SKY-E126", "numbers with a fraction name no group"),
        (TOP + "group: [host, host], score: count()", "SKY-E125", "'host' is listed twice in group"),
        (TOP + "group: score, score: count()", "SKY-E124", "collides"),
        (TOP + "group: nobody, score: count()", "SKY-E120", "unknown column 'nobody'"),
        (TOP + "group: host, score: x", "SKY-E130", "x has a value in every row of a group"),
        (TOP + "group: host, score: count(), having: sum(x)", "SKY-E130", "a condition (true or false) is needed"),
        (TOP + "group: host, score: count(), carry: [x]", "SKY-E130", "x has a value in every row of a group"),
        (TOP + "group: host, score: count(), carry: [sum(x) / 2]", "SKY-E130", "groups carry count() and aggregates of columns"),
        (TOP + "group: host, score: count(), carry: [sum()]", "SKY-E130", "groups carry count() and aggregates of columns"),
        (TOP + "group: host, score: count(), carry: [last(nobody)]", "SKY-E120", "unknown column 'nobody'"),
        (TOP + "group: host, score: count(), carry: [max(host)]", "SKY-E126", "max takes numbers, and 'host' is string"),
        (TOP + "group: host, score: sum(price), carry: [last(price)]", "SKY-E126", "groups do not carry decimals"),
        (TOP + "group: host, score: sum(price), carry: [sum(price)]", "SKY-E126", "'price' is decimal(10,2)"),
        (TOP + "group: host, score: count(), carry: [distinct(large)]", "SKY-E126", "distinct takes decimals of at most 18 digits"),
        (TOP + "group: host, score: count(), carry: [stddev(x)]", "SKY-E130", "groups carry count() and aggregates of columns"),
        (TOP + "group: host, score: count(), carry: [last(x), last( x )]", "SKY-E125", "carried twice"),
        (TOP + "group: last_x, score: count(), carry: [last(x)]", "SKY-E124", "result column 'last_x' collides"),
        (TOP + "group: host, score: count(), ties: first", "SKY-E113", "ties"),
        (TOP + "group: host, score: sum(price * 2)", "SKY-E126", "sum adds decimals exactly as they are, and calculates with doubles"),
        (TOP + "group: host, score: var_pop(abs(price))", "SKY-E126", "'price' is decimal(10,2)"),
        (TOP + "group: host, score: sum(large)", "SKY-E126", "sum takes decimals of at most 18 digits, and 'large' is decimal(38,4)"),
        (TOP + "group: host, score: count(), having: max(large) > 1", "SKY-E126", "max takes decimals of at most 18 digits"),
        (TOP + "group: host, score: count(), where: sum(x) > 1", "SKY-E130", "aggregates over many rows"),
        (ABOVE + "group: host, score: count(), below: 4", "SKY-E117", "'below' is greater than 'above'"),
        (
            "type: threshold_groups, above: 1000000000000000.01, below: 1000000000000000.02, group: host, score: sum(price)",
            "SKY-E117",
            "'below' is greater than 'above'",
        ),
    ],
)
def test_mistakes(entry: str, code: str, said: str) -> None:
    _, errors = validate_text(SPEC.replace("ENTRY", entry), {})
    assert [e.code for e in errors] == [code]
    assert said in errors[0].message and (errors[0].hint is not None or code == "SKY-E125" or said.startswith("a condition"))


@pytest.mark.parametrize(
    "entry",
    [
        TOP + "group: [host, price], score: max(price)",
        TOP + "group: host, score: 'sum(price) / count(large)', having: stddev(price) > 0",
        TOP + "group: host, score: 'sum(where(price > 2, 1, 0))'",
        TOP + "group: host, score: sum(price), ties: include, carry: [count(price), distinct(price), count(large)]",
        ABOVE + "group: host, score: mean(x), below: -1",
        ABOVE + "group: host, score: sum(price)",
        "type: threshold_groups, above: 1000000000000000.02, below: 1000000000000000.01, group: host, score: sum(price)",
        TOP + "group: host, score: count(), ties: include, carry: [last(host), first(ts), count(), count(price), Max(x), distinct(id)]",
    ],
)
def test_good_entries(entry: str) -> None:
    assert validate_text(SPEC.replace("ENTRY", entry), {})[1] == []
