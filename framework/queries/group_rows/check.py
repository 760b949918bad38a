"""What can be wrong with an entry about groups: its columns, its expressions, carried columns."""

from __future__ import annotations

from typing import Final, Literal

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.queries.group_rows.model import GroupRows
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

_NAMING: Final = ("string", "int", "bigint", "boolean", "timestamp", "date")
_FRACTIONS: Final = "decimal"


def check(s: Scope, path: Path, query: GroupRows) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    _check_columns(s, (*path, "group"), query)
    _check_expression(s, (*path, "score"), query.score, "score")
    if query.having is not None:
        _check_expression(s, (*path, "having"), query.having, "predicate")
    if query.carry and not s.doc.bad_below((*path, "carry")):
        said = "the items are groups of many rows: there is no row to carry columns from"
        s.doc.add("SKY-E117", said, s.doc.where_key((*path, "carry")), "leave it out; more columns may name the group")


def _check_columns(s: Scope, path: Path, query: GroupRows) -> None:
    doc, keys = s.doc, s.job.source.partition_by
    if doc.bad(path):
        return
    for i, name in enumerate(query.groups):
        at = path if isinstance(query.group, str) else (*path, i)
        if not s.column(at, name):
            continue
        type_ = s.types[name]
        if type_ is not None and type_ not in _NAMING and not type_.startswith(_FRACTIONS):
            hint = f"derive a text or a whole number from it, such as cast({name} as string)"
            doc.add("SKY-E126", f"numbers with a fraction name no group, '{name}' is {type_}", doc.where_value(at), hint)
        if name in query.groups[:i]:
            doc.add("SKY-E125", f"'{name}' is listed twice in group", doc.where_value(at))
        elif name.lower() in FIXED_COLUMNS and name not in keys:
            said = f"result column '{name}' collides with a column of every {query.type} result"
            doc.add("SKY-E124", said, doc.where_value(at), "give the column another name with 'from:', or derive it under one")


def _check_expression(s: Scope, path: Path, text: str, want: Literal["score", "predicate"]) -> None:
    """Check an expression over aggregates; decimals in sums are refused, since sums of doubles are not those of decimals."""
    from skyband.operators.expressions.aggregates import parse_aggregates
    from skyband.operators.expressions.canonical import attributes

    if not s.expression(path, text, ("",), want, aggregates=True):
        return
    for aggregate in parse_aggregates(text, s.kinds(), want).aggregates:
        read = attributes(aggregate.argument) if aggregate.argument is not None else ()
        decimals = [c.name for c in read if (s.types[c.name] or "").startswith(_FRACTIONS)]
        if aggregate.function in ("sum", "mean") and decimals:
            name = decimals[0]
            said = f"{aggregate.function} adds doubles or whole numbers, and '{name}' is {s.types[name]}: its sums would not be exact"
            hint = f"derive whole units, such as cast({name} * 100 as bigint), and add those"
            s.doc.add("SKY-E126", said, s.doc.where_value(path), hint)
            return
