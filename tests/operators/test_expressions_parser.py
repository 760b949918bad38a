"""Parsing, typing, errors, canonical spelling."""

import pickle
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.operators.base import Column
from skyband.operators.expressions import ExpressionErrors, Span, attributes, canonical, parse, text_constants
from skyband.operators.expressions.ast import Attr, Binary, In, IsNull, Literal_, Unary
from skyband.operators.expressions.leaves import needed_columns
from skyband.operators.expressions.typed import FUNCTIONS, MAX_DEPTH
from tests.test_architecture import ROOT

SCHEMA = {"x": "float", "n": "int", "s": "text", "ok": "bool", "ts": "time", "in": "float", "odd name`": "float", "Temp": "float"}
ONE = ("",)


def spelled(text: str, sides=ONE) -> str:
    return canonical(parse(text, SCHEMA, sides))


def errors(text: str, sides=ONE, want=None) -> list[tuple[str, str, str | None]]:
    """(message, marked text, suggestion) of every error."""
    with pytest.raises(ExpressionErrors) as caught:
        parse(text, SCHEMA, sides, want)
    assert str(caught.value)
    return [(e.message, text[e.span.start : e.span.end], e.suggestion) for e in caught.value.errors]


@pytest.mark.parametrize(
    ("text", "canon"),
    [
        ("x+x*x", "x + (x * x)"),
        ("x-x-x", "(x - x) - x"),
        ("x/x*x", "(x / x) * x"),
        ("-x*x", "(-x) * x"),
        ("- - x", "-(-x)"),
        ("x - -1", "x - -1"),
        ("-(-5)", "5"),
        ("-(2.50)", "-2.5"),
        ("x > 1 and ok or not ok and n = 2", "((x > 1) and ok) or ((not ok) and (n = 2))"),
        ("NOT x > 1", "not (x > 1)"),
        ("not not ok", "not (not ok)"),
        ("ok = not ok", "ok = (not ok)"),
        ("x == 1", "x = 1"),
        ("x != 1", "x <> 1"),
        ("x Is Not Null and x IS NULL", "(x is not null) and (x is null)"),
        ("x between 1 and 2 and ok", "((x >= 1) and (x <= 2)) and ok"),
        ("x + 1 not between -1 and n * 2", "not (((x + 1) >= -1) and ((x + 1) <= (n * 2)))"),
        ("s in ('a', 'it''s')", "s in ('a', 'it''s')"),
        ("s NOT IN ('a')", "s not in ('a')"),
        ("n in (1, -2, 3.5)", "n in (1, -2, 3.5)"),
        ("MIN(x, n, 3)", "min(x, n, 3)"),
        ("Where(ok, x, null)", "where(ok, x, null)"),
        ("ts + 5 minutes > ts", "(ts + 300000000 microseconds) > ts"),
        ("ts - 1.5 Hours", "ts - 5400000000 microseconds"),
        ("`x` + `in` + `odd name```", "(x + `in`) + `odd name```"),
        ("1e3 + .5 + 2. + 1E-2", "((1000.0 + 0.5) + 2.0) + 0.01"),
        ("((x))", "x"),
        ("true or FALSE", "true or false"),
        ("coalesce(x, n, 1)", "where(x is not null, x, where(n is not null, n, 1))"),
        ("Case When ok Then x End", "where(ok, x, null)"),
        ("CASE WHEN x > 5 THEN 5 WHEN ok THEN 6 ELSE 7 END + 1", "where(x > 5, 5, where(ok, 6, 7)) + 1"),
        ("case s when 'a' then 1 when 'b' then null end", "where(s = 'a', 1, null)"),
        ("case when ok then case when x > 1 then 2 else 3 end else 4 end", "where(ok, where(x > 1, 2, 3), 4)"),
        ("case (n) when 1 then s when 2 then 'b' end", "where(n = 1, s, where(n = 2, 'b', null))"),
        ("mod(ROUND(x), 3)", "mod(round(x), 3)"),
        ("x\n  > 1 -- 1".replace("-- 1", "- -1"), "x > (1 - -1)"),
    ],
)
def test_canonical_spelling(text, canon) -> None:
    assert spelled(text) == canon
    assert spelled(canon) == canon


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("7 microseconds", 7),
        ("250 milliseconds", 250_000),
        ("90 seconds", 90_000_000),
        ("5 minutes", 300_000_000),
        ("1 minute", 60_000_000),
        ("2 HOURS", 7_200_000_000),
        ("1 day", 86_400_000_000),
        ("3 weeks", 1_814_400_000_000),
        ("0.5 seconds", 500_000),
        ("5minutes", 300_000_000),
    ],
)
def test_durations(text, micros) -> None:
    assert parse(text, SCHEMA, ONE) == Literal_(value=micros, type="duration")


