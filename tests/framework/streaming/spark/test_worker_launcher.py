"""The driver worker connects before it imports: held against a JVM and a PySpark that the tests stand in for."""

from __future__ import annotations

import os
import shlex
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from skyband.framework.spark_adapter.workers import DRIVER_WORKER
from skyband.framework.streaming.spark.worker_launcher import launcher

WORKER = """
import os, pathlib, time
while not pathlib.Path(os.environ["CONNECTED"]).exists():
    time.sleep(0.01)
def main(infile, outfile):
    outfile.write(infile.read(4))
    outfile.flush()
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A ``pyspark`` whose import ends only after the test has seen the connection."""
    module = (tmp_path / "modules").joinpath(*DRIVER_WORKER.split("."))
    module.parent.mkdir(parents=True)
    for package in [*(tmp_path / "modules").rglob("*")]:
        (package / "__init__.py").touch()
    module.with_suffix(".py").write_text(WORKER)
    return tmp_path / "modules"


@contextmanager
def started(program: str, tmp_path: Path, modules: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "PYTHONPATH": str(modules), "CONNECTED": str(tmp_path / "connected"), **environment}
    process = subprocess.Popen([program, "-m", DRIVER_WORKER], env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def through(program: str, tmp_path: Path, modules: Path, server: socket.socket, secret: bytes | None, **environment: str) -> None:
    """Plays the JVM's side: accept, check the secret, read the process id, and only then let the imports end."""
    server.settimeout(60)
    with server, started(program, tmp_path, modules, **environment) as process:
        connection, _ = server.accept()
        connection.settimeout(60)
        stream = connection.makefile("rwb")
        if secret is not None:
            assert stream.read(4 + len(secret)) == struct.pack("!i", len(secret)) + secret
            stream.write(struct.pack("!i", 2) + b"ok")
            stream.flush()
        assert struct.unpack("!i", stream.read(4)) == (process.pid,)
        (tmp_path / "connected").touch()
        stream.write(b"ping")
        stream.flush()
        assert stream.read(4) == b"ping"
        assert process.wait(60) == 0


def test_it_connects_to_a_socket_of_the_file_system_before_it_imports(tmp_path: Path, modules: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    path = os.path.relpath(tmp_path / "socket")
    server.bind(path if len(path) < 100 else str(tmp_path / "socket"))
    server.listen()
    through(launcher(sys.executable, [tmp_path]), tmp_path, modules, server, None, PYTHON_WORKER_FACTORY_SOCK_PATH=path)


def test_it_connects_to_a_port_with_its_secret_before_it_imports(tmp_path: Path, modules: Path) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = str(server.getsockname()[1])
    told = {"PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "quite secret"}
    through(launcher(sys.executable, [tmp_path]), tmp_path, modules, server, b"quite secret", **told)


def test_everything_else_is_python_itself(tmp_path: Path) -> None:
    program = launcher(sys.executable, [tmp_path])
    said = subprocess.run([program, "-c", "import sys; print(sys.executable, sys.argv)", "a b", "$c"], capture_output=True, text=True)
    assert said.stdout.split(" ", 1) == [sys.executable, "['-c', 'a b', '$c']\n"]


def test_a_second_launcher_of_one_python_is_the_same_file(tmp_path: Path) -> None:
    program = Path(launcher(sys.executable, [tmp_path]))
    assert launcher(sys.executable, [tmp_path]) == str(program)
    program.write_text("#!/bin/sh\nexit 1\n")
    assert launcher(sys.executable, [tmp_path]) == str(program)
    assert shlex.quote(sys.executable) in program.read_text()
    assert list(tmp_path.iterdir()) == [program]
    assert program.stat().st_mode & 0o777 == 0o700


def test_where_no_program_may_be_kept_python_itself_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert launcher(sys.executable, [tmp_path / "none", tmp_path / "file"]) == sys.executable
    assert launcher(sys.executable, [tmp_path / "none", tmp_path]).startswith(str(tmp_path))


def test_the_module_is_the_one_that_pyspark_has() -> None:
    """If this fails PySpark has moved its driver worker: find its new name, and look at how it connects (``driver_worker.connect``)."""
    source = Path(pyspark.__file__).parent.joinpath(*DRIVER_WORKER.split(".")[1:]).with_suffix(".py").read_text()
    assert "with get_sock_file_to_executor() as sock_file:\n        main(sock_file, sock_file)" in source


def test_a_link_in_the_launchers_place_is_replaced_whatever_it_leads_to(tmp_path: Path) -> None:
    """What it leads to may be exchanged after it was compared."""
    mine = tmp_path / "mine"
    mine.mkdir()
    program = Path(launcher("/usr/bin/python3", [mine]))
    other = tmp_path / "other"
    other.write_bytes(program.read_bytes())
    program.unlink()
    program.symlink_to(other)
    assert launcher("/usr/bin/python3", [mine]) == str(program)
    assert not program.is_symlink() and program.is_file()
