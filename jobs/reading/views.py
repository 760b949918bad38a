"""``skyband views``: print the views of a job as SQL for other systems, and its data dictionary."""

from __future__ import annotations

import argparse
import sys

from skyband.framework.base.errors import redacted
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.reading.query import DIALECTS
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "views",
        help="print the views of a job for other systems",
        **help_page(
            "Print `create view` statements of every query's views, with the paths of the tables: <query>_history (what was in the "
            "result, and for how long), <query>_ranks (ranks over time), <query>_summary (figures), <query>_rows (joined with the "
            "source's own columns). `skyband sql` has them built in.",
            "skyband views flights.yaml --dialect postgres > views.sql",
            "skyband views flights.yaml --dictionary > dictionary.md",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--dialect", choices=DIALECTS, default="duckdb", help="SQL dialect (default: %(default)s)")
    p.add_argument(
        "--dictionary", action="store_true", help="print every table, view and column with type, unit and meaning instead (Markdown)"
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the statements, or the dictionary. Reads no table."""
    plan = load_plan(args.spec)
    if args.dictionary:
        from skyband.framework.tables.sql.data_dictionary import dictionary
        from skyband.framework.tables.sql.statements import described

        text = dictionary(plan, described(plan))
        return Answer({"dictionary": text}, text, rows=True)
    from skyband.framework.tables.sql.data_dictionary import source
    from skyband.framework.tables.sql.dialects import view
    from skyband.framework.tables.sql.source_rows import why_not
    from skyband.framework.tables.sql.views import left_out, said_left_out, views

    found, lacking = views(plan), [said_left_out(name) for name in left_out(plan)]
    if unjoined := why_not(plan):
        lacking.append(f"no view is joined to the source: {unjoined}")
    for line in lacking:
        print(redacted(line), file=sys.stderr)
    made = [{"name": v.name, "comment": v.comment, "sql": view(plan, v.name, v.sql, args.dialect)} for v in found]
    of_source = source(plan, args.dialect) if any(v.source_keys for v in found) else None
    statements = [*(f"-- {line}" for line in lacking), *filter(None, [of_source]), *(f"-- {v['comment']}\n{v['sql']};" for v in made)]
    text = "\n\n".join(statements)
    if redacted(text) != text:
        print("in the SQL ${NAME} stands for the value of that environment variable", file=sys.stderr)
    return Answer({"dialect": args.dialect, "source": of_source, "views": made, "lacking": lacking}, text)