def test_pairs_have_sides() -> None:
    node = parse("a.x < `b`.n and a.in > 0", SCHEMA)
    assert isinstance(node, Binary) and isinstance(node.x, Binary)
    assert node.x.x == Attr(side="a", name="x", type="float") and node.x.y == Attr(side="b", name="n", type="int")
    assert node.x.y.span == Span(6, 11)
    assert attributes(node) == (Column("x", "float"), Column("n", "int"), Column("in", "float"))


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("x", "float"),
        ("n", "int"),
        ("-n", "float"),
        ("n + 1", "float"),
        ("ts - ts", "duration"),
        ("ts + 1 day", "time"),
        ("1 day + ts", "time"),
        ("ts - 1 day", "time"),
        ("ts + (ts - ts)", "time"),
        ("1 day + 1 hour", "duration"),
        ("1 day * 2", "float"),
        ("1 day + 1", "float"),
        ("abs(ts - ts)", "duration"),
        ("abs(n)", "float"),
        ("min(ts, ts)", "time"),
        ("max(1 day, 2 days)", "duration"),
        ("max(1 day, x)", "float"),
        ("where(ok, s, 'a')", "text"),
        ("where(ok, n, n)", "float"),
        ("where(ok, ts, null)", "time"),
        ("where(ok, 1 day, 5)", "float"),
        ("where(ok, null, ok)", "bool"),
        ("where(ok, null, null)", "float"),
        ("case when ok then 'a' when x > 1 then null else null end", "text"),
        ("case when ok then 1 day when x > 1 then 2 days end", "duration"),
        ("case when ok then 1 day when x > 1 then 2 end", "float"),
        ("case when ok then ok end", "bool"),
        ("coalesce(null, s)", "text"),
        ("coalesce(ts, ts)", "time"),
        ("coalesce(n, 0)", "float"),
        ("sign(1 day)", "float"),
        ("mod(1 day, 5)", "float"),
        ("s = 'a'", "bool"),
        ("ok", "bool"),
        ("null", "null"),
    ],
)
def test_types(text, type_) -> None:
    assert parse(text, SCHEMA, ONE).type == type_


def test_tree_shapes() -> None:
    assert parse("x is not null", SCHEMA, ONE) == IsNull(x=Attr(side="", name="x", type="float"), negated=True, type="bool")
    assert isinstance(parse("s in ('a')", SCHEMA, ONE), In)
    assert isinstance(parse("-x", SCHEMA, ONE), Unary)
    assert text_constants(parse("s in ('b', 'a') or s = 'b' or s <> 'c'", SCHEMA, ONE)) == ("b", "a", "c")
    assert parse("x  +  1", SCHEMA, ONE) == parse("(x)+1", SCHEMA, ONE)


