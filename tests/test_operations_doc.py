"""The tables of the reference pages against the code."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

from skyband.framework.base.errors import CODES
from skyband.framework.quality.rejections import TOO_MANY
from skyband.framework.streaming.spark.stop_signal import SIGNALLED, SIGNALS
from skyband.jobs.reading import verify
from skyband.jobs.running import run

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("error-codes", "environment-variables", "run-output")
DOC = "\n".join((ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)

SET_BY_SPARK = {
    "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_PATH",
    "SPARK_BUFFER_SIZE", "SPARK_PREFER_IPV6",
}  # fmt: skip
"""Variables by which Spark tells its Python workers how to connect; no user sets them."""


def first_cells(heading: str) -> list[str]:
    """Return the first column of the first table under a heading."""
    section = DOC.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 2 and all(len(row) == len(rows[0]) for row in rows[2:])
    assert all(cell.strip() for row in rows[2:] for cell in row)
    return [row[0].strip() for row in rows[2:]]


def source() -> str:
    """Return all code of the command."""
    files = [p for part in ("framework", "jobs", "operators") for p in sorted((ROOT / part).rglob("*.py"))]
    return "\n".join(p.read_text(encoding="utf-8") for p in files)


def test_every_variable_that_the_code_knows_is_listed() -> None:
    listed = {name for cell in first_cells("Environment variables") for name in re.findall(r"`(\w+)`", cell)}
    rich = {"NO_COLOR"}
    known = set(re.findall(r"[\"'](SKYBAND_[A-Z_]+)[\"']", source())) | variables_read() | rich
    assert listed == known - SET_BY_SPARK


def variables_read() -> set[str]:
    """Return the environment variables that the code reads by name."""
    names = set()
    files = [p for part in ("edge", "framework", "jobs", "operators", "airflow_dags") for p in (ROOT / part).rglob("*.py")]
    for node in (n for p in files for n in ast.walk(ast.parse(p.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Call) and re.fullmatch(r"os\.(environ\.\w+|getenv)", ast.unparse(node.func)):
            names |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ" and isinstance(node.ctx, ast.Load):
            names |= {node.slice.value} if isinstance(node.slice, ast.Constant) else set()
    return {str(name) for name in names}


def test_every_exit_code_is_listed() -> None:
    assert [int(c) for c in first_cells("Exit codes")] == [0, 1, 2, 3, TOO_MANY, *(SIGNALLED + s for s in SIGNALS)]


def test_every_code_of_running_and_of_tables_is_listed() -> None:
    assert first_cells("Codes of a failed run") == [
        c
        for c in CODES
        if c.startswith(
            (
                "SKY-E207",
                "SKY-E208",
                "SKY-E209",
                "SKY-E3",
                "SKY-E4",
                "SKY-E502",
                "SKY-E506",
                "SKY-E51",
                "SKY-E58",
                "SKY-E59",
                "SKY-E61",
                "SKY-E62",
                "SKY-E63",
                "SKY-E64",
                "SKY-E65",
                "SKY-E67",
                "SKY-E68",
                "SKY-E660",
                "SKY-E661",
                "SKY-E7",
                "SKY-E9",
            )
        )
    ]


def test_every_event_and_field_of_json_lines_is_listed() -> None:
    (events,) = [line for line in DOC.splitlines() if line.startswith("| `event` |")]
    calls = re.findall(r"\.(?:tell\(\s*\"\w+\",|report\()\s*\"(\w+)\"", source())
    assert set(re.findall(r"`(\w+)`", events)) - {"event", "verify"} == set(calls)
    fields = {name for cell in first_cells("Logs") for name in re.findall(r"`(\w+)`", cell)}
    assert {"time", "level", "job", "event", "message", "batch", "rows", "late", "rejected", "changes", "seconds", "code", "hint"} <= fields


def test_libraries_have_stderr_to_themselves_while_a_job_runs() -> None:
    """What is printed to stderr there goes to Spark's log: a job's own words go through ``framework/console/lines.py``."""
    printing = re.compile(r"file=sys\.stderr|sys\.stderr\.write")
    mine = [ROOT / "jobs" / f"{name}.py" for name in ("running/run", "reading/verify", "authoring/demo")]
    files = [p for p in (*(ROOT / "framework").rglob("*.py"), *mine) if printing.search(p.read_text(encoding="utf-8"))]
    assert [str(p.relative_to(ROOT)) for p in files] == []


def test_the_readmes_option_is_the_commands() -> None:
    (option, choice), *_ = re.findall(r"`(--log-format) (\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    subparsers = argparse.ArgumentParser().add_subparsers()
    for command in (run, verify):
        command.add_parser(subparsers)
    for name in ("run", "verify"):
        assert subparsers.choices[name].parse_args(["spec.yaml", option, choice]).log_format == choice
