"""Where the columns of a job's tables come from, through queries and queries over queries, to the columns of sources."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

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
from skyband.framework.base.redaction import redact_values
from skyband.framework.plan.model import Derive, Field, Plan, QueryNode, SourceNode, StreamNode
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.queries.registry import query_type
from skyband.framework.sources.position import is_position
from skyband.framework.spec.expressions.sql import check_sql
from skyband.framework.storage.location import without_scheme
from skyband.framework.tables.schemas import changes_name, final_name, now_name, skyband_name, trajectory_name
from skyband.operators.base import CHARACTERS, TOKENS, UNITS

# Where the columns of a stream come from: through look-ups, transforms and statistics to the columns of sources.

Kind = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION"]
Influence = Literal["JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW"]
LOOKUP: Final = "lookups."
"""Begins the name of a look-up table among the inputs of a job."""


class InputColumn(NamedTuple):
    """A column that a job reads. ``table``: "" for the only source, the name of one of several, or ``LOOKUP`` and that of a look-up."""

    table: str
    column: str


Influences = Mapping[InputColumn, frozenset[Influence]]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the values of a column come from: the columns that they are computed from, and those that only select them."""

    direct: Mapping[InputColumn, Kind] = field(default_factory=dict)
    indirect: Influences = field(default_factory=dict)

    def by(self, kind: Kind) -> Origin:
        """Return the origin of what is computed from the column in this way. An aggregate stays one, whatever is computed from it."""
        if kind == "IDENTITY":
            return self
        return Origin({c: "AGGREGATION" if "AGGREGATION" in (kind, k) else kind for c, k in self.direct.items()}, self.indirect)


OWN: Final = Origin()
"""The origin of columns that Skyband makes itself."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The columns of a stream, and what decides which rows are objects of it, and in which order."""

    columns: Mapping[str, Origin]
    event_time: str
    rows: Influences

    def origin(self, name: str) -> Origin:
        """Return the origin of a column, or of a set of tokens, as expressions name it."""
        if name in self.columns or name.startswith(TOKENS):
            return self.columns[name]
        return self.columns[name.removeprefix(UNITS).removeprefix(CHARACTERS)]


def merged(origins: Iterable[Origin], kind: Kind) -> Origin:
    """Return the origin of what is computed from several columns."""
    parts = [o.by(kind) for o in origins]
    return Origin({c: k for o in parts for c, k in o.direct.items()}, united(o.indirect for o in parts))


def united(influences: Iterable[Influences]) -> dict[InputColumn, frozenset[Influence]]:
    """Return all influences as one."""
    found: dict[InputColumn, frozenset[Influence]] = {}
    for one in influences:
        for column, kinds in one.items():
            found[column] = found.get(column, frozenset()) | kinds
    return found


def influence(origin: Origin, how: Influence) -> Influences:
    """Return the influence of a column on rows that it selects."""
    return united([dict.fromkeys(origin.direct, frozenset({how})), origin.indirect])


def source_stream(plan: Plan) -> Stream:
    """Return the stream of the job's source or sources. O(columns + length of the SQL)."""
    found = _read(plan)
    types: dict[str, str | None] = {f.name: f.type for f in plan.intake.fields}
    _look_up(plan, found)
    filters: list[Influences] = []
    for step in plan.intake.transforms:
        read = [found[c] for c in check_sql(step.sql, types).columns if c in found]
        if isinstance(step, Derive):
            found[step.name] = merged(read, "TRANSFORMATION")
        else:
            filters += [influence(o, "FILTER") for o in read]
    for rule in plan.intake.rules:
        if rule.severity != "warn":
            filters += [influence(found[c], "FILTER") for c in check_sql(rule.sql, types).columns if c in found]
    for lookup in plan.intake.lookups:
        if lookup.missing == "reject":
            filters += [found[new].indirect for new in lookup.taken]
    return with_rows(plan, found, filters)


def with_rows(plan: Plan, columns: dict[str, Origin], filters: Iterable[Influences]) -> Stream:
    """Return a stream with ``columns``, whose rows ``filters`` select, and what the plan's intake says of rows.

    Adds sets of tokens and statistics to ``columns``. A cell that cannot be read rejects its row, whatever its column: that is not counted.
    """
    intake = plan.intake
    columns |= {t.codes: columns[t.column].by("TRANSFORMATION") for t in intake.tokens}
    named: list[tuple[Iterable[str], Influence]] = [
        (intake.id, "FILTER"),
        ((intake.event_time, *intake.tie_break), "SORT"),
        (intake.partition_by, "GROUP_BY"),
        (node_columns(intake.deletes), "FILTER"),
        (() if intake.operations is None else (intake.operations.column,), "FILTER"),
        ([t.column for t in intake.tokens], "FILTER"),
        ([v.column for v in intake.vectors], "FILTER"),
    ]
    for report in intake.reports:
        updates = () if report.updates is None else (report.updates,)
        named.append(((*report.objects, *updates, *node_columns(report.where)), "FILTER"))
    rows = united([*filters, *(influence(columns[c], how) for names, how in named for c in names)])
    for node in plan.statistics:
        by = united([rows, *(influence(columns[c], "GROUP_BY") for c in node.by)])
        for (function, column), name in zip(node.functions, node.columns, strict=True):
            made = columns[column].by("AGGREGATION")
            columns[name] = columns[f"{node.name}.{function}"] = Origin(made.direct, united([made.indirect, by]))
    return Stream(columns, intake.event_time, rows)


