"""Run the cells of docs/skyband.ipynb, in order, as one program in its own process. docs/reference/python.md describes the API."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skyband

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def cells() -> list[str]:
    """The cells of code, without what notebooks have beyond Python."""
    notebook = json.loads((ROOT / "docs" / "skyband.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


@pytest.mark.spark
@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    env = {**os.environ, "SKYBAND_MASTER": "local[2]"}
    program = "\n\n".join(cells())
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKY-E110" in done.stdout and "verified: no difference found" in done.stdout
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr, done.stderr


def test_the_notebook_holds_no_output_and_is_plain_python() -> None:
    notebook = json.loads((ROOT / "docs" / "skyband.ipynb").read_text(encoding="utf-8"))
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in notebook["cells"] if c["cell_type"] == "code")
    for n, cell in enumerate(cells()):
        compile(cell, f"cell {n}", "exec")


def test_the_page_has_every_function_with_its_arguments() -> None:
    cells = [row.split("|")[1] for row in PAGE.splitlines() if row.startswith("| `")]
    listed = {m[2]: (m[1], m[3]) for cell in cells for m in re.finditer(r"`(skyband|job)\.(\w+)(?:\((.*?)\))?`", cell)}
    public = {n for n in vars(skyband.Job) if not n.startswith("_")} | {"load", "validate", "path"}
    assert set(listed) == public
    for name, (of, arguments) in listed.items():
        function = getattr(skyband if of == "skyband" else skyband.Job, name, None)
        if inspect.isfunction(function) and arguments != "...":
            taken = [
                f"{p.name}={p.default!r}" if p.default is not p.empty else p.name for p in inspect.signature(function).parameters.values()
            ]
            assert [a for a in re.split(r", (?=\w+)", arguments or "") if a] == [a for a in taken if a != "self"], name
