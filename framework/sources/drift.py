"""Compares the columns of each file with those of the job's first run: new, missing, moved, or of another type.

Only what a file says of itself is compared: the header of CSV files, the schema in Parquet and ORC files and of Delta tables. Rows of JSON
have no schema beyond themselves, and a file that is not on this machine is not looked at. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.protocol import Columns
from skyband.framework.sources.registry import source_format

Kind = Literal["new", "missing", "moved", "retyped"]


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of a column. ``harmless``: rows are still read with the same meaning."""

    kind: Kind
    column: str
    said: str
    harmless: bool


def compare(source: SourceNode, recorded: Mapping[str, str], found: Mapping[str, str]) -> list[Drift]:
    """Return the changes from ``recorded`` to ``found``. Ignores the case of names, as Spark does. O(columns)."""
    used = {str(f.source_name).lower() for f in source.fields}
    before, now = ({n.lower(): (n, t) for n, t in columns.items()} for columns in (recorded, found))
    by_position = source_format(source.format).columns_by_position
    drifts = []
    for key, (name, type_) in before.items():
        if key not in now:
            drifts.append(Drift("missing", name, f"column {name!r} is missing", key not in used and not by_position))
        elif type_ and now[key][1] not in (type_, "", "null") and type_ != "null":
            said = f"column {name!r} is {now[key][1]}, was {type_}"
            drifts.append(Drift("retyped", name, said, key not in used))
    drifts += [Drift("new", name, f"column {name!r} is new", not by_position) for key, (name, _) in now.items() if key not in before]
    there, here = [k for k in before if k in now], [k for k in now if k in before]
    if there != here:
        first = next(now[k][0] for k, other in zip(here, there, strict=True) if k != other)
        drifts.append(Drift("moved", first, f"the columns have another order, from {first!r} on", not by_position))
    return drifts


def updated(recorded: Mapping[str, str], found: Mapping[str, str]) -> Columns:
    """Return the columns to record once ``found`` is accepted: its types, and all columns ever seen."""
    known = {n.lower(): n for n in recorded}
    named = {known.get(n.lower(), n): t for n, t in found.items()}
    return {**recorded, **{n: t for n, t in named.items() if t != "null" or n not in recorded}}