@pytest.mark.parametrize(
    ("text", "message", "marked", "suggestion"),
    [
        ("temp + 1", "unknown attribute temp", "temp", "Temp"),
        ("sqr(x)", "unknown function sqr", "sqr", "sqrt"),
        ("a.x", "only one object", "a.x", "x"),
        ("s + 1", "+ needs a number, this is a text", "s", None),
        ("not x", "not needs a condition (true or false), this is a number", "x", None),
        ("x and ok", "and needs a condition", "x", None),
        ("s < 'a'", "texts can only be compared with = and <>, not with <", "s < 'a'", None),
        ("ok >= ok", "conditions can only be compared", "ok >= ok", None),
        ("s = 1", "a text and a number cannot be compared", "s = 1", None),
        ("ts > 5", "a time and a number cannot be compared", "ts > 5", None),
        ("ts + 5", "a time and a number cannot be combined with +", "ts + 5", None),
        ("1 day - ts", "cannot be combined with -", "1 day - ts", None),
        ("ts + ts", "two times cannot be combined with +", "ts + ts", None),
        ("abs(ts)", "abs needs a number, this is a time; subtract two times first", "ts", None),
        ("x = null", "write is null", "x = null", None),
        ("x <> null", "write is not null", "x <> null", None),
        ("x in (1, null)", "write is null", "null", None),
        ("x in (1, n)", "in (...) takes constants only", "n", None),
        ("s in ('a', 2)", "a text and a number cannot be compared", "2", None),
        ("where(x, 1, 2)", "where needs a condition", "x", None),
        ("where(ok, 1, 'a')", "cannot give a number in one case and a text in the other", "where(ok, 1, 'a')", None),
        ("pow(x)", "pow takes 2 arguments, not 1", "pow(x)", None),
        ("min()", "min takes 2 to 99 arguments, not 0", "min()", None),
        ("abs()", "abs takes 1 argument, not 0", "abs()", None),
        ("n = 9223372036854775808", "does not fit into 64 bits", "9223372036854775808", None),
        ("n = -9223372036854775808", "does not fit into 64 bits", "9223372036854775808", None),
        ("x = " + "9" * 5000, "does not fit into 64 bits", "9" * 5000, None),
        ("x < 1e999", "too large for a 64-bit float", "1e999", None),
        ("ts - ts < 5 minuts", "no unit of time", "minuts", "minutes"),
        ("ts - ts < 0.0000001 seconds", "whole number of microseconds", "0.0000001 seconds", None),
        ("ts - ts < 999999999999 weeks", "too long", "999999999999 weeks", None),
        ("1 < x < 2", "comparisons do not chain", "<", None),
        ("x +", "expected a value, but the expression ends", "", None),
        ("(x", "expected ) to close the (, but the expression ends", "", None),
        ("x)", "this ) closes nothing", ")", None),
        ("x x", "expected an operator, but found 'x'", "x", None),
        ("x is 5", "expected null after is", "5", None),
        ("x not 5", "expected in or between after not", "5", None),
        ("x between 1 or 2", "expected and between the two bounds", "or", None),
        ("", "the expression is empty", "", None),
        ("  ", "the expression is empty", "  ", None),
        ("s = 'abc", "this text is never closed", "'abc", None),
        ("`x", "this name in backquotes is never closed", "`x", None),
        ('s = "abc"', "texts are written in single quotes", '"', None),
        ("x % 2", "write mod(x, y) for remainders", "%", None),
        ("ifnull(x, 2)", "unknown function ifnull", "ifnull", "coalesce"),
        ("Power(x, 2)", "unknown function Power", "Power", "pow"),
        ("round(x, 2)", "round takes 1 argument, not 2", "round(x, 2)", None),
        ("haversine(x, x)", "haversine takes 4 arguments, not 2", "haversine(x, x)", None),
        ("coalesce(x, s)", "coalesce(...) cannot give a number in one case and a text in the other", "coalesce(x, s)", None),
        ("sin(s)", "sin needs a number, this is a text", "s", None),
        ("case when x then 1 end", "case needs a condition (true or false), this is a number", "x", None),
        ("case when ok then 1 else 'a' end", "case cannot give a number in one case and a text in the other", None, None),
        ("case s when 1 then 2 end", "a text and a number cannot be compared", "1", None),
        ("case when ok then 1", "expected end to close case, but the expression ends", "", None),
        ("case when ok else 1 end", "expected then after what follows when, but found 'else'", "else", None),
        ("case when ok then else 1 end", "expected a value, but found 'else'", "else", None),
        ("case x then 1 end", "expected when after case, but found 'then'", "then", None),
        ("case when temp then 1 end", "unknown attribute temp", "temp", "Temp"),
        ("then + 1", "unknown attribute then", "then", None),
        ("x ^ 2", "write pow(x, y) for powers", "^", None),
        ("__import__('os')", "unknown function __import__", "__import__", None),
    ],
)
def test_errors(text, message, marked, suggestion) -> None:
    first = errors(text)[0]
    assert message in first[0]
    assert first[1:] == (text if marked is None else marked, suggestion)


def test_words_of_case_may_be_attributes() -> None:
    schema = {name: "float" for name in ("case", "when", "then", "else", "end", "start")}
    for text, canon in (
        ("case + when * end", "case + (when * end)"),
        ("case is null or case in (1) or case not in (2) or not (case between 1 and 2)", None),
        ("case when start < end then end when case > 1 then then else else end", "where(start < end, end, where(case > 1, then, else))"),
        ("case end when 1 then start end / end", "where(end = 1, start, null) / end"),
    ):
        node = parse(text, schema, ONE)
        assert canon in (None, canonical(node)) and parse(canonical(node), schema, ONE) == node
    assert canonical(parse("case when a.case > 1 then b.end end", schema)) == "where(a.case > 1, b.end, null)"


@pytest.mark.parametrize(
    ("text", "message", "suggestion"),
    [
        ("x + 1", "say which object's x is meant", "a.x or b.x"),
        ("c.x", "unknown object c", "a.x or b.x"),
        ("a.y", "unknown attribute y", None),
        ("b.tenp", "unknown attribute tenp", "b.Temp"),
        ("temp", "unknown attribute temp", "a.Temp"),
        ("a.", "expected an attribute after a.", None),
    ],
)
def test_errors_of_pairs(text, message, suggestion) -> None:
    first = errors(text, ("a", "b"))[0]
    assert message in first[0] and first[2] == suggestion


