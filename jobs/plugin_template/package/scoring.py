"""A scoring function: an expression with ``$name`` where a column goes, checked and compiled like any other."""

from __future__ import annotations

from typing import Final

from skyband.framework.spec.expressions.scoring_functions import ScoringFunction

RELATIVE_DIFFERENCE: Final = ScoringFunction("abs(a.$value - b.$value) / max(abs(a.$value), abs(b.$value))")
"""How far apart two values are, as a share of the larger one."""
