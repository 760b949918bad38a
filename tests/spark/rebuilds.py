"""Jobs that are rebuilt, by either engine: what the tests of rebuilds share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.streaming.job.generations import generation_of
from skyband.jobs import cli
from tests.spark.cuts import stream
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import by_the_local_engine, sorted_rows, table, write_file, write_spec

QUERIES = "  far5: {{type: topk_pairs, scoring: far, k: {k}, carry: [x]}}\n  best: {{type: topk, scoring: near_x, k: 3}}\n"
SCORING = "  near_x: {expression: x, direction: max}"
ROWS = stream(22, 200)


def job(directory: Path, files: Sequence[int] = (0, 1, 2, 3), k: int = 5, engine: str = "spark") -> Path:
    """A job over some of five files, not run yet."""
    directory.mkdir(exist_ok=True)
    for i in files:
        write_file(directory, f"{i}.csv", ROWS[40 * i : 40 * (i + 1)], at=20 * i)
    spec = write_spec(directory, queries=QUERIES.format(k=k), scoring=SCORING, max_files=1, partition=True)
    if engine == "local":
        by_the_local_engine(spec)
    return spec


def rebuild(
    spec: Path, *arguments: str, failpoint: str | None = None, command: str = "rebuild", tasks: int = 2
) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "SKYBAND_FAILPOINT"}
    env |= {"SKYBAND_MASTER": "local[2]", "SKYBAND_SHUFFLE_PARTITIONS": str(tasks)} | (
        {"SKYBAND_FAILPOINT": failpoint} if failpoint else {}
    )
    words = [sys.executable, "-m", "skyband.jobs.cli", command, str(spec), *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env=env, check=False, start_new_session=True)


def said_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command says in this process."""
    assert cli.main([*words]) == code, capsys.readouterr()
    return "".join(capsys.readouterr())


def runs(directory: Path) -> list[tuple[Any, ...]]:
    return [(r["command"], r["status"]) for r in sorted(table(directory, "job_runs").to_pylist(), key=lambda r: r["run_id"])]


def assert_rebuilt_and_goes_on(finished: Path, edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited spec is rebuilt, and the job goes on, and back."""
    spec, fresh, out = str(edited / "spec.yaml"), str(finished / "fresh" / "spec.yaml"), edited / "out"
    refused = said_of(capsys, "run", spec, code=2)
    assert "SKY-E150 queries.far5.k was 5, now 7" in refused and "skyband rebuild" in refused
    before, told = generation_of(out / "_skyband"), edited / "outcome.json"
    former = {name: sorted_rows(table(edited, name)) for name in ("far5", "far5_changes", "best_now", "runs", "rejected")}
    assert "swapped in" in said_of(capsys, "rebuild", spec, "--finish", "--outcome", str(told))
    assert generation_of(out / "_skyband") != before == generation_of(out / "_skyband" / "old" / "_skyband")
    old = edited / "of_before"
    old.mkdir()
    (old / "out").symlink_to(out / "_skyband" / "old")
    assert {name: sorted_rows(table(old, name)) for name in former} == former
    assert_equal_tables(edited, finished / "fresh")
    # Nothing in the checkpoint still knows the place where it was built.
    assert not [p for p in (out / "_skyband" / "checkpoint").rglob("*") if p.is_file() and b"/_skyband/next/" in p.read_bytes()]
    outcome = json.loads(told.read_text())
    assert outcome["tables"]["far5_now"]["from"] is None and outcome["tables"]["far5_now"]["to"] >= 0 and outcome["status"] == "done"
    assert runs(edited) == [("run", "done"), ("run", "refused"), ("rebuild", "done")]
    said_of(capsys, "verify", spec, "--instants", "3")
    # The job goes on from there, finish after finish, as the fresh one does.
    for directory, path in ((edited, spec), (finished / "fresh", fresh)):
        write_file(directory, "4.csv", ROWS[160:], at=80)
        said_of(capsys, "run", path, "--finish")
    assert_equal_tables(edited, finished / "fresh")
    said_of(capsys, "verify", spec, "--instants", "3")
    # And back: the former generation is whole, and the former spec goes on with it.
    said_of(capsys, "rebuild", spec, "--undo")
    assert generation_of(out / "_skyband") == before and {n: sorted_rows(table(edited, n)) for n in former} == former
    (edited / "spec.yaml").write_text((edited / "spec.yaml").read_text().replace("k: 7", "k: 5"))
    said_of(capsys, "run", spec, "--finish")
    said_of(capsys, "verify", spec, "--instants", "3")
    assert "removed" in said_of(capsys, "rebuild", spec, "--drop-old") and not (out / "_skyband" / "old").exists()
    said_of(capsys, "reset", spec, "--yes")
    assert sorted(p.name for p in out.rglob("*") if p.is_file()) == ["engine.lock", "lock"]