@pytest.mark.parametrize(
    "text",
    ["sum(x)", "count(*)", "count(distinct x)", "Avg(x) + 1", "min(x)", "max(x)", "x - median(x)", "stddev(x) > 1",
     "rank() over (order by x)", "sum(x) over (partition by s)", "sum(where(ok, x, 0))", "sum("],
)  # fmt: skip
@pytest.mark.parametrize("sides", [("",), ("a", "b")])
def test_an_aggregation_of_sql_is_called_one(text, sides) -> None:
    with pytest.raises(ExpressionErrors) as e:
        parse(text if sides == ("",) else re.sub(r"\b(x|s|ok)\b", r"a.\1", text), SCHEMA, sides)
    (first,) = e.value.errors
    assert "aggregates over many rows, and aggregation is not offered here" in first.message and "unknown function" not in first.message
    assert ("one row" if sides == ("",) else "two rows of a pair") in first.message
    assert (
        first.hint is not None
        and first.hint.startswith("query types whose names end in _groups take aggregates")
        and first.hint in str(e.value)
    )


def test_what_follows_an_aggregation_is_still_checked() -> None:
    assert [message for message, *_ in errors("sum(x) + temp")][1:] == ["unknown attribute temp"]


def test_every_mistake_is_reported_in_order() -> None:
    found = errors("foo + s * bar(x) > 'a' and (ok + 1 = 2) or abs(x, n) < nope", want="predicate")
    assert [f[1] for f in found] == ["foo", "bar", "ok", "abs(x, n)", "nope"]
    assert [f[1] for f in errors("s + ok + ts")] == ["s", "ok"]
    assert [f[1] for f in errors("x # 1 ? 2")] == ["#", "?"]


def test_wanted_types() -> None:
    assert "a score must be a number, this is a condition" in errors("x > 1", want="score")[0][0]
    assert "a score must be a number, this is a time" in errors("ts", want="score")[0][0]
    assert "a score must be a number, this is null" in errors("null", want="score")[0][0]
    assert "a condition (true or false) is needed, this is a number" in errors("x", want="predicate")[0][0]
    assert parse("ok", SCHEMA, ONE, "predicate").type == "bool"
    assert parse("ts - ts", SCHEMA, ONE, "score").type == "duration"


@pytest.mark.parametrize(
    "text",
    ["(" * 5000 + "x" + ")" * 5000, "-" * 5000 + "x", "not " * 5000 + "ok", "abs(" * 5000 + "x" + ")" * 5000, "x" + "+x" * 5000,
     "x" + " between x" * 3000, "ok" + " and ok" * 1000, "where(ok, x, " * 2000 + "x" + ")" * 2000],
)  # fmt: skip
def test_depth_is_bounded(text) -> None:
    assert "nested too deeply" in errors(text)[0][0] or "and between" in errors(text)[0][0]


def test_size_is_bounded() -> None:
    text = "x"
    for _ in range(30):  # every level uses its operand twice
        text = f"where({text} between 0 and 1, 1, 2)"
    assert "too large" in errors(text)[0][0]
    assert "longer than" in errors("x" * 50_000)[0][0]


def test_deepest_trees_survive_what_is_done_with_trees() -> None:
    for text in (
        "x" + " + x" * (MAX_DEPTH - 1),
        "abs(" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1),
        "x + (" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1),
    ):
        node = parse(text, SCHEMA, ONE)
        again = parse(canonical(node), SCHEMA, ONE)
        assert pickle.loads(pickle.dumps(again)) == node and hash(again) == hash(node)


def test_deepest_trees_compile() -> None:
    import numpy as np

    from skyband.operators.expressions import compile_row

    node = parse("x + (" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1), SCHEMA, ONE)
    out = np.empty(1)
    compile_row(node, None, False, {}).scores_numpy(np.ones((1, 1)), np.empty((0, 1), np.int64), 0, 1, out)
    assert out[0] == MAX_DEPTH


