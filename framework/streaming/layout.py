"""What a job keeps beside its tables: ``<sink>/_skyband/`` with the checkpoint, the control source and ``job.json``."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from skyband.framework.errors import SkybandError, SpecErrors
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import Plan


@dataclass(slots=True)
class JobFile:
    """``job.json``: what ties the tables, the checkpoint and the spec together.

    ``generation`` names this checkpoint in every commit of the tables; ``finishes`` are F's of past finishes in microseconds.
    """

    job: str
    generation: str
    fingerprint: dict[str, Any]
    partitions: int
    header: list[str] | None
    finishes: list[int] = field(default_factory=list)


class Layout:
    """Paths and the job file of one sink (a local folder, or anything the engine reaches under ``file:``)."""

    def __init__(self, sink: str) -> None:
        local = sink.removeprefix("file://")
        if "://" in local:
            raise SkybandError(
                "SKY-E203",
                f"the sink {sink.split('://', maxsplit=1)[0]}://... is not a folder this version can keep its job file in",
                hint="use a path on a mounted file system",
            )
        self.root = Path(local).absolute()
        self.home = self.root / "_skyband"
        self.checkpoint = self.home / "checkpoint"
        self.control = self.home / "control"
        self.file = self.home / "job.json"

    def load(self) -> JobFile | None:
        """The job file, or None before the first run."""
        if not self.file.exists():
            return None
        return JobFile(**json.loads(self.file.read_text()))

    def create(self, job: str, fingerprint: dict[str, Any], partitions: int, header: list[str] | None) -> JobFile:
        """The job file of a first run."""
        self.control.mkdir(parents=True, exist_ok=True)
        made = JobFile(job, uuid.uuid4().hex[:12], fingerprint, partitions, header)
        self.save(made)
        return made

    def save(self, job: JobFile) -> None:
        """Writes the job file in one step (a reader never sees half of it)."""
        _replace(self.file, json.dumps(asdict(job), indent=1, sort_keys=True))

    def order_finish(self, at_iso: str, frontier: int) -> None:
        """Puts the far-dated row of a finish into the control source; a second call with the same F changes nothing."""
        target = self.control / f"finish-{frontier}.json"
        if not target.exists():
            _replace(target, json.dumps({"at": at_iso}) + "\n")


def fitting_job(plan: Plan, layout: Layout) -> JobFile | None:
    """The job file of earlier runs, None before the first.

    Raises SpecErrors of SKY-E150 if the spec no longer fits their state, SkybandError SKY-E303 if tables and checkpoint are not
    of one piece: going on would write rows twice or not at all.
    """
    job = layout.load()
    written = any((layout.root / "runs").glob("*.parquet"))
    if written and (job is None or not (layout.checkpoint / "offsets").is_dir()):
        missing = layout.file if job is None else layout.checkpoint
        hint = f"restore {missing}, or delete {layout.root} to start again from the source"
        raise SkybandError("SKY-E303", f"{layout.root} holds tables of earlier runs but not their {missing.name}", hint=hint)
    differences = compare(job.fingerprint, fingerprint(plan)) if job is not None else []
    if differences:
        hint = f"run the changed spec into a new sink path, or delete {layout.root} to start again from the source"
        raise SpecErrors([SkybandError("SKY-E150", d, hint=hint) for d in differences])
    return job


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name the engine's file source skips until it is complete.
    temporary = path.with_name(f"_{path.name}.{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)
