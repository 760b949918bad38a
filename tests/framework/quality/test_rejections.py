"""The end of a run with rejected rows: reasons above 1 % are pointed out, too many of them have an exit code of their own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skyband.framework.base import reasons
from skyband.framework.base.reasons import REASONS
from skyband.framework.console.lines import Lines
from skyband.framework.quality.rejections import TOO_MANY, RunRows, explained, report
from skyband.framework.spec.load import validate_text
from tests.framework.plan.test_compile import plan_of
from tests.framework.spec.examples import ENV, SENSORS, other

PLAN = plan_of(SENSORS)


class Writer:
    """Table ``rejected``, in memory."""

    def __init__(self, rows: Sequence[tuple[int, str, str]]) -> None:
        self.table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(("batch_id", "reason", "text"))})

    def read(self, table: str, columns: Sequence[str], where: pc.Expression) -> pa.Table:
        assert table == "rejected"
        return self.table.filter(where).select(columns)


class Sink:
    def __init__(self, *rows: tuple[int, str, str]) -> None:
        self.writer = Writer(rows)


def told(run: RunRows | None, *rows: tuple[int, str, str], plan: Any = PLAN) -> tuple[int, list[str]]:
    err = io.StringIO()
    code = report(plan, Sink(*rows), run, None, Lines(err))  # type: ignore[arg-type]
    return code, err.getvalue().splitlines()


def test_each_reason_above_one_percent_is_pointed_out() -> None:
    rows = [(3, "late", "{}")] * 30 + [(4, "parse", "s,1357034400,1,2,3")] * 20 + [(4, "null_time", "{}")] * 10 + [(1, "late", "{}")] * 900
    code, lines = told(RunRows(3, 5, 1000, 60), *rows)
    assert code == TOO_MANY == 4
    late, parse, *error = lines
    assert late.startswith("WARNING: 30 of the 1,000 rows of this run (3.0 %) were rejected, reason late: ") and "watermark" in late
    assert parse.startswith("WARNING: 20 of the 1,000 rows of this run (2.0 %) were rejected, reason parse: ")
    assert error[0] == "SKY-E501 60 of the 1,000 rows of this run (6.0 %) were rejected; quality.max_rejected allows 1 %"
    assert "max_rejected: 100%" in error[1]


@pytest.mark.parametrize(("allowed", "rejected", "code"), [(1, 10, 0), (1, 11, 4), (0, 1, 4), (0, 0, 0), (100, 1000, 0), (99, 1000, 4)])
def test_the_share_that_is_allowed(allowed: float, rejected: int, code: int) -> None:
    rows = [(0, "late", "{}")] * rejected
    found, lines = told(RunRows(0, 0, 1000, rejected), *rows, plan=replace(PLAN, max_rejected=allowed))
    assert found == code and any(line.startswith("WARNING") for line in lines) == (rejected > 10)


def test_a_run_without_rows_or_rejects_says_nothing() -> None:
    assert told(None) == (0, []) == told(RunRows(0, 3, 0, 0))


def test_every_reason_is_explained() -> None:
    for reason in (r for c in REASONS for r in c.reasons):
        said = explained(PLAN, None, reason.replace("<name>", "plausible"), ["{}"])
        assert said and said != "see table `rejected`", reason
    assert PLAN.intake.event_time in explained(PLAN, None, reasons.NULL_TIME, [])
    assert "UTF-8" in explained(PLAN, None, reasons.PARSE, ["a\ufffd,2020-01-01,1,2,3"])


def test_the_spec_says_the_share() -> None:
    def errors(text: str) -> list[tuple[str, str, str | None]]:
        job, found = validate_text(other("topk_pairs") + f"quality: {{max_rejected: {text}}}\n", ENV)
        assert (job is None) == bool(found)
        return [(e.code, e.message, e.hint) for e in found]

    job, _ = validate_text(other("topk_pairs"), ENV)
    assert job is not None and job.quality.max_rejected == 1.0
    job, _ = validate_text(other("topk_pairs") + "quality: {max_rejected: 0.5%}\n", ENV)
    assert job is not None and job.quality.max_rejected == 0.5
    assert not errors("100 %") and not errors("0%")
    for wrong in ("5", "101%", "-1%", "some"):
        (error,) = errors(wrong)
        assert error[0] == "SKY-E115" and error[2] == "write a number and %, such as 1%", wrong
