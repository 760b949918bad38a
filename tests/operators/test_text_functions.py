"""Functions of texts and of sets against their definitions, on both paths."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.streaming.rows.columns import TextCodes, operator_column, ragged_column
from skyband.framework.verify.brute_force.expressions import Values, meaning, text_number
from skyband.operators.base import NULL, TOKENS, Arrivals, Column, Ragged, Window
from skyband.operators.expressions import ExpressionErrors, PairKernel, canonical, compile_pair, compile_row, parse, read_columns
from skyband.operators.jit import HAVE_NUMBA
from skyband.operators.pair_rows.windows import Windows
from tests.operators.boxes import boxes_of
from tests.seeds import cases

SCHEMA = {
    "name": "text",
    "alias": "text",
    "x": "float",
    "n": "int",
    "words": "list",
    "title": "text",
    f"{TOKENS}words": "tokens",
    f"{TOKENS}title": "tokens",
}
PATHS = [
    pytest.param(True, marks=pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off"), id="numba"),
    pytest.param(False, id="numpy"),
]
LETTERS = "abAÄß€𝄞é "
SHORT = st.text(LETTERS, max_size=6)
LONG = st.text(LETTERS, min_size=60, max_size=140)
TEXT = (
    st.none() | SHORT | st.text(max_size=4).filter(lambda t: t.isprintable() or not t) | LONG | st.sampled_from(["", "kitten", "sitting"])
)
SETS = st.sets(st.integers(0, 6), max_size=5)


def distance(x: str, y: str) -> int:
    """The textbook's recurrence."""
    d = {(i, 0): i for i in range(len(x) + 1)} | {(0, j): j for j in range(len(y) + 1)}
    for i, c in enumerate(x, 1):
        for j, e in enumerate(y, 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (c != e))
    return d[len(x), len(y)]


def ragged(sets: list[set[int]]) -> Ragged:
    return Ragged(np.cumsum([0, *map(len, sets)]).astype(np.int64), np.array([t for s in sets for t in sorted(s, reverse=True)], np.int64))


def scored(expression: str, texts: list[str | None], sets: list[set[int]], numba: bool, swapped: bool = False) -> list[float]:
    """The scores of the last object with each of those before it, with as many kernels in between as a window has."""
    kernel = compile_pair(parse(expression, SCHEMA, want="score"), None, False, {"smith": 0})
    objects, last = stored(kernel, texts, sets).objects, len(texts) - 1
    kernel = kernel.swapped if swapped else kernel
    block = kernel.score_block if numba else kernel.score_block_numpy
    out = np.empty(last)
    block(objects.floats, objects.integers, 0, last, objects.floats[:, last].copy(), objects.integers[:, last].copy(), objects.pool, out)
    return out.tolist()


def stored(kernel: PairKernel, texts: list[str | None], sets: list[set[int]]) -> Windows:
    """Windows with the objects that have these texts, and in reverse as aliases, and these sets."""
    windows = Windows(Window(count=len(texts)), kernel)
    windows.grow(1)
    rows = pa.table({"name": pa.array(texts, pa.string()), "alias": pa.array(texts[::-1], pa.string())})
    read, codes, at = read_columns(kernel.score), TextCodes(("smith",)), np.arange(len(texts))
    columns = {c.name: operator_column(rows, c, codes) for c in read if c.kind not in ("characters", "tokens")}
    found = {c.name: ragged(sets) if c.kind == "tokens" else ragged_column(rows, c) for c in read if c.kind in ("characters", "tokens")}
    windows.append(Arrivals(np.zeros(len(texts), np.int64), at, at, columns, found), 0)
    return windows


def interpreted(expression: str, texts: list[str | None], sets: list[set[int]], swapped: bool = False) -> list[float]:
    """The same by the interpreter of ``verify``."""
    here = [np.array([t is not None for t in x]) for x in (texts, texts[::-1])]
    names = {
        n: Values(np.array([text_number(t or "") for t in x], np.int64), v)
        for n, x, v in zip(("name", "alias"), (texts, texts[::-1]), here, strict=True)
    }
    every = {
        **names,
        **{
            TOKENS + n: Values(np.array([text_number(frozenset(map(str, s))) for s in sets], np.int64), np.ones(len(sets), bool))
            for n in ("words", "title")
        },
    }
    older, newer = ({n: Values(v.value[of], v.valid[of]) for n, v in every.items()} for of in (slice(0, -1), slice(-1, None)))
    value = meaning(parse(expression, SCHEMA, want="score"))(*((newer, older) if swapped else (older, newer)))
    return np.where(value.valid, value.value.astype(np.float64), math.nan).tolist()


