"""``skyband serve``: serve the tables and views of jobs to PostgreSQL clients, read-only, on the loopback interface."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from typing import TYPE_CHECKING, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, printable, redacted
from skyband.framework.storage.location import require_local
from skyband.jobs.answer import Answer, show
from skyband.jobs.arguments import positive, whole
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.serve.database import Job

PORT: Final = 5433
TOKEN: Final = "SKYBAND_SERVE_TOKEN"
"""The environment variable with the token. Without it the server generates one for its lifetime."""
SHORTEST: Final = 12
"""Minimum length of a token."""
_LIMITS: Final = {
    "seconds": (lambda given: positive("--seconds", given), 60.0, "S", "a statement may take S seconds"),
    "memory": (whole("--memory", 1), 1024, "MB", "a statement may use MB megabytes"),
    "rows": (whole("--rows", 1), 1_000_000, "N", "an answer may have N rows"),
    "connections": (whole("--connections", 1), 20, "N", "N clients may be connected at once"),
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "serve",
        help="serve tables to BI tools over PostgreSQL's protocol",
        **help_page(
            "Serve the tables and views of jobs, a schema per job, over PostgreSQL's protocol on the loopback interface until stopped. "
            "The server answers queries in DuckDB's SQL. A job that has not run yet is served as soon as it has. "
            "The server writes no table, reads no other file, and needs neither Spark nor Java. "
            f"Clients connect as the user skyband with a token as password: {TOKEN}, or a generated one that is printed once.",
            "skyband serve flights.yaml",
            "skyband serve flights.yaml sensors.yaml --port 5434 --seconds 300",
            "",
            "from another machine, through a tunnel:",
            "ssh -N -L 5433:127.0.0.1:5433 user@machine",
        ),
    )
    p.add_argument("specs", nargs="+", metavar="SPEC")
    p.add_argument("--port", type=whole("--port", 1, 65_535), default=PORT, help="port on loopback (default: %(default)s)")
    for name, (kind, default, letter, text) in _LIMITS.items():
        p.add_argument(f"--{name}", type=kind, default=default, metavar=letter, help=f"{text} (default: %(default)s)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM, then return 0.

    SkybandError SKY-E201 for a port, a limit or a token that cannot be used, SKY-E400 if no job has tables.
    """
    token, generated = _token()
    plans = [load_plan(spec) for spec in args.specs]
    for plan in plans:
        require_local(plan.sink, "serve")
    from skyband.framework.serve.catalog import DATABASE, USER
    from skyband.framework.serve.database import Database, Limits, job
    from skyband.framework.serve.server import HOST, Server
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.layout import Layout, changed_since
    from skyband.framework.streaming.spark.stop_signal import STOP
    from skyband.framework.tables.sql.views import left_out, said_left_out

    for plan in plans:
        require_readable(plan.sink)
    jobs = [job(plan) for plan in plans]
    if not any(j.has_run for j in jobs):
        raise SkybandError("SKY-E400", f"there is no table 'runs' at {jobs[0].root}", hint="run the job first: skyband run SPEC")
    for schema in {j.schema for j in jobs if sum(o.schema.lower() == j.schema.lower() for o in jobs) > 1}:
        raise SkybandError("SKY-E201", f"two jobs would be the schema {schema!r}", hint="serve one of them at another port")
    for plan in plans:
        for view in left_out(plan):
            print(redacted(said_left_out(view)), file=sys.stderr)
        for difference in changed_since(plan, Layout(plan.sink))[:3]:
            print(redacted(f"the spec is not that of the last run: {difference}"), file=sys.stderr)
    database = Database(jobs, Limits(args.seconds, args.memory, args.rows, args.connections))
    server = Server(database, token, args.port, lambda line: print(redacted(line), file=sys.stderr, flush=True))
    with STOP.heeded():
        served = [{"name": j.schema, "tables": len(j.tables), "views": len(j.views), "has_run": j.has_run} for j in jobs]
        url = f"postgresql://{USER}@{HOST}:{server.port}/{DATABASE}"
        jdbc = f"jdbc:postgresql://{HOST}:{server.port}/{DATABASE}?user={USER}"
        secret = f"password: {token} (for as long as this server runs; {TOKEN} sets one)" if generated else f"password: that of {TOKEN}"
        lines = [_said(j) for j in jobs]
        data = {"url": url, "jdbc": jdbc, "user": USER, "token": token if generated else None, "schemas": served}
        show(Answer(data, printable("\n".join([*lines, url, jdbc, secret, "Ctrl-C ends it"])), rows=True), args.format)
        server.run(lambda: STOP.signal is not None)
    return 0


def _said(job: Job) -> str:
    text = f"schema {job.schema}: {counted(len(job.tables), 'table')}, {counted(len(job.views), 'view')}"
    return text if job.has_run else f"{text}, as soon as the job has run"


def _token() -> tuple[str, bool]:
    """Return the token, and whether it was generated. SkybandError SKY-E201 for one that anyone could guess, or no client can send."""
    given = os.environ.get(TOKEN)
    if given is None:
        return secrets.token_urlsafe(32), True
    if len(given) < SHORTEST or not all("!" <= c <= "~" for c in given):
        said = f"{TOKEN} is no token: it has to have at least {SHORTEST} characters, all of them visible ASCII"
        raise SkybandError("SKY-E201", said, hint='python -c "import secrets; print(secrets.token_urlsafe())" makes one')
    return given, False
