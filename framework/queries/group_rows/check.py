"""What can be wrong with an entry about groups: its columns, its expressions, carried columns."""

from __future__ import annotations

from typing import Final, Literal

from skyband.framework.base.columns import FINAL_COLUMNS, FIXED_COLUMNS
from skyband.framework.queries.checks import naming_columns, no_carry
from skyband.framework.queries.group_rows.model import GroupRows
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

_FRACTIONS: Final = "decimal"


def check(s: Scope, path: Path, query: GroupRows) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    reserved = FIXED_COLUMNS + tuple(FINAL_COLUMNS) if query.window is not None and query.window.tumbling is not None else FIXED_COLUMNS
    naming_columns(s, (*path, "group"), query, query.group, reserved)
    _check_expression(s, (*path, "score"), query.score, "score")
    if query.having is not None:
        _check_expression(s, (*path, "having"), query.having, "predicate")
    no_carry(s, path, query, "group", "groups of many rows")


def no_session_with_deletes(s: Scope, path: Path, query: GroupRows) -> None:
    """Check that a job with deletions has no sessions."""
    at = (*path, "window", "session")
    if s.job.deletes is not None and query.window is not None and query.window.session is not None and not s.doc.bad_below(at):
        message = "sessions cannot be used with deletes: a silence is counted from rows, which may be deleted"
        s.doc.add("SKY-E117", message, s.doc.where_key(at), "use time or tumbling")


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
            message = f"{aggregate.function} adds doubles or whole numbers, and '{name}' is {s.types[name]}: its sums would not be exact"
            hint = f"derive whole units, such as cast({name} * 100 as bigint), and add those"
            s.doc.add("SKY-E126", message, s.doc.where_value(path), hint)
            return
