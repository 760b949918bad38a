"""The hash indexes of a bucket's keys, as an operator has them. Not part of any state: they are built from the windows' objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from skyband.operators.base import I64
from skyband.operators.expressions.compile import PairKernel
from skyband.operators.pair_rows.hash_index.equalities import SHARE, Equality
from skyband.operators.pair_rows.hash_index.kernels import REGION_COLUMNS, VALUES, HashIndex, JoinColumns, Use

LEAST_OBJECTS: Final = 256
"""Objects of a window with an index, at the least: fewer are scored as quickly as they are looked up."""
PAUSES: Final = (1024, 64 * 1024)
"""Arrivals without the index after it did not pay: twice as many each time in a row, from the first number to the second."""
HASH_BITS: Final = 2**32 - 1
"""The bits of hashes that count."""


def _rows(names: Sequence[str], kernel: PairKernel) -> I64:
    """Return the rows of columns, as ``JoinColumns``."""
    floats, integers = kernel.float_names, kernel.int_names
    return np.array([integers.index(n) if n in integers else -1 - floats.index(n) for n in names], np.int64)


def no_index() -> HashIndex:
    """Return an index by no columns, which is never used: its types are those that drivers are compiled for."""
    none, links = np.empty(0, np.int64), np.empty((0, VALUES), np.int64)
    columns = JoinColumns(none, none, none, 0, 0, 0)
    return HashIndex(Use(0, 1, 0, 0, 0), columns, np.zeros((0, REGION_COLUMNS), np.int64), none, links, links.view(np.float64), 0)


def new_index(equalities: Sequence[Equality], kernel: PairKernel) -> HashIndex:
    """Return an index without objects, by the columns of ``equalities``; ``kernel``: that whose columns the objects have."""
    if not equalities:
        return no_index()
    a, b = (_rows(names, kernel) for names in ([e.a for e in equalities], [e.b for e in equalities]))
    floats, integers = len(kernel.float_names), len(kernel.int_names)
    columns = JoinColumns(a, b, np.array([e.real for e in equalities], np.int64), int(np.array_equal(a, b)), floats, integers)
    links = np.empty((0, VALUES + floats + integers), np.int64)
    return no_index()._replace(
        use=Use(LEAST_OBJECTS, SHARE, *PAUSES, HASH_BITS), columns=columns, links=links, reals=links.view(np.float64)
    )


def grown(index: HashIndex, keys: int) -> HashIndex:
    """Return the index for ``keys`` keys and more."""
    more = keys - len(index.regions)
    if more <= 0:
        return index
    return index._replace(regions=np.concatenate([index.regions, np.zeros((more, REGION_COLUMNS), np.int64)]))
