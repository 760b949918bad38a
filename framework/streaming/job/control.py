"""Rows of the control source: each is a JSON file with ``at``, the instant to which it moves the watermark. Does not import Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from skyband.framework.base.plain_json import number
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.storage import durable

BEFORE_ALL: Final = "1970-01-01T00:00:00.000+00:00"
"""An ``at`` that moves no watermark."""
_FLUSH: Final = "flush-"


def order(path: Path, **row: str | bool) -> None:
    """Write a row, unless it is there."""
    if not path.exists():
        with raising_system_failures(path):
            durable.replace(path, json.dumps(row) + "\n")


def order_flush(control: Path, batch: int) -> None:
    """Write a row on which buckets send what they have deferred, once after a batch. Remove such rows that were read long ago."""
    for path in control.glob(f"{_FLUSH}*.json"):
        if (earlier := number(path.stem.removeprefix(_FLUSH))) is not None and earlier < batch - 2:
            path.unlink(missing_ok=True)
    order(control / f"{_FLUSH}{batch}.json", at=BEFORE_ALL, flush=True)
