"""``scripts/setup.sh`` and its sets of packages: what each installs, in which order, and that the demo needs no more than its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

PYTHON = """\
#!/bin/sh
# Records what is installed, and makes an environment of such programs.
here=$(dirname "$0")
case "$*" in
*"-m venv"*)
    rm -rf .venv && mkdir -p .venv/bin
    for name in python skyband; do cp "$here/python3.11" ".venv/bin/$name"; done
    ;;
*"config list"*) echo "$PIP_SETTINGS" ;;
*install*)
    echo "$(basename "$0") $*" >>"$LOG"
    for last; do :; done
    case "$*" in *skyband-uv*) mkdir -p .venv/skyband-uv/bin && cp "$0" .venv/skyband-uv/bin/uv && exit "${NO_UV:-0}" ;; esac
    case "$*" in *-r*) grep -o '^[A-Za-z0-9._-]*==' "$last" | tr -d '=' | sort >"$LOG.$$" ;; esac
    [ "$(basename "$0")" != uv ] || [ -z "$UV_FAILS" ]
    ;;
*"pip show"*) exit 1 ;;
demo*|warm*) echo "$(basename "$0") $*" >>"$LOG" ;;
*java.py*|--version) ;;
*) exec "$REAL" "$@" ;;
esac
"""
"""Stands for Python, uv and skyband."""

BLOCKED = """\
import os
from importlib.machinery import PathFinder
names, find = frozenset(os.environ["BLOCKED"].split()), PathFinder.find_spec
def without(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in names else find(name, path, target)
PathFinder.find_spec = classmethod(without)
"""
"""A ``sitecustomize`` that hides packages from a process and from those that it starts."""


def pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return version and hashes by package."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / name).read_text(encoding="utf-8"))
    heads = [(re.match(r"([A-Za-z0-9._-]+)==(\S+) \\\n", e), e) for e in entries]
    return {m[1]: (m[2], frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", e))) for m, e in heads if m}


def test_each_set_of_packages_is_a_part_of_the_next() -> None:
    demo, image, every = pins("requirements-demo.txt"), pins("requirements-image.txt"), pins("requirements.txt")
    assert demo.items() < image.items() < every.items()
    assert all(hashes for _, hashes in every.values())
    assert {"pyspark", "setuptools"} <= set(demo) and not {"uv", "great-expectations", "scipy"} & set(demo)
    assert "uv" in every and "uv" not in image
    assert "://" not in "".join((ROOT / f"requirements-demo.{end}").read_text(encoding="utf-8") for end in ("in", "txt"))
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {f"requirements{part}.in" for part in ("", "-image", "-demo")} <= set(re.findall(r"requirements[a-z-]*\.in", make))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    home = tmp_path / "a checkout"
    (home / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", home / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.txt", "requirements-demo.txt"):
        shutil.copy2(ROOT / name, home / name)
    (home / "bin" / "python3.11").write_text(PYTHON)
    (home / "bin" / "python3.11").chmod(0o755)
    return home


def setup(home: Path, wanted: str, **environment: str) -> tuple[list[str], list[set[str]], str]:
    """Run the script. Return what it started, in order; the names of the packages of each installation, largest first; its output."""
    log = home / "log"
    for old in home.glob("log*"):
        old.unlink()
    log.touch()
    own = {
        "PYTHON": str(home / "bin" / "python3.11"),
        "REAL": sys.executable,
        "LOG": str(log),
        "NO_UV": "",
        "UV_FAILS": "",
        "PIP_SETTINGS": "",
    }
    done = subprocess.run(
        ["sh", "scripts/setup.sh", wanted], cwd=home, env={**os.environ, **own, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    installed = sorted((set(p.read_text().split()) for p in home.glob("log.*")), key=len, reverse=True)
    return log.read_text().splitlines(), installed, done.stdout


def test_the_demos_packages_are_installed_once_while_pyspark_is_downloaded(checkout: Path) -> None:
    started, installed, said = setup(checkout, "demo")
    installs = [line for line in started if "install" in line]
    assert installed[0] == set(pins("requirements-demo.txt")) - {"pyspark"} and {"pyspark"} in installed
    assert started[0].startswith("python") and {"setuptools"} in installed
    assert all("--require-hashes" in line for line in installs if not line.endswith("-e ."))
    assert all("--no-deps" in line for line in installs)
    assert [line.split()[0] for line in installs[1:]] == ["uv"] * 5
    for steps in (("skyband-pins", "-e .", "demo --prepare"), ("-e .", "-r .venv/skyband-spark", "warm --packages --quiet")):
        places = [max(i for i, line in enumerate(started) if part in line) for part in steps]
        assert places == sorted(places)
    for step in ("installing skyband", "downloading PySpark", "installing PySpark", "preparing the demo"):
        assert re.search(rf"^skyband: {step}: done in \d+ s$", said, re.MULTILINE), step
    assert setup(checkout, "demo") == ([], [], "")


def test_the_tests_packages_come_on_top_and_fast_starts_are_prepared_once(checkout: Path) -> None:
    setup(checkout, "demo")
    started, _, _ = setup(checkout, "warm")
    assert started == ["skyband warm"] and setup(checkout, "warm")[0] == []
    started, installed, _ = setup(checkout, "all")
    assert installed[0] == set(pins("requirements.txt")) - {"pyspark"} and "skyband warm" not in started
    assert setup(checkout, "all") == ([], [], "") and setup(checkout, "demo") == ([], [], "")


def test_fast_starts_are_prepared_in_the_background_after_the_demo(checkout: Path) -> None:
    assert "sh scripts/setup.sh later" in (ROOT / "Makefile").read_text(encoding="utf-8")
    setup(checkout, "demo")
    assert setup(checkout, "later")[2] == ""
    stamp = checkout / ".venv" / "skyband-warm"
    deadline = time.monotonic() + 60
    while not stamp.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert stamp.exists() and "skyband warm" in (checkout / ".venv" / "skyband-warm.log").read_text()
    assert (checkout / "log").read_text().splitlines() == ["skyband warm"]


def test_all_packages_at_once_are_enough_for_the_demo(checkout: Path) -> None:
    started, _, _ = setup(checkout, "all")
    assert started[-1] == "skyband warm" and not any("demo" in line for line in started)
    assert setup(checkout, "demo")[0] == []


def test_a_change_of_the_pins_installs_again(checkout: Path) -> None:
    setup(checkout, "demo")
    with (checkout / "requirements-demo.txt").open("a") as file:
        file.write("# changed\n")
    assert setup(checkout, "demo")[1][0] == set(pins("requirements-demo.txt")) - {"pyspark"}


@pytest.mark.parametrize("environment", [{"NO_UV": "1"}, {"UV_FAILS": "1"}, {"PIP_SETTINGS": "global.index-url='of-a-company'"}])
def test_pip_installs_where_uv_cannot(checkout: Path, environment: dict[str, str]) -> None:
    started, _, said = setup(checkout, "demo", **environment)
    by_pip = [line for line in started if line.startswith("python") and "pip" in line]
    assert any(line.endswith("-r .venv/skyband-pins") for line in by_pip) and any(
        line.endswith("-r .venv/skyband-spark") for line in by_pip
    )
    assert "with pip" in said and all("--require-hashes" in line for line in by_pip if not line.endswith("-e ."))


def hidden(tmp_path: Path, *more: str) -> dict[str, str]:
    """Return an environment of processes that see only the demo's packages, and none of ``more``."""
    kept = {name.lower().replace("_", "-") for name in pins("requirements-demo.txt")} | {"skyband", "pip"}
    found = packages_distributions().items()
    names = [module for module, of in found if not {d.lower().replace("_", "-").replace(".", "-") for d in of} & kept]
    assert {"scipy", "polars", "great_expectations"} <= set(names)
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "BLOCKED": " ".join([*names, *more])}


def demo(tmp_path: Path, environment: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "skyband.jobs.cli", "demo", "--days", "3", "--dir", str(tmp_path / "demo"), *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_preparing_the_demo_needs_neither_spark_nor_packages_beyond_its_own(tmp_path: Path) -> None:
    assert demo(tmp_path, hidden(tmp_path, "pyspark", "py4j", "delta"), "--prepare") == ""
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["itineraries", "landing"]


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_needs_no_packages_beyond_its_own_and_finds_its_kernels_compiled(tmp_path: Path) -> None:
    environment = {**hidden(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    demo(tmp_path, environment, "--prepare")
    compiled = {p.name for p in (tmp_path / "kernels").rglob("*.kernel")}
    assert "minutes apart" in demo(tmp_path, environment)
    assert compiled and compiled == {p.name for p in (tmp_path / "kernels").rglob("*.kernel")}
