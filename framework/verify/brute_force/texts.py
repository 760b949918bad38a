"""Functions of texts and of sets of tokens by their definitions, over columns of numbers that stand for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.operators.expressions.ast import Call, Literal_

I64: TypeAlias = npt.NDArray[np.int64]
Function: TypeAlias = Callable[..., tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]]
"""Takes lists of texts or sets of equal length; returns values and which of them are not null."""

_NUMBERS: Final[dict[Any, int]] = {}
_KNOWN: Final[list[Any]] = []
_PAIRS: Final = 20_000
"""Pairs of texts that are compared together."""


def text_number(text: str | frozenset[str]) -> int:
    """Return a number that no other text, or set of texts, has."""
    if text not in _NUMBERS:
        _NUMBERS[text] = len(_KNOWN)
        _KNOWN.append(text)
    return _NUMBERS[text]


def function_of(node: Call) -> Function | None:
    """Return the function of texts or sets that ``node`` calls; None for others. Constants that are numbers are part of it."""
    numbers = [int(n.value) for n in node.args if isinstance(n, Literal_) and n.type == "int" and n.value is not None]
    if node.fn == "edit_distance":
        return lambda x, y: _distances(x, y, *numbers)
    if node.fn == "length":
        return lambda x: _known(np.array([len(text) for text in x], np.int64))
    if node.fn == "lower":
        return lambda x: _texts(pc.utf8_lower(pa.array(x, pa.string())).to_pylist())  # the mapping is a table of Unicode's
    if node.fn == "substring":
        return lambda x: _texts([_substring(text, *numbers) for text in x])
    if node.fn in _SIMILARITIES and node.args[0].type == "tokens":
        similarity = _SIMILARITIES[node.fn]
        return lambda x, y: _similarities(similarity, x, y)
    return None


def on_numbers(function: Function, columns: Sequence[I64]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return ``function`` of the texts or sets that ``columns`` stand for. Equal arguments are computed once."""
    rows = np.stack(np.broadcast_arrays(*columns))
    different, place = np.unique(rows, axis=1, return_inverse=True)
    value, valid = function(*([_KNOWN[n] for n in row.tolist()] for row in different))
    return value[place.reshape(-1)], valid[place.reshape(-1)]


def _known(value: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    return value, np.ones(len(value), bool)


def _texts(texts: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    return _known(np.array([text_number(text) for text in texts], np.int64))


def _substring(text: str, position: int, count: int | None = None) -> str:
    """Return the characters at ``count`` positions from one on; those from the end are -1, -2, ..., and 0 is the first."""
    first = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return "".join(c for i, c in enumerate(text) if i >= first and (count is None or i < first + count))


def _similarities(
    similarity: Callable[[int, int, int], float], x: list[frozenset[str]], y: list[frozenset[str]]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the similarities of sets, null where one is empty."""
    found = [similarity(len(a & b), len(a), len(b)) if a and b else math.nan for a, b in zip(x, y, strict=True)]
    value = np.array(found, np.float64)
    return value, ~np.isnan(value)


_SIMILARITIES: Final[dict[str, Callable[[int, int, int], float]]] = {
    "jaccard": lambda both, a, b: both / (a + b - both),
    "cosine": lambda both, a, b: math.sqrt(both * both / (a * b)),
    "dice": lambda both, a, b: 2 * both / (a + b),
    "overlap": lambda both, a, b: float(both),
}


def _distances(x: list[str], y: list[str], limit: int | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the edit distances of texts, null above the limit."""
    found = np.zeros(len(x), np.int64)
    order = np.argsort([max(len(a), len(b)) for a, b in zip(x, y, strict=True)], kind="stable")
    for start in range(0, len(x), _PAIRS):
        at = order[start : start + _PAIRS]
        found[at] = _levenshtein(_matrix([x[i] for i in at]), _matrix([y[i] for i in at]), _lengths(x, at), _lengths(y, at))
    return found, np.ones(len(x), bool) if limit is None else found <= limit


def _lengths(texts: list[str], at: I64) -> I64:
    return np.array([len(texts[i]) for i in at], np.int64)


def _matrix(texts: list[str]) -> I64:
    """Return code points as int64 (longest, texts), padded."""
    found = np.full((max(map(len, texts), default=0), len(texts)), -1)
    for column, text in enumerate(texts):
        found[: len(text), column] = [ord(c) for c in text]
    return found


def _levenshtein(x: I64, y: I64, x_length: I64, y_length: I64) -> I64:
    """Return the distances of texts side by side: d(i, j) = least of d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + (x_i differs from y_j)."""
    pairs = x.shape[1]
    above = np.tile(np.arange(len(y) + 1)[:, None], (1, pairs))
    found: I64 = y_length.copy()
    for i in range(len(x)):
        row = np.empty_like(above)
        row[0] = i + 1
        for j in range(len(y)):
            row[j + 1] = np.minimum(np.minimum(above[j + 1], row[j]) + 1, above[j] + (x[i] != y[j]))
        ends = np.flatnonzero(x_length == i + 1)
        found[ends] = row[y_length[ends], ends]
        above = row
    return found
