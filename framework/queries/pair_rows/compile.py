"""The sides of a pair as an operator takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from skyband.framework.plan.drafts import Context
from skyband.framework.queries.pair_rows.model import Between as BetweenEntry

if TYPE_CHECKING:
    from skyband.operators.pair_rows.queries import Between


def sides_key(between: BetweenEntry | None) -> tuple[str, str, str] | None:
    """Equal for equal sides."""
    return None if between is None else (between.column, repr(between.a), repr(between.b))


def side_texts(between: BetweenEntry | None) -> list[str]:
    """The text constants of the sides."""
    return [] if between is None else [v for v in (between.a, between.b) if isinstance(v, str)]


def sides(context: Context, spec: BetweenEntry | None) -> Between | None:
    """The sides of a pair for an operator."""
    from skyband.operators.pair_rows.queries import Between

    if spec is None:
        return None
    kind = context.kinds[spec.column]
    # Numbers may come as text, from a variable.
    a, b = (int(x) if kind == "int" else x for x in (spec.a, spec.b))
    return Between(spec.column, cast(Any, a), cast(Any, b), kind)
