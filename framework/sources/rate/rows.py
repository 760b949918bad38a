"""How many rows that are made up a job has taken, and when the first of them was. Imports no Spark."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.logs import last_batch, offset


def taken(checkpoint: Path) -> int:
    """How many rows the batches that are done have had. Raises SkybandError SKY-E303 if the checkpoint cannot be read."""
    return max(0, offset(checkpoint, last_batch(checkpoint / "commits"), name="offset"))


def start_micros(source: SourceNode) -> int:
    """The instant of the first row, in microseconds since 1970."""
    at = instant(dict(source.options)["start"])
    if at is None:
        raise SkybandError("SKY-E900", "a plan with a start that is no instant")
    return int(at.timestamp()) * 1_000_000 + at.microsecond


def instant(text: str) -> datetime | None:
    """What ``start`` says, None if that is no instant in UTC from 1970 to 2100."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.utcoffset() is not None and not at.utcoffset() and 1970 <= at.year <= 2100 else None
