"""Small jobs over good files, some of which are lost or damaged: what the tests of losses share."""

from __future__ import annotations

import os
from pathlib import Path

from tests.spark.cuts import stream
from tests.spark.jobs import changes, sorted_rows, table, write_file, write_spec

QUERIES = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
ROWS = stream(21, 160)


def part(i: int, n: int = 4) -> list[list[object]]:
    size = len(ROWS) // n
    return ROWS[i * size : (i + 1) * size]


def job(directory: Path, files: int = 4, reject: bool = False, max_files: int = 2) -> Path:
    """A job over ``files`` good files, not run yet."""
    directory.mkdir(exist_ok=True)
    for i in range(files):
        write_file(directory, f"{2 * i}.csv", part(i, files), at=20 * i)
    spec = write_spec(directory, queries=QUERIES, max_files=max_files)
    if reject:
        spec.write_text(spec.read_text().replace("format: csv", "format: csv\n  on_bad_file: reject"))
    return spec


def landed(directory: Path, name: str, content: bytes, at: int) -> None:
    (directory / "in" / name).write_bytes(content)
    os.utime(directory / "in" / name, (1_600_000_000 + at, 1_600_000_000 + at))


def assert_as_good(directory: Path, good: Path) -> None:
    assert changes(directory, "far5").equals(changes(good, "far5"))
    for name in ("far5", "far5_now"):
        assert sorted_rows(table(directory, name)) == sorted_rows(table(good, name)), name
