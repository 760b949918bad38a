"""Translate SQL over the tables to other dialects, with the paths of the tables, the rank, and a limit of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import stream_columns
from skyband.framework.tables.sql.portable import MICROS_BETWEEN, SECONDS_BETWEEN, order_by
from skyband.framework.tables.sql.source_rows import SOURCE

_OWN: Final = "duckdb"
"""The dialect of ``portable`` and of views."""
_TABLE: Final = "__skyband_{}"
_RANK: Final = "rank"


@dataclass(frozen=True, slots=True)
class _Form:
    """The form of a few expressions in a dialect.

    ``place``: the reference to the Delta table at a path, None if it is known by name only. ``seconds``: the seconds from one
    instant to another, with microseconds; ``micros``: its microseconds, a whole number. ``minus``: an instant minus (seconds,
    microseconds), None if intervals need no translation.
    """

    seconds: str
    micros: str
    place: Callable[[str], str] | None = None
    minus: Callable[[exp.Expr, int, int], exp.Expr] | None = None


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _added(unit: str, n: int, to: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="DATEADD", expressions=[exp.Var(this=unit), exp.Literal.number(n), to])


def _dateadd(at: exp.Expr, seconds: int, micros: int) -> exp.Expr:
    whole = _added("SECOND", -seconds, at)
    return _added("MICROSECOND", -micros, whole) if micros else whole


def _timestamp_sub(at: exp.Expr, seconds: int, micros: int) -> exp.Expr:
    span = exp.Interval(this=exp.Literal.number(seconds * 1_000_000 + micros), unit=exp.Var(this="MICROSECOND"))
    return exp.Anonymous(this="TIMESTAMP_SUB", expressions=[at, span])


_FORMS: Final[Mapping[str, _Form]] = {
    "duckdb": _Form(
        "date_diff('microsecond', {0}, {1}) / 1e6", "date_diff('microsecond', {0}, {1})", lambda path: f"delta_scan({_text(path)})"
    ),
    "spark": _Form(
        "(unix_micros({1}) - unix_micros({0})) / 1e6", "unix_micros({1}) - unix_micros({0})",
        lambda path: "delta.`" + path.replace("`", "``") + "`",
    ),
    "tsql": _Form(
        "DATEDIFF_BIG(MICROSECOND, {0}, {1}) / 1e6", "DATEDIFF_BIG(MICROSECOND, {0}, {1})",
        lambda path: f"OPENROWSET(BULK {_text(path)}, FORMAT = 'DELTA')", _dateadd,
    ),
    "postgres": _Form("extract(epoch from {1} - {0})", "cast(extract(epoch from {1} - {0}) * 1000000 as bigint)"),
    "snowflake": _Form("TIMESTAMPDIFF(MICROSECOND, {0}, {1}) / 1e6", "TIMESTAMPDIFF(MICROSECOND, {0}, {1})", minus=_dateadd),
    "bigquery": _Form("TIMESTAMP_DIFF({1}, {0}, MICROSECOND) / 1e6", "TIMESTAMP_DIFF({1}, {0}, MICROSECOND)", minus=_timestamp_sub),
}  # fmt: skip
DIALECTS: Final = tuple(_FORMS)


def complete(plan: Plan, query: QueryNode, sql: str, columns: Sequence[str], dialect: str, limit: int | None = None) -> str:
    """Return the ``sql`` of an answer in ``dialect`` (one of ``DIALECTS``): ``columns`` in rank order, at most ``limit`` rows. O(length).

    With several keys, a ``limit`` keeps the best of each key first, as ``reader.first`` does.
    """
    tree: Any = parse_one(sql, read=_OWN)
    tree.set("expressions", [_column(plan, query, tree, c) for c in columns])
    if limit is not None:
        streams = stream_columns(plan, query)
        if streams and query.item.lasting:
            by = [exp.Ordered(this=exp.column(exp.to_identifier(c))) for c in (_RANK, *streams)]
            tree.set("order", exp.Order(expressions=by))
        tree = tree.limit(limit)
    return _placed(tree, plan.sink.removeprefix("file://"), dialect)


def limited(plan: Plan, sql: str, dialect: str, limit: int | None = None) -> str:
    """Return ``sql`` in ``dialect``, with the paths of the tables, and at most its first ``limit`` rows. O(length)."""
    tree: Any = parse_one(sql, read=_OWN)
    return _placed(tree if limit is None else tree.limit(limit), plan.sink.removeprefix("file://"), dialect)


def view(plan: Plan, name: str, sql: str, dialect: str) -> str:
    """Return the statement in ``dialect`` that creates the view ``name`` of ``sql``, with the paths of the tables. O(length)."""
    return _placed(parse_one(sql, read=_OWN), plan.sink.removeprefix("file://"), dialect, name)


def plain(sql: str, dialect: str) -> str:
    """Return ``sql`` in ``dialect``, with tables by name."""
    return _placed(parse_one(sql, read=_OWN), None, dialect)


def place(path: str, dialect: str) -> str | None:
    """Return the reference to the Delta table at ``path`` in ``dialect``; None if it is known by name only."""
    form = _FORMS[dialect]
    return None if form.place is None else form.place(path)


def _placed(tree: Any, root: str | None, dialect: str, view: str | None = None) -> str:
    """Return the statement in ``dialect``, with tables below ``root`` (None: by name), as ``create view`` if ``view`` is given."""
    form = _FORMS[dialect]
    places: dict[str, str] = {}
    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        name = table.name
        if name in defined or name == SOURCE or root is None:
            continue
        places[name] = f"{root}/{name}"
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        if form.place is not None:
            table.set("this", exp.to_identifier(_TABLE.format(name)))
    if form.minus is not None:
        tree = tree.transform(lambda node: _without_interval(node, form.minus))
    tree = tree.transform(lambda node: _between(node, form, dialect))
    for ordered in tree.find_all(exp.Ordered):
        # No ranked column is null, or another term puts its nulls last, so the order of nulls does not matter.
        ordered.set("nulls_first", _usual(dialect, bool(ordered.args.get("desc"))))
    if view is not None:
        tree = exp.Create(this=exp.to_table(view), kind="VIEW", expression=tree)
    text: str = tree.sql(dialect=dialect, identify=True, pretty=True)
    head = ""
    for name, path in places.items():
        if form.place is None:
            head += f"-- {name}: the Delta table at {path}\n"
        else:
            mark = exp.to_identifier(_TABLE.format(name)).sql(dialect=dialect, identify=True)
            text = text.replace(mark, form.place(path))
    return head + text


def _column(plan: Plan, query: QueryNode, tree: Any, name: str) -> exp.Expr:
    """Return a column of the answer. The table of intervals has no rank, so it is computed."""
    source = tree.args.get("from_") or tree.args["from"]
    if name == _RANK and isinstance(source.this, exp.Table) and source.this.name == query.name:
        streams = ", ".join(f'"{c}"' for c in stream_columns(plan, query))
        partition = f"partition by {streams} " if streams else ""
        return parse_one(f'row_number() over ({partition}order by {order_by(plan, query)}) as "{_RANK}"', read=_OWN)
    return exp.column(exp.to_identifier(name))


def _without_interval(node: exp.Expr, minus: Any) -> exp.Expr:
    if isinstance(node, exp.Sub) and isinstance(node.expression, exp.Interval):
        span = Decimal(node.expression.this.name)
        seconds = int(span)
        difference: exp.Expr = minus(node.this, seconds, int((span - seconds) * 1_000_000))
        return difference
    return node


def _between(node: exp.Expr, form: _Form, dialect: str) -> exp.Expr:
    forms = {SECONDS_BETWEEN: form.seconds, MICROS_BETWEEN: form.micros}
    if isinstance(node, exp.Anonymous) and node.name.lower() in forms:
        between = [_between(e, form, dialect).sql(dialect=dialect, identify=True) for e in node.expressions]
        return exp.paren(parse_one(forms[node.name.lower()].format(*between), read=dialect))
    return node


def _usual(dialect: str, descending: bool) -> bool:
    """Return whether nulls come first by default in a dialect, so that no clause is needed."""
    order = Dialect.get_or_raise(dialect).NULL_ORDERING
    return order != "nulls_are_last" and descending == (order == "nulls_are_large")
