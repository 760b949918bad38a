"""Vectors in expressions: a vector of dimension d is d + 1 rows of a kernel's float matrix, one per dimension and one for its norm.

A sum over dimensions adds in their order, from the first, each product and each addition one IEEE operation in float64: the kernels of
``vector_kernels`` and the functions here give the same bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skyband.operators.base import F64

VECTOR_FUNCTIONS: Final = ("dot", "l2", "cosine")
"""Functions of two vectors."""


def element_name(name: str, dimension: int) -> str:
    """Return the name of a vector's row for a dimension, counted from 0. No column has such a name."""
    return f"{name}[{dimension}]"


def norm_name(name: str) -> str:
    """Return the name of a vector's row of norms."""
    return f"|{name}|"


def row_names(name: str, dimension: int) -> tuple[str, ...]:
    """Return the names of a vector's rows, one behind the other in a matrix."""
    return (*(element_name(name, i) for i in range(dimension)), norm_name(name))


def rows(name: str, column: F64) -> dict[str, F64]:
    """Return the rows (n,) of a column of vectors (n, d) by name. O(n d)."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(dot(column.T, column.T))
    return {element_name(name, i): column[:, i] for i in range(column.shape[1])} | {norm_name(name): norms}


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
