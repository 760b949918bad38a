"""``skyband views``: the views of a job as SQL for other engines, and its data dictionary."""

from __future__ import annotations

import argparse
import sys

from skyband.framework.errors import told
from skyband.jobs.answer import Answer
from skyband.jobs.described import described
from skyband.jobs.query import DIALECTS
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "views",
        help="print the views of a job for other engines",
        **described(
            "Prints `create view` statements of every query's views, complete with where the tables lie: <query>_history (what was "
            "in the result, and for how long), <query>_ranks (ranks over time), <query>_summary (figures). `skyband sql` has them already.",
            "skyband views flights.yaml --dialect postgres > views.sql",
            "skyband views flights.yaml --dictionary > dictionary.md",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--dialect", choices=DIALECTS, default="duckdb", help="the engine to write for (default: %(default)s)")
    p.add_argument("--dictionary", action="store_true", help="instead: every table, view and column with type, unit and meaning (Markdown)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """The statements, or the dictionary; reads no table."""
    plan = load_plan(args.spec)
    if args.dictionary:
        from skyband.framework.tables.dictionary import dictionary
        from skyband.framework.tables.duck import described

        text = dictionary(plan, described(plan))
        return Answer({"dictionary": text}, text, rows=True)
    from skyband.framework.tables.dialects import view
    from skyband.framework.tables.views import views

    made = [{"name": v.name, "comment": v.comment, "sql": view(plan, v.name, v.sql, args.dialect)} for v in views(plan)]
    text = "\n\n".join(f"-- {v['comment']}\n{v['sql']};" for v in made)
    if told(text) != text:
        print("in the SQL ${NAME} stands for what that variable of the environment holds", file=sys.stderr)
    return Answer({"dialect": args.dialect, "views": made}, text)
