"""Checks of a global score: its terms are local scores of one column each, and their combination is monotone (paper 0)."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.errors import one_of
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.expressions.scoring import LocalScore, local_function, local_score, term_columns
from skyband.framework.spec.models.scoring import TERM_FUNCTIONS, GlobalScoring, Term
from skyband.framework.spec.parsing.document import Path

_EXPRESSION: Final = "expression"


def check_terms(s: Scope, path: Path, scoring: GlobalScoring) -> bool:
    """Return True if the terms of the score at ``path`` are valid. Report mistakes, and warn of a combination that is not monotone."""
    scores = [_term(s, (*path, "terms", i), term) for i, term in enumerate(scoring.terms)]
    if scoring.combine == "product" and len(scores) > 1:
        for i, score in enumerate(scores):
            if score is not None and not score.of_one_sign:
                message = f"the product of terms is not monotone: {_shown(scoring.terms[i])} may be negative, which turns the others round"
                hint = "results are exact all the same; a score that is meant to be monotone takes its abs, in an expression"
                s.doc.warn("SKY-E129", message, s.doc.where_value((*path, "terms", i)), hint)
    return None not in scores


def _term(s: Scope, at: Path, term: Term) -> LocalScore | None:
    """Return what is known of a term, or None if it has mistakes, which are reported."""
    named = term_columns(term)
    functions = [f for f, _ in named] + ([_EXPRESSION] if term.expression is not None else [])
    if len(functions) != 1:
        if not s.doc.bad_below(at):
            what = f"names {one_of(functions)}" if functions else "names no function"
            hint = f"use exactly one of {', '.join((*TERM_FUNCTIONS, _EXPRESSION))}"
            s.doc.add("SKY-E117", f"a term {what}", s.doc.where_value(at), hint)
        for f, c in named:
            s.column((*at, f), c)
        return None
    if term.expression is not None:
        return _of_expression(s, at, term.expression, term.monotone)
    if term.monotone and not s.doc.bad((*at, "monotone")):
        message = f"{functions[0]} is loosely monotone anyway: only an expression may be declared so"
        s.doc.add("SKY-E117", message, s.doc.where_key((*at, "monotone")), "remove 'monotone'")
    ((function, column),) = named
    return local_function(function) if s.column((*at, function), column) else None


def _of_expression(s: Scope, at: Path, text: str, declared: bool) -> LocalScore | None:
    """Return what is known of an expression over one column, or None after a mistake."""
    field: Path = (*at, _EXPRESSION)
    if not s.expression(field, text, PAIR_SIDES, "score"):
        return None
    found = local_score(text, s.names(PAIR_SIDES))
    whole = "to score by several columns at once, use 'expression' in place of 'combine'"
    if len(found.columns) != 1:
        read = one_of([f"'{c}'" for c in found.columns]).replace(" or ", " and ") if found.columns else "no column"
        s.doc.add("SKY-E117", f"a term is about one column, and this expression reads {read}", s.doc.where_value(field), whole)
        return None
    if not (found.monotone or declared or s.doc.bad((*at, "monotone"))):
        message = "a term must be loosely monotone, and that is not proven of this expression"
        hint = f"add 'monotone: true' if it rises or falls all the way on either side of the other row's value; {whole}"
        s.doc.add("SKY-E117", message, s.doc.where_value(field), hint)
        return None
    return found


def _shown(term: Term) -> str:
    return " of ".join(term_columns(term)[0]) if term.expression is None else "this expression"
