"""A checkpoint as Spark leaves it, as far as it is looked at without Spark."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def make(home: Path, batches: int = 1, planned: int | None = None, partitions: int = 2, files: int | None = None) -> None:
    """Below ``home`` (``_skyband``): ``batches`` done, more ``planned``; one source file a batch, logged as number = batch."""
    checkpoint = home / "checkpoint"
    write(checkpoint / "metadata", '{"id":"00000000-0000-0000-0000-000000000000"}')
    for batch in range(planned if planned is not None else batches):
        plan(home, batch)
    for batch in range(batches):
        write(checkpoint / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')
    write(checkpoint / "state" / "0" / "_metadata" / "v2" / "0", "v2\n{}")
    write(checkpoint / "state" / "0" / "_stateSchema" / "default" / "0_x", "schema")
    for partition in range(partitions):
        directory = checkpoint / "state" / "0" / str(partition)
        for version in range(1, batches + 1):
            write(directory / f"{version}.changelog", "x")
        write(directory / "SSTs" / "a.sst", "12345")
        with zipfile.ZipFile(directory / "1.zip", "w") as packed:
            packed.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": "a.sst", "sizeBytes": 5}]}))
    (home / "control").mkdir(parents=True, exist_ok=True)


def plan(home: Path, batch: int) -> None:
    """One more batch that has been planned: its offsets and its source file."""
    checkpoint = home / "checkpoint"
    write(checkpoint / "offsets" / str(batch), f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}\n-')
    taken = home.parent.parent / "in" / f"{batch}.csv"
    modified = taken.stat().st_mtime_ns // 1_000_000 if taken.exists() else 0
    line = json.dumps({"path": taken.as_uri(), "timestamp": modified, "batchId": batch}, separators=(",", ":"))
    write(checkpoint / "sources" / "0" / str(batch), f"v1\n{line}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
