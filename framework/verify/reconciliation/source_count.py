"""Count the rows of the source's text files by lines, and compare the number with ``runs``.

This shares no code with the readers of a run. Files whose rows only a parser could count are not counted.
"""

from __future__ import annotations

from pathlib import Path

from skyband.framework.base.counts import counted
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.logs import last_batch, local_path, taken
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.stored import Stored, runs_gone


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
