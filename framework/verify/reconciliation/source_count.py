"""The rows that the source's text files hold, counted by lines: what ``runs`` says of all rows that came is held against it.

Shares nothing with the readers of the run. What only a parser could count is not counted.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import opened
from skyband.framework.sources.files.ledger import Ledger
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.logs import last_batch, local_path, taken
from skyband.framework.sources.text.options import codec_of, encoding_of, folded, skipped
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.stored import Stored, runs_gone

_GAP: Final = re.compile("[ \\t\\r\\n,]*")
_BLANK: Final = "".join(map(chr, range(33)))


def compare_count(stored: Stored, layout: Layout, job: JobFile) -> tuple[int | None, list[Difference]]:
    """(rows of the files that were taken, None if they cannot be counted; what ``runs`` says otherwise). O(bytes of the source)."""
    checkpoint = layout.checkpoint
    if stored.plan.source.format not in ("csv", "json"):
        return None, []
    whole = last_batch(checkpoint / "offsets") == last_batch(checkpoint / "commits") and not pruned(checkpoint)
    files = list(taken(checkpoint / "sources" / "0"))
    if not whole or not files or runs_gone(stored) is not None:
        return None, []
    aside = Ledger.load(layout.home)
    # A file that is set aside, which Spark may never have taken, counts as one row.
    total = len(aside.aside)
    for t in files:
        path = local_path(t.url)
        if t.url in aside.aside:
            continue
        try:
            same = path is not None and Path(path).stat().st_mtime_ns // 1_000_000 == aside.read_as.get(t.url, t.modified_ms)
            rows = rows_of(stored.plan.source, path, job.header is not None) if same and path is not None else None
        except (OSError, EOFError, UnicodeError):
            rows = None
        if rows is None:
            return None, []
        total += rows
    said = sum(stored.table("runs")["rows_in"].to_pylist())
    if said == total:
        return total, []
    return total, [Difference("table runs", f"its rows_in add up to {counted(said, 'row')}, the files that were taken hold {total:,}")]


def rows_of(source: SourceNode, path: str, header: bool) -> int | None:
    """The rows of one file; None if lines do not tell. Raises OSError, EOFError, UnicodeError."""
    options = folded(source.options)
    whole = options.get("multiline", "false").lower() == "true"
    if source.format not in ("csv", "json") or "linesep" in options or (whole and source.format == "csv"):
        return None
    with opened(path) as raw:
        if whole:
            return _values(raw.read().decode(codec_of(options)).removeprefix("\ufeff"))
        lines = io.TextIOWrapper(raw, "iso-8859-1", newline=None)
        mark = options.get("comment", "") if source.format == "csv" else ""
        comment = mark.encode(codec_of(options).removesuffix("-sig"), "replace").decode("iso-8859-1")
        rows, titles = 0, skipped(options)
        for number, line in enumerate(lines):
            text = line.removeprefix("\xef\xbb\xbf") if number == 0 and encoding_of(options) == "utf-8" else line
            empty = not text.strip(_BLANK if source.format == "csv" else " \t\r\n")
            if number < titles or empty or (comment and text.startswith(comment)):
                continue
            if source.format == "json" and text.lstrip(" \t").startswith("["):
                return None  # a list of rows, or a row that is none
            rows += 1
    return max(0, rows - (1 if header and source.format == "csv" else 0))


def _values(text: str) -> int | None:
    """The objects of a JSON text, at its top or in lists there; None if it holds anything else."""
    decoder, at, rows = json.JSONDecoder(), 0, 0
    while True:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return rows
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        each = value if isinstance(value, list) else [value]
        if not all(isinstance(v, dict) for v in each):
            return None
        rows += len(each)
