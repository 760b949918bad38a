"""The number of generated rows that a job has taken, and the time of the first row. Imports no Spark."""

from __future__ import annotations

from datetime import datetime

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.logs import last_batch, offset
from skyband.framework.storage.location import Location


def taken(checkpoint: Location) -> int:
    """Return the number of rows of the finished batches. Raises SkybandError SKY-E303 if the checkpoint cannot be read."""
    return max(0, offset(checkpoint, last_batch(checkpoint / "commits"), name="offset"))


def start_micros(source: SourceNode) -> int:
    """Return the instant of the first row, in microseconds since 1970."""
    at = instant(dict(source.options)["start"])
    if at is None:
        raise SkybandError("SKY-E900", "a plan with a start that is no instant")
    return int(at.timestamp()) * 1_000_000 + at.microsecond


def instant(text: str) -> datetime | None:
    """Return the instant ``start``, None if it is no instant in UTC from 1970 to 2100."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.utcoffset() is not None and not at.utcoffset() and 1970 <= at.year <= 2100 else None
