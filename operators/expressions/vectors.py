"""Vectors in expressions: a vector is rows of a kernel's float matrix, one per dimension, one for its norm, and one per part but the first.

The dimensions are in ``PARTS`` parts. The row of a part has the norm of the dimensions from its first one on, which bounds what they can
still add to a dot product.

A sum over dimensions adds in their order, from the first, each product and each addition one IEEE operation in float64: the kernels of
``kernels.vectors`` and the functions here give the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np

from skyband.operators.base import F64, Kind
from skyband.operators.expressions.ast import Attr, Node
from skyband.operators.expressions.formulas import Code


@dataclass(frozen=True, slots=True)
class Vector:
    """The kind of a list column whose rows are vectors of ``dimension`` numbers."""

    dimension: int


AttributeKind: TypeAlias = Kind | Vector
"""What an expression may take an attribute for."""

VECTOR_FUNCTIONS: Final = ("dot", "l2", "cosine")
"""Functions of two vectors."""
STEP: Final = 8
"""Dimensions that kernels add at a time."""
PARTS: Final = 6
"""Parts of the dimensions, of about the same size."""


def part_start(dimension: int, part: int) -> int:
    """Return the first dimension of a part, a multiple of ``STEP``; of part ``PARTS``, the end."""
    return dimension if part >= PARTS else dimension * part // PARTS // STEP * STEP


def element_name(name: str, dimension: int) -> str:
    """Return the name of a vector's row for a dimension, counted from 0. No column has such a name."""
    return f"{name}[{dimension}]"


def norm_name(name: str, part: int = 0) -> str:
    """Return the name of a vector's row of norms, of the dimensions from a part on."""
    return f"|{name}[{part}:]|" if part else f"|{name}|"


def row_names(name: str, dimension: int) -> tuple[str, ...]:
    """Return the names of a vector's rows, one behind the other in a matrix."""
    return (*(element_name(name, i) for i in range(dimension)), *(norm_name(name, part) for part in range(PARTS)))


def rows(name: str, column: F64) -> dict[str, F64]:
    """Return the rows (n,) of a column of vectors (n, d) by name. O(n d)."""
    found = {element_name(name, i): column[:, i] for i in range(column.shape[1])}
    with np.errstate(all="ignore"):
        for part in range(PARTS):
            rest = column.T[part_start(column.shape[1], part) :]
            found[norm_name(name, part)] = np.broadcast_to(np.sqrt(dot(rest, rest)), len(column))
    return found


def dot(x: F64, y: F64) -> F64:
    """Return the sums (n,) of the products of vectors; ``x`` and ``y`` are float64 (d, n) or (d, 1)."""
    total = np.zeros(1)
    for p, q in zip(x, y, strict=True):
        total = total + p * q
    return total


def squares(x: F64, y: F64) -> F64:
    """Return the sums (n,) of the squared differences of vectors; see ``dot``."""
    total = np.zeros(1)
    for p, q in zip(x, y, strict=True):
        difference = p - q
        total = total + difference * difference
    return total


class VectorCode(Code, Protocol):
    """What the functions need of ``Lowering``."""

    def column(self, attr: Attr, /) -> tuple[str, bool]:
        """Return the code of an attribute, and whether it varies."""

    def sums(self, function: str, x: Attr, y: Attr, /) -> tuple[str, bool]:
        """Return the code of a sum over dimensions, and whether it varies."""

    def take(self, code: str, varies: bool) -> str:
        """Return the variable that holds ``code``."""


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
