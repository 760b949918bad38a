"""``skyband query``: ask a job's tables, without Spark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, redacted, redacted_for_terminal
from skyband.jobs.answer import Answer
from skyband.jobs.arguments import text, texts, whole, whole_number
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.plan.model import Plan
    from skyband.framework.tables.results.reader import Answer as Found
    from skyband.operators.base import Window

DIALECTS = ("duckdb", "spark", "tsql", "postgres", "snowflake", "bigquery")
"""Engines that ``--sql`` writes for (those of ``tables.dialects``, which is only loaded when it is used)."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "query",
        help="ask a job's tables",
        **help_page(
            "A query's own result at any instant (--at), or any other k and window that its state holds, as of the last batch.",
            "skyband query flights.yaml parted",
            "skyband query flights.yaml parted --at 2013-07-01T12:00 --limit 3",
            'skyband query flights.yaml parted --k 5 --window "2 days" --format json',
        ),
    )
    p.add_argument("spec")
    p.add_argument("query", help="name of a query of the spec")
    p.add_argument("--at", metavar="T", help="instant in UTC, such as 2013-07-01T12:00 (default: the last that is complete)")
    p.add_argument("--k", type=whole("--k", 1), metavar="K", help="the best K, as of the last batch (a type without k: only its own)")
    p.add_argument("--window", metavar="W", help="within the last W of time ('1 day') or rows ('500 rows'), as of the last batch")
    p.add_argument("--key", action="append", default=[], metavar="COLUMN=VALUE", help="only this key; once for every key column")
    p.add_argument("--format", choices=("table", "csv", "json"), default="table")
    said = "print at most N rows: of several keys the best of each first, of what is reported once the newest"
    p.add_argument("--limit", type=whole("--limit"), metavar="N", help=said)
    p.add_argument(
        "--sql", nargs="?", const="duckdb", choices=DIALECTS, metavar="ENGINE",
        help="also print the SQL that gives the same rows elsewhere: %(choices)s (default: %(const)s)",
    )  # fmt: skip
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """The rows; what there is to say about them goes to stderr. SkybandError for everything a user can mend."""
    key = dict(_pair(k) for k in args.key)
    limit = args.limit
    plan = load_plan(args.spec)
    from skyband.framework.streaming.job.layout import Layout, changed_since
    from skyband.framework.tables import render
    from skyband.framework.tables.results.reader import Reader, first
    from skyband.framework.tables.sql.dialects import complete

    for difference in changed_since(plan, Layout(plan.sink))[:3]:
        print(redacted(f"the spec is not that of the last run: {difference}"), file=sys.stderr)
    answer = read_result(plan, args.query, args.at, args.k, args.window, key, limit)
    query = Reader(plan).query(args.query)
    rows = first(plan, query, answer.rows, limit)
    if answer.note:
        print(redacted(answer.note), file=sys.stderr)
    data = {"query": args.query, "as_of": answer.as_of, "of": answer.rows.num_rows, "rows": []}
    text = ""
    if args.format == "json":
        data["rows"] = rows.to_pylist()
    else:
        text = _table(args.query, answer, rows) if args.format == "table" else render.csv_text(rows)
    if args.sql:
        statement = complete(plan, query, answer.sql, answer.rows.column_names, args.sql, args.limit)
        if (redacted(statement) if args.format == "json" else redacted_for_terminal(statement)) != statement:
            print("in the SQL ${NAME} stands for what that variable of the environment holds", file=sys.stderr)
        data["sql"] = redacted(statement)
        if args.format == "table":
            text += redacted_for_terminal(f"\n\n{statement};")
        else:
            print(redacted_for_terminal(f"\n{statement};"), file=sys.stderr)
    return Answer(data, text, rows=True)


def _table(name: str, answer: Found, rows: pa.Table) -> str:
    from skyband.framework.tables import render

    when = f", as of {render.instant_text(answer.as_of)} UTC" if answer.as_of is not None else ""
    cut = f"{rows.num_rows:,} of " if rows.num_rows < answer.rows.num_rows else ""
    head = f"{name}: {cut}{counted(answer.rows.num_rows, 'row')}{when}"
    return f"{head}\n\n{render.text_table(rows)}" if rows.num_rows else head


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SkybandError("SKY-E201", f"--key {text!r} is not of the form column=value")
    return name.strip(), value


def read_result(
    plan: Plan,
    query: str,
    at: datetime | str | None = None,
    k: int | None = None,
    window: str | None = None,
    key: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> Found:
    """The result of ``query`` at ``at``, or its best ``k`` within ``window`` as of the last batch, of one ``key`` if it is given.

    ``limit`` is for what is told once: the newest rows. SkybandError for everything a user can mend. O(rows of the query's table).
    """
    text("name", query)
    k = None if k is None else whole_number("k", k, 1)
    limit = None if limit is None else whole_number("limit", limit)
    key = None if key is None else texts("key", key)
    other = k is not None or window is not None
    if at is not None and other:
        raise SkybandError("SKY-E201", "at goes with the query's own k and window", hint="leave out at, or k and window")
    instant = None if at is None else parse_instant(at)
    within = parse_window(text("window", window)) if window is not None else None
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.tables.results.reader import Reader

    require_readable(plan.sink)
    reader = Reader(plan)
    with tables_of(plan):
        return reader.snapshot(query, k, within, key) if other else reader.as_of(query, instant, key, limit)


def parse_instant(at: datetime | str) -> datetime:
    """An instant, or the ISO 8601 text of one; UTC unless it says otherwise. SkybandError SKY-E201 if it is none."""
    try:
        # A pandas NaT is a datetime that equals nothing.
        found = datetime.fromisoformat(at) if isinstance(at, str) else at if isinstance(at, datetime) and at == at else None
        if found is not None:
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    said = repr(at) if isinstance(at, str) else f"a {type(at).__name__}"
    hint = "write it as 2013-07-01T12:00 (UTC)" if isinstance(at, str) else "a datetime, or text such as 2013-07-01T12:00 (UTC)"
    raise SkybandError("SKY-E201", f"at takes an instant, not {said}", hint=hint)


def parse_window(said: str) -> Window:
    """A window as ``1 day`` or ``500 rows`` (or both, with a comma). SkybandError SKY-E201 if it is none."""
    from skyband.framework.base import units

    try:
        return units.parse_window(said)
    except ValueError as e:
        raise SkybandError("SKY-E201", f"window: {e}") from e
