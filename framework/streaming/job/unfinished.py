"""Decide whether a spec's rules may change while a batch is incomplete.

A batch with rows in a table is repeated with the same rules, so that these rows stay correct. A batch without rows in any table (it was
killed early, or a row stopped the run) is planned again, with its files and its watermark.
"""

from __future__ import annotations

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.logs import forget_plan, last_batch, offset
from skyband.framework.streaming.job.accepting_rules import rules_of, stopping_rules
from skyband.framework.streaming.job.consistency import Found
from skyband.framework.streaming.job.layout import JobFile, Layout


def settle(plan: Plan, layout: Layout, job: JobFile, found: Found) -> None:
    """Adapt the incomplete batch, if there is one, to changed rules; ``found``: the contents of the tables.

    Raise SpecErrors of SKY-E150 if it has to be repeated with the former rules.
    """
    planned, done = (last_batch(layout.checkpoint / log) for log in ("offsets", "commits"))
    if planned <= done:
        return
    other = job.rules != rules_of(plan, job.salt)
    if found.unfinished_committed:
        # A row that is in `rejected` cannot stop the run any more; a rule that has stopped nothing may as well reject.
        stricter = [name for name in stopping_rules(plan) if name not in job.stopping]
        if other or stricter:
            raise SpecErrors([_refused(planned, stricter)])
    elif other and not _taken_back(layout, planned, done, several=bool(plan.source.parts)):
        raise SpecErrors([_refused(planned, [])])


def _taken_back(layout: Layout, planned: int, done: int, several: bool) -> bool:
    """Whether the batch, of which no table has rows, could be forgotten: what it takes.

    Not if the log of files has been merged since, or if files were set aside for it: the ledger knows them by its number. Not of
    ``several`` sources either: each has a log of files, and one that has been merged would leave the others taken back.
    """
    checkpoint = layout.checkpoint
    if several or any(a.batch == planned for a in Ledger.load(layout.home).aside.values()):
        return False
    try:
        forget_plan(checkpoint, planned, offset(checkpoint, done))
    except SkybandError:
        return False
    return True


def _refused(batch: int, stricter: list[str]) -> SkybandError:
    what = f"rule {stricter[0]} has severity fail now" if stricter else "quality.rows, source.options or event_time.max_ahead changed"
    hint = "run once with the former spec (--demote RULE, if a rule stops it), then with this one"
    return SkybandError("SKY-E150", f"{what} while batch {batch} is unfinished: it has to be repeated as it was", hint=hint)
