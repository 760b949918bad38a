"""Choose the reader of a job's source: Arrow where it returns the same rows as Spark, else Spark.

This module decides by the plan alone. A file that Arrow cannot read (``UnsupportedFile``) is left to Spark later.
"""

from __future__ import annotations

from typing import Final

from skyband.framework.plan.model import Field, Filter, IntakeNode, SourceNode
from skyband.framework.sources.registry import source_format
from skyband.operators.jit import HAVE_NUMBA

_COLUMNS: Final = frozenset({"string", "int", "bigint", "float", "double", "boolean", "timestamp", "date"})
_LISTS: Final = frozenset(f"array<{t}>" for t in ("string", "int", "bigint", "float", "double"))
_HASHED: Final = frozenset({"bigint", "timestamp", "int", "date", "boolean", "string"})


def why_spark_reads(source: SourceNode, intake: IntakeNode) -> str | None:
    """Return why Spark reads the source of its own jobs, or None if its tasks may read it with Arrow. Opens no file.

    Spark evaluates SQL over rows that it has read itself.
    """
    why = why_not_by_arrow(source, intake)
    if why is not None:
        return why
    if intake.lookups:
        return "a look-up"
    if intake.transforms:
        return "a filter" if isinstance(intake.transforms[0], Filter) else "a derived column"
    return "quality.rows" if intake.rules else None


def why_not_by_arrow(source: SourceNode, intake: IntakeNode, local: bool = False) -> str | None:
    """Return why Arrow cannot read the source's files as Spark reads them, None if it can. Opens no file.

    ``local``: the local engine reads them, which also reads tables.
    """
    format_ = source_format(source.format)
    rules = format_.local_rules() if local else format_.arrow_rules()
    if rules is None:
        return f"the format is {source.format}"
    if is_far(source.path or ""):
        return "the path is a pattern, or of another file system"
    other = next((name for name, value in source.options if not rules.option(name.lower(), value)), None)
    if other is not None:
        return f"option {other}"
    # Columns without a name in the source are derived, or of look-ups.
    odd = next((f for f in intake.fields if not _readable(f, rules.decimals, rules.lists)), None)
    if odd is not None:
        return f"column {odd.name} is {odd.type}"
    if rules.compiled and not HAVE_NUMBA:
        return "Numba is missing"
    if intake.field(intake.event_time).type != "timestamp":
        return f"event time {intake.event_time} is no timestamp"
    keys = [*intake.partition_by, *(intake.id if intake.unique == "checked" else ())]
    types = {name: intake.field(name).type for name in keys}
    unhashed = next((n for n, t in types.items() if t not in _HASHED or (t == "string" and not HAVE_NUMBA)), None)
    return None if unhashed is None else f"an id or key of type {types[unhashed]}"


def is_far(path: str) -> bool:
    """Return whether only Spark finds the files of a path: those of a pattern, or of another file system."""
    return "://" in path.removeprefix("file://") or bool(set("*?[]{}\\") & set(path))


def _readable(field: Field, decimals: bool, lists: bool) -> bool:
    made = field.source_name is None
    if field.type in _LISTS:
        return made or lists
    return field.type in _COLUMNS or ((made or decimals) and field.type.startswith("decimal("))
