"""Check the chosen size of a skyline, and its weights."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.queries.skyline.model import Skyline
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

MOST: Final = 6
"""The most dimensions of a skyline with ``size``, as ``operators/skyline/kernels/sizing.py`` has it (tested)."""


def check_size(scope: Scope, path: Path, query: Skyline) -> None:
    """Check that ``size`` stands without fields that it does not go with, and that ``weights`` names all dimensions and not only with 0."""
    if query.size is None and query.weights is None:
        return
    doc = scope.doc
    given = "size" if query.size is not None else "weights"
    for other, remove in (("top", "remove top and by, or size and weights"), ("prefer", "remove it, or size and weights")):
        if getattr(query, other) and not doc.bad((*path, other)):
            doc.add("SKY-E117", f"'{other}' and '{given}' of a skyline do not go together", doc.where_key((*path, other)), remove)
    for column, direction in query.dimensions.items():
        if direction == "equal" and not doc.bad((*path, "dimensions", column)):
            said = f"'{column}' has direction equal: a skyline with '{given}' compares all rows of a key"
            doc.add("SKY-E117", said, doc.where_key((*path, "dimensions", column)), "use min or max, or partition_by of the source")
    ordered = [c for c, d in query.dimensions.items() if d != "equal"]
    if len(ordered) > MOST and not doc.bad((*path, "dimensions")):
        said = f"a skyline with '{given}' takes at most {counted(MOST, 'dimension')}, not {len(ordered)}"
        doc.add("SKY-E117", said, doc.where_key((*path, "dimensions")), "remove dimensions, or use top and by")
    if query.weights is not None and not doc.bad_below((*path, "weights")):
        _check_weights(scope, (*path, "weights"), query.weights, ordered)


def _check_weights(scope: Scope, path: Path, weights: dict[str, float], ordered: list[str]) -> None:
    """Check that ``weights`` has each dimension once, and a weight above 0."""
    for column in weights:
        if column not in ordered:
            hint = did_you_mean(column, ordered) or f"dimensions: {one_of(ordered)}"
            scope.doc.add("SKY-E120", f"'{column}' in weights is no dimension of the skyline", scope.doc.where_key((*path, column)), hint)
    missing = [c for c in ordered if c not in weights]
    if missing:
        named = ("dimension " if len(missing) == 1 else "dimensions ") + ", ".join(f"'{c}'" for c in missing)
        scope.doc.add("SKY-E111", f"weights lacks the {named}", scope.doc.where_key(path), f"{missing[0]}: a number from 0 on")
    elif not any(weights.values()):
        scope.doc.add("SKY-E117", "all weights are 0", scope.doc.where_value(path), "give a weight above 0 to at least one dimension")
