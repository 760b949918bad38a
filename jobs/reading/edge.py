"""``skyband edge``: write the message with which edges hold back rows, without Spark."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "edge",
        help="write the message for edge filters",
        **help_page(
            "Write what processes that feed the job's source need to hold back rows that cannot change its results (skyband.edge).",
            "skyband edge rain.yaml",
            "skyband edge rain.yaml --out /var/lib/rain/edge.json",
        ),
    )
    p.add_argument("spec")
    p.add_argument(
        "--out", metavar="FILE", help="write the message to this file, atomically; an existing message is replaced (default: print it)"
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the message.

    Raises SkybandError SKY-E704 for a job that edges cannot filter for; the errors of ``outputs.output_file``: only a message is replaced.
    """
    from skyband.edge.message import text_of
    from skyband.framework.base.counts import counted
    from skyband.framework.edges.message import is_message, message_of
    from skyband.framework.storage.outputs import output_file, replace_output
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.jobs.spec import load_plan

    plan = load_plan(args.spec)
    require_readable(plan.sink)
    out = None if args.out is None else output_file(Path(args.out), "--out", plan.places, args.spec, own=is_message)
    with tables_of(plan):
        message = message_of(plan)
    text = line = text_of(message)
    if out is not None:
        replace_output(out, "--out", f"{line}\n")
        borders = sum(len(q.borders) for q in message.queries)
        text = f"{out}: {counted(len(message.queries), 'query', 'queries')}, {counted(borders, 'border')}"
    return Answer(json.loads(line), text, rows=True)
