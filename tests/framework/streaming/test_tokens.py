"""Sets of tokens: what counts as a token, told by plain Python; codes; rows whose sets cannot be used."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.model import TokenNode
from skyband.framework.spec.models import WORDS
from skyband.framework.streaming.rejects import json_rows
from skyband.framework.streaming.tokens import key_of, reasons, sets, tokens
from tests.seeds import cases


def node(**changes: object) -> TokenNode:
    given = {
        "name": "w", "column": "c", "separator": None, "words": WORDS, "lower": True, "stop_words": (), "ngrams": 1, "least": 1, "most": 9,
    }  # fmt: skip
    return TokenNode(**(given | changes))  # type: ignore[arg-type]


def chunked(values: list[object], type_: pa.DataType = pa.string()) -> pa.ChunkedArray:  # noqa: B008
    return pa.chunked_array([pa.array(values[: len(values) // 2], type_), pa.array(values[len(values) // 2 :], type_)])


def told(of: TokenNode, column: pa.ChunkedArray) -> list[list[str]]:
    row, token = tokens(of, column)
    out: list[list[str]] = [[] for _ in range(len(column))]
    for r, t in zip(row.tolist(), token.to_pylist(), strict=True):
        out[r].append(t)
    return out


def by_hand(of: TokenNode, text: str | None) -> list[str]:
    """The tokens of a text of ASCII characters."""
    text = (text or "").lower() if of.lower else text or ""
    if of.separator is not None:
        found = [t.strip() for t in text.split(of.separator)]
    else:
        found = re.findall(of.words.replace(WORDS, "[A-Za-z0-9_]+"), text)  # type: ignore[union-attr]
    stops = {w.lower() if of.lower else w for w in of.stop_words}
    found = [t for t in found if t and t not in stops]
    return ["\x1f".join(found[i : i + of.ngrams]) for i in range(len(found) - of.ngrams + 1)]


@given(
    st.lists(st.none() | st.text("abAB1_ ,.;\n", max_size=12), max_size=8),
    st.sampled_from([WORDS, "[a-z]+", "[^ ,]+", "a|b+", "ab?", "[ab]1*"]),
    st.sampled_from([None, ",", ", ", "a"]),
    st.booleans(),
    st.sampled_from([(), ("a",), ("A", "b1")]),
    st.integers(1, 3),
)
@settings(max_examples=cases(300), deadline=None)
def test_tokens_of_texts_are_those_of_the_definition(texts, words, separator, lower, stops, ngrams):
    of = node(words=None if separator else words, separator=separator, lower=lower, stop_words=stops, ngrams=ngrams)
    assert told(of, chunked(list(texts))) == [by_hand(of, t) for t in texts]


def test_words_are_of_any_script():
    assert told(node(), chunked(["Größe: 7_b", "数据 流!", "e\u0301"])) == [["größe", "7_b"], ["数据", "流"], ["e"]]


def test_a_list_has_its_elements():
    lists = chunked([["B", "a", "B"], None, [], ["", None, "a"]], pa.list_(pa.string()))
    assert told(node(words=None, lower=False), lists) == [["B", "a", "B"], [], [], ["a"]]
    assert told(node(words=None, lower=True, stop_words=("A",)), lists) == [["b", "b"], [], [], []]
    assert told(node(words=None, lower=False), chunked([[1, -2], None], pa.list_(pa.int64()))) == [["1", "-2"], []]


@given(st.lists(st.text("abc ", max_size=10), max_size=10))
@settings(max_examples=cases(100), deadline=None)
def test_equal_tokens_and_only_they_have_equal_codes_each_once_a_row(texts):
    of, key = node(), key_of("job")
    words = [set(by_hand(of, t)) for t in texts]
    made = sets(of, chunked(list(texts)), key).to_pylist()
    code = {w: sets(of, chunked([w]), key).to_pylist()[0][0] for ws in words for w in ws}
    assert len(set(code.values())) == len(code)
    assert [sorted(row) for row in made] == [sorted(code[w] for w in ws) for ws in words]


def test_codes_are_the_jobs_own():
    column = chunked(["one two"])
    assert sets(node(), column, key_of("a")) == sets(node(), column, key_of("a"))
    assert sets(node(), column, key_of("a")) != sets(node(), column, key_of("b"))


def test_why_a_set_cannot_be_used():
    of = node(least=2, most=3)
    made = sets(of, chunked(["a", "a a", "a b", "a b c", "a b c d", None]), key_of(""))
    assert reasons(of, made).to_pylist() == ["empty_set:w", "empty_set:w", None, None, "large_set:w", "empty_set:w"]


@pytest.mark.parametrize("rows", [[], [None], [[]], [["a", None], None, ['"', "\n"]]])
def test_lists_are_json_in_rejected_rows(rows):
    import json

    table = pa.table({"l": pa.array(rows, pa.list_(pa.string()))})
    assert [json.loads(t) for t in json_rows(table).to_pylist()] == [{"l": r} for r in rows]
