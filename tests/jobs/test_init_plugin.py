"""The project of ``skyband init --plugin``: written, built, installed elsewhere, and its own tests run there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skyband.jobs import cli

ROOT = Path(__file__).resolve().parents[2]


def started(*words: object, cwd: Path, path: Sequence[Path] = ()) -> str:
    """What a command of this Python says, with these directories to import from; it must end well."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT]))}
    done = subprocess.run([sys.executable, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, timeout=600, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(directory: Path) -> tuple[Path, Path]:
    """(project, the directory into which it is installed)."""
    project, target = directory / "my-parts", directory / "target"
    assert cli.main(["init", "--plugin", str(project)]) == 0
    words = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", target)
    started("-m", "pip", "install", *words, project, cwd=directory)
    return project, target


def test_a_project_is_built_installed_and_its_tests_pass(tmp_path: Path, capsys: Any) -> None:
    project, target = installed(tmp_path)
    assert "wrote package my_parts into" in capsys.readouterr().out
    found = [p.relative_to(project) for p in project.rglob("*") if p.is_file()]
    files = {p.as_posix() for p in found if p.parts[0] != "build" and "egg-info" not in str(p)}
    own = {"README.md", "pyproject.toml", "tests/__init__.py", "tests/test_parts.py"}
    parts = {f"src/my_parts/{n}.py" for n in ("__init__", "expectation", "operator", "query_type", "scoring", "source")}
    assert own | parts == files
    written = "".join((project / f).read_text() for f in own | parts)
    assert "plugin_template" not in written and "PACKAGE" not in written and "PROJECT" not in written
    said = started("-P", "-m", "pytest", "-q", "-m", "not spark", "-p", "no:cacheprovider", cwd=project, path=[target])
    assert "10 passed, 1 deselected" in said
    # What a spec may name is in the schema that editors use.
    schema = started(
        "-P", "-c", "from skyband.framework.spec.schema.json_schema import schema_text; print(schema_text())", cwd=tmp_path, path=[target]
    )
    assert '"frequent"' in schema and '"tsv"' in schema


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_runs_with_the_parts(tmp_path: Path) -> None:
    project, target = installed(tmp_path)
    assert "1 passed" in started("-P", "-m", "pytest", "-q", "-m", "spark", "-p", "no:cacheprovider", cwd=project, path=[target])


@pytest.mark.parametrize(
    ("directory", "said"),
    [
        ("3d", "SKY-E201 no package can be called '3d'"),
        ("class", "SKY-E201 no package can be called 'class'"),
        ("a;b", "SKY-E201 no package can be called 'a;b'"),
        ("../escape/é", "SKY-E201 no package can be called"),
        ("Skyband", "SKY-E201 there is a package called 'skyband' already"),
        ("json", "SKY-E201 there is a package called 'json' already"),
        ("full", "SKY-E202"),
        ("full/file/deeper", "SKY-E203"),
    ],
)
def test_a_directory_that_will_not_do_is_refused_and_left_alone(directory: str, said: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["init", "--plugin", str(tmp_path / directory)]) == 2
    assert said in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "full" / "file").read_text() == "mine"
