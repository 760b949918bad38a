"""SQL over rows without Spark: every rule against Spark itself, and what there is no rule for by its name."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.rehearsal.rows import arrow_column
from skyband.framework.rehearsal.sql import expression
from skyband.framework.spec.expressions.sql import check_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "i": "int", "j": "int", "big": "bigint", "x": "double", "y": "double", "f": "float", "s": "string", "t": "string", "b": "boolean",
    "c": "boolean", "ts": "timestamp", "day": "date", "dec": "decimal(10,2)", "l": "array<string>", "d": "string", "e": "string",
}  # fmt: skip
H = 3_600_000_000
VALUES: dict[str, list[Any]] = {
    "i": [None, 0, 1, -7, 2**31 - 1, -(2**31)],
    "j": [3, None, 0, -2, 2, -1],
    "big": [2**63 - 1, -(2**63), None, 0, 2**53 + 1, 5],
    "x": [None, 0.0, -0.0, math.nan, math.inf, -2.5],
    "y": [1.5, math.nan, 0.0, -math.inf, None, 0.1],
    "f": [0.5, None, 0.1, math.nan, 1.0, -1.0],
    "s": ["", "a", None, "Ab c", "ä€", " x%y_ "],
    "t": ["a", "a", "b", None, "😀", "Ab c"],
    "b": [None, True, False, None, True, False],
    "c": [None, None, None, True, True, False],
    "ts": [0, None, 1_356_998_400_000_000 + 13 * H + 59, -1, 86_400_000_000, 1_388_534_399_999_999],
    "day": [None, 0, 15_706, -1, 20_000, 15_705],
    "dec": [Decimal("1.10"), None, Decimal("-3.00"), Decimal(0), Decimal("1.10"), Decimal("99.99")],
    "l": [["a"], [], None, ["a", "b"], ["a"], ["b"]],
    "d": ["29.02.2024 08:15:00", "30.02.2024 08:15:00", "1.3.2024 08:15:00", None, "31.12.1999 23:59:60", " 31.12.1999 23:59:59"],
    "e": ["2024/02/03", "24/02/03", "20240203", "2024/02/03 ", "2024/13/03", "0001/01/01"],
}
GOOD = [
    "i + j", "i - j", "i * j", "i / j", "i % j", "big + 1", "big * 3", "big - i", "-i", "-big", "-x", "i + big", "x + i", "x - y", "x * 2",
    "x / y", "x / 0", "x % y", "x % 2", "x * 0.1", "0.5 - y", "y / 3 * 60", "i / 4", "(i + 1) * j", "1e3 * x", "null + i",
    "i < j", "x < y", "x <= y", "x = y", "x <> y", "x >= y", "x > 0.5", "i > 0.5", "big > 0.5", "big = x", "i = x", "s < t", "s = 'a'",
    "s <> t", "b = c", "b < c", "ts >= '2013-01-01'", "ts < '2013-01-01 12:30:00'", "day = '2013-01-01'", "day < date '2013-01-01'",
    "ts > timestamp '2013-01-01 01:00:00'", "x <=> y", "s <=> t", "i <=> null", "x = null", "x <=> cast('NaN' as double)",
    "b and c", "b or c", "not b", "b and null", "b or null", "not (b and c)", "x > 0 or y > 0 and i > 0",
    "x is null", "s is not null", "b is true", "b is not true", "b is false", "dec is null", "l is not null", "f is null",
    "i in (1, 0)", "i not in (1, null)", "s in ('a', 'b')", "x in (0, -2.5)", "x not in (0.0)", "i in (0.0, 1.5)",
    "x between -3 and 0.5", "i between 0 and 2.5", "s between 'A' and 'b'", "i not between 0 and 1",
    "ts between '1970-01-01' and '2013-06-01'",
    "case when x > 0 then 'p' when x < 0 then 'n' end", "case i when 0 then 1 when 1 then 2.5e0 else x end", "if(b, i, big)", "if(b, x, i)",
    "if(x > 0, x, null)", "coalesce(x, y, 0)", "nvl(i, j)", "ifnull(s, t)", "coalesce(null, s)", "nullif(i, 0)", "nullif(x, y)",
    "greatest(i, j)", "least(i, j)", "greatest(y, x, 1e0)", "least(y, x)", "abs(i)", "abs(x)", "abs(big)", "length(s)", "lower('ABc')",
    "upper('ABc')", "sqrt(x)", "floor(y)", "ceil(y)", "floor(x)", "unix_micros(ts)", "hour(ts)", "minute(ts)", "concat(s, '-', t)",
    "s || t", "trim(s)", "startswith(s, 'a')", "endswith(s, 'c')", "contains(s, 'b')", "s like '%b%'", "s like '_'", "s not like 'a%'",
    "s rlike '[ab]+$'", "s not rlike 'b'", "s not like '_'", "s like '%%'", "s like ''", "s like '%a_'",
    "ts + interval 1 hour", "ts - interval '2' days", "cast(i as double)", "cast(i as bigint)",
    "cast(x as int)", "cast(y as bigint)", "cast(i as string)", "cast(big as int)", "cast(day as timestamp)",
    "cast('2013-01-01' as date)", "(i + j) / 2 > x", "`x` + X", "true", "x > 1 = true",
    "timestamp_seconds(i)", "timestamp_seconds(j)", "timestamp_millis(i)", "timestamp_micros(big)", "timestamp_micros(big div 1000)",
    "sign(x)", "sign(i)", "signum(big)", "1 / sign(x)", "round(x)", "round(y)", "round(i / 2)", "round(big)", "1 / round(-0.4e0)",
    "round(0.49999999999999994e0)", "radians(x)", "radians(y)", "radians(i)", "mod(i, j)", "ceiling(y)",
    "i div j", "j div i", "big div -7", "try_to_timestamp(d, 'dd.MM.yyyy HH:mm:ss')", "try_to_timestamp(e, 'yyyy/MM/dd')",
    "try_to_timestamp(e, 'yy/MM/dd')", "try_to_timestamp(e, 'yyyyMMdd')", "make_timestamp(2024, 2, i, 0, 0, 0)",
    "make_timestamp(2024, 2, 29, 23, 59, j)", "make_timestamp(2023, 2, 29, 0, 0, 0)",
    "make_timestamp(2024, cast(2 as bigint), cast(3 as bigint), 0, 0, i)",
]  # fmt: skip
REFUSED = {
    "round(x, 1)": "ROUND", "sin(x)": "SIN", "cos(x)": "COS", "tan(x)": "TAN", "atan2(x, y)": "ATAN2", "round(dec)": "round of decimal",
    "floor(x, 1)": "floor", "try_cast(big as int)": "cast", "s like 'a' escape '#'": "like", "s ilike 'a'": "ilike",
    "i * 0.1": "point", "f + 1": "float", "dec > 1": "decimal(10,2)", "s > 1": "int and string", "s + 1": "string",
    "upper(x)": "upper", "date_trunc('hour', ts)": "date_trunc", "ts - ts": "timestamp", "s like t": "like", "s rlike '\\\\d'": "backslash",
    "to_timestamp(s)": "cast", "substring(s, 1, 2)": "SUBSTRING", "array_size(l)": "", "i in (1, 2e0, 3.5)": "in over", "ltrim(s)": "trim",
    "ts + interval 1 month": "interval", "exists(l, e -> e = 'a')": "", "cast(s as int)": "cast of string",
    "day = ts": "date and timestamp", "timestamp_seconds(x)": "timestamp_seconds of double", "try_to_timestamp(s, 'd.M.yy')": "format",
    "try_to_timestamp(s, t)": "try_to_timestamp", "x div 2": "div of double", "timestamp_micros(s)": "timestamp_micros of string",
}  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Bits apart from the sign of zero, which results fold."""
    return (a != a and b != b) or (type(a) is type(b) and a == b)


