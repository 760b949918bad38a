"""Check ``source.id: position``: whether the format has positions, and what does not go with them."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.errors import one_of
from skyband.framework.sources.registry import SOURCES
from skyband.framework.sources.several.format import SEVERAL
from skyband.framework.spec.checks.deletions import what_deletes
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

_AT: Final[Path] = ("source", "id")


def check_position(s: Scope) -> None:
    """Report all mistakes of a source whose rows are identified by their position. O(columns)."""
    doc, source = s.doc, s.job.source
    if not source.by_position or doc.bad(("source", "format")):
        return
    if source.format == SEVERAL:
        said = "rows of several sources are not identified by their position"
        doc.add("SKY-E117", said, doc.where_value(_AT), "name the columns that identify a row in each source")
        doc.poisoned.add(_AT)
        return
    columns = SOURCES.all()[source.format].position
    if not columns:
        formats = one_of([name for name, kind in SOURCES.all().items() if kind.position])
        said = f"rows of format {source.format} have no position that lasts"
        doc.add("SKY-E117", said, doc.where_value(_AT), f"name the columns that identify a row; position is for {formats}")
        doc.poisoned.add(_AT)
        return
    added = {c.name for c in columns}
    for name in source.columns:
        if name.lower() in added:
            hint = f"give it another name: {name}_: {{type: ..., from: {name}}}"
            doc.add("SKY-E125", f"id: position adds a column '{name.lower()}' of its own", doc.where_key(("source", "schema", name)), hint)
    if "unique" in source.model_fields_set and source.unique == "checked" and not doc.bad(("source", "unique")):
        hint = "leave 'unique' out"
        doc.add("SKY-E117", "no two rows have one position, so there is nothing to check", doc.where_value(("source", "unique")), hint)
    if (found := what_deletes(s)) is not None:
        said = "a row that deletes or replaces another one cannot have its position"
        doc.add("SKY-E117", said, doc.where_value(found[1]), f"{found[0]} needs an id: name the columns that identify a row")
