"""The tables of a job: names, columns with comments, partitioning (docs/semantics, tables).

Comments are Arrow field metadata under ``comment``: both writers put them into the Delta schema, where BI tools show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final, Literal

import pyarrow as pa

from skyband.framework.base.items import ItemShape
from skyband.framework.base.messages import TIMES
from skyband.framework.base.reasons import REASONS
from skyband.framework.base.table_names import JOB_RUNS, QUERY_COLUMN, TRAJECTORY
from skyband.framework.base.types import STAMP, arrow_type
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode

_INT: Final = pa.int64()
_TEXT: Final = pa.string()
DURATIONS: Final = ("batch", "engine", *TIMES, "write")
"""What ``runs`` times, in milliseconds, a column each."""


Life = Literal["history", "dense", "result", "book"]

_DENSE: Final = 10_000_000
"""Microseconds between batches under which a job's histories are dense."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table. ``life`` says how it is written, which decides how long replaced files and the log stay (see ``upkeep``):

    ``history`` is added to for good, ``dense`` is a history with commits every few seconds, ``result`` is derived anew now and then,
    ``book`` is written or rewritten by every batch. ``published``: table ``published`` names a version of it, which stays readable.
    """

    name: str
    schema: pa.Schema
    comment: str
    partition_by: tuple[str, ...] = ()
    life: Life = "history"
    published: bool = False


def field(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    """A nullable column with its comment."""
    return pa.field(name, kind, metadata={"comment": comment})


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


def identity_columns(plan: Plan, query: QueryNode) -> tuple[str, ...]:
    """The columns that, with ``stream_columns``, name an item."""
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
        said = _COLUMN_SAID[c.what].format(part=shape.parts[c.part].said, source=c.source)
        kind = _INT if c.what == "seq" else STAMP if c.what == "time" else arrow_type(plan.intake.field(c.source).type)
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


def changes_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>_changes``: of items that are told once, without what would be the same in every row."""
    if not query.item.lasting:
        return _told_schema(plan, query)
    return pa.schema(
        [
            *_streams(plan, query),
            field("changed_at", STAMP, "event time of the change"),
            field("step", _INT, "number of the event that changed this query's result: 1, 2, 3, ... per key, without gaps"),
            field("pos", pa.int32(), "place of the change within its step, from 0: all - first, then all +, each in rank order"),
            field("change", _TEXT, "+ the item entered the result, - it left"),
            *_items(plan, query.item, query.carry),
            *_values(query),
            field("cause", _TEXT, "why: arrival, promoted, displaced, expiry, delete, crossing or boundary"),
            field("batch_id", _INT, "micro-batch that wrote the row (see runs)"),
        ]
    )


def _told_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    return pa.schema(
        [
            *_streams(plan, query),
            field("changed_at", STAMP, "event time of the arrival at which the item was told"),
            field("step", _INT, "number of the arrival that had something to tell: 1, 2, 3, ... per key, without gaps"),
            field("pos", pa.int32(), "place of the item within its step, from 0, in rank order"),
            *_items(plan, query.item, query.carry),
            *_values(query),
            field("batch_id", _INT, "micro-batch that wrote the row (see runs)"),
        ]
    )


def results_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>``: results as intervals."""
    return pa.schema(
        [
            *_streams(plan, query),
            *_items(plan, query.item, query.carry),
            *_values(query, "valid_from"),
            field("valid_from", STAMP, "event time from which the item was in the result"),
            field("valid_to", STAMP, "event time at which it left; null: still in. In the result as of t: valid_from <= t < valid_to"),
            field("from_step", _INT, "step at which it entered"),
            field("to_step", _INT, "step at which it left; null: still in"),
            field("is_current", pa.bool_(), "true: still in the result"),
        ]
    )


def now_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>_now``: the current result."""
    return pa.schema(
        [
            *_streams(plan, query),
            field("rank", pa.int32(), "place in the result, from 1"),
            *_items(plan, query.item, query.carry),
            *_values(query, "as_of"),
            field("as_of", STAMP, "last instant up to which this key's result is complete"),
        ]
    )


def trajectory_schema(plan: Plan, query: QueryNode) -> pa.Schema:
    """Columns of ``<query>_trajectory``: points from which the values of items move."""
    return pa.schema(
        [
            *_streams(plan, query),
            *_items(plan, query.item, query.carry),
            field("valid_from", STAMP, "event time from which the values move so, until the item's next point (or its end in the result)"),
            *_values(query, "valid_from"),
            field("batch_id", _INT, "micro-batch that wrote the row (see runs)"),
        ]
    )


