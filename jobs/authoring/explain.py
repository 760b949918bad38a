"""``skyband explain``: the compiled plan of a spec, shared states and predicted sizes, without starting Spark."""

from __future__ import annotations

import argparse
from typing import Any

from skyband.jobs.answer import Answer
from skyband.jobs.arguments import positive
from skyband.jobs.parser import help_page


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser(
        "explain",
        help="show the compiled plan and predicted sizes",
        **help_page(
            "Show the compiled plan of a spec, the states that queries share, and their predicted sizes, without starting Spark.",
            "skyband explain flights.yaml",
            "skyband explain flights.yaml --rate 0.0107",
            "skyband explain flights.yaml --format json",
        ),
    )
    parser.add_argument("spec", help="spec file; -: from standard input")
    said = "rows per second and key to assume for the size of time windows"
    parser.add_argument("--rate", type=lambda given: positive("--rate", given), metavar="ROWS", help=said)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the plan. Raises SpecErrors."""
    from skyband.framework.plan.explain import explain
    from skyband.framework.plan.facts import facts
    from skyband.jobs.spec import load_plan

    plan = load_plan(args.spec)
    return Answer(facts(plan, args.rate), explain(plan, args.rate))
