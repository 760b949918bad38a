"""``skyband validate``: everything that is wrong with a spec, without starting Spark."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.framework.errors import SkybandError
    from skyband.framework.spec.models import Job


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("validate", help="say everything that is wrong with a spec", description=__doc__)
    parser.add_argument("spec", nargs="+", help="spec files")
    parser.add_argument("--data", action="store_true", help="also look at the source: is it there, do its files have the spec's columns")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if all specs are good, 2 if any is not. Mistakes go to stderr."""
    from skyband.framework.errors import printable
    from skyband.framework.spec.assemble import PROFILE
    from skyband.framework.spec.load import validate_file

    bad = 0
    for n, path in enumerate(args.spec):
        job, errors = validate_file(path)
        if job is not None and args.data:
            errors = _of_data(job)
        if job is not None and not errors:
            profile = f", profile {os.environ[PROFILE]}" if os.environ.get(PROFILE) else ""
            print(printable(f"{path}: good ({len(job.queries)} {'query' if len(job.queries) == 1 else 'queries'}{profile})"))
            continue
        bad += 1
        if n:
            print(file=sys.stderr)
        print("\n\n".join(e.render() for e in errors), file=sys.stderr)
        print(printable(f"\n{path}: {len(errors)} {'mistake' if len(errors) == 1 else 'mistakes'}"), file=sys.stderr)
    return 2 if bad else 0


def _of_data(job: Job) -> list[SkybandError]:
    """What is wrong with the source of a good spec: SKY-E206, or what keeps its plan from being made."""
    from skyband.framework.errors import SkybandError
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.sources import preflight

    try:
        source = compile_job(job).source
    except SkybandError as e:
        return [e]
    gone = preflight.missing(source)
    return [gone] if gone is not None else preflight.columns(source, every=True)
