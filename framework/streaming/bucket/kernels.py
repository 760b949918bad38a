"""Load a job's kernels before its first rows arrive, and count those that are compiled during a run, by the files in Numba's caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyband.operators.jit import HAVE_NUMBA, cache_directory

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.streaming.rows.config import HostConfig

_ROWS: Final = 3


def load_kernels(config: HostConfig) -> int:
    """Takes a few made-up rows through a bucket of ``config``, for nobody, so that its kernels are loaded, or compiled; how many it took.

    None where an operator is not Skyband's own: what that would make of made-up rows is not known.
    """
    from skyband.framework.base.messages import ACCEPTED, COUNTS, Tally
    from skyband.framework.streaming.bucket.bucket import Bucket
    from skyband.framework.streaming.rows.blocks import table_bytes

    if not all(type(node.operator).__module__.startswith("skyband.operators.") for node in config.operators):
        return 0
    counts = Tally()
    for kind, data in Bucket(config, 0).run([table_bytes(_made_up(config))], 0):
        if kind == COUNTS:
            counts.add(data)
    return counts[ACCEPTED]


def _made_up(config: HostConfig) -> pa.Table:
    """Return distinct rows, the last one late enough that the rows before it are processed."""
    import pyarrow as pa

    late = (config.intake.delay_ms + 2) * 1000
    columns: dict[str, Any] = {}
    for field in config.row_schema():
        values = pa.array([0, 1, late]) if field.name == config.intake.event_time else pa.array(range(_ROWS))
        if pa.types.is_list(field.type):
            columns[field.name] = pa.array([[i, i + 1] for i in range(_ROWS)], field.type)
        elif pa.types.is_date32(field.type):
            columns[field.name] = values.cast(pa.int32()).cast(field.type)
        else:
            columns[field.name] = values.cast(field.type)
    return pa.table(columns)


def compiled_since(instant: float) -> int:
    """Return the number of kernels compiled since ``instant`` (seconds since 1970). O(files of the caches)."""
    if not HAVE_NUMBA:
        return 0
    operators = Path(__file__).resolve().parents[3] / "operators"
    places = {operators, cache_directory(), Path(os.environ.get("NUMBA_CACHE_DIR") or operators)}
    return sum(_newer(file, instant) for place in places for file in place.rglob("*.nbc"))


def _newer(file: Path, instant: float) -> bool:
    try:
        return file.stat().st_mtime >= instant
    except OSError:
        return False
