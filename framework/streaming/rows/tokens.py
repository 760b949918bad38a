"""Make sets of tokens from lists and texts, by Arrow's kernels: a token is a 64-bit code, so no dictionary is needed.

A code is the token's SipHash under the job's own key: equal tokens have equal codes everywhere and at all times, and nobody can choose
tokens that collide. Of n different tokens in a window some two share a code with probability n * n / 2**65 (of ten million: 3 in a
million).
"""

from __future__ import annotations

import hashlib
import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.reasons import EMPTY_SET, LARGE_SET
from skyband.framework.plan.nodes import TokenNode
from skyband.framework.spec.models.words import WORDS
from skyband.operators.base import NULL

_RUN = re.compile(r"\[(?P<not>\^?)(?P<of>(?:[^\[\]\\^]|\\[pP](?:[A-Z]|\{\w+\})|\\[wds])+)\]\+")
"""One or more of a class of characters."""
_BETWEEN_WORDS = r"^\pM+|(?:[^\pL\pM\pN_]+\pM*)+"
"""The runs of characters that stand between words as ``WORDS`` defines them: marks that follow no letter belong to no word."""

I64 = npt.NDArray[np.int64]

_END = "\x1f"
"""Separates the tokens of a text while it is split, and the parts of an n-gram."""


def key_of(job: str) -> str:
    """The 16 characters that key the codes of ``job`` (any text that is the job's own)."""
    return hashlib.sha256(job.encode()).hexdigest()[:16]


def tokens(node: TokenNode, column: pa.ChunkedArray) -> tuple[I64, pa.Array]:
    """(row, token) of every token of ``column`` that counts, in order of the rows; a row may have a token twice. O(characters)."""
    row, token = _parts(node, column)
    if node.stop_words:
        stops = _lowered(node, _composed(node, pa.array(node.stop_words, pa.string())))
        counts = pc.invert(pc.is_in(token, value_set=stops))
        row, token = row[counts.to_numpy(zero_copy_only=False)], token.filter(counts)
    if node.ngrams > 1:
        row, token = _ngrams(row, token, node.ngrams)
    return row, token


def sets(node: TokenNode, column: pa.ChunkedArray, key: str) -> pa.ListArray:
    """The codes of each row's tokens, each once; no row is null. O(characters), and a little Python per different token.

    A short row's codes are there too: ``usable`` removes them once ``reasons`` has seen them.
    """
    from pandas.util import hash_array  # slow to import, and few jobs have sets

    row, token = tokens(node, column)
    encoded = token.dictionary_encode()
    named = np.asarray(encoded.dictionary.to_pylist(), dtype=object)
    hashed = hash_array(named, hash_key=key, categorize=False).view(np.int64) if len(named) else np.empty(0, np.int64)
    code = np.where(hashed == NULL, 0, hashed)[encoded.indices.to_numpy()]
    order = np.lexsort((code, row))
    row, code = row[order], code[order]
    first = np.ones(len(row), bool)
    first[1:] = (row[1:] != row[:-1]) | (code[1:] != code[:-1])
    lengths = np.bincount(row[first], minlength=len(column))
    return pa.ListArray.from_arrays(np.append(0, np.cumsum(lengths)).astype(np.int32), pa.array(code[first]))


def reasons(node: TokenNode, made: pa.ListArray) -> pa.Array:
    """Return why each row is rejected for its set, null where it is not."""
    size = pc.list_value_length(made)
    large = pc.if_else(pc.greater(size, node.most), LARGE_SET + node.name, pa.scalar(None, pa.string()))
    return large if node.skips_short else pc.if_else(pc.less(size, node.least), EMPTY_SET + node.name, large)


def usable(node: TokenNode, made: pa.ListArray) -> pa.ListArray:
    """``made`` with an empty set for every short row: operators let objects with empty sets take no part."""
    size = pc.list_value_length(made).to_numpy().astype(np.int64)
    short = size < node.least
    if not (short & (size > 0)).any():
        return made
    kept = np.where(short, 0, size)
    return pa.ListArray.from_arrays(
        np.append(0, np.cumsum(kept)).astype(np.int32), made.flatten().filter(pa.array(np.repeat(~short, size)))
    )


def _parts(node: TokenNode, column: pa.ChunkedArray) -> tuple[I64, pa.Array]:
    """(row, token) before stop words."""
    whole = column.combine_chunks()
    if pa.types.is_list(whole.type):
        parts = whole.cast(pa.list_(pa.string()))
    elif node.words is not None:
        parts = pc.split_pattern(_apart(_lowered(node, _composed(node, whole)), node.words), _END)
    else:
        separator = _composed(node, pa.array([node.separator]))[0].as_py()
        parts = pc.split_pattern(_lowered(node, _composed(node, whole)), separator)
    row, token = pc.list_parent_indices(parts).to_numpy().astype(np.int64), parts.flatten()
    if pa.types.is_list(whole.type):
        token = _lowered(node, _composed(node, token))
    elif node.words is None:
        token = pc.utf8_trim_whitespace(token)
    counts = pc.fill_null(pc.not_equal(token, ""), False)
    return row[counts.to_numpy(zero_copy_only=False)], token.filter(counts)


def _apart(text: pa.Array, words: str) -> pa.Array:
    """What ``words`` finds, from left to right, each with ``_END`` behind it (and more of those)."""
    if words == WORDS:
        return pc.replace_substring_regex(text, _BETWEEN_WORDS, _END)
    run = _RUN.fullmatch(words)
    if run is not None:
        # Match the separators instead of the tokens: without a capturing group this is ten times faster.
        between = f"[{'' if run['not'] else '^'}{run['of']}]+"
        return pc.replace_substring_regex(text, between, _END)
    return pc.replace_substring_regex(text, f"(?s)({words})|.", f"\\1{_END}")


def _composed(node: TokenNode, text: pa.Array) -> pa.Array:
    return pc.utf8_normalize(text, form="NFC") if node.composes else text


def _lowered(node: TokenNode, text: pa.Array) -> pa.Array:
    """Text in lower case by Unicode's simple mapping: one character for one, whatever the language."""
    return pc.utf8_lower(text) if node.lower else text


def _ngrams(row: I64, token: pa.Array, n: int) -> tuple[I64, pa.Array]:
    """Every ``n`` neighbours of a row; a row of fewer has none."""
    count = max(0, len(row) - n + 1)
    whole = row[:count] == row[n - 1 :][:count]
    joined = pc.binary_join_element_wise(*(token.slice(i, count) for i in range(n)), _END) if count else token.slice(0, 0)
    return row[:count][whole], joined.filter(pa.array(whole))
