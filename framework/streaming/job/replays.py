"""Put fixed rows back into the source: as a new file in its directory, which the next batch reads like any other.

Before that every row is checked by the run's reader and rules, and against the watermark. Rows that would be rejected again are left out
and reported.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import FILTERED, LATE, REASON
from skyband.framework.base.redaction import redact_values
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.lookups.in_memory import read_tables as read_in_memory
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.logs import next_watermark
from skyband.framework.sources.protocol import Backlog
from skyband.framework.sources.registry import source_format
from skyband.framework.storage import durable
from skyband.framework.streaming.job.arrow_files import files_by_arrow, readable
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.replay_records import DIRECTORY, RECORD, Replay, directory_of
from skyband.framework.streaming.rows.arrow_intake import ArrowIntake
from skyband.framework.streaming.rows.instants import ahead
from skyband.framework.streaming.spark.log import first_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[[], "SparkSession"]
"""Starts Spark, and returns its session."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def replay(start: Start, plan: Plan, layout: Layout, job: JobFile, path: Path, last: dict[str, Any], even_late: bool) -> Replay:
    """Put the rows of the file at ``path`` back into the source. ``last``: the newest row of ``runs``; ``even_late``: late ones too.

    ``start`` is called if only Spark can read or judge the rows.

    Raises SkybandError SKY-E201 (the source takes no files, or not this one), SKY-E202 (the same file was put back before), SKY-E301 (it
    cannot be read), SKY-E203 (the directory cannot be written). O(its rows).
    """
    directory = directory_of(plan)
    try:
        data = path.read_bytes()
    except OSError as e:
        raise SkybandError("SKY-E202", f"{path} cannot be read: {e.strerror}") from e
    digest = hashlib.sha256(data).hexdigest()
    name = f"replayed-{digest[:16]}{path.suffix}"
    _fits(plan.source, name)
    record = layout.home / DIRECTORY / f"{name}.json"
    if record.exists() or (directory / name).exists():
        hint = "its rows would be read twice; put further fixed rows into a file of their own"
        raise SkybandError("SKY-E202", f"{path.name} was put back before, as {name}", hint=hint)
    frontier = next_frontier(layout, job, last)
    reasons, late_by = _looked_at(start, plan, layout, job, path, frontier)
    out = Counter(r for r in reasons if r not in (None, FILTERED) and not (r == LATE and even_late))
    keep = [r in (None, FILTERED) or (r == LATE and even_late) for r in reasons]
    found = Replay(
        name, path.name, digest, len(reasons), sum(keep), dict(out.most_common()), late_by, sum(r == FILTERED for r in reasons),
        int(last["batch_id"]), frontier, datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip
    if found.placed:
        kept = data if all(keep) else _without(plan.source, job.header is not None, path, data, keep)
        try:
            with raising_system_failures(directory):
                record.parent.mkdir(parents=True, exist_ok=True)
                RECORD.write(record, found)
                durable.replace(directory / name, kept)
        except OSError as e:
            raise SkybandError("SKY-E203", f"{directory} cannot be written: {e.strerror}") from e
    return found


def next_frontier(layout: Layout, job: JobFile, last: dict[str, Any]) -> int | None:
    """Return F of the next batch, in microseconds: earlier rows are late. None if nothing is late yet. ``last``: the last row of ``runs``.

    That row has F as it was in that batch, whose rows have moved Spark's watermark on.
    """
    reached = next_watermark(layout.checkpoint)
    moved = max((f for w, f in job.finishes if w == reached), default=1000 * reached) if reached > 0 else None
    known = None if last["frontier"] is None else (last["frontier"] - _EPOCH) // timedelta(microseconds=1)
    return max((f for f in (moved, known) if f is not None), default=None)


def _fits(source: SourceNode, name: str) -> None:
    """Raise SkybandError SKY-E201 if the source ignores files of that name."""
    pattern = {k.lower(): v for k, v in source.options}.get("pathglobfilter")
    if pattern is not None and not fnmatchcase(name, pattern):
        hint = "give the file the extension of the source's files"
        raise SkybandError("SKY-E201", f"the source reads files named {pattern}, and would pass over {name}", hint=hint)


def _looked_at(
    start: Start, plan: Plan, layout: Layout, job: JobFile, path: Path, frontier: int | None
) -> tuple[list[str | None], tuple[int, int] | None]:
    """(why each row would be rejected when it comes, None if it would not, in the order of the file; the span of lateness)."""
    found = _by_arrow(plan, job, path)
    if found is None:
        found = _by_spark(start, plan, layout, job, path)
    found = ahead.judged(found, plan.intake, time.time_ns() // 1000)
    times = found[plan.intake.event_time].cast(pa.int64())
    late = pc.and_(pc.is_null(found[REASON]), pc.fill_null(pc.less(times, -(2**63) if frontier is None else frontier), False))
    reasons = pc.if_else(late, LATE, found[REASON]).to_pylist()
    at = times.filter(late)
    by = None if frontier is None or not len(at) else (frontier - pc.max(at).as_py(), frontier - pc.min(at).as_py())
    return reasons, by


def _by_arrow(plan: Plan, job: JobFile, path: Path) -> pa.Table | None:
    """Return the reasons and event times of the rows, read and judged in this process; None if only Spark can do it.

    Raises SkybandError SKY-E320 and SKY-E321 (a look-up table).
    """
    if not files_by_arrow(plan, job):
        return None
    try:
        judge = ArrowIntake(plan.intake, read_in_memory(plan) if plan.lookups else {})
        url, source = path.absolute().as_uri(), replace(plan.source, path=str(path.absolute().parent))
        found = [judge.judged(rows, path.name) for rows in readable(replace(plan, source=source), job).tables(url)]
    except UnsupportedFile:
        return None
    except SkybandError as e:
        if e.code != "SKY-E531":
            raise
        return None
    return pa.concat_tables(found).select([REASON, plan.intake.event_time]) if found else None


def _by_spark(start: Start, plan: Plan, layout: Layout, job: JobFile, path: Path) -> pa.Table:
    from skyband.framework.streaming.rows.intake import intake
    from skyband.framework.streaming.rows.lookup_tables import read_tables

    format_ = source_format(plan.source.format)
    files: Backlog | None = format_.backlog(plan.source, job.header, layout.home)
    assert files is not None
    try:
        spark = start()
        rows = intake(files.rows(spark, [path.absolute().as_uri()]), plan.intake, read_tables(spark, plan))
        return rows.select(REASON, f"`{plan.intake.event_time}`").toArrow()
    except SkybandError:
        raise
    except Exception as e:  # any error of Spark's about this one file is the answer
        said = str(e)
        text = f"{path.name} cannot be read as the source's files are: {first_cause(redact_values(said))}"
        failed = SkybandError("SKY-E301", text, hint="write it as the source's files are, with the same columns and options")
        raise format_.failure(said, job.header, plan.source.path) or failed from e


def _without(source: SourceNode, header: bool, path: Path, data: bytes, keep: Sequence[bool]) -> bytes:
    """Return the file without the rows that are not kept. Raise SkybandError SKY-E201 if its rows cannot be identified."""
    kept = source_format(source.format).without_rows(source, header, path, data, keep)
    if kept is None:
        hint = "leave them out of the file yourself: `skyband rejected` explains the reasons"
        raise SkybandError("SKY-E201", f"rows of {path.name} would be rejected again, and its lines are not its rows", hint=hint)
    return kept
