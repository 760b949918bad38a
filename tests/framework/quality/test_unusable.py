"""Rows that queries cannot use: counted alike however the input is cut, reported with their share, too many of them fail the run."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.messages import COUNTS, Tally, null_count, requested_count, unusable_count
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan
from skyband.framework.quality.unusable import TOO_MANY, Use, report
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.run.batch import Batch
from skyband.framework.streaming.run.progress import Progress
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "use",
    "{id: bigint, ts: timestamp, score: {type: double, from: user.score}, x: double, side: string, body: string, up: int}",
    path="/nowhere/in",
    format="json",
    sink="{path: /nowhere/out}",
    transform=['derive: {twice: "2 * x"}'],
    window="{time: 1 hour}",
    tokens="{w: {column: body, min_tokens: 2}}",
    scoring={
        "s": "{expression: score, direction: max}",
        "d": '{expression: "abs(a.score - b.score)"}',
        "r": '{expression: "x / score"}',
    },
    queries={
        "top": "{type: topk, scoring: s, k: 3}",
        "some": "{type: topk, scoring: s, k: 3, where: \"side = 'a'\"}",
        "above": "{type: threshold, scoring: s, at_least: 1}",
        "sky": "{type: skyline, dimensions: {score: max, x: max}, where: \"side = 'a'\"}",
        "near": "{type: topk_pairs, scoring: d, k: 3}",
        "sides": "{type: topk_pairs, scoring: d, k: 3, between: {column: side, a: a, b: b}}",
        "twins": "{type: similar_sets, tokens: w, min_score: 0.5}",
        "seen": "{type: matches, tokens: w, k: 1, between: {column: side, a: a, b: b}}",
        "bounded": "{type: threshold_pairs, scoring: d, max_score: 1}",
        "next": "{type: matches, scoring: d, k: 1, between: {column: side, a: a, b: b}}",
        "known": '{type: topk_loyalty, object: side, criteria: "score > 1", k: 2}',
    },
)
QUERIES = ("top", "some", "above", "sky", "near", "sides", "twins", "seen", "bounded", "next", "known")


def plan_of(text: str = SPEC) -> Plan:
    return plan_of_text(text)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of()


def row(number: int, score: float | None = None, side: str = "a", body: str | None = "a b") -> dict[str, Any]:
    return {"id": number, "ts": number * 1_000_000, "score": score, "x": 1.0, "side": side, "body": body, "up": 1}


ROWS = [
    row(1, 2.0), row(2, None), row(3, None, "b"), row(4, 1.0, "b", "a"), row(5, None, "c", None), row(6, float("nan"), "c"),
    row(7, 3.0, "a", ""), row(8, 4.0, "b"),
]  # fmt: skip
EXPECTED = {
    "top": (4, 8), "some": (1, 3), "above": (4, 8), "sky": (1, 3), "near": (4, 8), "sides": (2, 6), "twins": (3, 8), "seen": (2, 6),
    "bounded": (4, 8), "next": (2, 6), "known": (4, 8),
}  # fmt: skip
"""(rows that it cannot use, rows that it asks for) of each query."""


def counted(plan: Plan, cuts: Sequence[int]) -> Use:
    """What the runs of a job add up whose batches end after so many rows."""
    job, progress, before = Rehearsal(plan), Progress(Lines(io.StringIO()), quiet=True), Tally()
    for number, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(ROWS)], strict=True)):
        job.drop(ROWS[a:b])
        if b == len(ROWS):
            job.finish()
        progress(Batch(number, Tally({k: n - before[k] for k, n in job.counts.items()})))
        before = Tally(job.counts)
    return progress.use()


@pytest.mark.parametrize("cuts", [[], [1], [2, 5], list(range(1, 8))])
def test_each_query_counts_what_it_asks_for_and_cannot_use(plan: Plan, cuts: list[int]) -> None:
    use = counted(plan, cuts)
    assert {q: use.of(q) for q in QUERIES} == EXPECTED
    assert (use.objects, use.sent, dict(use.nulls)) == (8, 8, {"score": 3, "body": 1})


SIDED = spec_text(
    "sided",
    "{id: bigint, ts: timestamp, price: double, cost: double, name: string, side: string}",
    path="/nowhere/in",
    format="json",
    sink="{path: /nowhere/out}",
    window="{time: 1 hour}",
    scoring={
        "of_b": "{expression: b.price}", "of_a": "{expression: a.price}", "each": "{expression: b.price - a.cost}",
        "either": '{expression: "coalesce(a.price, b.price)"}', "texts": '{expression: "length(b.name)"}',
    },
    queries={
        f"{kind}_{score}{suffix}": f"{{type: {kind}, scoring: {score}, {more}{sides}}}"
        for kind, more in (("topk_pairs", "k: 3"), ("threshold_pairs", "max_score: 1"), ("matches", "k: 1"))
        for score in ("of_b", "of_a", "each", "either", "texts")
        for suffix, sides in (("", ""), ("_sides", ", between: {column: side, a: x, b: y}"))
    },
)  # fmt: skip
OF_SIDES = {"x": {"of_a": "price", "each": "cost"}, "y": {"of_b": "price", "each": "price", "texts": "name"}}
"""The column that a row of each side needs, by score."""


def test_rows_of_a_side_need_only_the_columns_that_the_score_reads_of_it() -> None:
    rows = [
        {"id": n, "ts": n * 1_000_000, "price": price, "cost": cost, "name": name, "side": side}
        for n, (price, cost, name, side) in enumerate(
            itertools.product((None, 1.0), (None, 2.0), (None, "n"), ("x", "y", "z")), 1
        )
    ]  # fmt: skip
    plan = plan_of(SIDED)
    job = Rehearsal(plan)
    job.drop(rows)
    job.finish()
    use = job.counts.unusable()
    for query in plan.queries:
        score = query.name.removeprefix("topk_pairs_").removeprefix("threshold_pairs_").removeprefix("matches_").removesuffix("_sides")
        if query.name.endswith("_sides"):
            needs = [OF_SIDES.get(str(row["side"]), {}).get(score) for row in rows]
            expected = sum(column is not None and row[column] is None for row, column in zip(rows, needs, strict=True))
        else:
            # A row may be the older or the newer one: it is of no use if it is of none as either.
            expected = sum(row["price"] is None and row["cost"] is None for row in rows) if score == "each" else 0
        assert use.get(query.name, 0) == expected, query.name


def told(plan: Plan, use: Use, first: bool = False) -> tuple[int, list[str]]:
    err = io.StringIO()
    return report(plan, use, first, Lines(err)), err.getvalue().splitlines()


def use_of(unusable: int, asked: int, query: str = "top", **more: Any) -> Use:
    return Use(**{"objects": asked, "unusable": {query: unusable}, "asked": {query: asked}, **more})


@pytest.mark.parametrize(
    ("allowed", "unusable", "asked", "code", "warned"),
    [
        (None, 0, 0, 0, False), (None, 0, 100, 0, False), (None, 1, 100, 0, False), (None, 2, 100, 0, True), (None, 99, 100, 0, True),
        (None, 100, 100, 4, True), (None, 1, 1, 4, True), (100, 100, 100, 0, True), (5, 5, 100, 0, True), (5, 6, 100, 4, True),
        (0, 1, 1000, 4, False), (0, 0, 1000, 0, False),
    ],
)  # fmt: skip
def test_the_share_that_is_allowed(plan: Plan, allowed: float | None, unusable: int, asked: int, code: int, warned: bool) -> None:
    found, lines = told(replace(plan, max_unusable=allowed), use_of(unusable, asked))
    assert found == code and code in (0, TOO_MANY)
    assert any(line.startswith("WARNING: query top cannot use") for line in lines) == warned
    assert any(line.startswith("SKY-E505 query top cannot use") for line in lines) == (code == 4)


def test_an_empty_column_is_named_with_what_reads_it(plan: Plan) -> None:
    """Case 44: a JSON field that no row has."""
    use = use_of(20, 20, sent=20, nulls={"score": 20, "up": 20, "twice": 20, "x": 19})
    code, lines = told(plan, use, first=True)
    assert code == 4
    assert lines[:3] == [
        "WARNING: column score is null in all 20 rows of this run: does the source have it under the name user.score (`from` of "
        "source.schema.score), and with values of type double?",
        "WARNING: column twice is null in all 20 rows of this run: what does its expression in `transform` come to? SQL gives null for "
        "twice where something cannot be computed",
        "WARNING: column up is null in all 20 rows of this run: does the source have it under that name, and with values of type int?",
    ]
    assert lines[3] == (
        "WARNING: query top cannot use all 20 rows of this run that it asks for: what they are ranked by, or judged by, is null or no "
        "number, no row of this run has a value in score"
    )
    assert lines[4].startswith("SKY-E505 query top cannot use all 20 rows of this run that it asks for; some must be of use")
    # Of later runs, whose few rows may have none, only columns that are in the way of a query are named.
    assert [line.split()[1] for line in told(plan, use)[1] if line.startswith("WARNING")] == ["query"]
    assert use.document() == {"unusable": {"top": {"rows": 20, "of": 20}}, "empty_columns": ["score", "twice", "up"]}


def test_short_sets_are_named_as_such(plan: Plan) -> None:
    _, lines = told(plan, use_of(3, 10, "twins"))
    assert lines == [
        "WARNING: query twins cannot use 3 of the 10 rows of this run that it asks for (30.0 %): they have fewer than 2 tokens "
        "(tokens.w.min_tokens)"
    ]


def test_statistics_that_a_score_reads_are_named() -> None:
    plan = plan_of(
        SPEC.replace("scoring:\n", "stats:\n  usual: {mean: x, by: [side]}\nscoring:\n").replace(
            "expression: score,", "expression: usual.mean,"
        )
    )
    _, lines = told(plan, use_of(3, 10))
    assert lines == [
        "WARNING: query top cannot use 3 of the 10 rows of this run that it asks for (30.0 %): what they are ranked by, or judged by, is "
        "null or no number, statistics are null for the first rows (stats.usual)"
    ]


def test_one_row_is_not_rows(plan: Plan) -> None:
    assert told(plan, use_of(1, 1))[1][0].startswith("WARNING: query top cannot use the only row of this run that it asks for: ")


def test_nulls_are_counted_of_rows_that_are_not_rejected(plan: Plan) -> None:
    table = Rows(plan.intake).table([*ROWS, {**row(9), "id": None}, {**row(10), "ts": None}])
    counts = Tally()
    for block in Pack(HostConfig.of(plan, (), "test"))(iter(table.to_batches(max_chunksize=3))):
        for kind, data in zip(block["kind"].to_pylist(), block["data"].to_pylist(), strict=True):
            if kind == COUNTS:
                counts.add(data)
    assert (counts["rows_in"], counts["sent"], counts.nulls()) == (10, 8, {"score": 3, "body": 1})


def test_the_counts_are_in_no_other_column_of_runs() -> None:
    tally = Tally({unusable_count("top"): 1, requested_count("top"): 2, null_count("x"): 3, "sent": 4, "more": 5})
    assert (tally.unusable(), tally.requested(), tally.nulls(), tally.counters()) == ({"top": 1}, {"top": 2}, {"x": 3}, {"more": 5})


@pytest.mark.parametrize(
    ("text", "expected"), [("", None), ("quality: {max_unusable: 5%}\n", 5.0), ("quality: {max_unusable: 100%}\n", 100.0)]
)
def test_the_spec_says_the_share(text: str, expected: float | None) -> None:
    assert plan_of(SPEC + text).max_unusable == expected


def test_a_null_of_arrow_and_not_nan_is_a_null() -> None:
    assert pa.table({"x": pa.array([1.0, float("nan"), None])})["x"].null_count == 1
