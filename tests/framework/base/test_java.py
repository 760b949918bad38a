"""Which Java is taken, with made-up homes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from skyband.framework.base import java


def home(directory: Path, version: str, release: bool = True) -> Path:
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    if release:
        (directory / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return directory


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with no Java but what a test puts below this directory."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(java, "INSTALL_PATTERNS", (f"{tmp_path}/jvm/*",))
    return tmp_path


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25), ("1.8.0_402", 1)])
def test_version(tmp_path: Path, text: str, version: int, release: bool) -> None:
    assert java.version_of(home(tmp_path / "a b", text, release)) == version


def test_nothing_there(nowhere: Path) -> None:
    assert java.version_of(nowhere / "none") is None
    assert java.find_java_home() is None


def test_java_home_comes_first_then_path_then_the_preferred_version(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home(nowhere / "jvm" / "a", "21.0.2")
    home(nowhere / "jvm" / "b", "17.0.2")
    assert java.find_java_home() == nowhere / "jvm" / "b"
    on_path = home(nowhere / "usr", "21.0.3")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.find_java_home() == on_path
    named = home(nowhere / "named", "17.0.3")
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert java.find_java_home() == named


def test_an_unsupported_java_is_passed_over(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(nowhere / "named", "25.0.1")))
    monkeypatch.setenv("PATH", str(home(nowhere / "usr", "11.0.1") / "bin"))
    assert java.find_java_home() is None
    fits = home(nowhere / "jvm" / "c", "21.0.1")
    assert java.find_java_home() == fits


def test_as_a_script_it_needs_nothing_installed(tmp_path: Path) -> None:
    named = home(tmp_path / "a b", "17.0.9")
    done = subprocess.run(
        [sys.executable, "-I", "-S", java.__file__], capture_output=True, text=True, check=False, env={"JAVA_HOME": str(named)}
    )
    assert (done.returncode, done.stdout) == (0, f"{named}\n")
