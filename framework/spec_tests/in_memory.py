"""Run a test of a spec in memory, without Spark."""

from __future__ import annotations

from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.models.job import SpecTest
from skyband.framework.spec_tests.loading import clock_of, input_batches, lookup_tables
from skyband.framework.spec_tests.tables import Tables
from skyband.framework.tables.schemas import derived_tables


def tables_of(plan: Plan, test: SpecTest) -> Tables:
    """Return the job's tables after the test's rows; results only if the test expects some. Takes milliseconds per batch.

    Raises SkybandError SKY-E530 (invalid row), SKY-E531 (SQL that only Spark evaluates), SKY-E502 (a row breaks a rule of severity
    ``fail``).
    """
    job = Rehearsal(plan, lookup_tables(plan, test), clock_of(test))
    for batch in input_batches(plan, test):
        if batch.restart:
            job.restart()
        job.drop(batch.rows)
    if test.finish:
        job.finish(test.finish_at)
    return job.tables(results=any(n in test.expect for n in derived_tables(plan)))
