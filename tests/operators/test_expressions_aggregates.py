"""Expressions over aggregates: their spelling, and what is said of mistakes."""

from __future__ import annotations

import pytest

from skyband.operators.base import Kind
from skyband.operators.expressions import ExpressionErrors
from skyband.operators.expressions.aggregates import parse_aggregates

SCHEMA: dict[str, Kind] = {"bytes": "int", "x": "float", "src": "text", "t": "time", "ok": "bool"}


@pytest.mark.parametrize(
    ("text", "spelling", "aggregates"),
    [
        ("SUM(bytes)", "sum(bytes)", ["sum(bytes)"]),
        ("sum(bytes)/count(*)", "sum(bytes) / count()", ["sum(bytes)", "count()"]),
        ("max(sum(x), min(x))", "max(sum(x), min(x))", ["sum(x)", "min(x)"]),
        ("avg(x) - mean(x)", "mean(x) - mean(x)", ["mean(x)"]),
        ("distinct(src) + count(t)", "distinct(src) + count(t)", ["distinct(src)", "count(t)"]),
        ("sum(where(ok, x*2, 0))", "sum(where(ok, x * 2, 0))", ["sum(where(ok, x * 2, 0))"]),
        ("quantile(x, 0.95)", "quantile(x, 0.95)", ["quantile(x, 0.95)"]),
        ("sum(case when ok then x end)", "sum(where(ok, x, null))", ["sum(where(ok, x, null))"]),
        (
            "case when count() > 5 then coalesce(sum(x), 0) else round(mean(x)) end",
            "where(count() > 5, where(sum(x) is not null, sum(x), 0), round(mean(x)))",
            ["count()", "sum(x)", "mean(x)"],
        ),
        ("stddev(x) + std(x)", "stddev_samp(x) + stddev_samp(x)", ["stddev_samp(x)"]),
        ("variance(x) - var_pop(x)", "var_samp(x) - var_pop(x)", ["var_samp(x)", "var_pop(x)"]),
        ("last(x) - first(max(x, 2))", "last(x) - first(max(x, 2))", ["last(x)", "first(max(x, 2))"]),
    ],
)
def test_spelling(text: str, spelling: str, aggregates: list[str]) -> None:
    found = parse_aggregates(text, SCHEMA, "score")
    assert found.spelling == spelling and [a.spelling for a in found.aggregates] == aggregates
    assert parse_aggregates(found.spelling, SCHEMA, "score") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x + 1", "x has a value in every row of a group"),
        ("y", "unknown attribute y: an expression over groups consists of aggregates"),
        ("sum(y)", "unknown attribute y"),
        ("sum(sum(x))", "aggregates do not nest"),
        ("min(min(x))", "aggregates do not nest"),
        ("median(x)", "the aggregate median is not offered"),
        ("sum(src)", "sum takes numbers"),
        ("sum()", "sum takes an argument"),
        ("count(distinct x)", "the number of different values is written distinct(x)"),
        ("count(x, x)", "count takes one argument"),
        ("distinct(ok and x > 1)", "distinct takes a column"),
        ("quantile(x)", "and a share, such as quantile(x, 0.95)"),
        ("quantile(x, 2)", "the share of a quantile is a number above 0 and at most 1"),
        ("count() > 1", "a score must be a number"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    with pytest.raises(ExpressionErrors, match=r".*") as e:
        parse_aggregates(text, SCHEMA, "score")
    assert said in e.value.errors[0].message