def skyband_schema(plan: Plan, operator: OperatorNode) -> pa.Schema:
    """Columns of ``<operator>_skyband``: its items carry what any of the operator's queries carries."""
    queries = [q for q in plan.queries if plan.operators[q.operator] is operator or plan.operators[q.operator].name == operator.name]
    queries.sort(key=lambda q: q.index)
    carry = dict.fromkeys(c for q in queries for c in q.carry)
    return pa.schema(
        [
            *_keys(plan),
            *_items(plan, queries[0].item, carry),
            *_values(queries[0]),
            *(field(v.name, arrow_type(v.type), v.comment) for v in queries[0].item.extra),
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
            field("reason", _TEXT, ", ".join(r for c in REASONS for r in c.reasons)),
            field("text", _TEXT, "the row: its original text (parse) or the parsed row as JSON; of a file (bad_file) what is known of it"),
            field("origin", _TEXT, "source file or offset"),
            field("event_time", STAMP, "event time of the row, if it has one"),
            field("batch_id", _INT, "micro-batch that rejected the row (see runs)"),
        ]
    )


def runs_schema() -> pa.Schema:
    """Columns of ``runs``: one row per micro-batch, written last. rows_in = filtered + rejected + accepted + pending_change."""
    return pa.schema(
        [
            field("batch_id", _INT, "number of the micro-batch"),
            field("batch_time", STAMP, "wall-clock time of the batch"),
            field("rows_in", _INT, "rows read"),
            field("filtered", _INT, "rows dropped by the spec's filters"),
            field("rejected", _INT, "rows in table rejected"),
            *(field(f"rejected_{c.name}", _INT, f"rejected: {c.meaning}") for c in REASONS),
            field("accepted", _INT, "rows that became objects of the stream, or deleted one"),
            field("pending", _INT, "rows waiting behind the watermark after this batch"),
            field("pending_change", _INT, "rows waiting after this batch less those before it"),
            field("changes", _INT, "rows written to the changes tables"),
            field("unusable", _TEXT, "JSON: query to number of objects it could not use (null, NaN)"),
            field("warned", _TEXT, "JSON: row rule of severity warn to number of rows that break it, late ones and duplicates too"),
            field("drift", _TEXT, "JSON: what is not as it was with the columns of the files of this batch"),
            field("frontier", STAMP, "the watermark: all events before it had been processed"),
            field("newest", STAMP, "latest event time accepted or pending so far"),
            field("counters", _TEXT, "JSON: work counters of the operators"),
            field("committed", _TEXT, "JSON: table to the last batch that it has rows of"),
            *(field(f"{d}_ms", pa.float64(), f"milliseconds: {d}") for d in DURATIONS),
        ]
    )


def checks_schema() -> pa.Schema:
    """Columns of ``checks``: one row per look, that is per expectation, rule or invariant and end of a run."""
    return pa.schema(
        [
            field("run_id", _TEXT, "the run: checkpoint generation and last batch, and what was asked"),
            field("batch_id", _INT, "last batch in the tables when the check ran"),
            field("first_batch_id", _INT, "first batch whose rows were looked at; null: the whole table"),
            field("checked_at", STAMP, "wall-clock time of the check"),
            field("table_name", _TEXT, "table checked"),
            field("table_version", _INT, "version of the table (Delta) that was looked at"),
            field("expectation", _TEXT, "Great Expectations' name of the expectation; skyband_...: a rule over runs, or what always holds"),
            field("arguments", _TEXT, "JSON: arguments of the expectation"),
            field("severity", _TEXT, "critical, warning or info"),
            field("success", pa.bool_(), "the expectation was met"),
            field("observed", _TEXT, "JSON: value observed, for expectations about the whole table"),
            field("rows_checked", _INT, "rows looked at"),
            field("unexpected", _INT, "rows that do not meet the expectation"),
            field("unexpected_percent", pa.float64(), "the same in percent of the rows looked at"),
            field("examples", _TEXT, "JSON: a few values that do not meet the expectation"),
            field("error", _TEXT, "why the check could not be evaluated, if it could not"),
            field("check_ms", pa.float64(), "milliseconds that the look took"),
        ]
    )


def published_schema() -> pa.Schema:
    """Columns of ``published``: one row per table of results."""
    return pa.schema(
        [
            field("table_name", _TEXT, "table of results"),
            field("version", _INT, "its newest version (Delta) that passed all checks: select ... version as of ..."),
            field("published_at", STAMP, "wall-clock time at which that version passed"),
        ]
    )


