"""``skyband maintain``: merge small files, write checkpoints of the table logs and remove obsolete files, without Spark."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError, redacted
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.streaming.job.layout import Layout


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "maintain",
        help="compact a job's tables",
        **help_page(
            "Merge the small files of every table, write a checkpoint of its log, and remove old replaced files and log entries "
            "(docs/how-to/run-in-production.md says when). Versions that table `published` names are kept. Every run does a part of "
            "this; maintain does all of it. It takes the job's lock, so no run can start meanwhile.",
            "skyband maintain flights.yaml",
        ),
    )
    p.add_argument("spec")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the sizes before and after.

    Raises SkybandError SKY-E302 if a run is active, SKY-E402 if there was none yet, SKY-E205 and SKY-E518 as ``own_sink``.
    """
    plan = load_plan(args.spec, locate=False)

    import pyarrow as pa

    from skyband.framework.storage.sinks import half_swapped
    from skyband.framework.streaming.job.generations import own_sink
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.streaming.job.locks import one_run
    from skyband.framework.tables.render import text_table
    from skyband.framework.tables.schemas import tables
    from skyband.framework.tables.writing.driver_writer import DriverWriter

    layout = Layout(plan.sink)
    own_sink(plan, layout, named=False)
    if not half_swapped(layout.root):
        _known(layout, args.spec)
    with one_run(layout, plan.job, lambda text: print(redacted(text), file=sys.stderr)):
        _known(layout, args.spec)
        writer, lines, left = DriverWriter(layout.root), [], []
        for spec in tables(plan):
            strange = writer.owner.stranger(spec.name)
            if strange is not None:
                left.append({"name": spec.name, "why": f"{layout.root / spec.name} {strange}"})
                continue
            sizes = writer.tidy(spec)
            lines += [(spec.name, *sizes)] if sizes is not None else []
    columns: dict[str, list[object]] = {"table": [name for name, _, _ in lines]}
    for said, part in (
        ("files", "files"),
        ("kB", "bytes"),
        ("files on disk", "all_files"),
        ("kB on disk", "all_bytes"),
        ("log", "log_files"),
    ):
        by = 1000 if said.startswith("kB") else 1
        for when, at in (("before", 1), ("after", 2)):
            columns[f"{said} {when}"] = [-(-getattr(line[at], part) // by) for line in lines]
    data = [{"name": name, "before": asdict(before), "after": asdict(after)} for name, before, after in lines]
    shown = [text_table(pa.table(columns))]
    shown += [f"left alone, as it is not proven to be a table of this job: {table['why']}" for table in left]
    return Answer({"tables": data, "left_alone": left}, "\n".join(shown))


def _known(layout: Layout, spec: str) -> None:
    """Raise SkybandError SKY-E402 before the first run."""
    if layout.load() is None:
        raise SkybandError("SKY-E402", f"there are no tables at {layout.root} yet", hint=f"run the job first: skyband run {spec}")
