"""``skyband plan``: show what an edited spec means for its existing job, before a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from skyband.framework.base.counts import agree, counted
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.streaming.job.edits import Edit


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "plan",
        help="show what an edited spec means for its job",
        **help_page(
            "Show, before a run, whether the job in the spec's sink can continue with the edited spec, which edits prevent that, and "
            "the cost of a rebuild, estimated from the job's own runs. Writes nothing.",
            "skyband plan flights.yaml",
            "skyband plan flights.yaml --format json",
            codes="0 the next run continues the job or is its first, 1 it would fail, 2 a mistake in the spec or the command line",
        ),
    )
    p.add_argument("spec", help="spec file; -: from standard input")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if the next run continues the job, 1 if it would fail. Raises SpecErrors."""
    plan = load_plan(args.spec)
    from skyband.framework.streaming.job.edits import edited

    found = edited(plan)
    return Answer({**asdict(found), "fits": found.fits}, "\n".join(_lines(found, args.spec)), 0 if found.fits else 1)


def _lines(found: Edit, spec: str) -> list[str]:
    from skyband.framework.streaming.job.edits import SAYS

    lines = [f"job {found.job}: {SAYS[found.verdict]}"]
    lines += [f"  {d}" for d in found.differences]
    if found.moves is not None:
        lines.append(f"the next run moves {found.moves / 1e6:,.1f} MB of state, once")
    if found.fits:
        return lines
    if found.verdict == "added":
        return [*lines, *_added(found, spec)]
    if found.cost is not None:
        rows = f"{counted(found.cost.rows, 'row')} {agree(found.cost.rows, 'was', 'were')} read"
        batches = f"{counted(found.cost.batches, 'batch', 'batches')} that took {found.cost.seconds:,.1f} s in total"
        lines.append(f"a rebuild reads everything again: so far {rows}, in {batches}")
    lines.append(f"to rebuild from what the source still has: skyband rebuild {spec}; to keep the old tables, use another sink.path")
    return lines


def _added(found: Edit, spec: str) -> list[str]:
    many = f"{counted(len(found.states), 'state')} ({', '.join(found.states)})"
    rows = f" {counted(found.cost.rows, 'row')}" if found.cost is not None else ""
    lines = [f"backfilling reads{rows} again, and runs {many} over the accepted rows; other queries are not affected"]
    if found.again:
        lines.append(f"  shared with {', '.join(found.again)}, whose tables stay unchanged")
    if found.stands_in_the_way is not None:
        return [*lines, f"  not possible now: {found.stands_in_the_way}"]
    return [*lines, f"to backfill: skyband rebuild {spec} --added; to rebuild everything: skyband rebuild {spec}"]
