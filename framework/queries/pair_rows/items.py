"""What an item of a result of pairs is."""

from __future__ import annotations

from skyband.framework.base.items import SCORE_VALUE, ItemShape, Part, by_score
from skyband.framework.queries.pair_rows.model import Between

_BY_AGE = (Part("older", "the older object of the pair"), Part("newer", "the newer object of the pair"))
_BY_SIDE = (Part("a", "side a of the pair"), Part("b", "side b of the pair"))


def pair_of(between: Between | None) -> ItemShape:
    """Two rows, by age or by side, and their score."""
    parts = _BY_AGE if between is None else _BY_SIDE
    return ItemShape(parts, by_score(parts), (SCORE_VALUE,))
