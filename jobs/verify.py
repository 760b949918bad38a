"""``skyband verify``: replays the changes, and holds a sample of results against brute force on the source."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from skyband.framework.lines import FORMATS, Lines
from skyband.jobs.answer import Answer
from skyband.jobs.described import described
from skyband.jobs.engine_options import add_engine_options, choose_engine
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "verify",
        help="prove the results right",
        **described(
            "Replays every change stream, adds up the books, compares a sample with brute force.",
            "skyband verify flights.yaml",
            "skyband verify flights.yaml --keys 20 --instants 5 --seed 7",
            "skyband verify flights.yaml --replay-only --format json",
            codes="0 everything agrees, 1 something differs, or there was nothing to compare, 2 a mistake in the spec or the command line",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--keys", type=int, default=5, help="keys to sample (default 5)")
    p.add_argument("--instants", type=int, default=60, help="instants to sample a query and key (default 60)")
    p.add_argument("--seed", type=int, default=0, help="of the sample")
    p.add_argument("--replay-only", action="store_true", help="do not read the source")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    add_engine_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Code 0 if everything agrees, 1 if something differs or there was nothing to compare; each part is told when it is known."""
    choose_engine(args)
    plan = load_plan(args.spec)
    lines: Lines = getattr(args, "lines", None) or Lines()
    lines.job = plan.job
    from skyband.framework.verify.whole import Sample, verify

    sample = None if args.replay_only else Sample(args.keys, args.instants, args.seed)
    found = verify(plan, sample, lines)
    return Answer({**asdict(found), "ok": found.ok}, None, 0 if found.ok else 1)
