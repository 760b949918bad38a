"""Rows of the control source: each is a JSON file with ``at``, the instant to which it moves the watermark. Does not import Spark."""

from __future__ import annotations

import json
from typing import Final

from skyband.framework.base.plain_json import number
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location

BEFORE_ALL: Final = "1970-01-01T00:00:00.000+00:00"
"""An ``at`` that moves no watermark."""
_FLUSH: Final = "flush-"


def order(path: Location, **row: str | bool) -> None:
    """Write a row, unless it is there."""
    if not path.exists():
        with raising_system_failures(path):
            durable.replace(path, json.dumps(row) + "\n")


def order_flush(control: Location, batch: int) -> None:
    """Write a row on which buckets send what they have deferred, once after a batch."""
    order(_flush(control, batch), at=BEFORE_ALL, flush=True)


def drop_flush(control: Location, batch: int) -> None:
    """Remove the row that was ordered after a batch. Only for one that no unfinished batch, and no query that has begun, has to read."""
    _flush(control, batch).unlink(missing_ok=True)


def drop_flushes(control: Location, before: int) -> None:
    """Remove the rows that were ordered ``before`` a batch. Only while no query runs, and none has left an unfinished batch."""
    for path in control.glob(f"{_FLUSH}*.json"):
        if (batch := number(path.stem.removeprefix(_FLUSH))) is not None and batch < before:
            drop_flush(control, batch)


def _flush(control: Location, batch: int) -> Location:
    return control / f"{_FLUSH}{batch}.json"
