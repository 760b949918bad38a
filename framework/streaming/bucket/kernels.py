"""Load a job's kernels before its first rows arrive, and list those that are compiled during a run, by the files of their cache."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skyband.operators import kernel_files
from skyband.operators.jit import HAVE_NUMBA, kernels_directory
from skyband.operators.kernel_files import Compiled

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.streaming.rows.config import HostConfig

_ROWS: Final = 3


def load_kernels(config: HostConfig) -> int:
    """Take a few made-up rows through a bucket of ``config``, so that its kernels are loaded or compiled. Return how many it accepted.

    Do nothing and return 0 if an operator is not Skyband's own: what that would make of made-up rows is not known.
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
            numbers = pa.array([[i, i + 1] for i in range(_ROWS)], pa.list_(pa.int64()))
            columns[field.name] = numbers.cast(field.type)
        elif pa.types.is_date32(field.type):
            columns[field.name] = values.cast(pa.int32()).cast(field.type)
        elif pa.types.is_decimal(field.type):  # smallest units: whole numbers may have too many digits
            columns[field.name] = pa.array([Decimal(i).scaleb(-field.type.scale) for i in range(_ROWS)], field.type)
        else:
            columns[field.name] = values.cast(field.type)
    return pa.table(columns)


def end_record() -> None:
    """End recording what this process compiles, and remove the record of it and of its workers."""
    for directory in kernels_directory().glob("*"):
        kernel_files.end_record(directory)
    kernel_files.stop_recording()


class Compilations(NamedTuple):
    """How many kernels were compiled since an instant, the seconds in which some process compiled one of them, and those that are being
    compiled, each for how many seconds so far.
    """

    finished: int
    seconds: float
    running: tuple[Compiled, ...]


def compiled_since(instant: float) -> Compilations:
    """Return what this process and its workers compiled since ``instant`` (seconds since 1970). O(files of the cache)."""
    if not HAVE_NUMBA:
        return Compilations(0, 0.0, ())
    directories = list(kernels_directory().glob("*"))
    spans = sorted((s for d in directories for s in kernel_files.compiled_since(d, instant)), key=lambda s: s.began)
    seconds, until = 0.0, 0.0
    for span in spans:
        seconds += max(0.0, span.ended - max(span.began, until))
        until = max(until, span.ended)
    running = tuple(c for directory in directories for c in kernel_files.running(directory, instant))
    return Compilations(sum(span.kernels for span in spans), seconds, running)
