"""A server of a small job, as ``skyband serve`` starts it, and clients of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from skyband.framework.plan.model import Plan
from tests.framework.streaming.bucket.test_bucket_loyalty import SPEC
from tests.framework.tables.results.test_trajectories import plan_at, rows_of, write

TOKEN = "a-token-for-tests-only"
CANARY = "canary of somebody else"
"""The content of a file that no statement may read."""


@dataclass(frozen=True)
class Served:
    """A running server: its process, its port, and the lines it printed before it was ready."""

    directory: Path
    plan: Plan
    process: subprocess.Popen[str]
    port: int
    said: list[str] = field(default_factory=list)

    def connect(self, **given: Any) -> psycopg.Connection[Any]:
        """Return a connection; every statement is a transaction of its own."""
        wanted = {"user": "skyband", "password": TOKEN, "dbname": "skyband", "autocommit": True, "connect_timeout": 60, **given}
        return psycopg.connect(host="127.0.0.1", port=self.port, **wanted)

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, over a connection of its own."""
        with self.connect() as c:
            return c.execute(sql, values or None).fetchall()


def free_port() -> int:
    """Return a port of loopback that nobody listens to."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def job_at(directory: Path) -> tuple[Plan, Path]:
    """Write the tables of a small job below ``directory``; return its plan and its spec."""
    plan = plan_at(directory / "out")
    write(plan, rows_of(1, 90), [10, 40], {0, 1})
    spec = directory / "cuts.yaml"
    spec.write_text(SPEC.replace("{path: out}", f"{{path: {directory / 'out'}}}"))
    return plan, spec


@contextmanager
def served(directory: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Serve the job of ``job_at`` until the end."""
    plan, spec = job_at(directory)
    with serving(directory, plan, [spec], *options, env=env) as server:
        yield server


@contextmanager
def serving(directory: Path, plan: Plan, specs: list[Path], *options: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Serve ``specs`` until the end, in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "skyband.jobs.cli", "serve", *map(str, specs), "--port", str(port), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SKYBAND_SERVE_TOKEN": TOKEN, **(env or {})},
    )  # fmt: skip
    server = Served(directory, plan, process, port)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            server.said.append(line.strip())
            if line.startswith("Ctrl-C"):
                break
        assert server.said and server.said[-1] == "Ctrl-C ends it", server.said
        yield server
    finally:
        process.kill()
        process.wait()
