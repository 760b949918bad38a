"""The tables of a job: names, Arrow schemas, partitioning. Their columns are declared in ``base.columns``.

Comments are Arrow field metadata under ``comment``: both writers put them into the Delta schema, where BI tools show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, Literal

import pyarrow as pa

from skyband.framework.base.columns import (
    FINALS,
    HEADS,
    JOB_LAYOUTS,
    NOW,
    REJECTED,
    RESULTS,
    RUNS,
    SKYBAND,
    TRAJECTORIES,
    Column,
    Group,
    Layout,
    Values,
    changes_layout,
    fixed,
)  # fmt: skip
from skyband.framework.base.items import ItemShape
from skyband.framework.base.table_names import FINAL_RESULTS, JOB_RUNS, QUERY_COLUMN, TRAJECTORY, every_table
from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode

Life = Literal["history", "dense", "result", "book"]

_DENSE: Final = 10_000_000
"""Microseconds between batches under which a job's histories are dense."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table. ``life`` says how it is written, which decides how long replaced files and the log stay (see ``upkeep``):

    ``history`` is added to for good, ``dense`` is a history with commits every few seconds, ``result`` is derived again now and then,
    ``book`` is written or rewritten by every batch. ``published``: table ``published`` names a version of it, which stays readable.
    ``required``: the columns in which a null means that the table is damaged, as ``verify`` reports it. ``feed``: whether the table has
    Delta's change data feed.
    """

    name: str
    schema: pa.Schema
    comment: str
    partition_by: tuple[str, ...] = ()
    life: Life = "history"
    published: bool = False
    required: tuple[str, ...] = ()
    feed: bool = False


def field(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    """Return a nullable column with its comment."""
    return pa.field(name, kind, metadata={"comment": comment})


def _user(plan: Plan, column: str, name: str, comment: str) -> pa.Field:
    return field(name, arrow_type(plan.intake.field(column).type), comment)


def _keys(plan: Plan) -> list[pa.Field]:
    return [_user(plan, c, c, "key of the stream this row belongs to (partition_by)") for c in plan.intake.partition_by]


def _streams(plan: Plan, query: QueryNode) -> list[pa.Field]:
    """Return the columns that identify a change stream of an entry: the query in a table of queries, then the key."""
    own = [field(QUERY_COLUMN, pa.string(), "name of the query: a row of the table of queries")] if query.members else []
    return [*own, *_keys(plan)]


def stream_columns(plan: Plan, query: QueryNode) -> tuple[str, ...]:
    """Return the names of the columns that identify a change stream of an entry."""
    return (*((QUERY_COLUMN,) if query.members else ()), *plan.intake.partition_by)


def identity_columns(plan: Plan, query: QueryNode) -> tuple[str, ...]:
    """Return the columns that, with ``stream_columns``, identify an item."""
    return query.item.identity(plan.intake.partition_by)


_COLUMN_SAID: Final = {
    "id": "id of {part}",
    "seq": "position of {part} in its key's order: 0, 1, 2, ...",
    "time": "event time of {part}",
    "carry": "{source} of {part}",
    "object": "{source} of {part}",
}


def _items(plan: Plan, shape: ItemShape, carry: Iterable[str]) -> list[pa.Field]:
    fields: list[pa.Field] = []
    for c in shape.columns(plan.intake.id, carry, plan.intake.partition_by):
        said = c.said or _COLUMN_SAID[c.what].format(part=shape.parts[c.part].said, source=c.source)
        kind = pa.int64() if c.what == "seq" else STAMP if c.what == "time" else arrow_type(c.type or plan.field(c.source).type)
        fields.append(field(c.name, kind, said))
    return fields


def _values(query: QueryNode, when: str = "changed_at") -> list[pa.Field]:
    """Columns of values; ``when``: the column with the instant that they are as of, of those that move."""
    best = "smaller or larger, as its query says," if query.turned else "smaller" if query.direction == "min" else "larger"
    said = {"{best}": best, "{when}": when}
    return [
        field(v.name, arrow_type(v.type), reduce(lambda text, word: text.replace(word, said[word]), said, v.comment))
        for v in query.item.values
    ]


def _schema(plan: Plan, layout: Layout, query: QueryNode | None = None, carry: Iterable[str] = ()) -> pa.Schema:
    plan = plan if query is None else plan.of(query.name)
    return pa.schema([f for part in layout for f in _fields(plan, part, query, carry)])


def _fields(plan: Plan, part: Column | Group | Values, query: QueryNode | None, carry: Iterable[str]) -> Iterable[pa.Field]:
    """The fields of one part of a layout; ``query`` may only be missing where the layout has none of its columns."""
    if isinstance(part, Column):
        return [field(part.name, arrow_type(part.type), part.comment)]
    if part is Group.KEYS:
        return _keys(plan)
    assert query is not None
    if isinstance(part, Values):
        return _values(query, part.as_of)
    if part is Group.STREAM:
        return _streams(plan, query)
    if part is Group.EXTRA:
        return [field(v.name, arrow_type(v.type), v.comment) for v in query.item.extra]
    return _items(plan, query.item, carry)


def _required(plan: Plan, layout: Layout, query: QueryNode | None = None) -> tuple[str, ...]:
    """The columns of a layout in which a null means that the table is damaged: all but the nullable and the carried ones."""
    carried = set() if query is None else {c.name for c in query.item.columns((), query.carry, ()) if c.what == "carry"}
    nullable = {c.name for c in fixed(layout) if c.nullable}
    nullable |= set() if query is None else {v.name for v in query.item.values if v.nullable}
    schema = _schema(plan, layout, query, () if query is None else query.carry)
    return tuple(n for n in schema.names if n not in carried and n not in nullable)


def changes_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Return the columns of ``<query>_changes``."""
    return _schema(plan, changes_layout(query.item.lasting), query, query.carry)