@pytest.mark.parametrize("sql", GOOD)
def test_what_is_evaluated_passes_the_check_of_a_spec(sql: str) -> None:
    assert check_sql(sql, TYPES).problems == ()


@pytest.mark.spark
def test_every_rule_agrees_with_the_engine(spark: SparkSession) -> None:
    import pyarrow as pa
    from pyspark.sql import functions as F

    rows = [dict(zip(VALUES, values, strict=True)) for values in zip(*VALUES.values(), strict=True)]
    table = pa.table({name: arrow_column(VALUES[name], type_) for name, type_ in TYPES.items()})
    df = spark.createDataFrame(table).coalesce(1).withColumn("n", F.monotonically_increasing_id())
    # As the intake has it: instants as microseconds, dates as days.
    shown = []
    types = [type_ for _, type_ in df.select(*[F.expr(sql).alias(f"v{k}") for k, sql in enumerate(GOOD)]).dtypes]
    for k, (sql, type_) in enumerate(zip(GOOD, types, strict=True)):
        column = F.unix_micros(F.expr(sql)) if type_ == "timestamp" else F.unix_date(F.expr(sql)) if type_ == "date" else F.expr(sql)
        shown.append(column.alias(f"v{k}"))
    theirs = df.select("n", *shown).toArrow().sort_by("n").to_pydict()
    for k, sql in enumerate(GOOD):
        value = expression(sql, TYPES)
        ours = [value(row) for row in rows]
        expected = [float(v) if isinstance(v, Decimal) else v for v in theirs[f"v{k}"]]
        ours = [float(v) if isinstance(v, Decimal) else v for v in ours]
        assert all(map(same, ours, expected)), (sql, ours, expected)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_alike_is_refused_by_its_name(sql: str) -> None:
    with pytest.raises(SkybandError) as e:
        expression(sql, TYPES, what="derived column v")
    assert e.value.code == "SKY-E531" and "--engine" in (e.value.hint or "")
    assert e.value.message.startswith("derived column v uses ") and REFUSED[sql].lower() in e.value.message.lower()


def test_letters_outside_of_ascii_are_refused_when_they_come() -> None:
    value = expression("lower(s)", TYPES)
    assert value({"s": "AB"}) == "ab"
    with pytest.raises(SkybandError, match="SKY-E531"):
        value({"s": "Ä"})
