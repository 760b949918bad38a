"""Small jobs of groups for tests: a source of rows with a key, numbers and a side, and random rows for it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
_HEAD = """\
job: %s
source:
  format: csv
  path: in
  schema: {id: bigint, ts: timestamp, grp: string, x: double, y: double, side: string}
  id: [id]
  event_time: {column: ts, watermark: 5 minutes}
  partition_by: [grp]
  on_duplicate: %s
window: {time: 20 minutes}
run: {buckets: 2}
"""


def spec_of(job: str, queries: str, on_duplicate: str = "reject") -> str:
    """A spec with ``queries``, the text of the section and of others before it."""
    return f"{_HEAD % (job, on_duplicate)}{queries}sink: {{path: out}}\n"


def instants(rng: random.Random, n: int, seconds: Sequence[int] = (0, 0, 20, 60, 90)) -> Iterator[datetime]:
    """Instants in order; those of two rows after each other are one of ``seconds`` apart."""
    at = START
    for _ in range(n):
        at += timedelta(seconds=rng.choice(seconds))
        yield at


def stamp(at: datetime) -> str:
    """An instant as rows of CSV have it."""
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"
