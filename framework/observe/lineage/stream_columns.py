"""Where the columns of a stream come from: through look-ups, transforms and statistics to the columns of sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from skyband.framework.plan.model import Derive, Field, Plan
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.sources.position import is_position
from skyband.framework.spec.expressions.sql import check_sql
from skyband.operators.base import CHARACTERS, TOKENS, UNITS

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
