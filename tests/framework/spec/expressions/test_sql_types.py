"""The types of derived columns: told without Spark, the same as Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.spec.checks.columns import column_types
from skyband.framework.spec.expressions.sql import check_sql
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.models.errors import walk
from tests.framework.spec.examples import ENV, SENSORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES: dict[str, str | None] = {
    "o": "string", "i": "int", "big": "bigint", "ts": "timestamp", "b": "boolean", "temp": "double", "day": "date",
    "price": "decimal(10,2)", "f": "float",
}  # fmt: skip
EXPRESSIONS = {
    "bigint": [
        "unix_micros(ts)", "unix_timestamp(ts)", "unix_date(day)", "hour(ts) * 60 + minute(ts)", "extract(hour from ts)",
        "date_part('hour', ts)", "datediff(day, day)", "length(o) + 1", "instr(o, 'a')", "locate('a', o)", "levenshtein(o, 'x')",
        "xxhash64(o, i)", "size(split(o, ','))", "cast(o as int)", "i + 1", "i * big", "i % 2", "i div 2", "pmod(i, 2)", "-i", "abs(i)",
        "round(i)", "round(big, -2)", "bround(i)", "floor(temp)", "ceil(temp / 2)", "floor(abs(temp))", "floor(i / 2)", "i & 1",
        "coalesce(i, 0)", "coalesce(i, big)", "nullif(i, 0)", "nvl2(o, 1, 0)", "if(b, 1, 0)", "if(b, null, 1)",
        "case when b then 1 else 0 end", "case o when 'a' then 1 when 'b' then 2 end", "greatest(i, big)", "factorial(i)",
    ],
    "double": [
        "unix_micros(ts) / 3.6e9", "extract(second from ts)", "i / 2", "i * 1.5", "temp + i", "temp % 2", "o * 2", "o / 2", "abs(o)",
        "abs(temp)", "abs(price)", "price * 2", "price / 2", "price + temp", "f * i", "abs(f)", "round(temp, 2)", "round(price, 1)",
        "round(o)", "floor(price)", "floor(temp, 1)", "ceil(i * 1.5)", "sqrt(temp)", "power(i, 2)", "ln(temp)", "log10(i)",
        "hypot(temp, i)", "coalesce(temp, 0)", "coalesce(price, temp)", "case when b then 1 else 2.5 end", "case when b then temp end",
        "if(b, temp, 0)", "nullif(temp, 0)", "greatest(temp, i)", "months_between(ts, ts)", "cast(o as decimal(10,2))",
        "to_number(o, '999')", "f + 1",
    ],
    "string": [
        "o", "'x'", "concat(o, '-', o)", "o || '-' || o", "concat_ws('-', o, o)", "date_format(ts, 'yyyy')", "upper(o)", "trim(o)",
        "btrim(o)", "substring(o, 1, 2)", "substring_index(o, '.', 1)", "split_part(o, ',', 1)", "split(o, ',')[0]", "md5(o)",
        "coalesce(o, 'x')", "if(b, 'a', o)", "case when b then o end", "cast(i as string)", "regexp_extract(o, '(a)', 1)",
        "dayname(day)", "from_unixtime(big)", "conv(o, 10, 2)",
    ],
    "timestamp": [
        "ts", "to_timestamp(o)", "to_timestamp(o, 'yyyy')", "try_to_timestamp(o)", "timestamp_micros(big)", "date_trunc('hour', ts)",
        "ts + interval 1 hour", "ts - interval 2 days", "from_utc_timestamp(ts, 'UTC')", "to_utc_timestamp(ts, 'UTC')",
        "cast(day as timestamp)", "coalesce(ts, ts)", "coalesce(day, ts)", "case when b then ts else null end",
        "make_timestamp(2020, 1, 1, 0, 0, 0)",
    ],
    "date": [
        "day", "to_date(o)", "cast(o as date)", "date_add(day, 1)", "day + 1", "day - interval 1 day", "trunc(day, 'month')",
        "last_day(day)", "make_date(2020, 1, 1)", "if(b, day, null)",
    ],
    "boolean": [
        "b", "temp > 1", "o is null", "isnull(o)", "o in ('a')", "o like 'a%'", "equal_null(i, 1)", "cast(i as boolean)",
        "if(b, true, b)",
    ],
    "decimal(10,2)": [
        "price", "(price)",
    ],
    "float": [
        "f",
    ],
    "int": [
        "i",
    ],
}  # fmt: skip
NOT_TOLD = ["null", "ts - ts", "day - day", "day + interval 1 hour", "array(1, 2)", "map('a', 1)", "struct(i)", "if(b, o, 1)", "unhex(o)",
            "case when b then ts - ts end", "cast(o as timestamp_ntz)"]  # fmt: skip
ALL = [(sql, type_) for type_, expressions in EXPRESSIONS.items() for sql in expressions]


@pytest.mark.parametrize("sql, type_", ALL)
def test_the_type_is_told(sql: str, type_: str) -> None:
    result = check_sql(sql, TYPES)
    assert result.problems == () and result.type == type_


@pytest.mark.parametrize("sql", NOT_TOLD)
def test_no_type_is_guessed(sql: str) -> None:
    result = check_sql(sql, TYPES)
    assert result.problems == () and result.type is None


@pytest.mark.spark
def test_types_are_those_of_the_engine(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], ", ".join(f"{name} {type_}" for name, type_ in TYPES.items()))
    columns = rows.selectExpr(*[f"{sql} as c{n}" for n, (sql, _) in enumerate(ALL)]).schema
    holds = {"bigint": ("int", "smallint", "tinyint"), "double": ("float", "decimal")}
    wrong = [
        (sql, told, field.dataType.simpleString())
        for (sql, told), field in zip(ALL, columns, strict=True)
        if told != field.dataType.simpleString() and not field.dataType.simpleString().startswith(holds.get(told, ("none",)))
    ]
    assert wrong == []


def derived(sql: str, more: str = "") -> str:
    return SENSORS.replace('{hours: "unix_micros(ts) / 3.6e9"}', f'{{hours: "unix_micros(ts) / 3.6e9", z: {sql}{more}}}')


@pytest.mark.parametrize("sql", ['"ts - ts"', '"if(temp > 1, sensor, 1)"', '"array(temp)"'])
def test_a_derived_column_whose_type_is_not_told_is_an_error_that_asks_for_it(sql: str) -> None:
    job, errors = validate_text(derived(sql), ENV)
    assert job is None and [(e.code, e.message, e.hint) for e in errors] == [
        ("SKY-E136", "the type of the derived column 'z' is not known", 'state its type: z: {sql: "...", type: double}')
    ]
    where = errors[0].where
    assert where is not None and (where.text or "")[where.col - 1 :][: where.length] == sql


def test_a_type_that_is_said_is_enough() -> None:
    job, errors = validate_text(derived('{sql: "if(temp > 1, sensor, 1)", type: string}'), ENV)
    assert errors == [] and job is not None and column_types(job)["z"] == "string"


def test_what_follows_from_a_type_that_is_not_told_is_not_told() -> None:
    text = derived('"ts - ts"', ', y: "z * 2"').replace("carry: [temp]", "carry: [z, y]").replace("a.sensor <> b.sensor", "a.y <> b.y", 1)
    _, errors = validate_text(text, ENV)
    assert [e.code for e in errors] == ["SKY-E136"]


def test_a_job_that_was_not_checked_is_refused_too() -> None:
    import yaml

    data = yaml.safe_load(derived('"ts - ts"').replace("${LANDING}", "in").replace("${WAREHOUSE}", "out"))
    job, problems = walk(data)
    assert problems == []
    with pytest.raises(SkybandError) as e:
        column_types(job)
    assert e.value.code == "SKY-E136"
