"""``skyband why``: show when an item was in a result, at which ranks, what replaced it, or why it never was in it."""

from __future__ import annotations

import argparse
from typing import Any

from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.jobs.answer import Answer
from skyband.jobs.arguments import parse_instant
from skyband.jobs.parser import add_spark_options, choose_spark, help_page
from skyband.jobs.spec import load_plan


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "why",
        help="show the history of an item in a result",
        **help_page(
            "Show when an item entered and left a query's result, its ranks, and what replaced it; or, by brute force over the source, why "
            "it was not in the result. An item is named by its id: values separated by commas in the order of source.id, or "
            "column=value,...; a pair by two of them (by one: all of its pairs); an object of a loyalty query by the columns of `object`, "
            "a group by those of `group`. Of a query over a result, it names the changes of that result that caused each entering and "
            "leaving.",
            "skyband why job.yaml best 4711",
            "skyband why job.yaml parted 2013-01-01,UA,1545,EWR 2013-01-01,AA,1141,JFK --at 2013-01-02T12:00",
        ),
    )
    p.add_argument("spec")
    p.add_argument("query", help="name of a query of the spec; of one of a table of queries: ENTRY/NAME")
    p.add_argument("item", nargs="+", metavar="ITEM", help="the id of a row, twice for a pair; or an object's name")
    p.add_argument("--at", metavar="T", help="explain this instant in UTC, such as 2013-07-01T12:00")
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the history. Raises SkybandError."""
    at = parse_instant(args.at) if args.at is not None else None
    choose_spark(args)
    plan = load_plan(args.spec)
    entry, _, member = args.query.partition("/")
    query = next((q for q in plan.every_query if q.name == entry), None)
    if query is None:
        names = [q.name for q in plan.every_query]
        raise SkybandError("SKY-E201", f"no query {entry!r} in this spec", hint=did_you_mean(entry, names) or f"queries: {one_of(names)}")
    if query.members and member not in query.members:
        raise SkybandError("SKY-E201", f"{entry} is a table of queries", hint=f"write {entry}/NAME: {one_of(query.members)}")
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.verify.budget import Progress
    from skyband.framework.why.history import history
    from skyband.framework.why.item import item_of
    from skyband.jobs.spec import last_run

    item = item_of(plan.of(query.name), query, args.item)
    left = last_run(plan)
    micros = None if at is None else int(at.timestamp()) * 1_000_000 + at.microsecond
    with tables_of(plan), Progress(args.lines, command="why") as progress:
        found = history(plan, query, item, micros, left.layout, left.job, member or None, progress)
    text = "\n".join([f"{args.query}: {item.text()}", *(f"  {line}" for line in found.lines)])
    return Answer({"query": args.query, "item": item.text(), "history": found.lines, "because": found.because}, text)
