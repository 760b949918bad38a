"""What is wrong with an expression, and where: every error of one expression is reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skyband.operators.expressions.ast import Span


@dataclass(frozen=True, slots=True)
class ExpressionError:
    """One mistake: what is wrong, where in the text, and the name that was probably meant, or else what to do (``hint``)."""

    message: str
    span: Span
    suggestion: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else f"; {self.hint}" if self.hint else ""
        return f"{self.message}{hint}"


class ExpressionErrors(ValueError):
    """All mistakes of one expression, in order of position."""

    def __init__(self, text: str, errors: Iterable[ExpressionError]):
        self.text = text
        self.errors: tuple[ExpressionError, ...] = tuple(sorted(errors, key=lambda e: (e.span.start, e.span.end)))
        super().__init__(text, self.errors)

    def __str__(self) -> str:
        return "\n".join(f"{e} (at character {e.span.start + 1})" for e in self.errors)