def results_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Return the columns of ``<query>``: results as intervals."""
    return _schema(plan, RESULTS, query, query.carry)


def now_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Return the columns of ``<query>_now``: the current result."""
    return _schema(plan, NOW, query, query.carry)


def trajectory_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Return the columns of ``<query>_trajectory``."""
    return _schema(plan, TRAJECTORIES, query, query.carry)


def final_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Return the columns of ``<query>_final``."""
    return _schema(plan, FINALS, query, query.carry)


def skyband_schema(plan: Plan, operator: OperatorNode) -> pa.Schema:
    """Return the columns of ``<operator>_skyband``: its items carry what any of the operator's queries carries."""
    plan = next(one for one in plan.plans if any(o.name == operator.name for o in one.operators))
    queries = [q for q in plan.queries if plan.operators[q.operator].name == operator.name]
    queries.sort(key=lambda q: q.index)
    return _schema(plan, SKYBAND, queries[0], dict.fromkeys(c for q in queries for c in q.carry))


def heads_schema(plan: Plan) -> pa.Schema:
    """Return the columns of ``heads``: one row per key."""
    return _schema(plan, HEADS)


def fixed_schema(table: str) -> pa.Schema:
    """Return the columns of a table that are the same in every job: ``rejected``, ``runs``, ``checks``, ``published``, ``job_runs``."""
    return pa.schema([field(c.name, arrow_type(c.type), c.comment) for c in fixed(JOB_LAYOUTS[table])])


def changes_name(query: str) -> str:
    """Return the name of a query's changes table."""
    return f"{query}_changes"


def now_name(query: str) -> str:
    """Return the name of a query's table of current results."""
    return f"{query}_now"


def trajectory_name(query: str) -> str:
    """Return the name of a query's table of trajectories."""
    return query + TRAJECTORY


def final_name(query: str) -> str:
    """Return the name of a query's table of final results."""
    return query + FINAL_RESULTS


def derived_tables(plan: Plan) -> list[str]:
    """Return the names of the tables that are derived from the changes, and can be derived again."""
    return [n for q in plan.every_query if q.item.lasting for n in (q.name, now_name(q.name))]


def result_tables(plan: Plan) -> list[str]:
    """Return the names of the tables of results, whose versions table ``published`` has."""
    return [t.name for t in tables(plan) if t.published]


def skyband_name(operator: str) -> str:
    """Return the name of a shared state's table."""
    return f"{operator}_skyband"


def tables(plan: Plan) -> list[TableSpec]:
    """Return every table of the job, in the order of creation."""
    return [*batch_tables(plan), job_runs_table()]


