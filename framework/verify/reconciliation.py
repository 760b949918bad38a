"""Reconcile ``runs`` and ``heads`` with ``rejected`` and the tables of changes, batch by batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from skyband.framework.base.counts import counted
from skyband.framework.base.messages import DELETED, KEPT_FIRST, REPLACED
from skyband.framework.base.reasons import REASONS, count_name
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.logs import last_batch, local_path, taken
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.delta_read import open_table
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.schemas import changes_name
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.stored import BEFORE, Key, Stored, keys_of, micros, runs_gone

Row = Mapping[str, Any]
_CLASS = {count: c.name for c in REASONS for count in c.counts}
"""The name under which rejected rows are counted -> its column of ``runs``, without ``rejected_``."""


def compare_row_counts(stored: Stored, clocks: Clocks) -> list[Difference]:
    """Return the counts that do not agree. Rows of ``runs`` that ``run.keep`` has dropped are not compared."""
    rows = sorted(stored.table("runs").to_pylist(), key=lambda r: r["batch_id"])
    return [*_sums(rows), *_rows_of(stored, rows), *_sequence(stored, rows), *_heads(stored, rows, clocks)]


def _shown(row: Row, names: list[str]) -> Row:
    return {n: row[n] for n in ("batch_id", *names)}


def _of(row: Row) -> str:
    return f"table runs, batch {row['batch_id']}"


def _sums(rows: list[Row]) -> Iterator[Difference]:
    """Compare the counts within each row of ``runs``."""
    parts = ["filtered", "rejected", "accepted", "pending_change"]
    classes = [f"rejected_{c.name}" for c in REASONS]
    for row in rows:
        for name, summands in (("rows_in", parts), ("rejected", classes)):
            # Null counts as 0: the row is older than the column.
            total = sum(row.get(n) or 0 for n in summands)
            if row[name] != total:
                what = f"{name} is {row[name]}, but {' + '.join(summands)} is {total}"
                yield Difference(_of(row), what, None, [_shown(row, [name, *summands])])


def _rows_of(stored: Stored, rows: list[Row]) -> Iterator[Difference]:
    """Compare each row of ``runs`` with the rows of its batch in the other tables."""
    table = stored.table("rejected")
    reasons: Counter[tuple[int, str]] = Counter(
        (b, _CLASS.get(count_name(r), r)) for b, r in zip(table["batch_id"].to_pylist(), table["reason"].to_pylist(), strict=True)
    )
    queries = stored.job_plan.every_query
    changes: Counter[int] = Counter(b for q in queries for b in stored.table(changes_name(q.name))["batch_id"].to_pylist())
    known = {r["batch_id"] for r in rows}
    for row in rows:
        batch = row["batch_id"]
        # Changes of a query that was removed later are gone, but stay counted.
        with_gone = batch <= stored.plan.live.removed_at and row["changes"] > changes[batch]
        if row["changes"] != changes[batch] and not with_gone:
            yield Difference(
                _of(row), f"changes is {row['changes']}, but the tables of changes have {counted(changes[batch], 'row')} of this batch"
            )
        classes = dict.fromkeys([*(c.name for c in REASONS), *(c for b, c in reasons if b == batch)])
        for name in classes:
            count, stored_rows = row.get(f"rejected_{name}") or 0, reasons[batch, name]
            if count != stored_rows:
                what = f"rejected_{name} is {count}, but table rejected has {counted(stored_rows, 'such row')} of this batch"
                yield Difference(_of(row), what)
    first = min(known, default=0)
    for table_name, batches in (("rejected", {b for b, _ in reasons}), ("changes", set(changes))):
        lost = sorted(b for b in batches if first < b <= stored.last_batch and b not in known)
        if lost:
            yield Difference("table runs", f"it has no row of batch {lost[0]}, but table {table_name} has rows of it")


def _sequence(stored: Stored, rows: list[Row]) -> Iterator[Difference]:
    """Compare each row of ``runs`` with the row before it."""
    before: Row | None = None
    for row in rows:
        if before is not None:
            if row["batch_id"] == before["batch_id"]:
                yield Difference(_of(row), "the batch has two rows", None, [before, row])
            elif row["batch_id"] > before["batch_id"] + 1:
                yield Difference(_of(row), f"the row before it is of batch {before['batch_id']}; the rows between are missing")
            elif row["pending"] != before["pending"] + row["pending_change"]:
                names = ["pending", "pending_change"]
                said = "pending is not the value of the batch before plus pending_change"
                yield Difference(_of(row), said, None, [_shown(before, names), _shown(row, names)])
            for name in ("frontier", "newest"):
                if before[name] is not None and (row[name] is None or row[name] < before[name]):
                    yield Difference(
                        _of(row), f"{name} is earlier than in the batch before", None, [_shown(before, [name]), _shown(row, [name])]
                    )
        before = row
    if rows and rows[0]["batch_id"] > 0:
        made = open_table(stored.root, "runs").metadata().created_time
        age = datetime.now(UTC) - datetime.fromtimestamp(made / 1000, UTC) if made is not None else timedelta.max
        if age < timedelta(microseconds=min(stored.plan.keep_micros, 10**17)):
            said = f"the first row is of batch {rows[0]['batch_id']}, but no row is old enough to be dropped (run.keep)"
            yield Difference("table runs", said)


def _heads(stored: Stored, rows: list[Row], clocks: Clocks) -> Iterator[Difference]:
    """Compare ``heads`` with the objects in the changes and with the sums of ``runs``."""
    table, names = stored.table("heads"), stored.plan.intake.partition_by
    heads = table.to_pylist()
    frontiers = {f for f in micros(stored.table("runs"), "frontier") if f is not None}
    newest = max((t for t in micros(stored.table("runs"), "newest") if t is not None), default=None)
    keys = keys_of(table, names)
    settled, complete_runs = stored.heads_complete, runs_gone(stored) is None
    # A batch processes all events before the frontier, or before the watermark in milliseconds that its newest row gives.
    by_rows = BEFORE if newest is None else (newest // 1000 - stored.plan.intake.delay_ms) * 1000
    furthest = max(by_rows, max(frontiers, default=BEFORE))
    for key, count in Counter(keys).items():
        if count > 1:
            yield Difference(place("table heads", names, key), f"the key has {counted(count, 'row')}")
    for key, row, last, as_of in zip(keys, heads, micros(table, "last_time"), micros(table, "as_of"), strict=True):
        where = place("table heads", names, key)
        for wrong in _head(key, row["last_seq"], last, as_of, clocks):
            yield Difference(where, wrong, None, [row])
        if settled and as_of is not None and as_of >= furthest:
            yield Difference(where, "as_of is later than the watermark of the job", None, [row])
        if settled and newest is not None and last is not None and last > newest:
            yield Difference(where, "last_time is later than the newest row of the job", None, [row])
        by_millisecond = as_of is not None and (as_of + 1) % 1000 == 0 and as_of < by_rows
        if settled and as_of is not None and as_of + 1 not in frontiers and not by_millisecond and complete_runs:
            yield Difference(where, "as_of is not the end of any batch", None, [row])
    known_keys = set(keys)
    for key in clocks.known():
        if key not in known_keys and settled:
            yield Difference(place("table heads", names, key), "the key has changes, but no row")
    counters = [_counters(r) for r in rows]
    for row in (r for r, c in zip(rows, counters, strict=True) if c is None):
        yield Difference(_of(row), "counters is not a JSON object of whole numbers", None, [_shown(row, ["counters"])])
    if settled and stored.upto("heads") >= 0 and complete_runs and None not in counters:
        deleted = sum((c or {}).get(DELETED, 0) for c in counters)
        objects, accepted = sum((r["last_seq"] or 0) + 1 for r in heads), sum(r["accepted"] for r in rows)
        if objects != accepted - deleted:
            said = f"its keys have {counted(objects, 'object')} (last_seq + 1), but by table runs {accepted - deleted:,} were accepted"
            yield Difference("table heads", said)


def _counters(row: Row) -> Mapping[str, int] | None:
    """Return the counters of a batch; None if they are not what a run writes."""
    try:
        found = json.loads(row["counters"] or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) and all(type(v) is int for v in found.values()) else None


def compare_counters(stored: Stored, expected: Mapping[str, int]) -> Iterator[Difference]:
    """Compare the sums of the counters of ``runs`` with the source. ``expected``: how many rows of all keys have deleted, replaced, ..."""
    if not stored.settled or runs_gone(stored) is not None:
        return
    counters = [c for row in stored.table("runs").to_pylist() if (c := _counters(row)) is not None]
    for name in (DELETED, REPLACED, KEPT_FIRST):
        found = sum(c.get(name, 0) for c in counters)
        if found != expected.get(name, 0):
            yield Difference("table runs", f"{name} of its counters is {found:,} in all, but by the source {expected.get(name, 0):,}")


def _head(key: Key, seq: int | None, last: int | None, as_of: int | None, clocks: Clocks) -> Iterator[str]:
    if seq is None or last is None or as_of is None:
        yield "a value is missing"
        return
    if as_of < last:
        yield "as_of is before last_time"
    clock = clocks.of(key)
    if clock.seq:
        known = dict(zip(clock.seq, clock.time, strict=True))
        if clock.seq[-1] > seq:
            yield f"the changes have the object with seq {clock.seq[-1]:,}, which is after last_seq"
        elif clock.time[-1] > last or known.get(seq, last) != last:
            yield "last_time is not that of the key's last object"


def compare_count(stored: Stored, layout: Layout, job: JobFile) -> tuple[int | None, list[Difference]]:
    """Return the number of rows in the files that were read, None if they cannot be counted, and how ``runs`` differs.

    O(bytes of the source).
    """
    checkpoint = layout.checkpoint
    source = stored.plan.source
    format_ = source_format(source.format)
    if not format_.counts_rows:
        return None, []
    complete = last_batch(checkpoint / "offsets") == last_batch(checkpoint / "commits") and not pruned(checkpoint)
    files = list(taken(checkpoint / "sources" / "0"))
    if not complete or not files or runs_gone(stored) is not None:
        return None, []
    aside = Ledger.load(layout.home)
    # A file that is set aside counts as one row; Spark may never have read it.
    total = len(aside.aside)
    for t in files:
        path = local_path(t.url)
        if t.url in aside.aside:
            continue
        try:
            same = path is not None and Path(path).stat().st_mtime_ns // 1_000_000 == aside.read_as.get(t.url, t.modified_ms)
            rows = format_.count_rows(source, path, job.header is not None) if same and path is not None else None
        except (OSError, EOFError, UnicodeError):
            rows = None
        if rows is None:
            return None, []
        total += rows
    said = sum(stored.table("runs")["rows_in"].to_pylist())
    if said == total:
        return total, []
    return total, [Difference("table runs", f"its rows_in add up to {counted(said, 'row')}, but the files that were read hold {total:,}")]
