"""Where the columns of a job's tables come from, through queries and queries over queries, to the columns of sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skyband.framework.base.columns import (
    FINALS,
    HEADS,
    NOW,
    RESULTS,
    SKYBAND,
    TRAJECTORIES,
    Column,
    Group,
    Layout,
    Values,
    changes_layout,
    instant,
)
from skyband.framework.base.items import ItemShape
from skyband.framework.observe.lineage.stream_columns import (
    OWN,
    Influences,
    Origin,
    Stream,
    influence,
    merged,
    source_stream,
    united,
    with_rows,
)  # fmt: skip
from skyband.framework.plan.model import Plan, QueryNode, StreamNode
from skyband.framework.queries.registry import query_type
from skyband.framework.tables.schemas import changes_name, final_name, now_name, skyband_name, trajectory_name

_INSTANTS: Final = frozenset({"changed_at", "valid_from", "valid_to", "as_of", "window_start", "window_end", "last_time", "event_time"})
"""Columns of layouts with instants that follow from event times."""


@dataclass(frozen=True, slots=True)
class TableLineage:
    """The origin of every column of a table, and what decides which rows it has."""

    columns: Mapping[str, Origin]
    rows: Influences


def table_lineage(plan: Plan) -> dict[str, TableLineage]:
    """Return the lineage of the tables whose rows come from rows of sources: those of queries, ``heads`` and ``rejected``.

    Tables about the job itself (its runs, batches, checks and published versions) have none. O(tables x columns + length of the SQL).
    """
    source = source_stream(plan)
    found = _tables(plan, source)
    for stream in plan.streams:
        # Entries whose points carry something are entered again where it changes.
        points = found.get(trajectory_name(stream.of))
        found |= _tables(stream.plan, _result_stream(stream, found[changes_name(stream.of)], {} if points is None else points.rows))
    event_time = source.columns[source.event_time]
    keys = {c: source.columns[c] for c in plan.intake.partition_by}
    instants = {c.name: event_time.by("TRANSFORMATION") if c.name in _INSTANTS else OWN for c in HEADS if isinstance(c, Column)}
    found["heads"] = TableLineage(keys | instants, source.rows)
    read = merged((source.columns[f.name] for f in plan.intake.fields), "TRANSFORMATION")
    rejected = {"reason": OWN, "text": read, "origin": OWN, "event_time": event_time, "batch_id": OWN}
    found["rejected"] = TableLineage(rejected, source.rows)
    return found


def _result_stream(stream: StreamNode, changes: TableLineage, points: Influences) -> Stream:
    """Return the stream that a query's result makes up; ``changes``: the lineage of that query's changes, ``points``: of its points."""
    given = {new: changes.columns[column] for column, new in stream.columns}
    given[instant(stream.of)] = changes.columns["changed_at"]
    # The rest says of a change what it is: sign, cause, membership.
    columns = {f.name: given.get(f.name, OWN) for f in stream.plan.intake.fields}
    return with_rows(stream.plan, columns, [changes.rows, points])


def _tables(plan: Plan, stream: Stream) -> dict[str, TableLineage]:
    """Return the lineage of the tables of a plan's own queries and states."""
    found: dict[str, TableLineage] = {}
    for q in plan.queries:
        rows = _rows(plan, stream, q)
        layouts = {changes_name(q.name): (changes_layout(q.item.lasting), q.item)}
        if q.item.lasting:
            layouts |= {q.name: (RESULTS, q.item), now_name(q.name): (NOW, q.item)}
        if q.item.time_varying is not None:
            layouts[trajectory_name(q.name)] = (TRAJECTORIES, q.item)
        if q.item.closes:
            layouts[final_name(q.name)] = (FINALS, q.item)
        for name, (layout, shape) in layouts.items():
            # A trajectory has a point wherever anything that its points carry is another value.
            points = q.item.carried if layout is TRAJECTORIES else ()
            carried = (influence(stream.origin(c.source), "FILTER") for c in points if c.source)
            found[name] = TableLineage(_columns(plan, stream, layout, q, shape, q.carry), united([rows, *carried]))
    for number, node in enumerate(plan.operators):
        if node.skyband:
            queries = sorted((q for q in plan.queries if q.operator == number), key=lambda q: q.index)
            carry = dict.fromkeys(c for q in queries for c in q.carry)
            rows = united(_rows(plan, stream, q) for q in queries)
            found[skyband_name(node.name)] = TableLineage(_columns(plan, stream, SKYBAND, queries[0], queries[0].item, carry), rows)
    return found


def _rows(plan: Plan, stream: Stream, q: QueryNode) -> Influences:
    """Return what decides which items are in a query's result."""
    node = plan.operators[q.operator]
    objects = {c for part in q.item.parts for c in part.columns}
    deciding = query_type(q.type).deciding_columns(node, q)
    chosen = (influence(stream.origin(c), "GROUP_BY" if c in objects else "FILTER") for c in deciding)
    return united([stream.rows, *chosen, influence(stream.columns[stream.event_time], "WINDOW")])


def _columns(plan: Plan, stream: Stream, layout: Layout, q: QueryNode, shape: ItemShape, carry: Iterable[str]) -> dict[str, Origin]:
    found: dict[str, Origin] = {}
    event_time = stream.columns[stream.event_time]
    for part in layout:
        if isinstance(part, Column):
            found[part.name] = event_time.by("TRANSFORMATION") if part.name in _INSTANTS else OWN
        elif isinstance(part, Values):
            found |= dict.fromkeys((v.name for v in shape.values), _value(plan, stream, q))
        elif part is Group.EXTRA:
            found |= {v.name: event_time.by("TRANSFORMATION") if v.type == "timestamp" else OWN for v in shape.extra}
        elif part is Group.ITEM:
            found |= _items(plan, stream, shape, carry)
        else:
            found |= {"query": OWN} if part is Group.STREAM and q.members else {}
            found |= {c: stream.columns[c] for c in plan.intake.partition_by}
    return found


def _items(plan: Plan, stream: Stream, shape: ItemShape, carry: Iterable[str]) -> dict[str, Origin]:
    computed = {c.name for c in shape.carried}
    found: dict[str, Origin] = {}
    for c in shape.columns(plan.intake.id, carry, plan.intake.partition_by):
        if c.what == "time":
            found[c.name] = stream.columns[stream.event_time]
        elif c.source == "":
            found[c.name] = OWN
        else:
            found[c.name] = stream.origin(c.source).by("AGGREGATION" if c.name in computed else "IDENTITY")
    return found


def _value(plan: Plan, stream: Stream, q: QueryNode) -> Origin:
    """Return the origin of the values of an item: those that add up time come from event times too."""
    read = [stream.origin(c) for c in query_type(q.type).value_columns(plan.operators[q.operator], q)]
    adds_up = not all(part.is_row for part in q.item.parts)
    if q.item.moves:
        read.append(stream.columns[stream.event_time])
    return merged(read, "AGGREGATION" if adds_up else "TRANSFORMATION")
