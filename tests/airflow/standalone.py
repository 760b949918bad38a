"""All of Airflow on this machine, on loopback: scheduler, DAG processor, API server, web pages."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.airflow.home import BIN, Home

WAIT_SECONDS = 900


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Standalone:
    """A running Airflow; ``url`` is where it is."""

    def __init__(self, home: Home, port: int) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{port}"

    def api(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """A call of the API: a POST if there is a body."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}/api/v2/{path}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.load(answer)

    def until(self, what: Callable[[], Any], why: str) -> Any:
        """Waits until ``what`` is something."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if found := what():
                    return found
            time.sleep(0.3)
        raise AssertionError(f"{why}\n{(self.home.directory / 'standalone.log').read_text()[-5000:]}")

    def log(self, dag: str, task: str, attempt: int) -> str:
        """What a try of a task in the DAG's only run has said so far, a line a message."""
        said = []
        for file in (self.home.directory / "airflow" / "logs" / f"dag_id={dag}").glob(f"*/task_id={task}/attempt={attempt}.log"):
            for line in file.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    said.append(str(json.loads(line).get("event")))
        return "\n".join(said)


@contextlib.contextmanager
def standalone(home: Home) -> Iterator[Standalone]:
    """Starts it, waits until it answers, and ends all that it has started."""
    port = _free_port()
    home.more |= {
        "AIRFLOW__API__HOST": "127.0.0.1", "AIRFLOW__API__PORT": str(port), "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/", "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "2", "AIRFLOW__CORE__PARALLELISM": "2", "TMPDIR": str(home.directory),
    }  # fmt: skip
    with open(home.directory / "standalone.log", "wb") as log:
        command = [BIN / "airflow", "standalone"]
        process = subprocess.Popen(command, env=home.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    running = Standalone(home, port)
    try:
        running.until(lambda: running.api("monitor/health")["scheduler"]["status"] == "healthy", "Airflow does not come up")
        yield running
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        for pid in {*below(home), *_session(process.pid)}:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)


def _session(leader: int) -> list[int]:
    """Processes of one session: some write their title where their environment was, and only this tells that they are Airflow's."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.getsid(int(entry.name)) == leader:
                found.append(int(entry.name))
    return found


def below(home: Home, words: str = "") -> list[int]:
    """Processes that were started for ``home``, in whatever session, whose command line has ``words`` in it."""
    mark, found = f"AIRFLOW_HOME={home.directory}/airflow\0".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes() and words.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
