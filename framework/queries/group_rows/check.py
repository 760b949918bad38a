"""What can be wrong with an entry about groups: its columns, its expressions, carried columns."""

from __future__ import annotations

from typing import Literal

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.queries.checks import naming_columns, no_carry
from skyband.framework.queries.group_rows.model import GroupRows
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path


def check(s: Scope, path: Path, query: GroupRows) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    naming_columns(s, (*path, "group"), query, query.group, FIXED_COLUMNS)
    _check_expression(s, (*path, "score"), query.score, "score")
    if query.having is not None:
        _check_expression(s, (*path, "having"), query.having, "predicate")
    no_carry(s, path, query, "group", "groups of many rows")


def _check_expression(s: Scope, path: Path, text: str, want: Literal["score", "predicate"]) -> None:
    """Check an expression over aggregates, and that decimals in it can be exact."""
    from skyband.framework.queries.group_rows.decimals import mistake, scales
    from skyband.operators.expressions.aggregates import parse_aggregates

    if not s.expression(path, text, ("",), want, aggregates=True):
        return
    for aggregate in parse_aggregates(text, s.kinds(), want, scales(s.types)).aggregates:
        found = mistake(aggregate, s.types)
        if found is not None:
            s.doc.add("SKY-E126", found[0], s.doc.where_value(path), found[1])
            return
