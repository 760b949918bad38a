"""What an edited spec does to its job, before it is run: whether the next run goes on, and what starting again would cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow.compute as pc

from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.layout import Layout, changed_since, rules_of
from skyband.framework.tables import delta_read

Verdict = Literal["first run", "nothing", "rules", "queries", "state"]
SAYS: Final[dict[str, str]] = {
    "first run": "nothing has run yet: the next run starts from the beginning of the source",
    "nothing": "the state fits: the next run goes on from where the last one ended",
    "rules": "the state fits: the next run goes on from where the last one ended, and judges the rows that come from then on by the new "
    "row rules, or reads them with the new options; rows that were accepted or rejected before stay so",
    "queries": "only queries have come or gone. A query's state is made from the first row on, and one that comes cannot be filled by "
    "itself: the next run refuses",
    "state": "what the job has kept was made for another spec: the next run refuses",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What the job's rows have taken so far, which is what making everything again has to be reckoned with.

    Of the batches that table ``runs`` still has (``run.keep``); ``seconds`` are those of the batches, without the engine's start.
    """

    rows: int
    batches: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Edit:
    """``verdict``: see ``SAYS``. ``differences`` as the next run would tell them; ``cost``: of starting again, None if it need not."""

    job: str
    verdict: Verdict
    differences: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    cost: Cost | None = None

    @property
    def fits(self) -> bool:
        """Whether the next run goes on (or is the first)."""
        return self.verdict in ("first run", "nothing", "rules")


def edited(plan: Plan) -> Edit:
    """What ``plan`` does to the job in its sink. Only reads. SkybandError SKY-E303 and SKY-E307 if that is none of this version.

    Checks, schedule, trigger and sizes of batches are in no state: they may change at any time, and are not compared. O(rows of ``runs``).
    """
    layout = Layout(plan.sink)
    job = layout.load()
    if job is None:
        return Edit(plan.job, "first run")
    differences = changed_since(plan, layout)
    if not differences:
        return Edit(plan.job, "rules" if job.rules != rules_of(plan, job.salt) else "nothing")
    before, now = set(job.fingerprint.get("queries", {})), [q.name for q in plan.queries]
    added, removed = [n for n in now if n not in before], sorted(before - set(now))
    named = tuple(f"queries.{n} " for n in (*added, *removed))
    only = bool(named) and all(d.startswith(named) for d in differences)
    return Edit(plan.job, "queries" if only else "state", differences, added, removed, _cost(layout))


def _cost(layout: Layout) -> Cost | None:
    try:
        runs = delta_read.read(delta_read.open_table(layout.root, "runs"), ["rows_in", "batch_ms"])
    except SkybandError:
        return None
    rows, spent = (pc.sum(runs[c]).as_py() or 0 for c in ("rows_in", "batch_ms"))
    return Cost(rows, runs.num_rows, round(spent / 1000, 3))
