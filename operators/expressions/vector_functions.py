"""Functions of two vectors as a few operations over a sum."""

from __future__ import annotations

import math
from typing import Protocol

from skyband.operators.expressions.ast import Attr, Node
from skyband.operators.expressions.formulas import Code
from skyband.operators.expressions.vectors import norm_name


class VectorCode(Code, Protocol):
    """What the functions need of ``Lowering``."""

    def column(self, attr: Attr, /) -> tuple[str, bool]:
        """The code of an attribute, and whether it varies."""

    def sums(self, function: str, x: Attr, y: Attr, /) -> tuple[str, bool]:
        """The code of a sum over dimensions, and whether it varies."""

    def take(self, code: str, varies: bool) -> str:
        """The variable that holds ``code``."""


def vector_function(code: VectorCode, function: str, x: Node, y: Node) -> str:
    """Return the variable of a function of ``VECTOR_FUNCTIONS``; a cosine is null if the product of the norms is 0."""
    assert isinstance(x, Attr) and isinstance(y, Attr)
    total = code.take(*code.sums("squares" if function == "l2" else "dot", x, y))
    if function != "cosine":
        return total if function == "dot" else code.call("sqrt", total)
    norm, other = (code.take(*code.column(Attr(type="float", side=v.side, name=norm_name(v.name)))) for v in (x, y))
    product = code.emit(f"{norm} * {other}", norm, other)
    quotient = code.emit(f"{total} / {product}", total, product)
    return code.select(code.test(product, "==", code.real(0.0)), code.real(math.nan), quotient)
