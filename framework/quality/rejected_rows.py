"""Summarize table ``rejected`` by reason, with figures and examples, and export its rows to a file, to fix them.

The table may be large, so it is read in pieces.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base import reasons
from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.sources.files.bad_files import separator_of
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.delta_read import dataset
from skyband.framework.storage.outputs import new_output
from skyband.framework.tables.writing.writer import Writer

EXAMPLES: Final = 3
"""The most rows of a reason that are shown."""
LONGEST: Final = 200
"""The most characters of an example that are shown."""
FORMS: Final = (".csv", ".jsonl")
"""File name extensions for an export."""


@dataclass(frozen=True, slots=True)
class Group:
    """The rows rejected for one reason: their number, batches (with their times, if ``runs`` still has them), and examples."""

    reason: str
    rows: int
    first_batch: int
    last_batch: int
    first_time: datetime | None
    last_time: datetime | None
    examples: tuple[str, ...]

    def shown(self) -> dict[str, Any]:
        """Return the group for JSON."""
        return asdict(self)


def groups(writer: Writer) -> list[Group]:
    """Return every reason, the most frequent first. O(rows of ``rejected``), one piece at a time in memory."""
    opened = writer.opened("rejected")
    counted: pa.Table | None = None
    for batch in dataset(opened).to_batches(columns=["reason", "batch_id"]):
        if batch.num_rows:
            piece = _counted(pa.Table.from_batches([batch]), [([], "count_all"), ("batch_id", "min"), ("batch_id", "max")])
            both = piece if counted is None else pa.concat_tables([counted, piece])
            counted = _counted(both, [("count_all", "sum"), ("batch_id_min", "min"), ("batch_id_max", "max")])
    if counted is None:
        return []
    times = writer.read("runs", ["batch_id", "batch_time"])
    at = dict(zip(times["batch_id"].to_pylist(), times["batch_time"].to_pylist(), strict=True))
    found = []
    for row in counted.sort_by([("count_all", "descending"), ("reason", "ascending")]).to_pylist():
        first, last = row["batch_id_min"], row["batch_id_max"]
        here = (pc.field("batch_id") == last) & (pc.field("reason") == row["reason"])
        texts = dataset(opened).scanner(columns=["text"], filter=here).head(EXAMPLES)["text"].to_pylist()
        examples = tuple(t if len(t) <= LONGEST else t[:LONGEST] + "..." for t in texts if t is not None)
        found.append(Group(row["reason"], row["count_all"], first, last, at.get(first), at.get(last), examples))
    return found


def _counted(rows: pa.Table, how: list[Any]) -> pa.Table:
    """Return ``rows`` grouped by reason, with the columns reason, count_all, batch_id_min, batch_id_max."""
    names = ("count_all", "batch_id_min", "batch_id_max")
    return rows.group_by("reason").aggregate(how).select(["reason", *_made(how)]).rename_columns(["reason", *names])


def _made(how: list[Any]) -> list[str]:
    return [what if not column else f"{column}_{what}" for column, what in how]


def export(plan: Plan, header: Sequence[str] | None, writer: Writer, reason: str, target: Path) -> int:
    """Write the rows rejected for ``reason`` (or a class: ``rule`` for every ``rule:...``) to a file, and return their number.

    Rows that did not parse are written as their original text, others with the source's own columns. Raises SkybandError SKY-E201 for rows
    that cannot be written to such a file. O(rows of ``rejected``), one piece at a time in memory.
    """
    if target.suffix not in FORMS:
        raise SkybandError("SKY-E201", f"--export {target.name} has no known extension", hint="name it FILE.csv or FILE.jsonl")
    if reason == reasons.BAD_FILE:
        raise SkybandError("SKY-E201", "bad_file is a reason for whole files, which have no rows to export", hint="fix the files")
    text = source_format(plan.source.format).export_ending
    if reason == reasons.PARSE and text != target.suffix:
        said = f"rows that do not parse are texts of {plan.source.format} files"
        raise SkybandError("SKY-E201", said, hint=f"name it FILE{text}" if text else "read column text of table rejected")
    mine = pc.field("reason") == reason
    if ":" not in reason:
        mine = mine | pc.starts_with(pc.field("reason"), f"{reason}:")
    with new_output(target) as out:
        put = _put(plan.source, header, reason, target.suffix, out)
        rows = 0
        for batch in dataset(writer.opened("rejected")).to_batches(columns=["reason", "text"], filter=mine):
            for value in batch["text"].to_pylist():
                put(value or "")
                rows += 1
    return rows


def _put(source: SourceNode, header: Sequence[str] | None, reason: str, form: str, out: IO[str]) -> Callable[[str], object]:
    """Write the header to ``out``; return a function that writes one row."""
    names = list(header) if header is not None else [str(f.source_name) for f in source.fields]
    if reason == reasons.PARSE:
        if form == ".csv" and header is not None:
            _cells(source, out).writerow(names)
        return lambda text: out.write(text + "\n")
    mine = {f.name: str(f.source_name) for f in source.fields}
    if form == ".jsonl":
        return lambda text: out.write(_object(_row(text, mine)) + "\n")
    nothing = {k.lower(): v for k, v in source.options}.get("nullvalue", "")
    cells = _cells(source, out)
    if header is not None:
        cells.writerow(names)
    return lambda text: cells.writerow([_cell(v, nothing) for v in map(_row(text, mine).get, names)])


def _cells(source: SourceNode, out: IO[str]) -> Any:
    """Return a CSV writer with the source's quotes and escapes: Spark reads a quote within quotes only after an escape."""
    options = source_format(source.format).csv_options(source)
    escape = options.get("escape", "\\")[:1]
    quote = options.get("quote", '"')[:1] or '"'
    how = {"doublequote": True} if escape == quote else {"doublequote": False, "escapechar": escape}
    return csv.writer(out, delimiter=separator_of(options)[:1] or ",", quotechar=quote, lineterminator="\n", **how)


def _row(text: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the source's columns of a row of ``rejected``, with numbers spelled as in the source.

    Raises SkybandError SKY-E402 for a text that Skyband has not written.
    """
    try:
        row = json.loads(text, parse_float=Decimal, strict=False)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        said = f"table rejected has a text that is no row of the job: {text[:60]!r}"
        raise SkybandError("SKY-E402", said, hint="restore the table, or leave out what another program has written into it")
    return {source: row.get(name) for name, source in names.items()}


def _cell(value: Any, nothing: str) -> Any:
    if value is None:
        return nothing
    return str(value).lower() if isinstance(value, bool) else value


def _object(row: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{json.dumps(k)}:{_value(v)}" for k, v in row.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return "[" + ",".join(map(_value, value)) + "]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)


def lines_of(found: Sequence[Group], why: Callable[[Group], str]) -> Iterator[str]:
    """Yield every reason in words: figures and explanation, then its examples."""
    for g in found:
        when = f"batch {g.first_batch:,}" if g.first_batch == g.last_batch else f"batches {g.first_batch:,} to {g.last_batch:,}"
        times = [f"{t:%Y-%m-%d %H:%M:%S}" for t in dict.fromkeys((g.first_time, g.last_time)) if t is not None]
        at = f" ({' to '.join(times)})" if times else ""
        yield f"{g.reason}: {counted(g.rows, 'row')}, {when}{at}: {why(g)}"
        # As JSON, since a text may contain line breaks.
        yield from (f"  {json.dumps(e, ensure_ascii=False)}" for e in g.examples)
