"""Every slow test is in a group, and the record says when each group passed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import slow_groups
from tests.slow_groups import OLD, Group, age, read, report, run, write

MARKED = re.compile(r"mark\.(slow|chaos)\b")


def test_every_file_with_slow_tests_is_in_a_group(root: Path) -> None:
    """Those of Airflow need its environment: their group is a target of make."""
    named = {word for group in read() for word in group.command if word.endswith(".py")}
    marked = {str(p.relative_to(root)) for p in (root / "tests").rglob("test_*.py") if MARKED.search(p.read_text(encoding="utf-8"))}
    marked -= {str(Path(__file__).relative_to(root))}
    assert {m for m in marked - named if not m.startswith("tests/airflow/")} == set()
    assert all((root / name).exists() for name in named)
    assert any(group.command == ("make", "airflow-test") for group in read())


def test_commands_can_be_run(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for group in read():
        first, *rest = group.words()[1 if group.command[0] == "make" else 2 :]
        assert f"\n{first}:" in makefile if group.command[0] == "make" else importlib.util.find_spec(first), group.name
        assert group.what and all(rest)


def test_the_record_is_what_the_command_writes(tmp_path: Path) -> None:
    write(read(), tmp_path / "record.toml")
    assert (tmp_path / "record.toml").read_text(encoding="utf-8") == slow_groups.RECORD.read_text(encoding="utf-8")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with 52 commits, and a record with a group that passes and one that fails."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    write([Group("good", "passes", ("platform",)), Group("bad", "fails", ("there.is.no.such.module",))], tmp_path / "record.toml")
    subprocess.run([*git, "add", "."], cwd=tmp_path, check=True)
    for n in range(OLD + 2):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(n)], cwd=tmp_path, check=True)
    return tmp_path


def commit_of(root: Path, name: str) -> str:
    return subprocess.run(["git", "rev-parse", name], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def test_groups_that_have_not_passed_lately_are_named(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    good, bad = read(repository / "record.toml")
    assert age(good, repository) is None
    lately = replace(good, commit=commit_of(repository, f"HEAD~{OLD}"), day="2026-11-01")
    before = replace(bad, commit=commit_of(repository, f"HEAD~{OLD + 1}"), day="2026-10-01")
    assert (age(lately, repository), age(before, repository)) == (OLD, OLD + 1)
    text = report([lately, before, replace(good, name="other", commit="0" * 12)], repository)
    assert "2 of 3 groups" in text and "bad passed last 51 commits ago, on 2026-10-01" in text
    assert "other has never passed on this branch" in text and "good" not in text
    assert report([lately], repository) == ""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert report([good], elsewhere) == ""


def test_a_group_that_passes_is_recorded(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = repository / "record.toml"
    assert run("good", record, repository) == 0
    good, bad = read(record)
    assert age(good, repository) == 0 and good.day and bad.commit == ""
    assert run("bad", record, repository) != 0
    assert read(record) == [good, bad]
    (repository / "other.py").write_text("", encoding="utf-8")
    assert run("good", record, repository) == 2 and run("none", record, repository) == 2
    said = capfd.readouterr().err
    assert "commit or stash your changes first" in said and "no group none: good, bad" in said
    assert sys.executable in good.words()
