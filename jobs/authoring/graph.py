"""``skyband graph``: a spec's plan as a chart, in Mermaid or DOT."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "graph",
        help="draw source, states, queries and tables",
        **help_page(
            "Print a chart of a spec: its source, the states that queries share, the queries and their tables. The chart has names only, "
            "no path, expression or option. Reads neither source nor sink.",
            "skyband graph flights.yaml > flights.mmd",
            "skyband graph flights.yaml --as dot | dot -Tsvg > flights.svg",
        ),
    )
    p.add_argument("spec", help="spec file; -: from standard input")
    p.add_argument("--as", dest="language", choices=("mermaid", "dot"), default="mermaid", help="default: %(default)s")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the chart. Raises SpecErrors."""
    plan = load_plan(args.spec)
    from skyband.framework.plan.graph import dot, edges, mermaid

    found = edges(plan)
    nodes = {n.id: asdict(n) for e in found for n in (e.start, e.end)}
    lines = [{"from": e.start.id, "to": e.end.id, "aside": e.aside} for e in found]
    text = dot(plan) if args.language == "dot" else mermaid(plan)
    return Answer({"nodes": list(nodes.values()), "edges": lines, "text": text}, text)
