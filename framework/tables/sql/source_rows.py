"""Define the views ``<query>_rows``: results joined to the source's own columns.

A row of the source is found by its id, its event time and the key columns. If several different rows have the same
ones, it is unknown which was accepted, and some may be rejected or filtered. So a view has the source's columns only if there is exactly
one such row (which may be repeated), and a column with the number of such rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from skyband.framework.base.items import Part
from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Field, Plan, QueryNode
from skyband.framework.sources.registry import source_format
from skyband.framework.tables.schemas import changes_name, changes_schema, results_schema
from skyband.framework.tables.sql.view import View, by, free, listed, quoted

SOURCE: Final = "source_rows"
"""The name, in this SQL, of the rows of the source, with the columns and types of the spec."""


def why_not(plan: Plan) -> str | None:
    """Return why views cannot be joined to the source, in words; None if they can."""
    named = {f.name: f for f in plan.intake.fields}
    # The position of a row finds it without its time.
    needed = plan.intake.id if plan.source.position else (*plan.intake.id, plan.intake.event_time)
    made = [c for c in dict.fromkeys(needed) if named[c].source_name is None]
    if made:
        said = "by which a row would be found again, is made by a look-up or a transform: the source itself does not have it"
        return f"{', '.join(made)}, {said}"
    gone = source_format(plan.source.format).rows_gone(plan.source)
    if gone is not None:
        return gone
    return None if plan.source.path is not None else f"a source of format {plan.source.format} has no path to read rows at"


def source_schema(plan: Plan) -> pa.Schema:
    """Return the columns of ``SOURCE``: those that the spec declares, each once, and those of the position."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in _columns(plan)])


def _columns(plan: Plan) -> tuple[Field, ...]:
    return (*plan.source.fields, *plan.source.position)


def joined(sql: str, relation: str) -> str:
    """Return the ``sql`` of a view with the source's rows read from ``relation``."""
    return sql.replace(f" from {SOURCE})", f" from {relation})", 1)


def found_by(plan: Plan) -> list[str]:
    """Return the columns of the source by which a row is found."""
    declared = {f.name for f in _columns(plan)}
    return list(dict.fromkeys(c for c in (*plan.intake.id, plan.intake.event_time, *plan.intake.partition_by) if c in declared))


def rows_view(plan: Plan, query: QueryNode) -> Iterator[View]:
    """Yield the view ``<query>_rows``; none for objects that many rows report on, queries over results, and if ``why_not``."""
    if not query.item.rows or query not in plan.queries or why_not(plan) is not None:
        return
    table = query.name if query.item.lasting else changes_name(query.name)
    schema = results_schema(plan, query) if query.item.lasting else changes_schema(plan, query)
    taken, said = list(schema.names), dict[str, str]()
    many, nth = free([f.name for f in _columns(plan)], "of_key", "nth")
    columns, joins, source_keys = [], [], []
    for part in query.item.rows:
        side = quoted(f"part_{part.role}")
        (count,) = free(taken, f"{part.prefix}source_rows")
        taken.append(count)
        said[count] = f"how many different rows the source has with the id and event time of {part.said}: its columns are given if 1"
        columns.append(f"coalesce({side}.{quoted(many)}, 0) as {quoted(count)}")
        for f in _lacking(plan, query):
            (name,) = free(taken, part.prefix + f.name)
            taken.append(name)
            said[name] = f"{f.name} of {part.said}, from the source"
            columns.append(f"case when {side}.{quoted(many)} = 1 then {side}.{quoted(f.name)} end as {quoted(name)}")
        pairs = list(_same_row(plan, query, part))
        on = " and ".join(f"{side}.{quoted(c)} = r.{quoted(of)}" for c, of in pairs)
        source_keys.append(f"select {', '.join(f'{quoted(of)} as {quoted(c)}' for c, of in pairs)} from {quoted(table)}")
        joins.append(f"left join _found {side} on {side}.{quoted(nth)} = 1 and {on}")
    of_row = listed(found_by(plan))
    sql = (
        f"with _rows as (select distinct {listed(f.name for f in _columns(plan))} from {SOURCE}), "
        f"_found as (select {by('_rows.', [f.name for f in _columns(plan)])}count(*) over (partition by {of_row}) as {quoted(many)}, "
        f"row_number() over (partition by {of_row} order by {of_row}) as {quoted(nth)} from _rows) "
        f"select r.*, {', '.join(columns)} from {quoted(table)} r {' '.join(joins)}"
    )
    what = "Everything that was in the result" if query.item.lasting else "Everything that was reported"
    comment = f"{what} of {query.name}, with the columns of the source's rows."
    yield View(f"{query.name}_rows", comment, sql, (table,), said, " union ".join(source_keys))


def _lacking(plan: Plan, query: QueryNode) -> list[Field]:
    """Return the source's columns that the table has neither as id, time or key, nor carried."""
    known = {plan.intake.event_time, *plan.intake.id, *plan.intake.partition_by}
    known |= {c.source for c in query.item.columns(plan.intake.id, query.carry, plan.intake.partition_by) if c.what == "carry"}
    return [f for f in _columns(plan) if f.name not in known]


def _same_row(plan: Plan, query: QueryNode, part: Part) -> Iterator[tuple[str, str]]:
    """Yield (column of the source, column of the table) by which a row is found."""
    keys = set(plan.intake.partition_by)
    for c in found_by(plan):
        # A key column is stored once, before the item. An id that is a key column is not repeated in items of one part.
        alone = c in keys and (c not in plan.intake.id or not part.prefix)
        yield c, part.prefix + "time" if c == plan.intake.event_time and c not in plan.intake.id else c if alone else part.prefix + c
