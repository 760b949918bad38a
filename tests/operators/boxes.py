"""Boxes of objects, by definition, for the tests of bounds."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import NULL


def boxes_of(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The boxes (3 rows per attribute, zones) of rows of values; zone z begins at column ``starts[z]``."""
    floats = values.dtype == np.float64
    missing = np.isnan(values) if floats else values == NULL
    nothing = (np.inf, -np.inf) if floats else (2**63 - 1, -(2**63) + 1)
    out = np.empty((3 * len(values), len(starts)), values.dtype)
    if len(values):
        out[0::3] = np.minimum.reduceat(np.where(missing, nothing[0], values), starts, axis=1)
        out[1::3] = np.maximum.reduceat(np.where(missing, nothing[1], values), starts, axis=1)
        out[2::3] = np.maximum.reduceat(missing, starts, axis=1)
    return out


def drawn(rng: np.random.Generator, pools: dict[str, np.ndarray], zones: int, members: int) -> dict[str, np.ndarray]:
    """Objects in zones of so many, one zone after the other; the values of an attribute in a zone are near each other, or equal."""
    out = {}
    for name, pool in pools.items():
        ordered = np.sort(pool)
        width = rng.integers(1, 4, (zones, 1)) * (rng.random((zones, 1)) < 0.7)
        first = rng.integers(0, len(pool), (zones, 1))
        picked = ordered[np.minimum(first + np.floor(rng.random((zones, members)) * (width + 1)).astype(int), len(pool) - 1)]
        stray = rng.random((zones, members)) < 0.05
        out[name] = np.where(stray, rng.choice(pool, (zones, members)), picked).ravel()
    return out
