"""Read look-up tables without Spark, as Spark would read them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups.join import Tables
from skyband.framework.lookups.table import MOST_ROWS, checked, nodes
from skyband.framework.plan.model import Plan, SourceNode
from skyband.framework.plan.nodes import LookupNode
from skyband.framework.plan.reader import is_far
from skyband.framework.sources.files import preflight
from skyband.framework.sources.preview import first_rows, texts_of
from skyband.framework.sources.values import arrow_table


def read_tables(plan: Plan) -> Tables:
    """Return the tables of all look-ups as they are now. O(rows).

    Raises SkybandError SKY-E531 where only Spark knows how a table is read, and as ``streaming.rows.lookup_tables``.
    """
    return {node.name: _read(node, source) for node, source in nodes(plan)}


def of_rows(node: LookupNode, source: SourceNode, rows: list[dict[str, Any]]) -> pa.Table:
    """Return the table that ``rows`` make: values of ``rehearsal.rows``, null where a column is left out. Raises as ``checked``."""
    return checked(node, source, arrow_table(rows, source.fields))


def _read(node: LookupNode, source: SourceNode) -> pa.Table:
    try:
        wrong = preflight.missing(source)
        if wrong is None and is_far(str(source.path)):
            said = f"look-up {node.name}, whose path is a pattern, or of another file system, is read by Spark alone"
            raise SkybandError("SKY-E531", said, hint="skyband preview --engine shows its rows")
        wrong = wrong or next(iter(preflight.columns(source, every=True)), None)
        if wrong is not None:
            raise wrong
        found = first_rows(source, MOST_ROWS + 1)
    except SkybandError as e:
        if e.code == "SKY-E531":
            raise
        raise unreadable(node, e.message, e.hint) from e
    if found.doubtful:
        said = f"{counted(found.doubtful, 'row')} of look-up {node.name} may be read differently by Spark"
        raise SkybandError("SKY-E531", said, hint="skyband preview --engine shows its rows")
    bad = sum(reason is not None for reason in found.reasons)
    if bad:
        raise unparsed(node, bad, next(texts_of(found), None))
    return of_rows(node, source, found.rows)


def unreadable(node: LookupNode, said: str, hint: str | None) -> SkybandError:
    """Return SKY-E321: the table of a look-up cannot be read."""
    hint = hint and hint.replace("source.", f"lookups.{node.name}.")
    return SkybandError("SKY-E321", f"look-up {node.name}: {said}", hint=hint)


def unparsed(node: LookupNode, rows: int, first: str | None) -> SkybandError:
    """Return SKY-E321: rows of the table do not parse; ``first``: what is wrong with some of them."""
    hint = f"fix the table, or the types in lookups.{node.name}.schema" + (f": {first}" if first else "")
    return SkybandError("SKY-E321", f"look-up {node.name}: {counted(rows, 'row')} of its table cannot be read", hint=hint)
