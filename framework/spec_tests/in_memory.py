"""A test run without Spark."""

from __future__ import annotations

from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.models.examples import SpecTest
from skyband.framework.spec_tests.drops import drops
from skyband.framework.spec_tests.tables import Tables
from skyband.framework.tables.schemas import derived_tables


def tables_of(plan: Plan, test: SpecTest) -> Tables:
    """The job's tables after the test's rows; results only if the test expects some. Milliseconds a drop.

    SkybandError SKY-E530 (a row that cannot be one), SKY-E531 (the job has SQL that only Spark evaluates), SKY-E502 (a row breaks a
    rule of severity ``fail``).
    """
    job = Rehearsal(plan)
    for drop in drops(plan, test):
        if drop.restart:
            job.restart()
        job.drop(drop.rows)
    if test.finish:
        job.finish()
    return job.tables(results=any(n in test.expect for n in derived_tables(plan)))
