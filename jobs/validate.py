"""``skyband validate``: everything that is wrong with a spec, without starting Spark."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.framework.errors import SkybandError
    from skyband.framework.spec.models import Job


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("validate", help="say everything that is wrong with a spec", description=__doc__)
    parser.add_argument("spec", nargs="+", help="spec files")
    parser.add_argument(
        "--data",
        action="store_true",
        help="also look at the source: its columns, and how many of its first rows would be rejected",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if all specs are good, 2 if any is not. Mistakes go to stderr."""
    from skyband.framework.errors import printable, told
    from skyband.framework.spec.load import validate_file

    bad = 0
    for n, path in enumerate(args.spec):
        job, errors = validate_file(path)
        looked = ""
        if job is not None and args.data:
            errors, looked = _of_data(job)
        if job is not None and not errors:
            print(told(f"{path}: good ({len(job.queries)} {'query' if len(job.queries) == 1 else 'queries'}){looked}"))
            continue
        bad += 1
        if n:
            print(file=sys.stderr)
        print("\n\n".join(e.render() for e in errors), file=sys.stderr)
        print(printable(f"\n{path}: {len(errors)} {'mistake' if len(errors) == 1 else 'mistakes'}"), file=sys.stderr)
    return 2 if bad else 0


def _of_data(job: Job) -> tuple[list[SkybandError], str]:
    """(what is wrong with the source of a good spec, or keeps its plan from being made; what its first rows are like, in words)."""
    from skyband.framework.errors import SkybandError
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.sources import preflight

    try:
        plan = compile_job(job)
    except SkybandError as e:
        return [e], ""
    gone = preflight.missing(plan.source)
    wrong = [gone] if gone is not None else preflight.columns(plan.source, every=True)
    if wrong:
        return wrong, ""
    from skyband.framework.preview.share import share_of

    return share_of(plan)
