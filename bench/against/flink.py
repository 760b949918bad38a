"""Flink SQL, in an environment of its own that this module creates. Its nearest equivalent of a sliding window is a hopping window.

A hop corresponds to a batch. Input and answers are CSV, which Flink reads and writes without further packages. Each job runs twice, over
the rows that fill a window and over more, and the difference counts: so the figures exclude a job's start and the windows open at its end.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from bench.against.ours import Exact
from bench.against.payments import HOUR, QUERIES, START, unranked
from bench.pipeline import tree_cpu
from skyband.framework.base.java import find_java_home

FLINK = "apache-flink==2.3.0"
"""With its jars 0.9 GB on disk; it runs on Java 17, as Spark does."""
HOME = Path(__file__).resolve().parents[2] / "build" / "venv-flink"
JOB = Path(__file__).with_name("flink_job.py")
SECOND = 1_000_000
ALL_ROWS = "topk, of all rows"
HOPS = {"topk": (30, 3), "topk_pairs": (3,), "skyline": (30, 3)}
"""Hops an hour. For pairs every hop joins the window with itself anew, which thirty times an hour would take as long as all the rest."""
MORE = {("topk", 30): 300, ("topk", 3): 60, ("topk_pairs", 3): 6, ("skyline", 30): 30, ("skyline", 3): 9, (ALL_ROWS, 30): 600}
"""Query and hops an hour -> hops to measure over."""
LIMIT = 600


def run(directory: Path, table: pa.Table, window: int, exact: Mapping[str, Exact]) -> Iterator[dict[str, Any]]:
    """The figures, or one row that says why there are none."""
    missing = _installed()
    if missing:
        yield {"operator": "topk", "params": {"way": "Flink SQL"}, "left_out": missing}
        return
    jobs = [(query, n) for query, ns in HOPS.items() for n in ns] + [(ALL_ROWS, 30)]
    files = {
        rows: _write(table.slice(0, rows), directory / f"flink-{rows}.csv") for rows in {window, *(_rows(window, *job) for job in jobs)}
    }
    jobs_to_run: list[tuple[str, int, str, str]] = [("topk", 1200, str(files[window]), str(directory / "flink-warm"))]
    for form, n in jobs:
        for rows in (window, _rows(window, form, n)):
            jobs_to_run.append(
                (form, 3600 // n, str(files[rows]), str(directory / f"flink-{form.replace(', ', '-').replace(' ', '-')}-{n}-{rows}"))
            )
    stamps = _stamps(jobs_to_run)
    last = next(stamps)
    for i, (form, n) in enumerate(jobs):
        start, cpu0, _ = last
        middle, cpu1, said1 = next(stamps)
        end, cpu2, said2 = last = next(stamps)
        rows = _rows(window, form, n) - window
        seconds, cpu = (end - middle) - (middle - start), (cpu2 - cpu1) - (cpu1 - cpu0)
        failed = next(
            (s for s in (said1, said2) if s != "done"), "" if min(seconds, cpu) > 0 else "too few rows to tell from a job's start"
        )
        if failed:
            yield {"operator": form, "params": {"way": "Flink SQL", "batch": window // n}, "left_out": failed}
            continue
        row = {
            "operator": form, "params": {"way": "Flink SQL", "batch": window // n}, "rows_per_second": rows / seconds,
            "delay": 2 * (window // n) * seconds / rows, "cpu_us_per_row": 1e6 * cpu / rows,
        }  # fmt: skip
        yield row | (_compared(form, n, Path(jobs_to_run[2 * i + 2][3]), exact[form]) if form in QUERIES else {})


def _rows(window: int, form: str, n: int) -> int:
    return window + MORE[form, n] * (window // n)


def _installed() -> str:
    """Makes the environment if it is not there; what went wrong, or nothing."""
    if (HOME / "made").exists() and (HOME / "made").read_text() == FLINK:
        return ""
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True, capture_output=True, text=True)
        pip = [str(HOME / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", FLINK]
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=LIMIT)
    except (OSError, subprocess.SubprocessError) as e:
        said = (getattr(e, "stderr", None) or str(e)).strip().splitlines()
        return f"{FLINK} cannot be installed here: {said[-1] if said else e}"
    (HOME / "made").write_text(FLINK)
    return ""


def _write(table: pa.Table, path: Path) -> Path:
    """As CSV with instants in milliseconds: event time of Flink SQL has no more."""
    at = table["paid_at"].cast(pa.timestamp("ms"), safe=False)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(table.set_column(1, "paid_at", at), path, options)
    return path


def _stamps(jobs: list[tuple[str, int, str, str]]) -> Iterator[tuple[float, float, str]]:
    """(seconds, CPU seconds, what it printed) at the end of each job, one after the other in one Flink process."""
    environment = os.environ | {"JAVA_HOME": str(find_java_home() or ""), "PYTHONPATH": ""}
    command = [str(HOME / "bin" / "python"), str(JOB), json.dumps(jobs)]
    with (
        (HOME / "job.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("job: "):
                yield time.perf_counter(), tree_cpu(), line.removeprefix("job: ").strip()
    while True:
        yield time.perf_counter(), tree_cpu(), f"it ended early, see {HOME / 'job.log'}"


def _compared(query: str, n: int, out: Path, exact: Exact) -> dict[str, Any]:
    """The answers at the ends of whole windows against Skyband's of the instant before, and the changes they do not show."""
    said: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for path in out.glob("part-*"):
        with path.open(newline="") as file:
            for end, *item in csv.reader(file):
                said[int(datetime.fromisoformat(end).replace(tzinfo=UTC).timestamp()) * SECOND].add(tuple(map(int, item)))
    ends = [START + HOUR + i * (HOUR // n) for i in range(MORE[query, n] + 1)]
    answers = [frozenset(said[end]) for end in ends]
    items = [unranked(query, s) for s in answers]
    seen = sum(len(a ^ b) for a, b in itertools.pairwise(items))
    there = exact.changes(ends[0] - 1, ends[-1] - 1)
    return {"changes": there, "missed": there - seen, "same": all(s == exact.answer(end - 1) for s, end in zip(answers, ends, strict=True))}
