"""The columns of a job's tables that a spec determines, with their kinds in expressions."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.framework.base.columns import FIXED_COLUMNS, JOB_LAYOUTS, Column, Group, Values, query_layout
from skyband.framework.base.items import ItemShape, Value
from skyband.framework.base.table_names import JOB_TABLES, QUERY_COLUMN, every_table, query_tables
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.source import kind_of
from skyband.operators.base import Kind

Columns = dict[str, Kind]

_INT: Kind = "int"
_TEXT: Kind = "text"
_TIME: Kind = "time"
_FLOAT: Kind = "float"


def missing_tables(s: Scope) -> dict[str, str]:
    """Return reserved names of tables that do not exist, as the query has only changes -> its table of changes."""
    only_changes = [name for name, query in s.job.queries.items() if not query_type(query.type).item(query).lasting]
    return {t: f"{name}_changes" for name in only_changes for t in query_tables(name) if t != f"{name}_changes"}


def table_columns(s: Scope, table: str) -> Columns | None:
    """Return the columns of ``table`` (a subset for a state's table), or None if they are not known."""
    if not s.columns_known or any(s.doc.bad(("source", part)) for part in ("id", "partition_by")):
        return None
    kinds = s.kinds()
    keys = {c: kinds[c] for c in s.job.source.partition_by if c in kinds}
    if table in JOB_TABLES:
        return {n: kind for part in JOB_LAYOUTS[table] for n, kind in (keys if part is Group.KEYS else _fixed(part)).items()}
    for name, query in s.job.queries.items():
        if table in every_table(name):
            scope = next((of for of in s.streams if name in of.job.queries), s)
            if s.doc.bad_below(("queries", name)) or not scope.columns_known:
                return None
            return _of_query(scope, query, table.removeprefix(name), keys, scope.kinds())
    return None


def _fixed(part: Column | Group | Values) -> Columns:
    return {part.name: kind_of(part.type)} if isinstance(part, Column) else {}


def _of_query(s: Scope, query: QueryModel, suffix: str, keys: Columns, kinds: Columns) -> Columns:
    shape = query_type(query.type).item(query)
    source = s.job.source
    of = [q for q in s.job.queries.values() if q.type == query.type] if suffix == "_skyband" else [query]
    shown = [c for q in of for c in carried(q, query_type(q.type).item(q), source.id, source.partition_by)]
    groups: dict[Group, Columns] = {
        Group.KEYS: keys,
        Group.STREAM: keys if getattr(query, "queries_from", None) is None else {QUERY_COLUMN: _TEXT, **keys},
        Group.ITEM: {
            c.name: kind_of(c.type) if c.type else _INT if c.what == "seq" else _TIME if c.what == "time" else kinds.get(c.source, _FLOAT)
            for c in shape.columns(source.id, dict.fromkeys(shown), source.partition_by)
        },
        Group.EXTRA: _values(shape.extra),
    }
    made: Columns = {}
    for part in query_layout(suffix, shape.lasting):
        made |= groups[part] if isinstance(part, Group) else _values(shape.values) if isinstance(part, Values) else _fixed(part)
    return made


def _values(values: tuple[Value, ...]) -> Columns:
    return {v.name: kind_of(v.type) for v in values}


def written(query: QueryModel, shape: ItemShape, id_: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of ``carry`` without those of the id and, where the tables have them unprefixed, of the key.

    Items without rows carry none of a row; what they carry is ``ItemShape.carried``.
    """
    bare = any(not part.prefix for part in shape.rows)
    return tuple(c for c in query.carry if shape.rows and c not in id_ and not (bare and c in keys))


def carried(query: QueryModel, shape: ItemShape, id_: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the ``written`` columns, then those that the query type adds, unless another column has the name."""
    explicit = written(query, shape, id_, keys)
    names = {c.name.lower() for c in shape.columns(id_, explicit, keys)}
    names |= {c.lower() for c in (*FIXED_COLUMNS, *keys, *(v.name for v in (*shape.values, *shape.extra)))}
    return (*explicit, *(c for c in query.shown if not any((part.prefix + c).lower() in names for part in shape.rows)))
