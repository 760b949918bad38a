"""``skyband serve``: jobs' tables and views for BI tools, through Spark's Thrift server on loopback."""

from __future__ import annotations

import argparse
import socket
import sys
import time as clock
from typing import Final

from skyband.framework.counts import counted
from skyband.framework.errors import SkybandError, told
from skyband.framework.storage.places import need_folder
from skyband.jobs.answer import Answer, show
from skyband.jobs.arguments import whole
from skyband.jobs.described import described
from skyband.jobs.engine_options import add_engine_options, choose_engine
from skyband.jobs.spec import load_plan

PORT: Final = 10000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "serve",
        help="let BI tools connect (JDBC, ODBC)",
        **described(
            "Makes a database of every job, with its tables and views, and serves them by Spark's Thrift server on this machine's "
            "loopback until it is stopped. It only answers queries: what would write, drop, set or load anything is refused. Whoever can "
            "connect can read what is served, with no password: on a shared machine, do not.",
            "skyband serve flights.yaml",
            "skyband serve flights.yaml sensors.yaml --port 10001",
            "",
            "from another machine, through a tunnel:",
            "ssh -N -L 10000:127.0.0.1:10000 user@machine",
        ),
    )
    p.add_argument("specs", nargs="+", metavar="SPEC")
    p.add_argument("--port", type=whole("--port", 1, 65_535), default=PORT, help="port on loopback (default: %(default)s)")
    add_engine_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM, then 0. SkybandError SKY-E201 for a port that is none or in use, SKY-E400 if a job has no tables."""
    if not 0 < args.port < 65536:
        raise SkybandError("SKY-E201", f"--port {args.port} is no port", hint="a number from 1 to 65535; above 1023 for any user")
    choose_engine(args)
    plans = [load_plan(spec) for spec in args.specs]
    for plan in plans:
        need_folder(plan.sink, "serve")
    from skyband.framework.streaming.engine import ENGINE
    from skyband.framework.streaming.session import get_session
    from skyband.framework.streaming.stopping import STOP
    from skyband.framework.tables.catalog import HOST, serve, settings
    from skyband.framework.tables.views import left_out, said_left_out

    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind((HOST, args.port))
        except OSError as e:
            raise SkybandError("SKY-E201", f"port {args.port} cannot be had: {(e.strerror or str(e)).lower()}", hint="--port N") from e
    spark = get_session("skyband-serve", extra=settings(args.port), quick=False)
    for plan in plans:
        for view in left_out(plan):
            print(told(said_left_out(view)), file=sys.stderr)
    with STOP.heeded():
        found = list(serve(spark, plans))
        made = [{"name": name, "tables": tables, "views": views} for name, tables, views in found]
        url = f"jdbc:hive2://{HOST}:{args.port}/"
        text = [f"database {name}: {counted(tables, 'table')}, {counted(views, 'view')}" for name, tables, views in found]
        text.append(f"{url} (no password; Ctrl-C ends it)")
        show(Answer({"url": url, "databases": made}, "\n".join(text)), args.format)
        while STOP.signal is None:
            if not ENGINE.pids():
                raise SkybandError("SKY-E305", "the engine died", hint=f"its log is {ENGINE.log}")
            clock.sleep(0.2)
    return 0
