"""``skyband verify``: replay the changes, and compare a sample of results with brute force over the source."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from skyband.framework.console.lines import FORMATS, Lines
from skyband.framework.verify.budget import KEYS, SECONDS, Sample
from skyband.jobs.answer import Answer
from skyband.jobs.options import add_spark_options, choose_spark
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan


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
            codes="0 everything agrees, 1 something differs, or there was nothing to compare, 2 a mistake in the spec or the command line",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--seconds", type=float, metavar="N", help=f"time to take (default: {SECONDS:g}, or none with --instants)")
    p.add_argument("--all", action="store_true", help="compare every event with the source, however long it takes")
    p.add_argument("--keys", type=int, metavar="N", help=f"keys to sample (default: all in time; {KEYS} with --instants)")
    p.add_argument("--instants", type=int, metavar="N", help="instants to sample of each query and key (default: all in time)")
    p.add_argument("--seed", type=int, default=0, metavar="N", help="decides which keys and instants come first (default: %(default)s)")
    p.add_argument("--replay-only", action="store_true", help="do not read the source")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if everything agrees, 1 if something differs or nothing could be compared. Parts are reported as they complete."""
    sample = None if args.replay_only else Sample(args.keys, args.instants, args.seed, args.seconds, args.all)
    choose_spark(args)
    plan = load_plan(args.spec)
    lines: Lines = getattr(args, "lines", None) or Lines()
    lines.job = plan.job
    from skyband.framework.verify.verification import verify

    found = verify(plan, sample, lines)
    return Answer({**asdict(found), "ok": found.ok}, None, 0 if found.ok else 1)
