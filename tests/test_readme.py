"""Blocks of the pages: every YAML block is a valid spec; commands and SQL run after a small demo, in the pages' order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from deltalake import DeltaTable

from skyband.framework.settings.spark import CONFIG, NAME, read
from skyband.framework.spec.load import validate_text
from skyband.framework.tables.sql.statements import Statements
from skyband.jobs.cli import COMMANDS
from skyband.jobs.spec import load_plan

ROOT = Path(__file__).resolve().parent.parent
FIRST = "docs/tutorials/first-job.md"
PAGES = (
    "README.md", FIRST,
    *(f"docs/how-to/{name}.md" for name in (
        "write-a-spec", "top-k-and-thresholds", "pairs", "skylines", "similar-sets", "loyalty", "test-a-spec", "read-files",
        "follow-a-delta-table", "kafka", "generate-rows",
    )),
)  # fmt: skip
"""In the order of reading."""
COOKBOOK = "docs/how-to/query-results.md"
"""Its SQL is run by `skyband sql`."""
PYTHON = "docs/reference/python.md"
EVERY_PAGE = ("README.md", *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md")))
OTHERS = tuple(page for page in EVERY_PAGE if page not in (*PAGES, COOKBOOK, PYTHON))
"""Pages whose commands run after those."""
ELSEWHERE = {"ssh", "pip", "pipx", "docker", "airflow"}
"""Commands that are not run here: they belong to another machine, or need a wheel or an image."""
DAYS = 14


@dataclass(frozen=True)
class Block:
    """A fenced block: its info string, text, page and line there."""

    info: str
    text: str
    page: str
    line: int

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def shows_output_of(self, command: Block) -> bool:
        """Return True if this is a block of text directly after the command."""
        return self.info == "text" and self.page == command.page and self.line == command.line + command.text.count("\n") + 3


def blocks(pages: Sequence[str] = PAGES) -> list[Block]:
    found = []
    for page in pages:
        open_at, lines = None, (ROOT / page).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if line.startswith("```"):
                if open_at is None:
                    open_at = number
                else:
                    found.append(Block(lines[open_at][3:].strip(), "\n".join(lines[open_at + 1 : number]) + "\n", page, open_at + 2))
                    open_at = None
        assert open_at is None, f"a block of {page} is not closed"
    return found


def merged(base: Any, part: Any) -> Any:
    """Return ``base`` with ``part`` merged into it; values other than mappings are replaced."""
    if isinstance(base, Mapping) and isinstance(part, Mapping):
        return {**base, **{k: merged(base.get(k), v) for k, v in part.items()}}
    return part


SPECS = [b for b in blocks((*PAGES, *OTHERS)) if b.info == "yaml"]
DEMO = next(b for b in SPECS if b.page == FIRST)


def test_blocks_have_a_known_kind() -> None:
    assert {b.info for b in blocks(EVERY_PAGE)} <= {"yaml", "sh", "sh fails", "sql", "text", "console", "python", "toml"}


def test_toml_blocks_are_valid_spark_settings(tmp_path: Path) -> None:
    found = [b for b in blocks(EVERY_PAGE) if b.info == "toml"]
    for block in found:
        (tmp_path / NAME).write_text(block.text)
        master, conf = read({CONFIG: str(tmp_path / NAME)}, "prod")
        assert master == "spark://head:7077" and conf["spark.executor.memory"] == "8g" and conf["spark.driver.memory"] == "4g"
    assert found


@pytest.mark.parametrize("block", SPECS, ids=str)
def test_yaml_blocks_are_valid_specs(block: Block) -> None:
    env = {"LANDING": "in", "WAREHOUSE": "out"}
    base = yaml.safe_load(DEMO.text)
    text = block.text if block.text.startswith("job:") else yaml.safe_dump(merged(base, yaml.safe_load(block.text)), sort_keys=False)
    # Tables of queries are named from the directory of the spec.
    job, errors = validate_text(text, env, str(ROOT / "specs" / f"line-{block.line}.yaml"))
    assert not errors, "\n\n".join(e.render() for e in errors)
    assert job is not None


def test_the_tutorials_spec_is_the_demos() -> None:
    whole = yaml.safe_load((ROOT / "specs" / "flights.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(DEMO.text) == {name: value for name, value in whole.items() if name != "tests"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for block in blocks(EVERY_PAGE):
        if block.info == "console":
            for command in re.findall(r"^\$ (.*?)\s*(?:#.*)?$", block.text, re.MULTILINE):
                first, *rest = re.sub(r"^(SKYBAND_[A-Z_]+=\S+ )+", "", command).split()
                known = targets if first == "make" else {c.replace("_", "-") for c in COMMANDS} if first == "skyband" else set()
                assert first in ELSEWHERE or (rest and rest[0] in known) or (ROOT / command).exists(), command


@pytest.mark.spark
@pytest.mark.parametrize("every_page", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_commands_and_sql_run_after_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_page: bool) -> None:
    """Those of the README, the first job and the cookbook; with ``every_page`` those of all pages."""
    home = tmp_path / "a checkout"
    home.mkdir()
    shutil.copytree(ROOT / "specs", home / "specs")
    bin_ = Path(sys.executable).parent
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "activate").write_text(f'export PATH="{bin_}:$PATH"\n')
    variables, script = tmp_path / "variables", tmp_path / "block"
    variables.write_text("")

    def sh(text: str, where: object, fails: bool = False) -> str:
        script.write_text(f'set -eu\n. "{variables}"\n{text}\nexport -p > "{variables}"\n')
        done = subprocess.run(
            ["sh", str(script)],
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, "SKYBAND_MASTER": "local[2]"},
        )
        said = f"{where}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert (done.returncode == 2) if fails else (done.returncode == 0), said
        assert "Traceback" not in done.stderr and "SKY-E9" not in done.stderr, said
        return done.stdout + done.stderr

    shown = sh(f'"{bin_}/skyband" demo --days {DAYS}', "demo")
    assert "minutes apart" in shown and "parted_now" in shown

    tables = home / "build" / "demo" / "tables" / "flights"
    sql, ran = duckdb.connect(), set[str]()
    pages = blocks(PAGES if every_page else PAGES[:2])
    for block, following in zip(pages, [*pages[1:], None], strict=True):
        if block.info.startswith("sh"):
            shown_there = following is not None and following.shows_output_of(block)
            # The first job repeats commands of the README. They run again where their output is shown, or if every page is read.
            if not every_page and not shown_there and ran.issuperset(block.text.splitlines()) and not block.text.startswith(". "):
                continue
            ran.update(block.text.splitlines())
            said = sh(block.text, block, fails=block.info == "sh fails")
            if following is not None and shown_there:
                assert following.text.strip() in said, f"{following} is not the output of {block}:\n{said}"
            assert said or block.text.startswith(". .venv") or " > " in block.text, f"{block} says nothing"
        elif block.info == "sql":
            for path in tables.iterdir():
                if (path / "_delta_log").is_dir():
                    sql.register(path.name, DeltaTable(str(path)).to_pyarrow_table())
            assert sql.execute(block.text).fetchall(), f"{block} gives no row"

    monkeypatch.setenv("LANDING", str(home / "build" / "demo" / "landing"))
    monkeypatch.setenv("WAREHOUSE", str(tables.parent))
    statements = Statements(load_plan(str(home / "specs" / "flights.yaml")))
    for block in blocks((COOKBOOK, *OTHERS) if every_page else (COOKBOOK,)):
        if block.info == "sh":
            sh(block.text, block)
        elif block.info == "sql":
            assert statements.ask(block.text).num_rows, f"{block} gives no row"
        elif block.info == "python":
            done = subprocess.run([sys.executable, "-c", block.text], cwd=home, capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0 and done.stdout, f"{block}: {done.stderr}"

    program = "\n".join(b.text for b in blocks((PYTHON,)) if b.info == "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0 and "SKY-E106" in done.stdout, f"{PYTHON}: {done.stdout}\n{done.stderr}"

    # The statement the demo prints, as DuckDB reads it (its Delta extension is not part of the package, so the table is handed over).
    statement = re.search(r"select rank.*?;", shown, re.DOTALL)
    assert statement is not None
    assert sql.execute(re.sub(r"delta_scan\('.*?'\)", "parted_now", statement.group(0))).fetchall()
