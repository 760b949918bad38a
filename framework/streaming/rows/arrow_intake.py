"""Read, check, hash and pack files by Arrow in the task that gets their URLs: rows never pass through Spark.

Rows, reasons and hashes are the same as those of ``intake``. ``plan.reader`` decides which jobs are read this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import (
    FILTERED,
    INT_RANGE,
    NULL_ID,
    NULL_KEY,
    NULL_TIME,
    REASON,
    RULE,
    STOPS,
    TIME_RANGE,
    YEAR_RANGE,
)
from skyband.framework.base.types import STAMP, YEARS
from skyband.framework.lookups.column_join import ColumnJoin
from skyband.framework.lookups.join import Tables
from skyband.framework.plan.model import IntakeNode
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.protocol import CAP, CORRUPT, ORIGIN
from skyband.framework.streaming.rows.config import CAPPED, ID_HASHES, KEY_HASHES, WARNED, HostConfig
from skyband.framework.streaming.rows.hashes import SECOND, SEED, xxhash64
from skyband.framework.streaming.rows.outbox import Deliver, Send, as_block, as_it_is
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.spark.worker_pools import freeze_loaded_objects
from skyband.operators.base import NEVER, NULL

if TYPE_CHECKING:
    from skyband.framework.sql_without_spark.intake_sql import IntakeSql

_NONE: Final[Tables] = {}

URL: Final = "url"
"""Column of the files' frame, beside ``ORIGIN`` and, if the backlog has caps, ``CAP``."""

_UNSUPPORTED: Final = "a file that Spark has to read"
_LASTING: Final = "files that Spark has to read"
_MESSAGE: Final = re.compile(rf"({_UNSUPPORTED}|{_LASTING}): ([^\n\\]{{0,200}})")

_FIRST: Final = 0
_LAST: Final = 253_402_128_000_000_000
"""9999-12-30 in microseconds: the latest time that ``intake`` accepts."""
_DAYS: Final = NEVER // 86_400_000_000


def unsupported_file(message: str) -> tuple[str, bool] | None:
    """Return (reason, whether it is permanent) if the query failed because a file needs Spark's reader instead of Arrow's; else None."""
    found = _MESSAGE.search(message)
    return None if found is None else (found[2].strip(), found[1] == _LASTING)


def said(why: str) -> str:
    """The message of an error after which Spark reads the job's files permanently: see ``unsupported_file``."""
    return f"{_LASTING}: {why}"


class Readable(Protocol):
    """Reads files by Arrow, with the rows that Spark's reader would return."""

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Return the rows of a file, in its order, with the source's names and types. Raise UnsupportedFile."""
        ...


