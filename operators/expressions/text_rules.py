"""The type rules of functions of texts and of sets of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from skyband.operators.expressions.ast import Attr, Call, Literal_, Node, Span, Type
from skyband.operators.expressions.canonical import walk

_TEXTS: Final = "a column, or lower(...) or substring(...) of one"


class Report(Protocol):
    """Reports a mistake."""

    def __call__(self, message: str, span: Span, suggestion: str | None = None, hint: str | None = None) -> None:
        """Report ``message`` about the text at ``span``."""
        ...


def type_of_text_function(name: str, arguments: Sequence[Node], span: Span, said: Callable[[Node], str], report: Report) -> Type | None:
    """Return the type of a function of texts, or report what is wrong with its arguments (``said``: a node's type in words)."""
    texts = arguments[:2] if name == "edit_distance" else arguments[:1]
    good = [_is_text(name, x, said, report) for x in texts]
    good += [_is_constant(name, x, report) for x in arguments[len(texts) :]]
    if not all(good):
        return None
    if not any(isinstance(n, Attr) for x in texts for n in walk(x)):
        report(f"{name} of constants only: write its value instead", span)
        return None
    return "text" if name in ("lower", "substring") else "int"


def _is_text(name: str, x: Node, said: Callable[[Node], str], report: Report) -> bool:
    if x.type != "text":
        report(f"{name} needs a text, this is {said(x)}", x.span)
        return False
    if isinstance(x, Attr | Literal_) or (isinstance(x, Call) and x.fn in ("lower", "substring")):
        return True
    report(f"{name} takes {_TEXTS}", x.span, hint="derive a text in 'transform' and use its column")
    return False


def _is_constant(name: str, x: Node, report: Report) -> bool:
    whole = isinstance(x, Literal_) and x.type == "int" and isinstance(x.value, int)
    if name == "edit_distance":
        if whole and isinstance(x, Literal_) and int(x.value or 0) >= 0:
            return True
        report("the limit of edit_distance is a whole number from 0 on, not an expression", x.span)
        return False
    if not whole:
        report(f"{name} takes whole numbers as position and count, not expressions", x.span)
    return whole


def type_of_set_function(name: str, x: Node, y: Node, span: Span, said: Callable[[Node], str], report: Report) -> Type | None:
    """Return the type of a similarity of two sets, or report what is wrong with its arguments."""
    for node in (x, y):
        if node.type != "tokens":
            what = node.name if isinstance(node, Attr) else "NAME"
            hint = f"declare the set in the section 'tokens', such as {what}: {{column: {what}}}"
            report(f"{name} needs two sets of tokens, this is {said(node)}", node.span, hint=hint)
            return None
    assert isinstance(x, Attr) and isinstance(y, Attr)
    if x.side == y.side:
        report(f"{name} compares a set of one row with a set of another: one of a. and one of b., in a query over pairs", span)
        return None
    return "float"