@pytest.mark.parametrize("numba", PATHS)
@given(st.lists(TEXT, min_size=2, max_size=12), st.sampled_from(["", ", 0", ", 1", ", 3", ", 70"]), st.booleans())
@settings(max_examples=cases(150), deadline=None)
def test_edit_distances_are_those_of_the_textbook(numba, texts, limit, swapped) -> None:
    sets: list[set[int]] = [set()] * len(texts)
    expression, last = f"edit_distance(a.name, b.name{limit})", texts[-1]
    most = int(limit[2:]) if limit else math.inf
    want = [math.nan if t is None or last is None or distance(t, last) > most else float(distance(t, last)) for t in texts[:-1]]
    np.testing.assert_array_equal(scored(expression, texts, sets, numba, swapped), want)
    np.testing.assert_array_equal(interpreted(expression, texts, sets, swapped), want)


@pytest.mark.parametrize("numba", PATHS)
@given(st.lists(SETS, min_size=2, max_size=12), st.sampled_from(["jaccard", "cosine", "dice", "overlap"]), st.booleans())
@settings(max_examples=cases(100), deadline=None)
def test_similarities_of_sets(numba, sets, function, swapped) -> None:
    expression = f"{function}(a.words, b.title)"
    last = sets[-1]
    of = {
        "jaccard": lambda s: len(s & last) / len(s | last), "cosine": lambda s: math.sqrt(len(s & last) ** 2 / (len(s) * len(last))),
        "dice": lambda s: 2 * len(s & last) / (len(s) + len(last)), "overlap": lambda s: float(len(s & last)),
    }[function]  # fmt: skip
    want = [of(s) if s and last else math.nan for s in sets[:-1]]
    texts: list[str | None] = [None] * len(sets)
    assert np.array(scored(expression, texts, sets, numba, swapped)).tobytes() == np.array(want).tobytes()
    assert np.array(interpreted(expression, texts, sets, swapped)).tobytes() == np.array(want).tobytes()


@given(st.lists(TEXT, min_size=4, max_size=12), st.lists(SETS, min_size=12, max_size=12), st.booleans())
@settings(max_examples=cases(60), deadline=None)
def test_bounds_are_sound(texts, sets, negate) -> None:
    for expression in ("edit_distance(a.name, b.name) - jaccard(a.words, b.title)", "overlap(a.words, b.words) - length(a.name)", LIMITED):
        node, sets = parse(expression, SCHEMA, want="score"), sets[: len(texts)]
        kernel = compile_pair(node, None, negate, {"smith": 0})
        objects = stored(kernel, texts, sets).objects
        boxes = [boxes_of(x[:, : len(texts)], np.array([0, 2])) for x in (objects.floats, objects.integers)]
        ends = [boxes_of(x[:, len(texts) - 1 : len(texts)], np.array([0]))[:, 0].copy() for x in (objects.floats, objects.integers)]
        out = np.empty(2)
        kernel.bound_block_numpy(*boxes, 0, 2, *ends, objects.pool, out)
        scores = np.array(scored(expression, texts, sets, False)) * (-1 if negate else 1)
        for bound, zone in zip(out, (scores[:2], scores[2:]), strict=True):
            assert (np.isnan(zone) | (bound <= zone)).all(), (expression, bound, zone)
        assert not np.isnan(out).any()


LIMITED = "edit_distance(a.name, b.alias, 2) + length(b.name)"
EXPRESSIONS = [
    "length(a.name) - length(b.alias) * 2",
    "where(lower(a.name) = lower(b.alias), 1, 0) + length(lower(b.name))",
    "length(substring(a.name, 2, 3)) + edit_distance(substring(a.name, -3, 2), b.name) + where(substring(b.name, -4) = 'smith', 1, 0)",
    "edit_distance(a.name, 'smith') + edit_distance('smith', b.name, 4) + edit_distance(b.name, b.alias)",
    "edit_distance(lower(a.name), substring(b.name, 0, 4), 5) + edit_distance(a.name, b.alias)",
    "edit_distance(a.name, a.alias) + where(length(b.name) is null, 1, 2)",
]


