"""``skyband query``: read the result of a query at any instant, without Spark."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, redacted, redacted_for_terminal
from skyband.jobs.answer import Answer
from skyband.jobs.arguments import parse_instant, text, texts, whole, whole_number
from skyband.jobs.parser import help_page
from skyband.jobs.reading import stays
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.plan.model import Plan
    from skyband.framework.tables.results.reader import Answer as Found
    from skyband.operators.base import Window

DIALECTS = ("duckdb", "spark", "tsql", "postgres", "snowflake", "bigquery")
"""The dialects of ``--sql`` (those of ``tables.sql.dialects``, which is loaded only when it is used)."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "query",
        help="read a query's result",
        **help_page(
            "Read a query's result at any instant (--at), or for any smaller k and window as of the last batch, without Spark. "
            "--durable and --records read which items were in it for a share of an interval, or when they arrived.",
            "skyband query flights.yaml parted",
            "skyband query flights.yaml parted --at 2013-07-01T12:00 --limit 3",
            'skyband query flights.yaml parted --k 5 --window "2 days" --format json',
            "skyband query flights.yaml parted --durable 80% --from 2013-07-01 --to 2013-07-08",
        ),
    )
    p.add_argument("spec")
    p.add_argument("query", help="name of a query of the spec")
    p.add_argument("--at", metavar="T", help="instant in UTC, such as 2013-07-01T12:00 (default: the last complete one)")
    p.add_argument("--k", type=whole("--k", 1), metavar="K", help="the best K as of the last batch (not for query types without k)")
    p.add_argument("--window", metavar="W", help="within the last W of time ('1 day') or rows ('500 rows'), as of the last batch")
    p.add_argument("--key", action="append", default=[], metavar="COLUMN=VALUE", help="only this key; repeat for every key column")
    stays.add_arguments(p)
    p.add_argument("--format", choices=("table", "csv", "json"), default="table")
    said = "print at most N rows: the best of each key first; the newest of queries that report once and of --records; "
    said += "the longest with --durable"
    p.add_argument("--limit", type=whole("--limit"), metavar="N", help=said)
    p.add_argument(
        "--sql", nargs="?", const="duckdb", choices=DIALECTS, metavar="ENGINE",
        help="also print the SQL that gives the same rows elsewhere: %(choices)s (default: %(const)s)",
    )  # fmt: skip
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the rows; notes about them go to stderr. Raises SkybandError."""
    key = _keys(args.key)
    limit = args.limit
    plan = load_plan(args.spec)
    _need_keys(plan, key)
    from skyband.framework.streaming.job.layout import Layout, changed_since
    from skyband.framework.tables.results.reader import Reader, first
    from skyband.framework.tables.sql.dialects import complete

    for difference in changed_since(plan, Layout(plan.sink))[:3]:
        print(redacted(f"the spec is not that of the last run: {difference}"), file=sys.stderr)
    if stays.requested(args):
        return _shown_durable(args, plan, key)
    answer = read_result(plan, args.query, args.at, args.k, args.window, key, limit)
    query = Reader(plan).query(args.query)
    rows = first(plan, query, answer.rows, limit)
    data = {"query": args.query, "as_of": answer.as_of, "of": answer.rows.num_rows, "rows": []}
    statement = complete(plan, query, answer.sql, answer.rows.column_names, args.sql, args.limit) if args.sql else None
    return _shown(args, data, _heading(args.query, answer, rows), answer.note, rows, statement)


def _shown_durable(args: argparse.Namespace, plan: Plan, key: Mapping[str, str]) -> Answer:
    """Return durable items or records, with their SQL if it is asked."""
    from skyband.framework.tables.sql.dialects import limited

    found = stays.answer(plan, args, key)
    rows = found.rows.slice(0, args.limit)
    data = {"query": args.query, "as_of": found.as_of, "from": found.start, "to": found.end, "of": found.rows.num_rows, "rows": []}
    statement = limited(plan, found.sql, args.sql, args.limit) if args.sql else None
    return _shown(args, data, stays.heading(args, found, rows), found.note, rows, statement)


def _shown(args: argparse.Namespace, data: dict[str, Any], heading: str, note: str | None, rows: pa.Table, statement: str | None) -> Answer:
    """Return the rows in the format asked, with the SQL ``statement``; the note goes to stderr."""
    from skyband.framework.base.types import readable_as_text
    from skyband.framework.tables import render

    rows = readable_as_text(rows)
    if note:
        print(redacted(note), file=sys.stderr)
    text = ""
    if args.format == "json":
        data["rows"] = rows.to_pylist()
    elif args.format == "csv":
        text = render.csv_text(rows)
    else:
        text = f"{heading}\n\n{render.text_table(rows)}" if rows.num_rows else heading
    if statement is not None:
        if (redacted(statement) if args.format == "json" else redacted_for_terminal(statement)) != statement:
            print("in the SQL ${NAME} stands for the value of that environment variable", file=sys.stderr)
        data["sql"] = redacted(statement)
        if args.format == "table":
            text += redacted_for_terminal(f"\n\n{statement};")
        else:
            print(redacted_for_terminal(f"\n{statement};"), file=sys.stderr)
    return Answer(data, text, rows=True)


def _heading(name: str, answer: Found, rows: pa.Table) -> str:
    from skyband.framework.tables import render

    when = f", as of {render.instant_text(answer.as_of)} UTC" if answer.as_of is not None else ""
    cut = f"{rows.num_rows:,} of " if rows.num_rows < answer.rows.num_rows else ""
    return f"{name}: {cut}{counted(answer.rows.num_rows, 'row')}{when}"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SkybandError("SKY-E201", f"--key {text!r} is not of the form column=value")
    return name.strip(), value


def _keys(given: Sequence[str]) -> dict[str, str]:
    """Return the columns and values of ``--key``. Raises SkybandError SKY-E201 for a column that is given twice."""
    found: dict[str, str] = {}
    for option in given:
        name, value = _pair(option)
        if name in found:
            raise SkybandError("SKY-E201", f"--key names the column {name!r} twice", hint="give each key column once")
        found[name] = value
    return found


def _need_keys(plan: Plan, given: Mapping[str, str]) -> None:
    """Raise SkybandError SKY-E201 for a value that holds further ``column=value`` pairs: each takes an option of its own."""
    known = {*plan.intake.partition_by, "query"}
    for name, value in given.items():
        parts = re.split(r",\s*(?=\w+=)", value)
        if len(parts) > 1 and all(p.partition("=")[0] in known for p in parts[1:]):
            shown = " ".join(f"--key {p}" for p in (f"{name}={parts[0]}", *parts[1:]))
            raise SkybandError("SKY-E201", f"--key {name}={value} names several columns", hint=f"repeat the option: {shown}")


def read_result(
    plan: Plan,
    query: str,
    at: datetime | str | None = None,
    k: int | None = None,
    window: str | None = None,
    key: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> Found:
    """Return the result of ``query`` at ``at``, or its best ``k`` within ``window`` as of the last batch; of one ``key`` if it is given.

    ``limit`` cuts queries that report once to their newest rows. Raises SkybandError. O(rows of the query's table).
    """
    text("name", query)
    k = None if k is None else whole_number("k", k, 1)
    limit = None if limit is None else whole_number("limit", limit)
    key = None if key is None else texts("key", key)
    other = k is not None or window is not None
    if at is not None and other:
        raise SkybandError("SKY-E201", "at cannot be combined with k and window", hint="leave out at, or k and window")
    instant = None if at is None else parse_instant(at)
    within = parse_window(text("window", window)) if window is not None else None
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.tables.results.reader import Reader

    require_readable(plan.sink)
    reader = Reader(plan)
    with tables_of(plan):
        return reader.snapshot(query, k, within, key) if other else reader.as_of(query, instant, key, limit)


def parse_window(said: str) -> Window:
    """Parse a window such as ``1 day``, ``500 rows``, or both with a comma. Raises SkybandError SKY-E201 for anything else."""
    from skyband.framework.base import units

    try:
        return units.parse_window(said)
    except ValueError as e:
        raise SkybandError("SKY-E201", f"window: {e}") from e
