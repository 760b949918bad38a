"""Scoring functions by name, of other packages (entry points ``skyband.scoring_functions``): expressions with places for columns.

Such a function is text of the expression language, not code: it is checked, compiled and verified like an expression of the spec's own, and
a state knows when it has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Final

from skyband.framework.base.plugins import Registry


@dataclass(frozen=True, slots=True)
class ScoringFunction:
    """``expression``: the score, with ``$name`` where the column for the parameter ``name`` goes: ``abs(a.$x - b.$x)``, ``$x + $y``.

    ValueError if it has a ``$`` that begins no name, or no parameter.
    """

    expression: str

    def __post_init__(self) -> None:
        if not Template(self.expression).is_valid() or not self.parameters:
            raise ValueError(f"not an expression with parameters ($name): {self.expression!r}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of their first use."""
        return tuple(Template(self.expression).get_identifiers())

    def text(self, columns: Mapping[str, str]) -> str:
        """The expression over ``columns`` (parameter -> column as an expression spells it). KeyError if one is missing."""
        return Template(self.expression).substitute(columns)


def _none() -> Mapping[str, ScoringFunction]:
    return {}


SCORING_FUNCTIONS: Final = Registry[ScoringFunction](
    "skyband.scoring_functions", "scoring function", _none, needs=("expression", "parameters", "text")
)
"""What a spec's ``scoring.NAME.function`` may name."""
