"""``skyband why`` about a group: how many rows make it up, since when, with which aggregates, and the newest of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from skyband.framework.verify.stored import Stored
from skyband.framework.why.history import SHOWN, Answers, of_verdict
from tests.framework.verify import small
from tests.spark import jobs

QUERIES = """\
  busy: {type: topk_groups, group: side, score: sum(x), having: count() > 1, k: 1, carry: [last(grp), count()]}
  many: {type: threshold_groups, group: side, score: count(), above: 6, window: {time: 10 minutes}}
"""
ROWS: list[list[object]] = [
    *([i, jobs.stamp(i), "p", i, 0, "a"] for i in range(8)),
    [20, jobs.stamp(8), "q", "", 0, "b"],
    [21, jobs.stamp(9), "q", "", 0, "b"],
    [22, jobs.stamp(10), "q", 5, 0, "c"],
    [5, jobs.stamp(11), "q", 5, 0, "d"],
    [23, jobs.stamp(30), "p", 1, 0, "e"],
]
"""id, ts, grp, x, y, side; the row of side d deletes one of side a."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    directory = tmp_path_factory.mktemp("why")
    plan = small.make(jobs.write_spec(directory, queries=QUERIES, deletes="deletes: side = 'd'"), ROWS)
    stored = Stored(plan)
    source = small._rows(plan, ROWS).select([f.name for f in plan.intake.fields])
    return {q.name: Answers(plan, q, source, stored.table("rejected"), stored.until) for q in plan.queries}


def told(answers: Answers, side: str, minute: float) -> list[str]:
    at = int((jobs.START + timedelta(minutes=minute) - small.EPOCH) / timedelta(microseconds=1))
    return list(of_verdict(answers.plan, answers.query, answers.verdict((), [side], at, None)).lines)


def test_a_group_in_the_result(answers: dict[str, Answers]) -> None:
    first, makeup, *rows, older = told(answers["busy"], "a", 10)
    assert first.endswith("in the result, at rank 1 of 1; score 28")
    assert makeup.startswith("    8 rows in the window since ") and makeup.endswith(": sum(x) 28, count() 8, last_grp p, count 8")
    assert len(rows) == SHOWN and all(r.startswith("    row of ") for r in rows) and rows[0].endswith(": id 7, x 7, grp p")
    assert older == "    and 3 older rows"


def test_a_deleted_row_is_none_of_it(answers: dict[str, Answers]) -> None:
    makeup = told(answers["busy"], "a", 12)[1]
    assert makeup.startswith("    7 rows in the window") and "sum(x) 23, count() 7" in makeup


def test_a_group_that_takes_no_part(answers: dict[str, Answers]) -> None:
    first, makeup, *_ = told(answers["busy"], "b", 10)
    assert first.endswith("takes no part: its score is null or NaN, or its condition `having` is not true")
    assert "2 rows in the window" in makeup and "sum(x) null, count() 2" in makeup
    assert "takes no part" in told(answers["busy"], "c", 10)[0]


def test_a_group_without_rows(answers: dict[str, Answers]) -> None:
    assert [line.split("  ")[1] for line in told(answers["many"], "a", 20)] == ["no row of it is in the window"]


def test_a_group_out_of_bounds(answers: dict[str, Answers]) -> None:
    first, makeup, *rows = told(answers["many"], "a", 12)
    assert "out of bounds" in first and makeup.endswith(": count() 4") and len(rows) == 4
