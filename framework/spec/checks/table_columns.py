"""Columns of a job's tables as far as a spec alone says them, with the kind expressions see: what checks of tables may name."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.framework.base.items import ItemShape, Value
from skyband.framework.base.messages import TIMES
from skyband.framework.base.reasons import REASONS
from skyband.framework.base.table_names import FIXED_COLUMNS, QUERY_COLUMN, TRAJECTORY, query_tables
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.job import kind_of
from skyband.operators.base import Kind

Columns = dict[str, Kind]

_INT: Kind = "int"
_TEXT: Kind = "text"
_TIME: Kind = "time"
_FLOAT: Kind = "float"
_BOOL: Kind = "bool"


def without_table(s: Scope) -> dict[str, str]:
    """Names kept free for tables that are not made, since nothing lasts of what is told once -> the table that has it."""
    told_once = [name for name, query in s.job.queries.items() if not query_type(query.type).item(query).lasting]
    return {t: f"{name}_changes" for name in told_once for t in query_tables(name) if t != f"{name}_changes"}


def table_columns(s: Scope, table: str) -> Columns | None:
    """The columns of ``table`` (of a state's table: at least them), or None where they are not known."""
    if not s.columns_known or any(s.doc.bad(("source", part)) for part in ("id", "partition_by")):
        return None
    kinds = s.kinds()
    keys = {c: kinds[c] for c in s.job.source.partition_by if c in kinds}
    if table == "heads":
        return {**keys, "bucket": _INT, "last_seq": _INT, "last_time": _TIME, "as_of": _TIME}
    if table == "rejected":
        return {"reason": _TEXT, "text": _TEXT, "origin": _TEXT, "event_time": _TIME, "batch_id": _INT}
    if table == "runs":
        return _runs()
    if table == "checks":
        texts = ("run_id", "table_name", "expectation", "arguments", "severity", "observed", "examples", "error")
        return {
            **dict.fromkeys(texts, _TEXT), "batch_id": _INT, "first_batch_id": _INT, "table_version": _INT, "checked_at": _TIME,
            "success": _BOOL, "rows_checked": _INT, "unexpected": _INT, "unexpected_percent": _FLOAT, "check_ms": _FLOAT,
        }  # fmt: skip
    if table == "published":
        return {"table_name": _TEXT, "version": _INT, "published_at": _TIME}
    for name, query in s.job.queries.items():
        if table.startswith(name) and table.removeprefix(name) in ("", "_changes", "_now", "_skyband", TRAJECTORY):
            return None if s.doc.bad_below(("queries", name)) else _of_query(s, query, table.removeprefix(name), keys, kinds)
    return None


def _runs() -> Columns:
    counts = ("batch_id", "rows_in", "filtered", "rejected", "accepted", "pending", "pending_change", "changes")
    return {
        **dict.fromkeys(counts, _INT), **dict.fromkeys((f"rejected_{c.name}" for c in REASONS), _INT),
        **dict.fromkeys(("batch_time", "frontier", "newest"), _TIME),
        **dict.fromkeys(("unusable", "warned", "drift", "counters", "committed"), _TEXT),
        **dict.fromkeys((f"{d}_ms" for d in ("batch", "engine", *TIMES, "write")), _FLOAT),
    }  # fmt: skip


def _of_query(s: Scope, query: QueryModel, suffix: str, keys: Columns, kinds: Columns) -> Columns:
    shape = query_type(query.type).item(query)
    source = s.job.source
    of = [q for q in s.job.queries.values() if q.type == query.type] if suffix == "_skyband" else [query]
    shown = [c for q in of for c in carried(q, query_type(q.type).item(q), source.id, source.partition_by)]
    made: Columns = {} if getattr(query, "queries_from", None) is None else {QUERY_COLUMN: _TEXT}
    made |= keys
    for c in shape.columns(source.id, dict.fromkeys(shown), source.partition_by):
        made[c.name] = _INT if c.what == "seq" else _TIME if c.what == "time" else kinds.get(c.source, _FLOAT)
    made |= _values(shape.values)
    if suffix == "_changes":
        more: Columns = {"change": _TEXT, "cause": _TEXT} if shape.lasting else {}
        return made | {"changed_at": _TIME, "step": _INT, "pos": _INT, **more, "batch_id": _INT}
    if suffix == "_now":
        return made | {"rank": _INT, "as_of": _TIME}
    if suffix == TRAJECTORY:
        return made | {"valid_from": _TIME, "batch_id": _INT}
    if suffix == "_skyband":
        return made | _values(shape.extra) | {"bucket": _INT}
    return made | {"valid_from": _TIME, "valid_to": _TIME, "from_step": _INT, "to_step": _INT, "is_current": _BOOL}


def _values(values: tuple[Value, ...]) -> Columns:
    return {v.name: kind_of(v.type) for v in values}


def written(query: QueryModel, shape: ItemShape, id_: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """The columns of ``carry`` less those that are there already: of the id, and of the key where the tables have it under its own name."""
    bare = any(not part.prefix for part in shape.rows)
    return tuple(c for c in query.carry if c not in id_ and not (bare and c in keys))


def carried(query: QueryModel, shape: ItemShape, id_: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """``written``, then what the type shows by itself, unless another column of the tables has that name."""
    said = written(query, shape, id_, keys)
    there = {c.name.lower() for c in shape.columns(id_, said, keys)}
    there |= {c.lower() for c in (*FIXED_COLUMNS, *keys, *(v.name for v in (*shape.values, *shape.extra)))}
    return (*said, *(c for c in query.shown if not any((part.prefix + c).lower() in there for part in shape.rows)))
