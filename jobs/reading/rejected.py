"""``skyband rejected``: show why rows were rejected, and export their raw rows to fix them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.streaming.job.layout import Layout


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "rejected",
        help="show and export rejected rows",
        **help_page(
            "Group the rows of table rejected by reason, with counts and examples; --export writes the raw rows of one reason.",
            "skyband rejected flights.yaml",
            "skyband rejected flights.yaml --reason parse --export fixed.csv",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--reason", metavar="R", help="only this reason, or class of reasons (rule: every rule)")
    p.add_argument("--export", metavar="FILE", help="write the raw rows of --reason to FILE.csv or FILE.jsonl")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the reasons, or what was exported. Raises SkybandError."""
    if args.export is not None and args.reason is None:
        raise SkybandError("SKY-E201", "--export needs --reason", hint="`skyband rejected SPEC` lists the reasons")
    plan = load_plan(args.spec)
    from skyband.framework.quality.rejected_rows import export, groups, lines_of
    from skyband.framework.quality.rejections import explained
    from skyband.framework.storage.delta_read import open_table
    from skyband.framework.storage.outputs import new_file
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.layout import Layout
    from skyband.framework.tables.delta.expected_columns import need_columns
    from skyband.framework.tables.schemas import fixed_schema
    from skyband.framework.tables.writing.driver_writer import DriverWriter

    require_readable(plan.sink)
    layout = Layout(plan.sink)
    job = layout.known()
    need_columns(open_table(layout.root, "rejected"), "rejected", fixed_schema("rejected"))
    writer = DriverWriter(layout.root)
    found = groups(writer)
    if args.reason is not None:
        known = [g.reason for g in found]
        found = [g for g in found if g.reason == args.reason or g.reason.startswith(f"{args.reason}:")]
        if not found:
            hint = did_you_mean(args.reason, known) or f"reasons: {one_of(known)}"
            raise SkybandError("SKY-E201", f"no row was rejected for {args.reason!r}", hint=hint)
    if args.export is not None:
        target = new_file(Path(args.export), "--export", plan.places)
        rows = export(plan, job.header, writer, args.reason, target)
        return Answer({"wrote": args.export, "rows": rows}, f"{counted(rows, 'row')} {agree(rows, 'is', 'are')} in {args.export}")
    again = {g.reason: explained(plan, job.header, g.reason, list(g.examples)) for g in found}
    put_back = _put_back(layout)
    lines = list(lines_of(found, lambda g: again[g.reason])) if found else ["no row was rejected"]
    for r in put_back:
        fixed = f"{counted(r['placed'], 'fixed row')} {agree(r['placed'], 'was', 'were')} put back"
        lines.append(f"{fixed} as {r['name']} at {r['replayed_at']}; rejected again: {r['rejected']:,}")
    return Answer({"reasons": [{**g.shown(), "why": again[g.reason]} for g in found], "replayed": put_back}, "\n".join(lines))


def _put_back(layout: Layout) -> list[dict[str, Any]]:
    """Return the files of fixed rows, each with the number of its rows that were rejected again."""
    import pyarrow.compute as pc

    from skyband.framework.storage.delta_read import dataset, open_table
    from skyband.framework.streaming.job.replay_records import records

    rejected = dataset(open_table(layout.root, "rejected"))
    found = []
    for r in records(layout):
        again = (pc.field("origin") == r.name) & (pc.field("batch_id") > r.after_batch)
        found.append({**r.shown(), "rejected": rejected.count_rows(filter=again)})
    return found
