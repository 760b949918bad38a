"""The spec's side of the expression language: what a scoring function's expression is, and errors as plain tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from skyband.framework.spec.expressions.scoring_functions import SCORING_FUNCTIONS
from skyband.framework.spec.models.scoring import (
    TERM_FUNCTIONS,
    ExpressionScoring,
    FunctionScoring,
    GlobalScoring,
    LinearScoring,
    Scoring,
    Term,
)
from skyband.framework.spec.parsing.limits import MAX_MISTAKES
from skyband.operators.expressions.vectors import AttributeKind
from skyband.operators.spelling import closest


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake of an expression, at ``start`` <= offset < ``end`` of its text."""

    message: str
    start: int
    end: int
    hint: str | None


def check_expression(
    text: str, kinds: Mapping[str, AttributeKind], sides: tuple[str, ...], want: Literal["score", "predicate"], aggregates: bool = False
) -> list[Mistake]:
    """Everything that is wrong with an expression, or with one over ``aggregates``; empty if it is good."""
    from skyband.operators.expressions.aggregates import parse_aggregates
    from skyband.operators.expressions.errors import ExpressionErrors
    from skyband.operators.expressions.parser import parse

    try:
        if aggregates:
            parse_aggregates(text, kinds, want)
        else:
            parse(text, kinds, sides, want)
    except ExpressionErrors as e:
        return [
            Mistake(x.message, x.span.start, max(x.span.end, x.span.start + 1), x.hint or _hint(x.suggestion, kinds))
            for x in e.errors[:MAX_MISTAKES]
        ]
    except RecursionError:
        return [Mistake("nested too deep", 0, len(text), None)]
    return []


def used_names(text: str, kinds: Mapping[str, AttributeKind], want: Literal["score", "predicate"]) -> set[str]:
    """The columns that an expression over single rows reads; none if it has mistakes."""
    from skyband.operators.expressions.canonical import attributes
    from skyband.operators.expressions.errors import ExpressionErrors
    from skyband.operators.expressions.parser import parse

    try:
        return {c.name for c in attributes(parse(text, kinds, ("",), want))}
    except (ExpressionErrors, RecursionError):
        return set()


def _hint(suggestion: str | None, kinds: Mapping[str, AttributeKind]) -> str | None:
    if suggestion is None:
        return None
    name = suggestion.split(".")[-1]
    return f"did you mean {suggestion!r}?" if " " not in suggestion or name in kinds or closest(name, kinds) else suggestion


def scoring_text(scoring: Scoring) -> str:
    """A scoring function as one expression: global and linear ones, and those of other packages, are spelled out."""
    if isinstance(scoring, ExpressionScoring):
        return scoring.expression
    if isinstance(scoring, FunctionScoring):
        function = SCORING_FUNCTIONS.all()[scoring.function]
        return function.text({p: _quoted(scoring.columns.get(p, p)) for p in function.parameters})
    if isinstance(scoring, GlobalScoring):
        terms = [_term(t) for t in scoring.terms]
        if len(terms) == 1:
            return terms[0]
        if scoring.combine in {"min", "max"}:
            return f"{scoring.combine}({', '.join(terms)})"
        return (" + " if scoring.combine == "sum" else " * ").join(terms)
    return " + ".join(_weighted(w, _quoted(c)) for c, w in scoring.linear.items())


def term_columns(term: Term) -> list[tuple[str, str]]:
    """(function, column) of the functions a term names; exactly one in a good spec."""
    return [(f, getattr(term, f)) for f in TERM_FUNCTIONS if getattr(term, f) is not None]


def is_linear(scoring: Scoring) -> bool:
    """Whether the function is a weighted sum of a single row's columns."""
    return isinstance(scoring, LinearScoring)


_TERMS: Final[Mapping[str, str]] = {
    "abs_difference": "abs(a.{x} - b.{x})", "squared_difference": "(a.{x} - b.{x}) * (a.{x} - b.{x})", "sum": "(a.{x} + b.{x})",
    "average": "((a.{x} + b.{x}) / 2)", "product": "a.{x} * b.{x}", "min": "min(a.{x}, b.{x})", "max": "max(a.{x}, b.{x})",
}  # fmt: skip


def _term(term: Term) -> str:
    if term.expression is not None:
        return _weighted(term.weight, f"({term.expression})")
    named = term_columns(term)
    function, column = named[0] if named else ("sum", "x")
    return _weighted(term.weight, _TERMS[function].format(x=_quoted(column)))


class LocalScore(NamedTuple):
    """What is known of the expression of a term: the ``columns`` it reads, whether it is proven to be loosely ``monotone``, and whether
    its values are ``of_one_sign``.
    """

    columns: tuple[str, ...]
    monotone: bool
    of_one_sign: bool


def local_score(text: str, kinds: Mapping[str, AttributeKind]) -> LocalScore:
    """Return what is known of a valid expression over pairs. O(length)."""
    from skyband.operators.expressions.canonical import attributes
    from skyband.operators.expressions.monotone import loosely_monotone, sign
    from skyband.operators.expressions.parser import parse

    node = parse(text, kinds, ("a", "b"), "score")
    return LocalScore(tuple(c.name for c in attributes(node)), loosely_monotone(node), bool(sign(node)))


@cache
def local_function(function: str) -> LocalScore:
    """Return what is known of a function of ``TERM_FUNCTIONS``, whatever the column."""
    return local_score(_TERMS[function].format(x="x"), {"x": "float"})


def _quoted(column: str) -> str:
    from skyband.operators.expressions.canonical import name

    return name(column)


def _weighted(weight: float, text: str) -> str:
    if weight == 1.0:
        return text
    return f"{weight!r} * {text}" if weight >= 0 else f"({weight!r}) * {text}"