def test_parsing_imports_neither_numba_nor_spark() -> None:
    code = (
        "import sys\nfrom skyband.operators.expressions import *\n"
        "k = compile_pair(parse('a.x - b.x', {'x': 'float'}), None, False, {})\n"
        "print(sorted({'numba', 'pyspark', 'llvmlite'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


WORDS = ["a.x", "x", "n", "s", "ok", "ts", "(", ")", ",", "+", "-", "*", "/", "<", "=", "<>", "and", "or", "not", "is", "null", "in",
         "between", "where(", "min(", "case", "when", "then", "else", "end", "coalesce(", "1", "2.5", "'t'", "5 minutes", "5", "days",
         "`x`", ".", "true", " ", "'", "`", "é", "\n"]  # fmt: skip


@given(st.text() | st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join), st.sampled_from([ONE, ("a", "b")]))
def test_any_text_parses_or_is_refused_with_positions(text, sides) -> None:
    try:
        node = parse(text, SCHEMA, sides)
    except ExpressionErrors as refused:
        assert refused.errors
        assert all(0 <= e.span.start <= e.span.end <= len(text) and e.message for e in refused.errors)
    else:
        assert parse(canonical(node), SCHEMA, sides) == node


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("timestamp '1970-01-01'", 0),
        ("date '2015-01-31'", 1_422_662_400_000_000),
        ("Timestamp '2015-01-31T00:00:00.000001'", 1_422_662_400_000_001),
        ("timestamp '2015-01-31 01:30+01:30'", 1_422_662_400_000_000),
        ("timestamp '1969-12-31 23:59:59.999999Z'", -1),
        ("TIMESTAMP '9999-12-31 23:59'", 253_402_300_740_000_000),
    ],
)
def test_instants(text: str, micros: int) -> None:
    node = parse(text, SCHEMA, ONE)
    assert node == Literal_(value=micros, type="time")
    assert parse(canonical(node), SCHEMA, ONE) == node and canonical(node).startswith("timestamp '")


@pytest.mark.parametrize(
    "text", ["date '2015-02-30'", "date '2015-01-31 10:00'", "timestamp '31.01.2015'", "timestamp 'now'", "timestamp '2015-01-31 24:30'"]
)
def test_what_is_no_instant_is_told_with_the_form_to_write(text: str) -> None:
    with pytest.raises(ExpressionErrors) as told:
        parse(f"ts < {text}", SCHEMA, ONE)
    (error,) = told.value.errors
    assert "is no " in error.message and "written as '2015-01-31" in error.message
    assert f"ts < {text}"[error.span.start : error.span.end] == text.partition(" ")[2]


def test_instants_and_times_together() -> None:
    for text in (
        "ts >= date '2015-01-01' and ts < timestamp '2016-01-01'",
        "ts - timestamp '2015-01-01' < 1 day",
        "ts in (date '2015-01-01')",
    ):
        assert parse(text, SCHEMA, ONE).type == "bool"
    with pytest.raises(ExpressionErrors, match="an instant is written timestamp '"):
        parse("ts > '2015-01-01'", SCHEMA, ONE)
    # Columns of these names stay columns.
    assert parse("timestamp < 5 and date = 1", {"timestamp": "float", "date": "int"}, ONE).type == "bool"


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("x + n * 2", {"x", "n"}),
        ("coalesce(x, n) + x", {"x"}),
        ("coalesce(x, 0)", set()),
        ("case when n > 1 then x + n when ok then abs(x) end", {"x"}),
        ("where(ok, null, x)", {"x"}),
        ("where(x is null, 1, n)", set()),
        ("(ts - ts) / 2", {"ts"}),
        ("haversine(x, 0, n, 0)", {"x", "n"}),
    ],
)
def test_columns_without_which_a_score_is_null(text, needed) -> None:
    assert needed_columns(parse(text, SCHEMA, ONE), "") == needed


@pytest.mark.parametrize(
    ("text", "of_a", "of_b"),
    [
        ("b.x * 2", set(), {"x"}),
        ("abs(a.n) + 1", {"n"}, set()),
        ("a.x - b.n", {"x"}, {"n"}),
        ("abs(a.x - b.x)", {"x"}, {"x"}),
        ("coalesce(a.x, b.x)", set(), set()),
        ("where(a.ok, b.x, a.x + b.x)", set(), {"x"}),
        ("haversine(a.x, 0, b.n, 0)", {"x"}, {"n"}),
    ],
)
def test_columns_of_each_object_without_which_a_score_is_null(text: str, of_a: set[str], of_b: set[str]) -> None:
    node = parse(text, SCHEMA, ("a", "b"))
    assert (needed_columns(node, "a"), needed_columns(node, "b")) == (of_a, of_b)


def test_the_table_of_the_docs_has_every_function() -> None:
    rows = [line.split("|")[1] for line in (ROOT / "docs/reference/expressions.md").read_text(encoding="utf-8").splitlines() if "|" in line]
    assert {name for row in rows for name in re.findall(r"`(\w+)\(", row)} == set(FUNCTIONS)
