"""The Dockerfile: what it promises by its text, and its steps run without Docker in an environment of their own."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STEPS = [line.split(" ", 1) for line in TEXT.splitlines() if line and not line.startswith("#")]
OF_THE_SYSTEM = ("apt-get ", "useradd ")
"""Steps that change the image's system: Java and the user are there already where this runs."""


def context(directory: Path) -> None:
    """What Docker is handed of the checkout, by ``.dockerignore``."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*" and lines[-1] == "**/__pycache__"
    kept = [line[1:] for line in lines if line.startswith("!")]
    directory.mkdir()
    for name in kept:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, directory / name)


def test_it_is_of_two_stages_pins_everything_and_does_not_run_as_root() -> None:
    names = [name for name, _ in STEPS]
    assert set(names) <= {"FROM", "WORKDIR", "RUN", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"} and names.count("FROM") == 2
    last = STEPS[max(i for i, name in enumerate(names) if name == "FROM") :]
    (user,) = [words for name, words in last if name == "USER"]
    assert user != "root" and f"useradd --create-home --uid 10001 {user}" in TEXT
    after = last[next(i for i, (name, _) in enumerate(last) if name == "USER") :]
    assert not any(fnmatch.fnmatch(words, f"{tool}*") for name, words in after if name == "RUN" for tool in OF_THE_SYSTEM)
    installs = [words for name, words in STEPS if name == "RUN" and " pip install " in words]
    assert all("--require-hashes" in w or "--no-index" in w for w in installs) and len(installs) == 2
    assert "://" not in TEXT and 'ENTRYPOINT ["skyband"]' in TEXT
    bases = {words.split()[0] for name, words in STEPS if name == "FROM"}
    assert len(bases) == 1 and re.fullmatch(r"python:3\.11-slim-\w+", bases.pop())


def test_what_it_installs_is_what_the_tests_run_with() -> None:
    def pins(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9._-]+)==(\S+) \\$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))

    image, tested = pins("requirements-image.txt"), pins("requirements.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [r for name, of in project["optional-dependencies"].items() if name != "dev" for r in of]
    wanted = {re.split(r"[<>=\[ ]", r)[0].lower().replace("_", "-") for r in [*project["dependencies"], *extras]} - {"skyband"}
    assert wanted | {"setuptools"} <= set(image)
    assert {name: v for name, v in image.items() if tested.get(name) != v} == {}
    assert not {"pytest", "mypy", "ruff", "hypothesis"} & set(image)
    assert "://" not in (ROOT / "requirements-image.txt").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.spark
def test_its_steps_lead_to_a_command_that_runs_a_job(tmp_path: Path) -> None:
    build, prefix, work = tmp_path / "build", tmp_path / "opt" / "skyband", tmp_path / "work"
    context(build)
    work.mkdir()
    env = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "SKYBAND"))}
    env |= {"PATH": f"{prefix}/bin:{os.environ['PATH']}", "SKYBAND_MASTER": "local[2]"}

    def run(command: str, cwd: Path) -> str:
        done = subprocess.run(["sh", "-c", command], cwd=cwd, capture_output=True, text=True, check=False, timeout=1800, env=env)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    ran, here = [], build
    for name, words in STEPS:
        if name == "WORKDIR":
            here = {"/build": build, "/work": work}[words]
        elif name == "RUN" and not words.startswith(OF_THE_SYSTEM):
            # All kernels take minutes: those of one type's example do.
            few = " framework/queries/topk/example.yaml" if words.endswith("environment.bundle") else ""
            run(words.replace("/opt/skyband", str(prefix)) + few, here)
            ran.append(words)
    assert len(ran) == 6 and "get_session" in ran[-1]
    assert "usage: skyband" in run("skyband --help", work)
    assert "minutes apart" in run("skyband demo --days 3 --quiet", work)
    assert (work / "build" / "demo" / "report.html").exists()
