"""The SQL of an answer as another engine takes it: complete with where the tables lie, the rank, and a bound on the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.schemas import stream_columns
from skyband.framework.tables.sql.portable import SECONDS_BETWEEN, order_by
from skyband.framework.tables.sql.source_rows import SOURCE

_OWN: Final = "duckdb"
"""What ``sql`` writes."""
_TABLE: Final = "__skyband_{}"
_RANK: Final = "rank"


@dataclass(frozen=True, slots=True)
class _Form:
    """``place``: how the Delta table at a path is named, None where it has to be known to Spark by its name already.

    ``seconds``: the seconds from one instant to another, whole microseconds and all. ``minus``: an instant less (seconds, microseconds);
    None where intervals do as they are.
    """

    seconds: str
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
    "duckdb": _Form("date_diff('microsecond', {0}, {1}) / 1e6", lambda path: f"delta_scan({_text(path)})"),
    "spark": _Form("(unix_micros({1}) - unix_micros({0})) / 1e6", lambda path: "delta.`" + path.replace("`", "``") + "`"),
    "tsql": _Form("DATEDIFF_BIG(MICROSECOND, {0}, {1}) / 1e6", lambda path: f"OPENROWSET(BULK {_text(path)}, FORMAT = 'DELTA')", _dateadd),
    "postgres": _Form("extract(epoch from {1} - {0})"),
    "snowflake": _Form("TIMESTAMPDIFF(MICROSECOND, {0}, {1}) / 1e6", minus=_dateadd),
    "bigquery": _Form("TIMESTAMP_DIFF({1}, {0}, MICROSECOND) / 1e6", minus=_timestamp_sub),
}
DIALECTS: Final = tuple(_FORMS)


def complete(plan: Plan, query: QueryNode, sql: str, columns: Sequence[str], dialect: str, limit: int | None = None) -> str:
    """``sql``, an answer's, in ``dialect`` (one of ``DIALECTS``): ``columns``, in rank order, at most ``limit`` rows. O(length).

    Of several keys a ``limit`` leaves the best of each first, as ``reader.first`` does.
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


def view(plan: Plan, name: str, sql: str, dialect: str) -> str:
    """The statement that makes the view ``name`` of ``sql`` in ``dialect``, complete with where the tables lie. O(length)."""
    return _placed(parse_one(sql, read=_OWN), plan.sink.removeprefix("file://"), dialect, name)


def plain(sql: str, dialect: str) -> str:
    """``sql`` in ``dialect``, its tables by their names."""
    return _placed(parse_one(sql, read=_OWN), None, dialect)


def place(path: str, dialect: str) -> str | None:
    """How ``dialect`` names the Delta table at ``path``; None where it has to be known to Spark by a name already."""
    form = _FORMS[dialect]
    return None if form.place is None else form.place(path)


def _placed(tree: Any, root: str | None, dialect: str, view: str | None = None) -> str:
    """The statement in ``dialect``; its tables where they lie below ``root`` (None: by name alone), within ``create view`` if it is one."""
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
    tree = tree.transform(lambda node: _seconds_between(node, form.seconds, dialect))
    for ordered in tree.find_all(exp.Ordered):
        # No column that ranks is null: what engines do with nulls does not matter.
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
    """A column of the answer; its rank is made where the table has none (that of intervals)."""
    source = tree.args.get("from_") or tree.args["from"]
    if name == _RANK and isinstance(source.this, exp.Table) and source.this.name == query.name:
        streams = ", ".join(f'"{c}"' for c in stream_columns(plan, query))
        partition = f"partition by {streams} " if streams else ""
        return parse_one(f'row_number() over ({partition}order by {order_by(query)}) as "{_RANK}"', read=_OWN)
    return exp.column(exp.to_identifier(name))


def _without_interval(node: exp.Expr, minus: Any) -> exp.Expr:
    if isinstance(node, exp.Sub) and isinstance(node.expression, exp.Interval):
        span = Decimal(node.expression.this.name)
        seconds = int(span)
        made: exp.Expr = minus(node.this, seconds, int((span - seconds) * 1_000_000))
        return made
    return node


def _seconds_between(node: exp.Expr, form: str, dialect: str) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.lower() == SECONDS_BETWEEN:
        between = [_seconds_between(e, form, dialect).sql(dialect=dialect, identify=True) for e in node.expressions]
        return exp.paren(parse_one(form.format(*between), read=dialect))
    return node


def _usual(dialect: str, descending: bool) -> bool:
    """Whether nulls come first where nothing is said: then nothing needs to be."""
    order = Dialect.get_or_raise(dialect).NULL_ORDERING
    return order != "nulls_are_last" and descending == (order == "nulls_are_large")
