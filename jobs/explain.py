"""``skyband explain``: the compiled plan of a spec, shared states and predicted sizes, without starting Spark."""

from __future__ import annotations

import argparse
import math
import os
import re
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("explain", help="show the compiled plan and predicted sizes", description=__doc__)
    parser.add_argument("spec", help="spec file")
    parser.add_argument("--rate", type=_rate, metavar="ROWS", help="assume so many rows a second (of one key), to size time windows")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan. SpecErrors go to the caller."""
    from skyband.framework.errors import printable
    from skyband.framework.plan.explain import explain
    from skyband.jobs.spec import load_plan

    print(printable(_masked(explain(load_plan(args.spec), args.rate), args.spec)))
    return 0


def _masked(text: str, spec: str) -> str:
    """``text`` with the values of the spec's environment variables as ``${NAME}``: they may be secret."""
    names = set(re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", Path(spec).read_text(encoding="utf-8")))
    values = {os.environ[n]: n for n in names if len(os.environ.get(n, "")) >= 3}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "${" + values[value] + "}")
    return text


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (rate > 0 and math.isfinite(rate)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows above 0")
    return rate
