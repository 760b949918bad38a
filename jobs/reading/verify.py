"""``skyband verify``: replay the changes, and compare a sample of results with brute force over the source."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skyband.framework.console.lines import FORMATS, Lines
from skyband.framework.spec.parsing.assemble import Setting
from skyband.framework.storage.outputs import output_file, replace_output
from skyband.framework.verify.budget import KEYS, SECONDS, Sample
from skyband.jobs.answer import Answer, document
from skyband.jobs.parser import add_spark_options, choose_spark, help_page
from skyband.jobs.spec import SpecText, load_plan

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.verify.differences import Difference

OPTION: Final = "--all-differences"
_HEAD: Final = "verified"
"""The first name of the first line of a file with differences."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "verify",
        help="verify the results",
        **help_page(
            "Replay every change, reconcile the row counts, and recompute as many results from the source as the time allows.",
            "skyband verify flights.yaml",
            "skyband verify flights.yaml --seconds 300",
            "skyband verify flights.yaml --all",
            "skyband verify flights.yaml --keys 20 --instants 5 --seed 7",
            "skyband verify flights.yaml --replay-only --format json",
            "skyband verify flights.yaml --sink /backup/flights --all-differences differences.jsonl",
            codes="0 everything agrees, 1 something differs, or there was nothing to compare, 2 a mistake in the spec or the command line",
        ),
    )
    p.add_argument("spec")
    p.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help=f"time to take for everything (default: {SECONDS:g} for the sample, or none with --instants)",
    )
    p.add_argument("--all", action="store_true", help="compare every event with the source, however long it takes")
    p.add_argument("--keys", type=int, metavar="N", help=f"keys to sample (default: all in time; {KEYS} with --instants)")
    p.add_argument("--instants", type=int, metavar="N", help="instants to sample of each query and key (default: all in time)")
    p.add_argument("--seed", type=int, default=0, metavar="N", help="decides which keys and instants come first (default: %(default)s)")
    p.add_argument("--sink", metavar="PATH", help="verify the tables there, such as a copy of the job's sink (default: the spec's sink)")
    p.add_argument(OPTION, metavar="FILE", help="write every difference there as a line of JSON; an existing file of this kind is replaced")
    p.add_argument("--replay-only", action="store_true", help="do not read the source")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if everything agrees, 1 if something differs or nothing could be compared. Parts are reported as they complete."""
    sample = None if args.replay_only else Sample(args.keys, args.instants, args.seed, args.seconds, args.all)
    choose_spark(args)
    plan = load_plan(args.spec) if args.sink is None else _plan_of_copy(args.spec, args.sink)
    file = None
    if args.all_differences is not None:
        file = output_file(Path(args.all_differences), OPTION, (plan.source.path, plan.sink), args.spec, own=_is_ours)
    lines: Lines = getattr(args, "lines", None) or Lines()
    lines.job = plan.job
    from skyband.framework.verify.verification import verify

    kept: list[Difference] = []
    found = verify(plan, sample, lines, kept=kept)
    if file is not None:
        replace_output(file, OPTION, lines_of(plan.job, kept))
    return Answer({**asdict(found), "ok": found.ok}, None, 0 if found.ok else 1)


def lines_of(job: str, differences: Sequence[Difference]) -> str:
    """Return the content of a file with ``differences``: lines of JSON, of which the first has the job and their number."""
    return "".join(f"{document(x)}\n" for x in ({_HEAD: job, "differences": len(differences)}, *(d.plain() for d in differences)))


def _plan_of_copy(spec: str, sink: str) -> Plan:
    """Return the plan of ``spec`` for the tables in ``sink``, with the live queries that these have."""
    path = sink if "://" in sink else str(Path(sink).absolute())
    return SpecText(spec).plan(settings=[Setting(("sink", "path"), json.dumps(path))])


def _is_ours(content: bytes) -> bool:
    return content.startswith(f'{{"{_HEAD}": '.encode())
