"""Small jobs whose tables are as runs leave them, made without Spark: one CSV file a batch."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.preview import first_rows
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints

Row = Mapping[str, Any]


def make(spec: Path, batches: Sequence[Sequence[Row] | str], finish: bool = True) -> Plan:
    """Run the job of ``spec`` over ``batches``, each a file below its source, or its text. Tables, job file and log are those of a run."""
    plan = load_plan(str(spec))
    layout = Layout(plan.sink)
    layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))
    job = Rehearsal(plan)
    job._sink = Sink(job.plan, writer_for(plan.sink), "g")
    job._sink.ensure_all()
    directory = Path(str(plan.source.path))
    directory.mkdir(parents=True, exist_ok=True)
    entries, intake = [], Rows(plan.intake)
    for n, batch in enumerate(batches):
        path = directory / f"{n:03}.csv"
        if isinstance(batch, str):
            path.write_text(batch)
        else:
            write(path, batch, [str(f.source_name) for f in plan.source.fields])
        entries.append(json.dumps({"path": path.as_uri(), "timestamp": n + 1, "batchId": n}))
        found = first_rows(plan.source, 10_000, [str(path)])
        job.take(intake.table(found.rows, found.reasons, found.texts))
    if finish:
        job.finish()
    job.tables()
    checkpoints.write(layout.checkpoint / "sources" / "0" / "0", "\n".join(["v1", *entries]))
    return plan


def write(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Write rows as CSV: a row without columns is a text that does not parse."""
    with path.open("w", newline="") as f:
        out = csv.writer(f)
        out.writerow(columns)
        for row in rows:
            out.writerow([row.get(c, "") for c in columns])


def content(directory: Path) -> dict[str, bytes]:
    """Return every file below ``directory``."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}
