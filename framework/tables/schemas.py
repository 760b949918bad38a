"""The tables of a job: names, columns with comments, partitioning (docs/semantics.md Tables).

Comments are Arrow field metadata under ``comment``: both writers put them into the Delta schema, where BI tools show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from skyband.framework.plan.model import OperatorNode, Plan, QueryNode
from skyband.framework.spec.names import QUERY_COLUMN
from skyband.framework.tables.types import STAMP, arrow_type

_INT: Final = pa.int64()
_TEXT: Final = pa.string()
_ROLE: Final = {
    "": "the object", "older": "the older object of the pair", "newer": "the newer object of the pair", "a": "side a of the pair",
    "b": "side b of the pair",
}  # fmt: skip
REASONS: Final = ("parse", "rule", "late", "duplicate_id", "no_target", "null", "other")
"""Classes of rejected rows with a column each in ``runs``."""
DURATIONS: Final = ("batch", "engine", "load", "decode", "order", "operator", "state", "write")
"""What ``runs`` times, in milliseconds, a column each."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: ``life`` says whether rows are only ever added or also replaced (then old files go after an hour, not a week)."""

    name: str
    schema: pa.Schema
    comment: str
    partition_by: tuple[str, ...] = ()
    life: Literal["append", "rewritten"] = "append"


