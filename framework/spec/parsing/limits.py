"""Limits of the SQL and the expressions of a spec: generous for people, and bounded for generated text.

SQL is measured by its tokens before it is parsed, for a parser's time may grow faster than the text. sqlglot reads what stands in
brackets after the name of a type twice (first as the type's arguments), so its time doubles with every level of ``struct(struct(...))``:
more than a minute at 26 levels. Such levels are few at most, and what stands in them counts as often as it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_TOKENS: Final = 4_000
MAX_NESTING: Final = 20
"""Maximum nesting of brackets and ``case``."""
MAX_TYPE_NESTING: Final = 5
"""Calls such as ``struct(...)`` and ``date(...)``, whose name is a type's too, inside one another."""
MAX_WORK: Final = 50_000
"""Maximum cost of all SQL and expressions of a spec, in tokens of SQL (about 40 us each)."""
WORK_OF_ONE: Final = 25
"""Cost of each text besides its tokens."""
MAX_MISTAKES: Final = 25
"""Maximum number of reported errors of one text."""
CHARACTERS_OF_A_TOKEN: Final = 4
"""Number of characters of an expression that cost as much as one token of SQL."""

_OPENS: Final = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"})
_WORK_OF_ANGLE: Final = 4
_CLOSES: Final = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})


@dataclass(slots=True)
class Work:
    """The remaining budget of the SQL and the expressions of one spec."""

    left: int = MAX_WORK

    def take(self, tokens: int) -> bool:
        """Subtract a cost; return False once the budget is exhausted."""
        self.left -= tokens + WORK_OF_ONE
        return self.left >= 0

    @property
    def gone(self) -> bool:
        """Return True if the budget is exhausted."""
        return self.left < 0


@dataclass(frozen=True, slots=True)
class Measured:
    """``work``: how many tokens a parser reads, those it reads twice counted twice; ``excess``: (index of a token, what is too much)."""

    work: int
    excess: tuple[int, str] | None


def measure(tokens: Sequence[Any]) -> Measured:
    """What parsing these tokens of sqlglot's costs, and the first of them that is beyond a limit. O(number of tokens)."""
    from sqlglot.parser import Parser

    if len(tokens) > MAX_TOKENS:
        return Measured(0, (MAX_TOKENS, f"more than {MAX_TOKENS:,} words and signs"))
    inside: list[bool] = []
    twice = angles = work = 0
    before: Any = None
    for n, token in enumerate(tokens):
        kind = token.token_type.name
        if kind in _CLOSES and inside:
            twice -= inside.pop()
        work += 1 << twice
        if kind == "LT" and before is not None and before.token_type in Parser.TYPE_TOKENS:  # array<...>: each level reads the rest again
            angles += 1
            work += _WORK_OF_ANGLE * angles
        elif kind == "GT":
            angles = max(0, angles - 1)
        if angles > MAX_NESTING:
            return Measured(work, (n, f"more than {MAX_NESTING} levels of types inside one another"))
        if kind in _OPENS or (kind == "CASE" and (before is None or before.token_type.name != "DOT")):
            doubled = kind != "CASE" and before is not None and before.token_type in Parser.TYPE_TOKENS
            inside.append(doubled)
            twice += doubled
            if len(inside) > MAX_NESTING:
                return Measured(work, (n, f"more than {MAX_NESTING} levels of brackets inside one another"))
            if twice > MAX_TYPE_NESTING:
                return Measured(work, (n, f"more than {MAX_TYPE_NESTING} calls such as {before.text.lower()}(...) inside one another"))
        before = token
    return Measured(work, None)