def job_runs_table() -> TableSpec:
    """Return the table of the job's runs. It belongs to no generation and to no batch."""
    return TableSpec(JOB_RUNS, fixed_schema(JOB_RUNS), "One row per run of the job; it stays whatever becomes of the other tables.")


def batch_tables(plan: Plan) -> list[TableSpec]:
    """Return the tables that batches are written to, and those derived from them: one generation of the job."""
    made: list[TableSpec] = []
    history: Life = "history" if plan.trigger_micros is None or plan.trigger_micros >= _DENSE else "dense"
    for q in plan.every_query:
        what = f"Every change of the result of {q.name}, in order." if q.item.lasting else f"The items reported by {q.name}, in order."
        needed = _required(plan, changes_layout(q.item.lasting), q)
        made.append(TableSpec(changes_name(q.name), changes_schema(plan, q), what, life=history, published=True, required=needed))
        if q.item.lasting:
            made += _result_tables(plan, q)
    made += [*_trajectories(plan, history), *_finals(plan, history)]
    for o in (o for one in plan.plans for o in one.operators):
        if o.skyband:
            ranked = [q for q in plan.every_query if q.name in o.queries and q.k is not None]
            upto = "" if not ranked else "any k and " if ranked[0].item.any_k else f"any k up to {o.k} and "
            comment = f"Everything that can be in a result of {', '.join(o.queries)} for {upto}any window the state holds."
            made.append(TableSpec(skyband_name(o.name), skyband_schema(plan, o), comment, ("bucket",), "book"))
    made += [
        TableSpec("heads", heads_schema(plan), "Where every key of the stream stands.", ("bucket",), "book"),
        TableSpec(
            "rejected", fixed_schema("rejected"), "Rows that did not become objects of the stream, and why.", life=history,
            required=_required(plan, REJECTED),
        ),
        TableSpec("checks", fixed_schema("checks"), "Results of the data quality checks.", life="result"),
        TableSpec("published", fixed_schema("published"), "Which version of each table of results passed all checks.", life="result"),
        TableSpec(
            "runs", fixed_schema("runs"), "One row per micro-batch; a batch is complete in all tables when its row is here.", life="book",
            required=_required(plan, RUNS),
        ),
    ]  # fmt: skip
    feeds = {t for name in plan.feeds for t in every_table(name)}
    return [replace(t, feed=t.published and t.name in feeds) for t in made] if feeds else made


def _result_tables(plan: Plan, q: QueryNode) -> list[TableSpec]:
    """Return the tables of results that are derived from the changes of ``q``."""
    return [
        TableSpec(
            q.name, results_schema(plan, q), f"Results of {q.name} as intervals of validity.", ("is_current",), "result", True,
            required=_required(plan, RESULTS, q),
        ),
        TableSpec(
            now_name(q.name), now_schema(plan, q), f"Current result of {q.name}.", life="result", published=True,
            required=_required(plan, NOW, q),
        ),
    ]  # fmt: skip


def _trajectories(plan: Plan, life: Life) -> list[TableSpec]:
    """Tables of the queries whose items have values that move, with the line of SQL that gives a value at any instant."""
    made = []
    for q in plan.every_query:
        if q.item.time_varying is not None:
            value, slope = q.item.time_varying.value, q.item.time_varying.slope
            at = value if slope is None else f"{value} + {slope} * extract(epoch from (T - valid_from))"
            which = " and ".join(f"{c} = ..." for c in dict.fromkeys((*stream_columns(plan, q), *identity_columns(plan, q))))
            name = trajectory_name(q.name)
            whose = "all objects" if q.item.time_varying.all_items else f"the members of {q.name} while they are that"
            said = (
                f"How {value} of {whose} moves, point by point. At T: select {at} "
                f"from {name} where {which} and valid_from <= T order by valid_from desc limit 1"
            )
            needed = _required(plan, TRAJECTORIES, q)
            made.append(TableSpec(name, trajectory_schema(plan, q), said, life=life, published=True, required=needed))
    return made


def _finals(plan: Plan, life: Life) -> list[TableSpec]:
    """Tables of the queries with tumbling windows."""
    made = []
    for q in plan.every_query:
        if q.item.closes:
            said, needed = f"The result of {q.name} at the end of each window, written as it closes.", _required(plan, FINALS, q)
            made.append(TableSpec(final_name(q.name), final_schema(plan, q), said, life=life, published=True, required=needed))
    return made