@pytest.mark.parametrize("numba", PATHS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(st.lists(TEXT, min_size=2, max_size=8), st.booleans())
@settings(max_examples=cases(30), deadline=None)
def test_functions_of_texts_do_what_the_interpreter_does(numba, expression, texts, swapped) -> None:
    sets: list[set[int]] = [set()] * len(texts)
    np.testing.assert_array_equal(scored(expression, texts, sets, numba, swapped), interpreted(expression, texts, sets, swapped))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ("1, 2", "hä"), ("2, 100", "äß€𝄞"), ("0, 2", "hä"), ("-2, 1", "€"), ("-2, 5", "€𝄞"), ("-7, 4", "hä"), ("-7, 1", ""), ("6, 1", ""),
        ("3, 0", ""), ("3, -1", ""), ("-2", "€𝄞"), ("4", "€𝄞"), ("-2, -3", ""),
    ],
)  # fmt: skip
def test_substrings_are_those_of_spark(arguments, want) -> None:
    column = read_columns(parse(f"substring(name, {arguments}) = 'x'", SCHEMA, ("",)))[0]
    rows = pa.table({"name": ["häß€𝄞", None]})
    codes = TextCodes((want,))
    assert operator_column(rows, column, codes).tolist() == [0, NULL]


def test_functions_of_one_object_are_columns() -> None:
    node = parse("edit_distance(lower(name), 'smith') < 3 and length(name) > 2 and name is not null", SCHEMA, ("",), "predicate")
    read = {c.name: c for c in read_columns(node)}
    assert [*read] == ["=edit_distance(lower(name), 'smith')", "=length(name)", "name"]
    assert [c.kind for c in read.values()] == ["int", "int", "text"] and [c.sources for c in read.values()] == [("name",)] * 3
    assert parse(canonical(node), SCHEMA, ("",)) == node
    rows = pa.table({"name": ["Smyth", "SMITH", "ab", None, "smithers"]})
    columns = {n: operator_column(rows, c, TextCodes(("smith",))) for n, c in read.items()}
    assert compile_row(None, node, False, {"smith": 0}).passes(columns).tolist() == [True, True, False, False, False]


def test_characters_and_sets_of_pairs_are_columns_of_their_own() -> None:
    node = parse("edit_distance(a.name, lower(b.alias)) + jaccard(a.words, b.title) + where(a.title = b.name, 1, 0)", SCHEMA)
    assert [(c.name, c.kind) for c in read_columns(node)] == [
        ("~name", "characters"), ("~lower(alias)", "characters"), ("#words", "tokens"), ("#title", "tokens"), ("title", "text"),
        ("name", "text"),
    ]  # fmt: skip
    assert parse(canonical(node), SCHEMA) == node


MISTAKES = [
    ("edit_distance(a.name, b.x)", "edit_distance needs a text, this is a number"),
    ("edit_distance(a.name, b.name, a.n)", "the limit of edit_distance is a whole number"),
    ("edit_distance(a.name, b.name, -1)", "the limit of edit_distance is a whole number"),
    ("edit_distance('a', 'b')", "edit_distance of constants only"),
    ("edit_distance(where(a.x > 1, a.name, a.alias), b.name)", "edit_distance takes a column, or lower(...) or substring(...) of one"),
    ("length(a.x)", "length needs a text, this is a number"),
    ("edit_distance(a.name, lower('SMITH'))", "lower of constants only"),
    ("length(null)", "length needs a text, this is null"),
    ("length(substring(a.name, a.n, 2))", "substring takes whole numbers"),
    ("lower(a.name)", "a score must be a number, this is a text"),
    ("jaccard(a.name, b.words)", "jaccard needs two sets of tokens, this is a text"),
    ("jaccard(a.words, a.title)", "jaccard compares a set of one row with a set of another"),
    ("cosine(a.x, b.x)", "cosine needs two sets of tokens, this is a number"),
    ("where(a.words = b.words, 1, 0)", "a set of tokens stands in jaccard, cosine, dice, overlap only"),
    ("where(a.words is null, 1, 0)", "a set of tokens stands in jaccard, cosine, dice, overlap only"),
    ("overlap(a.wrods, b.words)", "unknown attribute wrods"),
    ("a.words + 1", "+ needs a number, this is a set of tokens"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes_are_explained(text, message) -> None:
    with pytest.raises(ExpressionErrors) as raised:
        parse(text, SCHEMA, want="score")
    assert message in raised.value.errors[0].message
    assert "#" not in str(raised.value.errors[0])


def test_a_set_of_a_single_row_is_compared_with_nothing() -> None:
    with pytest.raises(ExpressionErrors, match="in a query over pairs"):
        parse("jaccard(words, title)", SCHEMA, ("",))


def test_characters_are_code_points() -> None:
    rows = pa.table({"name": pa.chunked_array([pa.array(["x", "a𝄞", "", None, "é"]).slice(1), pa.array([None, "", "ß"])])})
    found = ragged_column(rows, Column("~name", "characters", parse("name", SCHEMA, ("",)), ("name",)))
    assert found.start.tolist() == [0, 2, 2, 3, 4, 5, 5, 6]
    assert found.values.tolist() == [ord("a"), 0x1D11E, NULL, ord("é"), NULL, ord("ß")]
