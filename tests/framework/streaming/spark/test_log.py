"""Spark's log: below the sink, its owner's alone, never through a link, without values of the environment."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import conceal
from skyband.framework.spark_adapter.failures import log_file
from skyband.framework.streaming.spark import log
from skyband.framework.streaming.spark.log import KEPT

Write = Callable[..., Path]


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes to file descriptor 2 as a JVM does, waits for the end of the pipe, gives the log's path."""
    monkeypatch.setattr(log, "_log", None)
    monkeypatch.delenv("SKYBAND_LOG", raising=False)

    def run(home: Path | None, *parts: bytes) -> Path:
        before = set(threading.enumerate())
        with log.spark_log(home) as path:
            for part in parts:
                subprocess.run([sys.executable, "-S", "-c", "import os, sys; os.write(2, sys.stdin.buffer.read())"], input=part, check=True)
        for thread in set(threading.enumerate()) - before:
            thread.join()
        return path

    return run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_below_the_sink_for_its_owner_only(write: Write, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = write(tmp_path / "out" / "_skyband", b"said\n")
    finally:
        os.umask(old)
    assert path.parent == tmp_path / "out" / "_skyband" / "logs" and path == log_file()
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert path.read_bytes() == b"said\n" and str(os.getpid()) in path.name


def test_values_and_control_characters_are_taken_out(write: Write, tmp_path: Path) -> None:
    conceal("S", "hunter2 ü")
    long = b"x" * 3_000_000
    value = "hunter2 ü".encode()
    path = write(tmp_path, b"at " + value + b"\x1b[2J\n\tat line", b"\n" + value[:6], value[6:] + b"\n", long, value, long, b"\xff")
    text = path.read_text()
    assert "hunter" not in text and text.startswith("at ${S}\\u001b[2J\n\tat line\n${S}\n")
    assert text.count("${S}") == 3 and text.count("x") == 6_000_000 and text.endswith("x\\udcff")


def test_the_newest_are_kept(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for n in range(9):
        (logs / f"engine-2020010{n}T000000Z-1.log").touch()
    (logs / "mine.txt").touch()
    path = write(tmp_path, b"x\n")
    kept = sorted(p.name for p in logs.glob("engine-*"))
    assert kept == [*(f"engine-2020010{n}T000000Z-1.log" for n in range(9 - KEPT + 1, 9)), path.name]
    assert (logs / "mine.txt").exists()


def test_a_link_in_its_place_is_not_followed(write: Write, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "logs").symlink_to(elsewhere)
    path = write(tmp_path / "home", b"said\n")
    assert list(elsewhere.iterdir()) == []
    assert mode(path.parent) == 0o700 and path.read_bytes() == b"said\n"


def test_without_a_sink_it_is_in_an_unpredictable_directory(write: Write) -> None:
    path = write(None, b"said\n")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700) and str(os.getpid()) not in path.parent.name
    path.unlink()
    path.parent.rmdir()


def test_a_file_of_the_users_own_is_continued(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.log").write_text("earlier\n")
    (tmp_path / "mine.log").chmod(0o644)
    monkeypatch.setenv("SKYBAND_LOG", str(tmp_path / "mine.log"))
    path = write(tmp_path / "home", b"said\n")
    assert path.read_text() == "earlier\nsaid\n" and mode(path) == 0o600 and not (tmp_path / "home").exists()


@pytest.mark.parametrize("kind", ["link", "dangling", "second name", "pipe", "folder"])
def test_what_is_no_file_of_the_users_own_is_refused(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    named, other = tmp_path / "named", tmp_path / "other"
    if kind != "dangling":
        other.write_text("kept")
    match kind:
        case "link" | "dangling":
            named.symlink_to(other)
        case "second name":
            named.hardlink_to(other)
        case "pipe":
            os.mkfifo(named)
        case _:
            named.mkdir()
    monkeypatch.setenv("SKYBAND_LOG", str(named))
    with pytest.raises(SkybandError) as e:
        write(None, b"said\n")
    assert e.value.code == "SKY-E203" and "SKYBAND_LOG" in e.value.render()
    assert other.exists() == (kind != "dangling") and (kind == "dangling" or other.read_text() == "kept")


def test_a_full_disk_does_not_block_the_jvm(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(log, "_log", log._Log(Path("/dev/full"), full.fileno()))
        write(None, b"x\n" * 1_000_000)


def test_a_jvm_outlives_its_driver(tmp_path: Path) -> None:
    """What a child says after the driver was killed fails, and neither blocks nor kills the child."""
    child = (
        "import os, sys\nsys.stdin.read()\nsaid = 'nothing'\n"
        "try:\n    os.write(2, b'x' * 200_000)\nexcept BrokenPipeError:\n    said = 'refused'\n"
        f"open({str(tmp_path / 'said')!r}, 'w').write(said)\n"
    )
    driver = (
        "import os, signal, subprocess, sys\nfrom pathlib import Path\nfrom skyband.framework.streaming.spark.log import spark_log\n"
        f"with spark_log(Path({str(tmp_path)!r})):\n"
        f"    p = subprocess.Popen([sys.executable, '-S', '-c', {child!r}], stdin=subprocess.PIPE, pass_fds=[int(sys.argv[1])])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended, held = os.pipe()
    done = subprocess.run([sys.executable, "-c", driver, str(held)], pass_fds=[held], timeout=60, check=False)
    os.close(held)
    # It ends when the child, which holds it, does.
    assert done.returncode == -9 and os.read(ended, 1) == b""
    os.close(ended)
    assert (tmp_path / "said").read_text() == "refused"


def test_output_of_the_jvm_and_a_closed_descriptor(tmp_path: Path) -> None:
    """Spark's standard output goes to the log too; a closed descriptor takes nothing of it away."""
    driver = (
        "import os, subprocess\nfrom pathlib import Path\nfrom skyband.framework.streaming.spark.log import spark_log\n"
        f"os.close(2)\nwith spark_log(Path({str(tmp_path)!r})) as log:\n    os.system('echo printed; echo said >&2')\n"
        "os.write(2, b'nowhere')\n"
        "import threading\n[t.join() for t in threading.enumerate() if t.name == 'engine-log']\nprint(sorted(log.read_text().split()))\n"
    )
    done = subprocess.run([sys.executable, "-c", driver], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "['printed', 'said']\n"
