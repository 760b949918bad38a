"""Sets of tokens: what counts as a token, told by plain Python; codes; rows whose sets cannot be used."""

from __future__ import annotations

import re
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.nodes import TokenNode
from skyband.framework.spec.models.words import FORMER_WORDS, WORDS
from skyband.framework.streaming.rows.rejects import json_rows
from skyband.framework.streaming.rows.tokens import key_of, reasons, sets, tokens, usable
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
    assert told(node(), chunked(["Größe: 7_b", "数据 流!", "e\u0301"])) == [["größe", "7_b"], ["数据", "流"], ["é"]]


def by_category(text: str) -> list[str]:
    """The words of a text by the definition of ``WORDS``, character by character."""
    found, word = [], ""
    for c in [*text, " "]:
        major = unicodedata.category(c)[0]
        if major in "LN" or c == "_" or (major == "M" and word):
            word += c
        elif word:
            found.append(word)
            word = ""
    return found


@given(st.lists(st.text("ab1_ -\u0301\u0302\u093f\u0940दन\ufe0f❤今\u0e31ก", max_size=12), min_size=1, max_size=6))
@settings(max_examples=cases(300), deadline=None)
def test_words_keep_the_marks_that_follow_their_letters(texts):
    of = node(normalize="none")
    assert told(of, chunked(list(texts))) == [by_category(t) for t in texts]
    # Given as any other expression it is read the slow way, to the same words.
    assert told(node(normalize="none", words=f"(?:{WORDS})"), chunked(list(texts))) == [by_category(t) for t in texts]


def test_a_mark_that_follows_no_letter_is_no_word():
    """Emoji are followed by a variation selector, which is a mark: it would be a token that all of them have in common."""
    assert told(node(), chunked(["❤\ufe0f love", "☀\ufe0f sun", "\u0301a"])) == [["love"], ["sun"], ["a"]]


def test_hindi_texts_without_a_common_word_share_no_token():
    first, second = told(node(), chunked(["दिन नदी", "दीन नाद"]))
    assert (first, second) == (["दिन", "नदी"], ["दीन", "नाद"])
    # As former versions have it, whose jobs go on so (``plan.former``).
    first, second = told(node(words=FORMER_WORDS, normalize=None), chunked(["दिन नदी", "दीन नाद"]))
    assert set(first) & set(second)


def test_equal_letters_are_equal_tokens_however_they_are_composed():
    composed, apart = "Café crème", unicodedata.normalize("NFD", "Café crème")
    assert composed != apart
    both = chunked([composed, apart])
    assert told(node(), both) == [["café", "crème"]] * 2
    assert told(node(normalize="none"), both) == [["café", "crème"], [unicodedata.normalize("NFD", w) for w in ("café", "crème")]]
    lists = chunked([[composed], [apart]], pa.list_(pa.string()))
    assert told(node(words=None, lower=False), lists) == [[composed]] * 2
    assert told(node(stop_words=(unicodedata.normalize("NFD", "CAFÉ"),)), both) == [["crème"]] * 2
    parted = node(words=None, separator=unicodedata.normalize("NFD", "é"), lower=False)
    assert told(parted, both) == [["Caf", "crème"]] * 2


def test_scripts_without_blanks_are_compared_by_pairs_of_characters():
    """What docs/how-to/similar-sets.md says to do: a character and its marks are a token, two neighbours together are compared."""
    of = node(words=r"[\pL\pN]\pM*", ngrams=2, most=99)
    column = chunked(["今日は天気がいいので公園を散歩しました", "今日は天気がいいので公園を散歩しましょ", "วันนี้อากาศดี", "วันนี้อากาศร้อน"])
    a, b, thai, other = (set(t) for t in told(of, column))
    assert len(a & b) / len(a | b) > 0.8
    assert 0.4 < len(thai & other) / len(thai | other) < 1
    assert "นี้".strip() and any("นี้" in t.split("\x1f") for t in thai)


def test_case_is_mapped_character_by_character():
    """Unicode's simple mapping: no character becomes two, and no language has rules of its own."""
    column = chunked(["İSTANBUL", "Istanbul", "STRASSE", "straße", "ẞ", "ΟΔΟΣ"])
    assert told(node(), column) == [["istanbul"], ["istanbul"], ["strasse"], ["straße"], ["ß"], ["οδοσ"]]


def test_stop_words_go_before_ngrams_are_made_and_are_lowered_as_the_text_is():
    column = chunked(["Cat of The House", "cat house"])
    assert told(node(stop_words=("THE", "of"), ngrams=2), column) == [["cat\x1fhouse"]] * 2
    assert told(node(stop_words=("THE", "of"), lower=False), column) == [["Cat", "The", "House"], ["cat", "house"]]


def test_a_text_of_fewer_words_than_an_ngram_has_no_token():
    assert told(node(ngrams=3), chunked(["a b", "a b c", "a", None])) == [[], ["a\x1fb\x1fc"], [], []]


def test_blanks_around_the_parts_of_a_text_do_not_count():
    of = node(words=None, separator=",", lower=False)
    assert told(of, chunked([" a b ,\tc\u3000,, ", "c,a b"])) == [["a b", "c"], ["c", "a b"]]
    assert told(node(words=None, separator=" ", lower=False), chunked(["a  b"])) == [["a", "b"]]


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


@pytest.mark.parametrize("short", ["reject", "skip", None])
def test_why_a_set_cannot_be_used(short):
    of = node(least=2, most=3, short=short)
    made = sets(of, chunked(["a", "a a", "a b", "a b c", "a b c d", None]), key_of(""))
    few = None if short == "skip" else "empty_set:w"
    assert reasons(of, made).to_pylist() == [few, few, None, None, "large_set:w", few]


@given(st.lists(st.none() | st.text("abc ", max_size=8), max_size=8), st.integers(1, 4))
@settings(max_examples=cases(100), deadline=None)
def test_a_short_set_is_an_empty_one(texts, least):
    of = node(least=least)
    made = sets(of, chunked(list(texts)), key_of(""))
    assert usable(of, made).to_pylist() == [t if len(t) >= least else [] for t in made.to_pylist()]


@pytest.mark.parametrize("rows", [[], [None], [[]], [["a", None], None, ['"', "\n"]]])
def test_lists_are_json_in_rejected_rows(rows):
    import json

    table = pa.table({"l": pa.array(rows, pa.list_(pa.string()))})
    assert [json.loads(t) for t in json_rows(table).to_pylist()] == [{"l": r} for r in rows]
