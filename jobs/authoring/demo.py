"""``skyband demo``: run the example job on a year of real flights, show its results and how to read them elsewhere."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyband.framework.base.errors import printable
from skyband.jobs.arguments import whole
from skyband.jobs.parser import help_page
from skyband.jobs.running import run as run_job
from skyband.jobs.running.run import EXIT_CODES

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan

SPEC = Path(__file__).resolve().parent.parent.parent / "specs" / "flights.yaml"
"""The example job: beside this package's directory in a checkout and in an installed wheel alike."""

_REHEARSED: Final = 2_000
"""Rows of a rehearsal: two of the demo's days, so that rows also leave the shorter of its windows."""

COLUMNS = (
    "score, older_origin || ' to ' || older_dest as route, older_carrier || ' ' || older_flight as flight, older_time, older_air_time, "
    "newer_carrier || ' ' || newer_flight as other, newer_time, newer_air_time"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "demo",
        help="run the example job on a year of real flights",
        **help_page(
            "Run the example job over every departure from New York City in 2013, and show its results and how to read them elsewhere.",
            "skyband demo",
            "skyband demo --days 14 --dir /tmp/flights",
            codes=EXIT_CODES,
        ),
    )
    p.add_argument("--dir", default="build/demo", help="directory for data and tables (default: %(default)s)")
    p.add_argument("--days", type=whole("--days", 1, 365), default=365, help="read only the first DAYS days of 2013 (default: %(default)s)")
    p.add_argument("--quiet", action="store_true", help="do not print a line per batch")
    p.add_argument(
        "--prepare", action="store_true", help="only write the data and compile the job's kernels, which needs no Spark; then exit"
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the data (once), run the job to its end and print results. A second call finds nothing new and is fast."""
    # With JSON, stdout has only the run's outcome, which the command line prints.
    with contextlib.redirect_stdout(io.StringIO()) if args.format == "json" else contextlib.nullcontext():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from skyband.framework.base.extras import need
    from skyband.framework.storage.outputs import output_directory
    from skyband.jobs.authoring.demo_data import write_itineraries, write_landing
    from skyband.jobs.spec import load_plan

    for extra in ("demo", "report"):
        need(extra, "the demo")
    home = output_directory(Path(args.dir).absolute(), "--dir")
    landing, warehouse = home / "landing", home / "tables"
    if args.prepare:
        args.lines.say("writing the demo's data")
    files = write_landing(landing, args.days)
    write_itineraries(home / "itineraries", args.days)
    os.environ["LANDING"], os.environ["WAREHOUSE"] = str(landing), str(warehouse)
    if args.prepare:
        args.lines.say("compiling the demo's kernels")
        compile_kernels(load_plan(str(SPEC)))
        return 0
    from skyband.jobs.reading.report import write

    print(f"{files} days of flights out of New York City are in {_short(landing)}; running {_short(SPEC)} over them.", flush=True)
    words = [str(SPEC), "--once", "--finish", *(["--quiet"] if args.quiet else [])]
    code = run_job.run(run_job.parse_arguments(words, args.lines, args.recorded, alone=True))
    tables = warehouse / "flights"
    show(tables)
    page = write(load_plan(str(SPEC)), home / "report.html")
    print(printable(f"\nResults, runs and plan as one page, for any browser: {_short(page)}"))
    print(
        "\nRead them elsewhere, with anything that reads Delta Lake. DuckDB:\n\n"
        f"  {statement_now(tables)}\n\n"
        "Spark (the same query, with the table named by its path):\n\n"
        f"  select * from delta.`{tables / 'parted_now'}` order by rank;\n\n"
        "Ask the tables more, without Spark:\n\n"
        f"  export LANDING={shlex.quote(str(landing))} WAREHOUSE={shlex.quote(str(warehouse))}\n"
        f"  skyband query {shlex.quote(_short(SPEC))} parted --at 2013-07-29"
    )
    return code


def compile_kernels(plan: Plan) -> None:
    """Compile the kernels that a run of the job needs: rehearse it, without Spark, on the first rows of its source and a restart.

    A rehearsal numbers ids instead of hashing them, so one text is hashed.
    """
    import pyarrow as pa

    from skyband.framework.preview.judged import of_intake
    from skyband.framework.rehearsal.rehearsal import Rehearsal
    from skyband.framework.sources.preview import first_rows
    from skyband.framework.streaming.rows.hashes import xxhash64

    xxhash64([pa.array(["text"])], 1, 0)
    rows = of_intake(plan, first_rows(plan.source, _REHEARSED))
    job = Rehearsal(plan)
    job.take(rows.slice(0, _REHEARSED // 2))
    job.restart()
    job.take(rows.slice(_REHEARSED // 2))
    job.finish()


def statement_now(tables: Path) -> str:
    """SQL for the current result, in DuckDB's spelling."""
    path = str(tables / "parted_now").replace("'", "''")
    return f"select rank, {COLUMNS}\n  from delta_scan('{path}') order by rank;"


def show(tables: Path) -> None:
    """Prints the current result and the most extreme pairs of all the results there ever were."""
    from skyband.framework.storage.delta_read import open_table, read

    now = read(open_table(tables, "parted_now")).sort_by("rank").to_pylist()
    ever = read(open_table(tables, "parted")).sort_by([("score", "descending"), ("from_step", "ascending")]).to_pylist()
    pairs = {(r["older_seq"], r["newer_seq"]): r for r in reversed(ever)}
    print("\nSame route, took off within the hour, and most differently long in the air. The week before the last departure:\n")
    _print_pairs(now)
    print("\nThe five most extreme of the whole stream (from the history of results, which keeps everything that was ever in them):\n")
    _print_pairs(sorted(pairs.values(), key=lambda r: (-r["score"], -r["older_seq"], -r["newer_seq"]))[:5])


def _print_pairs(rows: Sequence[Mapping[str, Any]]) -> None:
    head = ("", "minutes apart", "route", "flight", "took off (UTC)", "in the air", "flight", "took off (UTC)", "in the air")
    body = [
        (str(i), f"{r['score']:.0f}", f"{r['older_origin']} to {r['older_dest']}", *_flight(r, "older"), *_flight(r, "newer"))
        for i, r in enumerate(rows, 1)
    ]
    width = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    right = {0, 1, 5, 8}
    for line in (head, *body):
        print("  " + "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, width, strict=True))).rstrip())


def _flight(row: Mapping[str, Any], role: str) -> tuple[str, str, str]:
    """One flight of a pair, as three cells."""
    name = f"{row[f'{role}_carrier']} {row[f'{role}_flight']}"
    return name, f"{row[f'{role}_time']:%Y-%m-%d %H:%M}", f"{row[f'{role}_air_time']:.0f} min"


def _short(path: Path) -> str:
    """The path as seen from here, if it is below here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
