"""``skyband reset``: remove a job's state and tables, so that its next run starts over. The source is not touched."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, printable, redacted
from skyband.framework.base.table_names import JOB_RUNS
from skyband.framework.storage.location import require_local
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.running.opening import registrar
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.streaming.job.layout import Layout


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "reset",
        help="remove a job's state and tables",
        **help_page(
            "Remove the job's tables, state, logs and run history, after a confirmation. The next run reads whatever the source still "
            "has. Use skyband rebuild instead to keep the tables until new ones are complete. Nothing outside the sink is touched, and "
            "nothing in it that does not belong to the job.",
            "skyband reset flights.yaml",
            "skyband reset flights.yaml --yes    # do not ask for confirmation",
            codes="0 removed, 1 not confirmed, 2 the sink is not a job's or a mistake in the command line, 3 a run is active",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0, or 1 without confirmation. Raises SkybandError SKY-E512 if the sink is not a job's, SKY-E302 if a run is active."""
    plan = load_plan(args.spec, locate=False)
    require_local(plan.sink, "reset")
    from skyband.framework.storage.sinks import half_swapped
    from skyband.framework.streaming.job.generations import bytes_in, clear, own_sink, tables_in
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.streaming.job.locks import one_run
    from skyband.framework.tables.delta.ownership import Owner
    from skyband.framework.tables.schemas import batch_tables

    layout = Layout(plan.sink)
    own_sink(plan, layout, named=False)
    if not (half_swapped(layout.root) or any(p.exists() for p in (layout.file, layout.checkpoint))):
        hint = "the job has not run into this sink yet; remove other files there yourself"
        raise SkybandError("SKY-E512", f"{layout.root} is no job's sink: it has no {layout.file.relative_to(layout.root)}", hint=hint)
    with one_run(layout, plan.job, lambda text: print(redacted(text), file=sys.stderr)):
        owner = Owner(layout.root)
        found = tables_in(layout.root, (t.name for t in batch_tables(plan)))
        left = {n: why for n in [*found, JOB_RUNS] if (why := owner.stranger(n)) is not None}
        names = [n for n in found if n not in left]
        size = bytes_in(layout.home) + sum(bytes_in(layout.root / n) for n in names)
        what = f"state and {counted(len(names), 'table')} of job {plan.job}, {size / 1e6:,.1f} MB below {layout.root}"
        if not args.yes and not _confirmed(f"Remove {what}?"):
            return Answer({"removed": [], "bytes": 0, "left_alone": sorted(left), "left_in_catalog": []}, "nothing was removed", 1)
        in_catalog = _unregistered(plan, layout)
        clear(layout, names)
    said = [
        *in_catalog,
        *(f"left alone, as it is not proven to be a table of this job: {layout.root / name} {why}" for name, why in left.items()),
    ]
    data = {"removed": names, "bytes": size, "left_alone": sorted(left), "left_in_catalog": in_catalog}
    return Answer(data, "\n".join([f"removed {what}", *said]))


def _unregistered(plan: Plan, layout: Layout) -> list[str]:
    """Drop the entries of the job's tables from catalogs; return what is left there, in words."""
    said: list[str] = []
    plan = replace(plan, catalog=None)
    if (catalog := registrar(plan, layout, said.append)) is not None:
        catalog.register(plan)
    return said


def _confirmed(question: str) -> bool:
    """Ask for confirmation and return whether the user gave it. Raises SkybandError SKY-E201 without a terminal."""
    if not sys.stdin.isatty():
        raise SkybandError(
            "SKY-E201", "reset asks for confirmation, and standard input is no terminal", hint="add --yes to remove without confirmation"
        )
    print(printable(redacted(f"{question} [y/N] ")), end="", flush=True, file=sys.stderr)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