def job_runs_schema() -> pa.Schema:
    """Columns of ``job_runs``: one row per run of the job, whatever became of it."""
    return pa.schema(
        [
            field("run_id", _INT, "number of the run: 1, 2, 3, ..."),
            field("command", _TEXT, "run, or rebuild: a new generation of all tables"),
            field("started_at", STAMP, "wall-clock time at which it began"),
            field("ended_at", STAMP, "wall-clock time at which it ended; null: it was killed"),
            field("status", _TEXT, "done, checks_failed, too_many_rejected, refused, failed, stopped (by a signal) or killed"),
            field("exit_code", _INT, "of the command; null: it was killed"),
            field("error_code", _TEXT, "code of the first error that it told"),
            field("batches", _INT, "batches that it completed; null: it was killed, see runs"),
            field("first_batch_id", _INT, "first of them (see runs); null: none"),
            field("last_batch_id", _INT, "last of them (see runs); null: none"),
            field("rows_in", _INT, "rows read in them"),
            field("accepted", _INT, "of these, rows that became objects of the stream, or deleted one"),
            field("rejected", _INT, "of these, rows in table rejected"),
            field("changes", _INT, "rows written to the changes tables"),
            field("generation", _TEXT, "generation of the tables that it wrote to; null: it got no further than its start"),
            field("spec_hash", _TEXT, "SHA-256 of the spec file's bytes"),
            field("skyband_version", _TEXT, "version of Skyband"),
            field("spark_version", _TEXT, "version of PySpark"),
            field("run_by", _TEXT, "user of the machine who ran it"),
            field("host_name", _TEXT, "machine that it ran on"),
            field("process_id", _INT, "number of its process there"),
        ]
    )


def changes_name(query: str) -> str:
    """Name of a query's changes table."""
    return f"{query}_changes"


def now_name(query: str) -> str:
    """Name of a query's table of current results."""
    return f"{query}_now"


def trajectory_name(query: str) -> str:
    """Name of a query's table of trajectories."""
    return query + TRAJECTORY


def derived_tables(plan: Plan) -> list[str]:
    """Names of the tables that are made from the changes, and can be made anew."""
    return [n for q in plan.queries if q.item.lasting for n in (q.name, now_name(q.name))]


def result_tables(plan: Plan) -> list[str]:
    """Names of the tables of results: those of which table ``published`` names a version."""
    return [t.name for t in tables(plan) if t.published]


def skyband_name(operator: str) -> str:
    """Name of a shared state's table."""
    return f"{operator}_skyband"


def tables(plan: Plan) -> list[TableSpec]:
    """Every table of the job, in the order they are made."""
    return [*batch_tables(plan), job_runs_table()]


def job_runs_table() -> TableSpec:
    """The table of the job's runs: of no generation of the others, and of no batch."""
    return TableSpec(JOB_RUNS, job_runs_schema(), "One row per run of the job; it stays whatever becomes of the other tables.")


def batch_tables(plan: Plan) -> list[TableSpec]:
    """The tables that batches are written to, or that are made of those: one generation of the job."""
    made: list[TableSpec] = []
    history: Life = "history" if plan.trigger_micros is None or plan.trigger_micros >= _DENSE else "dense"
    for q in plan.queries:
        what = f"Every change of the result of {q.name}, in order." if q.item.lasting else f"What {q.name} told, in order."
        made.append(TableSpec(changes_name(q.name), changes_schema(plan, q), what, life=history, published=True))
        if not q.item.lasting:
            continue
        made += [
            TableSpec(q.name, results_schema(plan, q), f"Results of {q.name} as intervals of validity.", ("is_current",), "result", True),
            TableSpec(now_name(q.name), now_schema(plan, q), f"Current result of {q.name}.", life="result", published=True),
        ]
    made += _trajectories(plan, history)
    for o in plan.operators:
        if o.skyband:
            upto = f"any k up to {o.k} and " if any(q.name in o.queries and q.k is not None for q in plan.queries) else ""
            comment = f"Everything that can be in a result of {', '.join(o.queries)} for {upto}any window the state holds."
            made.append(TableSpec(skyband_name(o.name), skyband_schema(plan, o), comment, ("bucket",), "book"))
    made += [
        TableSpec("heads", heads_schema(plan), "Where every key of the stream stands.", ("bucket",), "book"),
        TableSpec("rejected", rejected_schema(), "Rows that did not become objects of the stream, and why.", life=history),
        TableSpec("checks", checks_schema(), "Results of the data quality checks.", life="result"),
        TableSpec("published", published_schema(), "Which version of each table of results passed all checks.", life="result"),
        TableSpec("runs", runs_schema(), "One row per micro-batch; a batch is complete in all tables when its row is here.", life="book"),
    ]
    return made


def _trajectories(plan: Plan, life: Life) -> list[TableSpec]:
    """Tables of the queries whose items have values that move, with the line of SQL that gives a value at any instant."""
    made = []
    for q in plan.queries:
        if q.item.motion is not None:
            value, slope = q.item.motion.value, q.item.motion.slope
            which = " and ".join(f"{c} = ..." for c in dict.fromkeys((*stream_columns(plan, q), *identity_columns(plan, q))))
            name = trajectory_name(q.name)
            whose = "all objects" if q.item.motion.of_all else f"the members of {q.name} while they are that"
            said = (
                f"How {value} of {whose} moves, point by point. At T: select {value} + {slope} * extract(epoch from (T - valid_from)) "
                f"from {name} where {which} and valid_from <= T order by valid_from desc limit 1"
            )
            made.append(TableSpec(name, trajectory_schema(plan, q), said, life=life, published=True))
    return made
