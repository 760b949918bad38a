"""``skyband sql``: run SQL over a job's tables and views, without Spark."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, printable, redacted
from skyband.jobs.answer import Answer, plain
from skyband.jobs.arguments import text, whole
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

LIMIT: Final = 1000
"""Number of rows printed as a table by default."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "sql",
        help="run SQL over a job's tables",
        **help_page(
            "Run one query over the job's tables and views (`skyband views SPEC --dictionary` lists them) in DuckDB's SQL, "
            "without Spark. It can read these tables and nothing else: no file, no network, no extension.",
            'skyband sql flights.yaml "select * from parted_now order by rank"',
            'skyband sql flights.yaml "select * from parted_summary"',
            'skyband sql flights.yaml "describe parted_history"',
            "skyband sql flights.yaml --format csv - < question.sql > answer.csv",
        ),
    )
    p.add_argument("spec")
    p.add_argument("statement", help="the query; -: from standard input")
    p.add_argument("--format", choices=("table", "csv", "json"), default="table")
    p.add_argument("--limit", type=whole("--limit"), metavar="N", help=f"print at most N rows (default: {LIMIT:,} as a table, else all)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the rows; notes about them go to stderr. Raises SkybandError."""
    statement = sys.stdin.read() if args.statement == "-" else args.statement
    if not text("the statement", statement).strip():
        raise SkybandError("SKY-E201", "there is no statement", hint='skyband sql SPEC "select ..."')
    plan = load_plan(args.spec)
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.streaming.job.layout import Layout, changed_since
    from skyband.framework.tables import render
    from skyband.framework.tables.sql.statements import Statements
    from skyband.framework.tables.sql.views import left_out, said_left_out

    for name in left_out(plan):
        if re.search(rf"\b{name}\b", statement, re.IGNORECASE):
            print(redacted(said_left_out(name)), file=sys.stderr)
    for difference in changed_since(plan, Layout(plan.sink))[:3]:
        print(redacted(f"the spec is not that of the last run: {difference}"), file=sys.stderr)
    limit = args.limit if args.limit is not None else LIMIT if args.format == "table" else None
    with tables_of(plan):
        rows = Statements(plan).ask(statement, None if limit is None else limit + 1)
    if limit is not None and rows.num_rows > limit:
        rows = rows.slice(0, limit)
        print(printable(f"the first {counted(rows.num_rows, 'row')}; --limit N shows more"), file=sys.stderr)
    try:
        if args.format == "json":
            return Answer({"rows": plain(rows.to_pylist())}, None, rows=True)
        shown = render.csv_text(rows) if args.format == "csv" else render.text_table(rows)
    except (ValueError, OverflowError) as e:
        hint = "convert it to text: cast(... as varchar)"
        raise SkybandError("SKY-E404", f"Python cannot represent a value of the result: {e}", hint=hint) from e
    return Answer(None, shown if rows.num_rows or args.format != "table" else f"no rows of {', '.join(rows.column_names)}", rows=True)
