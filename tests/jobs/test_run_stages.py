"""A run is a list of stages: the command imports little, and loading a spec only reads."""

from __future__ import annotations

import ast
import fcntl
from pathlib import Path

from skyband.jobs.running import run
from skyband.jobs.spec import load_plan
from tests.spark.jobs import write_spec


def test_the_command_imports_at_most_25_names() -> None:
    tree = ast.parse(Path(run.__file__).read_text(encoding="utf-8"))
    assert sum(len(node.names) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)) <= 25


def test_loading_a_spec_takes_no_lock_and_completes_no_swap(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    home = tmp_path / "out" / "_skyband"
    home.mkdir(parents=True)
    (home / "swap.json").write_text('{"from": "next", "out": [[], []], "in": [[], []], "to": "old"}')
    (home / "next").mkdir()
    (home / "job.json").write_text("{}")
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert load_plan(str(spec)).sink == str(tmp_path / "out")
    (home / "lock").unlink()
    after = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*") if p != home)
    assert after == [b for b in before if b[0] != home]
