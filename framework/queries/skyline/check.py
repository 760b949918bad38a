"""What can be wrong with an entry: its dimensions."""

from __future__ import annotations

from skyband.framework.queries.skyline.model import Skyline
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path


def check(s: Scope, path: Path, query: Skyline) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    at: Path = (*path, "dimensions")
    if not s.doc.bad_below(at) and all(d == "equal" for d in query.dimensions.values()):
        s.doc.add("SKY-E117", "a skyline needs a dimension with min or max", s.doc.where_key(at))
    for c, direction in query.dimensions.items():
        if s.key_column((*at, c), c) and direction != "equal" and s.types[c] in {"string", "boolean"}:
            said = f"'{c}' is {s.types[c]}: only numbers and times have a {direction}"
            s.doc.add("SKY-E126", said, s.doc.where_key((*at, c)), "use equal")