def field(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    """A nullable column with its comment."""
    return pa.field(name, kind, metadata={"comment": comment})


def seq_columns(roles: Iterable[str]) -> list[str]:
    """The columns that, with the key columns, name an item."""
    return [f"{role}_seq" if role else "seq" for role in roles]


def _user(plan: Plan, column: str, name: str, comment: str) -> pa.Field:
    return field(name, arrow_type(plan.intake.field(column).type), comment)


def _keys(plan: Plan) -> list[pa.Field]:
    return [_user(plan, c, c, "key of the stream this row belongs to (partition_by)") for c in plan.intake.partition_by]


def _streams(plan: Plan, query: QueryNode) -> list[pa.Field]:
    """What tells the change streams of an entry apart: the query of its table, then the key."""
    own = [field(QUERY_COLUMN, _TEXT, "name of the query: a row of the table of queries")] if query.members else []
    return [*own, *_keys(plan)]


def stream_columns(plan: Plan, query: QueryNode) -> tuple[str, ...]:
    """Names of the columns that tell the change streams of an entry apart."""
    return (*((QUERY_COLUMN,) if query.members else ()), *plan.intake.partition_by)


def _items(plan: Plan, roles: tuple[str, ...], carry: Iterable[str]) -> list[pa.Field]:
    intake = plan.intake
    carry = tuple(carry)
    fields: list[pa.Field] = []
    for role in roles:
        prefix, whose = (f"{role}_" if role else ""), _ROLE.get(role, role)
        fields += [
            _user(plan, c, prefix + c, f"id of {whose}") for c in intake.id if prefix or c not in intake.partition_by
        ]  # fmt: skip
        fields.append(field(prefix + "seq", _INT, f"position of {whose} in its key's order: 0, 1, 2, ..."))
        fields.append(field(prefix + "time", STAMP, f"event time of {whose}"))
        fields += [_user(plan, c, prefix + c, f"{c} of {whose}") for c in carry]
    return fields


def _score(query: QueryNode) -> list[pa.Field]:
    best = "smaller or larger, as its query says," if query.turned else "smaller" if query.direction == "min" else "larger"
    return [field("score", pa.float64(), f"score of the item; {best} ranks first")] if query.scored else []


def changes_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>_changes``."""
    return pa.schema(
        [
            *_streams(plan, query),
            field("at", STAMP, "event time of the change"),
            field("step", _INT, "number of the event that changed this query's result: 1, 2, 3, ... per key, without gaps"),
            field("pos", pa.int32(), "place of the change within its step, from 0: all - first, then all +, each in rank order"),
            field("change", _TEXT, "+ the item entered the result, - it left"),
            *_items(plan, query.roles, query.carry),
            *_score(query),
            field("cause", _TEXT, "why: arrival, promoted, displaced, expiry, delete, crossing or boundary"),
            field("batch_id", _INT, "micro-batch that wrote the row (see runs)"),
        ]
    )


def results_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>``: results as intervals."""
    return pa.schema(
        [
            *_streams(plan, query),
            *_items(plan, query.roles, query.carry),
            *_score(query),
            field("valid_from", STAMP, "event time from which the item was in the result"),
            field("valid_to", STAMP, "event time at which it left; null: still in. In the result as of t: valid_from <= t < valid_to"),
            field("from_step", _INT, "step at which it entered"),
            field("to_step", _INT, "step at which it left; null: still in"),
            field("current", pa.bool_(), "true: still in the result"),
        ]
    )


def now_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>_now``: the current result."""
    return pa.schema(
        [
            *_streams(plan, query),
            field("rank", pa.int32(), "place in the result, from 1"),
            *_items(plan, query.roles, query.carry),
            *_score(query),
            field("as_of", STAMP, "last instant up to which this key's result is complete"),
        ]
    )


def _extra(query: QueryNode, operator: OperatorNode) -> list[pa.Field]:
    """Columns that tell whether a retained object is in the result of a window (``Items.extra`` of the operator)."""
    if query.type != "skyline":
        return []
    beats = "no row" if operator.k == 1 else f"fewer than {operator.k} rows"
    rule = f"{beats} of a window beat the object, itself in the window, exactly if pred is null or no longer in the window"
    return [
        field("newer", _INT, "how many newer rows beat the object"),
        field("pred", _INT, f"seq of the older row that decides: {rule}"),
        field("pred_time", STAMP, "event time of pred"),
    ]


def skyband_schema(plan: Plan, operator: OperatorNode) -> pa.Schema:
    """Columns of ``<operator>_skyband``: its items carry what any of the operator's queries carries."""
    queries = [q for q in plan.queries if plan.operators[q.operator] is operator or plan.operators[q.operator].name == operator.name]
    queries.sort(key=lambda q: q.index)
    carry = dict.fromkeys(c for q in queries for c in q.carry)
    return pa.schema(
        [
            *_keys(plan),
            *_items(plan, queries[0].roles, carry),
            *_score(queries[0]),
            *_extra(queries[0], operator),
            field("bucket", pa.int32(), "bucket of keys that this row's key belongs to"),
        ]
    )


def heads_schema(plan: Plan) -> pa.Schema:
    """Columns of ``heads``: one row per key."""
    return pa.schema(
        [
            *_keys(plan),
            field("bucket", pa.int32(), "bucket of keys that this key belongs to"),
            field("last_seq", _INT, "position of the key's newest object"),
            field("last_time", STAMP, "event time of the key's newest object"),
            field("as_of", STAMP, "last instant up to which this key's results were complete when it last got rows"),
        ]
    )


def rejected_schema() -> pa.Schema:
    """Columns of ``rejected``."""
    return pa.schema(
        [
            field("reason", _TEXT, "parse, rule:<name>, late, duplicate_id, no_target, null_id, null_time, null_key, time_range"),
            field("text", _TEXT, "the row: its original text (parse) or the parsed row as JSON"),
            field("origin", _TEXT, "source file or offset"),
            field("event_time", STAMP, "event time of the row, if it has one"),
            field("batch_id", _INT, "micro-batch that rejected the row (see runs)"),
        ]
    )


def runs_schema() -> pa.Schema:
    """Columns of ``runs``: one row per micro-batch, written last. rows_in = filtered + rejected + accepted + pending_change."""
    why = {
        "rule": "a row rule failed", "no_target": "a deletion of no live row", "null": "id, event time or key is null",
        "other": "another reason", "parse": "not parsable",
    }  # fmt: skip
    return pa.schema(
        [
            field("batch_id", _INT, "number of the micro-batch"),
            field("batch_time", STAMP, "wall-clock time of the batch"),
            field("rows_in", _INT, "rows read"),
            field("filtered", _INT, "rows dropped by the spec's filters"),
            field("rejected", _INT, "rows in table rejected"),
            *(field(f"rejected_{r}", _INT, f"rejected: {why.get(r, r)}") for r in REASONS),
            field("accepted", _INT, "rows that became objects of the stream, or deleted one"),
            field("pending", _INT, "rows waiting behind the watermark after this batch"),
            field("pending_change", _INT, "rows waiting after this batch less those before it"),
            field("changes", _INT, "rows written to the changes tables"),
            field("unusable", _TEXT, "JSON: query to number of objects it could not use (null, NaN)"),
            field("frontier", STAMP, "the watermark: all events before it had been processed"),
            field("newest", STAMP, "latest event time accepted or pending so far"),
            field("counters", _TEXT, "JSON: work counters of the operators"),
            *(field(f"{d}_ms", pa.float64(), f"milliseconds: {d}") for d in DURATIONS),
        ]
    )


def checks_schema() -> pa.Schema:
    """Columns of ``checks``: one row per expectation and run."""
    return pa.schema(
        [
            field("run_id", _TEXT, "the run: checkpoint generation and last batch"),
            field("batch_id", _INT, "last batch in the tables when the check ran"),
            field("checked_at", STAMP, "wall-clock time of the check"),
            field("table", _TEXT, "table checked"),
            field("expectation", _TEXT, "Great Expectations' name of the expectation"),
            field("arguments", _TEXT, "JSON: arguments of the expectation"),
            field("severity", _TEXT, "critical, warning or info"),
            field("success", pa.bool_(), "the expectation was met"),
            field("observed", _TEXT, "JSON: value observed, for expectations about the whole table"),
            field("rows_checked", _INT, "rows looked at"),
            field("unexpected", _INT, "rows that do not meet the expectation"),
            field("unexpected_percent", pa.float64(), "the same in percent of the rows looked at"),
            field("examples", _TEXT, "JSON: a few values that do not meet the expectation"),
            field("error", _TEXT, "why the check could not be evaluated, if it could not"),
        ]
    )


def changes_name(query: str) -> str:
    """Name of a query's changes table."""
    return f"{query}_changes"


def now_name(query: str) -> str:
    """Name of a query's table of current results."""
    return f"{query}_now"


def skyband_name(operator: str) -> str:
    """Name of a shared state's table."""
    return f"{operator}_skyband"


def tables(plan: Plan) -> list[TableSpec]:
    """Every table of the job, in the order they are made."""
    made: list[TableSpec] = []
    for q in plan.queries:
        made += [
            TableSpec(changes_name(q.name), changes_schema(plan, q), f"Every change of the result of {q.name}, in order."),
            TableSpec(q.name, results_schema(plan, q), f"Results of {q.name} as intervals of validity.", ("current",), "rewritten"),
            TableSpec(now_name(q.name), now_schema(plan, q), f"Current result of {q.name}.", life="rewritten"),
        ]
    for o in plan.operators:
        if o.skyband:
            upto = f"any k up to {o.k} and " if any(q.name in o.queries and q.k is not None for q in plan.queries) else ""
            comment = f"Everything that can be in a result of {', '.join(o.queries)} for {upto}any window the state holds."
            made.append(TableSpec(skyband_name(o.name), skyband_schema(plan, o), comment, ("bucket",), "rewritten"))
    made += [
        TableSpec("heads", heads_schema(plan), "Where every key of the stream stands.", ("bucket",), "rewritten"),
        TableSpec("rejected", rejected_schema(), "Rows that did not become objects of the stream, and why."),
        TableSpec("checks", checks_schema(), "Results of the data quality checks."),
        TableSpec("runs", runs_schema(), "One row per micro-batch; a batch is complete in all tables when its row is here."),
    ]
    return made
