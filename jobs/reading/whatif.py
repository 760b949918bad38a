"""``skyband whatif``: show which results would have been other with other rows or another spec, when, and by which rows."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError
from skyband.jobs.answer import Answer
from skyband.jobs.arguments import parse_instant, whole
from skyband.jobs.parser import add_spark_options, choose_spark, help_page
from skyband.jobs.spec import load_edited

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.verify.budget import Progress
    from skyband.framework.whatif.whatif import Supposed


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "whatif",
        help="show which results would have been other with other rows or another spec",
        **help_page(
            "Compare the results with those of a supposed change: rejected rows put back, rows left out, or an edited spec; changes may be "
            "combined. Reads the rows that the job has taken again, runs the job twice in memory, and writes nothing. Needs memory and "
            "time for all rows of the source.",
            "skyband whatif flights.yaml --with rejected",
            "skyband whatif flights.yaml --with rejected:late --query parted",
            "skyband whatif job.yaml --without 4711 --from 2013-07-01 --to 2013-07-02",
            "skyband whatif job.yaml --without carrier=AA",
            "skyband whatif job.yaml --set queries.best.k=20 --set 'window={time: 1 day}'",
            codes="0 the differences are known, 1 some cannot be known, 2 a mistake in the spec, the command line or the environment, "
            "3 the command failed",
        ),
    )
    p.add_argument("spec")
    said = "rejected: put the rows of table rejected back; rejected:REASON: those of one reason (may be given several times)"
    p.add_argument("--with", dest="with_", action="append", default=[], metavar="rejected", help=said)
    said = "leave out the rows with this id (values in the order of source.id), or COLUMN=VALUE,... (may be given several times)"
    p.add_argument("--without", action="append", default=[], metavar="ID", help=said)
    said = "a value of the spec, in YAML, such as queries.best.k=20 (may be given several times)"
    p.add_argument("--set", dest="settings", action="append", default=[], metavar="PATH=VALUE", help=said)
    p.add_argument("--from", dest="begin", metavar="T", help="only results as of T or later, in UTC, such as 2013-07-01T12:00")
    p.add_argument("--to", dest="end", metavar="T", help="only results as of T or earlier (default: the last complete instant)")
    p.add_argument("--query", metavar="NAME", help="only this query")
    p.add_argument("--limit", type=whole("--limit"), default=20, metavar="N", help="differences to print of a query (default: %(default)s)")
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the differences, with code 1 if some cannot be known. Raises SkybandError and SpecErrors."""
    choose_spark(args)
    from skyband.framework.verify.budget import Progress

    with Progress(args.lines, command="whatif") as progress:
        found = ask(args.spec, args.with_, args.without, args.settings, args.begin, args.end, args.query, progress=progress)
    from skyband.framework.whatif.wording import document, lines

    return Answer(document(found), "\n".join(lines(found, args.limit)), 0 if found.known else 1)


def ask(
    path: str, with_: Sequence[str], without: Sequence[str], settings: Sequence[str], begin: datetime | str | None,
    end: datetime | str | None, query: str | None, env: Mapping[str, str] | None = None, loaded: Plan | None = None,
    progress: Progress | None = None,
) -> Supposed:  # fmt: skip
    """Return the differences. ``loaded``: the plan that the spec at ``path`` must still have. ``progress``: reports the stages.

    Raises SkybandError and SpecErrors.
    """
    from skyband.framework.spec.parsing.assemble import setting_of

    first, last = (None if t is None else _micros(name, t) for name, t in (("--from", begin), ("--to", end)))
    if first is not None and last is not None and first > last:
        raise SkybandError("SKY-E201", "--from is after --to", hint="swap them")
    made = [setting_of(s) for s in settings]
    plan, edited = load_edited(path, made, env)
    if loaded is not None and loaded != plan:
        raise SkybandError("SKY-E201", f"{path} has been edited since it was loaded", hint="load it again")
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.whatif.rows import change_of
    from skyband.framework.whatif.whatif import what_if

    change = change_of(plan, with_, without, [s.said for s in made])
    with tables_of(plan):
        return what_if(plan, edited, change, first, last, query, progress=progress)


def _micros(name: str, at: datetime | str) -> int:
    try:
        found = parse_instant(at)
    except SkybandError as e:
        raise SkybandError(e.code, e.message.replace("at takes", f"{name} takes", 1), e.hint) from None
    return int(found.timestamp()) * 1_000_000 + found.microsecond
