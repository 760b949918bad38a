"""``skyband explain``: the compiled plan of a spec, shared states and predicted sizes, without starting Spark."""

from __future__ import annotations

import argparse
import math
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("explain", help="show the compiled plan and predicted sizes", description=__doc__)
    parser.add_argument("spec", help="spec file")
    parser.add_argument("--rate", type=_rate, metavar="ROWS", help="assume so many rows a second (of one key), to size time windows")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan. SpecErrors go to the caller."""
    from skyband.framework.errors import told
    from skyband.framework.plan.explain import explain
    from skyband.jobs.spec import load_plan

    print(told(explain(load_plan(args.spec), args.rate)))
    return 0


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (rate > 0 and math.isfinite(rate)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows above 0")
    return rate