def _read(plan: Plan) -> dict[str, Origin]:
    """Return the columns that come from sources as they are; those that readers make of a row's position are Skyband's own."""
    found: dict[str, Origin] = {}
    for f in plan.intake.fields:
        if f.source_name is None:
            continue
        parts = [(table, _named(f, part.fields)) for table, part in plan.source.each]
        direct: dict[InputColumn, Kind] = {InputColumn(t, n): "IDENTITY" for t, n in parts if n is not None and not is_position(f)}
        found[f.name] = Origin(direct)
    return found


def _named(f: Field, fields: Iterable[Field]) -> str | None:
    """Return the name in a source of the column ``f``; None if the source does not have it."""
    return next((one.source_name for one in fields if one.name == f.name), None)


def _look_up(plan: Plan, found: dict[str, Origin]) -> None:
    """Add the columns that rows take from look-up tables."""
    for lookup, table in zip(plan.intake.lookups, plan.lookups, strict=True):
        names = {f.name: f.source_name or f.name for f in table.fields}
        joined = [influence(found[row], "JOIN") for row, _ in lookup.on]
        joined += [
            {InputColumn(LOOKUP + lookup.name, names[c]): frozenset({"JOIN"})} for c in (*(t for _, t in lookup.on), *(lookup.valid or ()))
        ]
        if lookup.valid is not None:
            joined.append(influence(found[plan.intake.event_time], "JOIN"))
        for new, column in lookup.take:
            found[new] = Origin({InputColumn(LOOKUP + lookup.name, names[column]): "IDENTITY"}, united(joined))


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


# The names of the datasets that a job reads and writes, by OpenLineage's naming: a namespace for where it is stored, a name within it.
#
# Everything of a name that a spec takes from the environment is redacted: ``${WAREHOUSE}/flights``. Names of tables are never from there.

_PATTERN: Final = re.compile(r"[*?\[\]{}]")
_SAME: Final[Mapping[str, str]] = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Schemes with another name for the same storage: the namespace has the usual one."""
FILE: Final = "file"


class DatasetName(NamedTuple):
    """``namespace`` and ``name`` of a dataset; ``uri``: its address."""

    namespace: str
    name: str
    uri: str


class InputTable(NamedTuple):
    """A dataset that a job reads: its name, its format and its columns, as it names them."""

    dataset: DatasetName
    format: str
    fields: tuple[Field, ...]


def input_tables(plan: Plan) -> dict[str, InputTable]:
    """Return what a job reads, by ``InputColumn.table``: sources and look-up tables. Rows that are made up come from no dataset."""
    nodes = dict(plan.source.each) | {LOOKUP + node.name: table for node, table in zip(plan.intake.lookups, plan.lookups, strict=True)}
    found: dict[str, InputTable] = {}
    for table, node in nodes.items():
        name = _source(node)
        if name is not None:
            found[table] = InputTable(name, node.format, tuple(f for f in node.fields if not is_position(f)))
    return found


def output_name(root: str, table: str) -> DatasetName:
    """Return the name of a table below ``root``."""
    place = path_name(root)
    return DatasetName(place.namespace, f"{place.name.rstrip('/')}/{table}", f"{place.uri.rstrip('/')}/{table}")


def path_name(path: str) -> DatasetName:
    """Return the name of the data at a path: local, or of object storage. Of a pattern, that of the directory that it begins with."""
    scheme, mark, rest = path.partition("://")
    if not mark or scheme.lower() == FILE:
        name = _without_pattern(os.path.abspath(without_scheme(path)))
        return _redacted(FILE, name, f"{FILE}://{name}")
    parts = urlsplit(f"//{rest}")
    scheme = _SAME.get(scheme.lower(), scheme.lower())
    # A password has no place in a name; what stands before @ is a container of Azure's.
    user, at, host = parts.netloc.rpartition("@")
    namespace = f"{scheme}://{user.partition(':')[0] + at if ':' not in user else ''}{host}"
    name = _without_pattern(parts.path).strip("/") or "/"
    return _redacted(namespace, name if scheme != "hdfs" else f"/{name.strip('/')}", f"{namespace}/{name.strip('/')}")


def _redacted(*texts: str) -> DatasetName:
    return DatasetName(*map(redact_values, texts))


def _without_pattern(path: str) -> str:
    names = path.split("/")
    plain = next((n for n, name in enumerate(names) if _PATTERN.search(name)), len(names))
    return "/".join(names[:plain]) or "/"


def _source(node: SourceNode) -> DatasetName | None:
    options = dict(node.options)
    if node.path is not None:
        return path_name(node.path)
    if "topic" in options and "servers" in options:
        server = options["servers"].split(",")[0].strip()
        return _redacted(f"kafka://{server}", options["topic"], f"kafka://{server}/{options['topic']}")
    return None