class ReadAndPack:
    """The function for ``mapInArrow``: takes URLs of files, returns the blocks of ``Pack``."""

    def __init__(self, config: HostConfig, files: Readable, deliver: Deliver = as_it_is, send: Send = as_block) -> None:
        self.config, self.deliver, self.send = config, deliver, send
        self.files = files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Raises RuntimeError (see ``unsupported_file``) for a file that Spark has to read."""
        freeze_loaded_objects()
        yield from Pack(self.config, self.deliver, self.send).packed(self._tables(batches, ArrowIntake(self.config.intake)))

    def _tables(self, batches: Iterator[pa.RecordBatch], intake: ArrowIntake) -> Iterator[pa.Table]:
        for batch in batches:
            urls, origins = batch.column(URL).to_pylist(), batch.column(ORIGIN).to_pylist()
            caps = batch.column(CAP).to_pylist() if CAP in batch.schema.names else None
            for i, (url, origin) in enumerate(zip(urls, origins, strict=True)):
                try:
                    for rows in self.files.tables(url):
                        made = intake.judged(rows, origin)
                        yield made if caps is None else capped(self.config.intake, made, caps[i])
                except UnsupportedFile as e:
                    raise RuntimeError(f"{_LASTING if e.lasting else _UNSUPPORTED}: {e}") from e


class ArrowIntake:
    """Joins, transforms and checks rows of files as ``intake`` does, SQL without Spark. Threads may share it.

    ``tables``: those of the look-ups. The constructor raises SkybandError SKY-E531 for SQL that only Spark can evaluate.
    """

    def __init__(self, node: IntakeNode, tables: Tables = _NONE) -> None:
        self.node = node
        self._join = ColumnJoin(node.lookups, tables, node.event_time)
        self._sql: IntakeSql | None = None
        if node.transforms or node.rules:
            # It loads sqlglot: most jobs that Spark's tasks read have no SQL.
            from skyband.framework.sql_without_spark.intake_sql import IntakeSql

            self._sql = IntakeSql(node)

    def judged(self, rows: pa.Table, origin: str) -> pa.Table:
        """Return ``rows`` of a file as ``intake`` returns them: with columns of look-ups, derived ones, hashes, ``ORIGIN``, ``CORRUPT``
        and ``REASON``.

        Raises UnsupportedFile for values that only Spark can evaluate. O(bytes).
        """
        node, n = self.node, rows.num_rows
        columns = {name: rows[name].combine_chunks() for name in rows.column_names}
        unmatched = self._join.add(columns)
        first, warned = (unmatched, None) if self._sql is None else _evaluated(self._sql, columns, n, unmatched)
        for names, of in ((KEY_HASHES, node.partition_by), (ID_HASHES, node.id if node.unique == "checked" else ())):
            for name, seed in zip(names, (SEED, SECOND), strict=True):
                if of:
                    columns[name] = pa.array(xxhash64([columns[c] for c in of], n, seed))
        columns[ORIGIN] = pa.repeat(pa.scalar(origin, pa.string()), n)
        columns[CORRUPT] = pa.nulls(n, pa.string())
        found = _reasons(node, columns, n)
        columns[REASON] = found if first is None else pc.coalesce(first, found)
        if node.rules_of("warn"):
            columns[WARNED] = pa.nulls(n, pa.string()) if warned is None else warned
        return pa.table(columns)


def _evaluated(
    sql: IntakeSql, columns: dict[str, pa.Array], rows: int, reason: pa.Array | None
) -> tuple[pa.Array | None, pa.Array | None]:  # fmt: skip
    """Add the derived columns to ``columns``.

    Return (``reason``, then those of filters and rules; the broken rules of severity ``warn``), None where no row has one.
    """
    try:
        for name, expression in sql.steps:
            made = expression.column(columns, rows)
            if name is not None:
                columns[name] = made
            else:
                dropped = pc.invert(pc.fill_null(made, False))
                reason = _first(reason, pc.if_else(dropped, pa.scalar(FILTERED), pa.scalar(None, pa.string())))
        held = [(rule, expression.column(columns, rows)) for rule, expression in sql.rules]
    except SkybandError as e:
        if e.code != "SKY-E531":
            raise
        raise UnsupportedFile(e.message) from e
    for severity, begins in (("fail", STOPS), ("reject", RULE)):
        names = _broken([(rule.name, values) for rule, values in held if rule.severity == severity])
        if names is not None:
            reason = _first(reason, pc.binary_join_element_wise(begins, names, ""))
    return reason, _broken([(rule.name, values) for rule, values in held if rule.severity == "warn"])


def _first(reason: pa.Array | None, later: pa.Array) -> pa.Array:
    return later if reason is None else pc.coalesce(reason, later)


def _broken(rules: Sequence[tuple[str, pa.Array]]) -> pa.Array | None:
    """Return the names of the rules that each row breaks, null for none; None if no row breaks one. Null does not break a rule."""
    names = None
    for name, held in rules:
        broken = pc.invert(pc.fill_null(held, True))
        if pc.any(broken).as_py():
            before = pa.nulls(len(held), pa.string()) if names is None else names
            names = pc.if_else(broken, pc.coalesce(pc.binary_join_element_wise(before, name, ","), pa.scalar(name)), before)
    return names


def accepted_times(node: IntakeNode, rows: pa.Table) -> pa.ChunkedArray:
    """Return the event times of the ``judged`` rows that are not rejected."""
    times, reason = rows[node.event_time], rows[REASON]
    return times if reason.null_count == rows.num_rows else times.filter(pc.is_null(reason))


def capped(node: IntakeNode, rows: pa.Table, cap: int | None) -> pa.Table:
    """Return ``rows`` with the time that each contributes to the watermark: null if it is rejected."""
    stamps = rows[node.event_time].cast(pa.int64())
    if cap is not None:
        stamps = pc.min_element_wise(stamps, pa.scalar(cap, pa.int64()))
    return rows.append_column(CAPPED, pc.if_else(pc.is_null(rows[REASON]), stamps, pa.scalar(None, pa.int64())).cast(STAMP))


def _reasons(node: IntakeNode, columns: dict[str, pa.Array], rows: int) -> pa.Array:
    """Return the first reason that applies to each row behind those of SQL, in the order of ``intake``."""
    time = columns[node.event_time]
    micros = time.cast(pa.int64())
    outside = pc.or_(pc.less(micros, _FIRST), pc.greater(micros, _LAST))
    checks = [
        *((NULL_ID, columns[c].is_null()) for c in node.id),
        (NULL_TIME, time.is_null()),
        (TIME_RANGE, outside),
        *((NULL_KEY, columns[c].is_null()) for c in node.partition_by),
        *((INT_RANGE, _null_or_out_of_range(columns[c])) for c in node.whole),
        *((f"{YEAR_RANGE}{f.name}", _outside(columns[f.name], *YEARS[f.type])) for f in node.fields if f.type in YEARS),
    ]
    found = np.full(rows, len(checks), np.int64)
    for number, (_, bad) in reversed(list(enumerate(checks))):
        if pc.any(bad).as_py():
            found[pc.fill_null(bad, False).to_numpy(zero_copy_only=False)] = number
    if (found == len(checks)).all():
        return pa.nulls(rows, pa.string())
    return pa.array([*(reason for reason, _ in checks), None], pa.string()).take(pa.array(found))


def _outside(column: pa.Array, first: int, last: int) -> pa.Array:
    """Return True for dates and instants that are not between ``first`` and ``last``, null for null."""
    number = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    return pc.or_(pc.less(number, first), pc.greater(number, last))


def _null_or_out_of_range(column: pa.Array) -> pa.Array:
    """See ``intake``: return True for the int64 that stands for null, and for dates outside of int64 microseconds."""
    if pa.types.is_date(column.type):
        days = column.cast(pa.int32())
        return pc.or_(pc.less(days, -_DAYS), pc.greater(days, _DAYS))
    return pc.equal(column.cast(pa.int64()), NULL)
