"""Who reads a job's source: the tasks themselves, by Arrow, where that gives the very rows Spark's reader gives; else Spark.

What a plan alone shows is told here. What only a file shows (``sources.arrow_files``) hands the job to Spark when it is met.
"""

from __future__ import annotations

from typing import Final

from skyband.framework.plan.model import Filter, IntakeNode, SourceNode
from skyband.operators.jit import HAVE_NUMBA

_COLUMNS: Final = frozenset({"string", "int", "bigint", "float", "double", "boolean", "timestamp", "date"})
_HASHED: Final = frozenset({"bigint", "timestamp", "int", "date", "boolean", "string"})
_OPTIONS: Final = frozenset({"pathglobfilter", "recursivefilelookup"})
_SEPARATORS: Final = (",", ";", "|", ":", "~", "^")
"""Of CSV cells: no line of blanks has one."""


def engine_reads(source: SourceNode, intake: IntakeNode) -> str | None:
    """Why Spark has to read the source, in a few words; None if tasks may read it by Arrow. Looks at no file."""
    csv = source.format == "csv"
    if not csv and source.format != "parquet":
        return f"the format is {source.format}"
    path = source.path or ""
    if "://" in path.removeprefix("file://") or set("*?[]{}\\") & set(path):
        return "the path is a pattern, or of another file system"
    other = next((name for name, value in source.options if not _harmless(csv, name.lower(), value)), None)
    if other is not None:
        return f"option {other}"
    if intake.transforms:
        return "a filter" if isinstance(intake.transforms[0], Filter) else "a derived column"
    if intake.rules:
        return "quality.rows"
    odd = next((f for f in intake.fields if f.type not in _COLUMNS and (csv or not f.type.startswith("decimal("))), None)
    if odd is not None:
        return f"column {odd.name} is {odd.type}"
    if csv and not HAVE_NUMBA:
        return "Numba is missing"
    if intake.field(intake.event_time).type != "timestamp":
        return f"event time {intake.event_time} is no timestamp"
    keys = [*intake.partition_by, *(intake.id if intake.unique == "checked" else ())]
    types = {name: intake.field(name).type for name in keys}
    unhashed = next((n for n, t in types.items() if t not in _HASHED or (t == "string" and not HAVE_NUMBA)), None)
    return None if unhashed is None else f"an id or key of type {types[unhashed]}"


def below(source: SourceNode) -> bool:
    """Whether files in directories below the source's own are read."""
    return any(n.lower() == "recursivefilelookup" and v.lower() == "true" for n, v in source.options)


def separator(source: SourceNode) -> str:
    """What separates the cells of CSV files that tasks may read."""
    return next((v for n, v in source.options if n.lower() in ("sep", "delimiter")), ",")


def skipped(source: SourceNode) -> int:
    """Title lines before the header of CSV files."""
    return next((int(v) for n, v in source.options if n.lower() == "skip_lines"), 0)


def doubled(source: SourceNode) -> bool:
    """Whether a quote within quotes is doubled; else a backslash stands before it."""
    return any(n.lower() == "escape" and v == '"' for n, v in source.options)


def _harmless(csv: bool, name: str, value: str) -> bool:
    if csv and name == "header":
        return value.lower() == "true"
    if csv and name in ("escape", "quote"):
        return value == '"'
    if csv and name == "skip_lines":
        return True
    if csv and name in ("encoding", "charset"):
        return value.lower() in ("utf-8", "utf8")
    return name in _OPTIONS or (csv and name in ("sep", "delimiter") and value in _SEPARATORS)
