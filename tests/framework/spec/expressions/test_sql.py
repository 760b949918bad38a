"""Spark SQL of a spec, checked without Spark."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.spec.expressions.sql import check_sql, functions
from tests.seeds import cases

TYPES: dict[str, str | None] = {
    "o": "string",
    "d": "string",
    "i": "int",
    "big": "bigint",
    "ts": "timestamp",
    "b": "boolean",
    "temp": "double",
    "day": "date",
    "u": None,
}


@pytest.mark.parametrize(
    "sql, type_",
    [
        ("unix_micros(ts) / 3.6e9", "double"),
        ("concat(o, '-', d)", "string"),
        ("o || '-' || d", "string"),
        ("i + 1", "bigint"),
        ("i / 2", "double"),
        ("big", "bigint"),
        ("(day)", "date"),
        ("date_trunc('hour', ts)", "timestamp"),
        ("ts + interval 1 hour", "timestamp"),
        ("cast(o as date)", "date"),
        ("xxhash64(o, d)", "bigint"),
        ("hour(ts) * 60 + minute(ts)", "bigint"),
        ("temp is not null", "boolean"),
        ("o in ('a', 'b')", "boolean"),
        ("not b and temp > 3", "boolean"),
        ("case when i > 1 then 'a' else 'b' end", "string"),
        ("substring(o from 1 for 2)", "string"),
        ("to_timestamp(o)", "timestamp"),
        ("round(temp)", "double"),
        ("`temp` * 2", "double"),
        ("TEMP * 2", "double"),
        ("exists(array(1, 2), x -> x > i)", "boolean"),
        ("u + 1", None),
        ("abs(temp) + 1", "double"),
    ],
)
def test_good_sql_and_its_type(sql: str, type_: str | None) -> None:
    result = check_sql(sql, TYPES)
    assert result.problems == ()
    assert result.type == type_


@pytest.mark.parametrize(
    "sql, code, marked",
    [
        ("tmep > 3", "SKY-E132", "tmep"),
        ("temp + t.temp", "SKY-E132", "t.temp"),
        ("rand() > 0.5", "SKY-E134", "rand"),
        ("`rand`() > 0", "SKY-E134", "`rand`"),
        ("RAND() > 0", "SKY-E134", "RAND"),
        ("uuid ()", "SKY-E134", "uuid"),
        ("ts < current_timestamp", "SKY-E134", "current_timestamp"),
        ("ts < current_timestamp()", "SKY-E134", "current_timestamp"),
        ("ts < now()", "SKY-E134", "now"),
        ("unix_timestamp()", "SKY-E134", "unix_timestamp"),
        ("monotonically_increasing_id()", "SKY-E134", "monotonically_increasing_id"),
        ("shuffle(array(1, 2))", "SKY-E134", "shuffle"),
        ("input_file_name()", "SKY-E134", "input_file_name"),
        ("reflect('java.lang.System', 'exit', 1)", "SKY-E133", "reflect"),
        ("java_method('a', 'b')", "SKY-E133", "java_method"),
        ("try_reflect('a', 'b')", "SKY-E133", "try_reflect"),
        ("raise_error('x')", "SKY-E133", "raise_error"),
        ("system.builtin.rand()", "SKY-E134", "rand"),
        ("my_udf(temp)", "SKY-E133", "my_udf"),
        ("sum(temp)", "SKY-E135", "sum"),
        ("explode(array(1))", "SKY-E135", "explode"),
        ("window(ts, '1 hour')", "SKY-E135", "window"),
        ("temp; o", "SKY-E131", ";"),
        ("temp -- hm", "SKY-E131", None),
        ("temp /* hm */ + 1", "SKY-E131", None),
        ("o as x", "SKY-E131", None),
        ("drop table x", "SKY-E131", None),
        ("select 1", "SKY-E131", None),
        ("", "SKY-E131", None),
        ("   ", "SKY-E131", None),
        ("(temp", "SKY-E131", None),
        ("temp +", "SKY-E131", None),
        ("o = 'x", "SKY-E131", "'"),
        ("temp > (select 1)", "SKY-E135", None),
        ("*", "SKY-E131", None),
        (":x", "SKY-E131", None),
    ],
)
def test_bad_sql(sql: str, code: str, marked: str | None) -> None:
    problems = check_sql(sql, TYPES).problems
    assert code in {p.code for p in problems}, problems
    if marked is not None:
        assert marked in {sql[p.start : p.end] for p in problems if p.code == code}


def test_a_condition_must_be_a_condition() -> None:
    assert [p.code for p in check_sql("temp + 1", TYPES, condition=True).problems] == ["SKY-E126"]
    assert check_sql("u", TYPES, condition=True).problems == ()


def test_all_mistakes_of_one_expression_are_told() -> None:
    assert {p.code for p in check_sql("tmep > rand() and reflect('a', 'b') is null", TYPES).problems} == {
        "SKY-E132",
        "SKY-E133",
        "SKY-E134",
    }


def test_columns_used_are_spelled_as_in_the_schema() -> None:
    assert check_sql("TEMP + temp + I", TYPES).columns == ("temp", "i")


def test_the_list_of_functions_is_one_of_each_kind() -> None:
    kinds = functions()
    assert kinds["scalar"].isdisjoint(kinds["aggregate"] | kinds["window"] | kinds["generator"])
    assert {"concat", "abs", "date_trunc", "xxhash64"} <= kinds["scalar"]


@settings(deadline=None, max_examples=cases(150))
@given(st.text(st.sampled_from("abtemp o'\"`()[]{}<>=!+-*/.,;:?@$%&|~^0123 \n\\rand_select"), max_size=40))
def test_no_text_gives_a_traceback(sql: str) -> None:
    result = check_sql(sql, TYPES)
    for p in result.problems:
        assert 0 <= p.start < p.end


@pytest.mark.parametrize(
    "sql", ["(" * 4000 + "temp" + ")" * 4000, "-" * 4001, "not " * 3000 + "b", " + ".join(["temp"] * 3000), "[" * 500, "case when " * 500]
)
def test_deep_or_long_sql_gives_no_traceback(sql: str) -> None:
    assert check_sql(sql, TYPES) is not None
