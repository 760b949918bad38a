"""A declaration judges rows as Great Expectations itself does: both on the same random rows, with nulls, NaN, ties and all of Unicode."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from skyband.framework.quality.checks import _context, expectation_class, import_gx
from skyband.framework.quality.expectations import arguments as table_arguments
from skyband.framework.row_rules.row_conditions import condition
from skyband.framework.row_rules.row_expectations import OF_ROWS, columns_of, family, row_mistakes

pytestmark = pytest.mark.spark

TYPES = {
    "i": "bigint", "j": "int", "d": "double", "e": "double", "f": "float", "s": "string", "t": "string", "b": "boolean", "c": "boolean",
    "at": "timestamp", "bt": "timestamp", "m": "decimal(10,2)",
}  # fmt: skip
ARROW = {
    "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "float": pa.float32(), "string": pa.string(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"), "decimal(10,2)": pa.decimal128(10, 2),
}  # fmt: skip
ROWS, TABLES, ASKED = 60, 3, 220
START = datetime(2024, 1, 1, tzinfo=UTC)
WORDS = [
    *("", "a", "b", "ab", "aab", "aaab", "ba", "A", "a\n", "\na", "a\r", "a\u2028b", "a\u0085", "é", "e\u0301", "😀", "a😀b", "[", "]"),
    *("a&&b", "^", "$", ".", "\\", "a\\b", "it's", '"', "%", "_", "${env:HOME}", "1", "12", "١٢", " ", "\t", "\x0b", "nan", "None", "\x00"),
]
REGEXES = [
    *("^a", "a$", "^a$", "^$", ".", "^.$", "^..$", "[^a]", "[[a]", "[a&&b]", "[]a]", "a|b", "(ab)+", "(?:a|b)c?", "a{2,3}", "a{2}", "x*"),
    *("^a+?b", r"\.", r"\\", "é", "😀", "^.😀", "[a-é]", "[^a-z]$", "a(?=b)", "a(?!b)", r"\n", r"\r", "a\\Z", r"\Aa", r"\x61", "[a^]"),
    *(r"[\]\[^-]", "[$.]", "a b", "'", '"', "%", r"\$\{", "#", "[0-9]", "^[0-9]{2}$", "(a)|(b)$", r"\u2028", r"\0", "-", "[+--]"),
]


def value(rng: random.Random, type_: str) -> Any:
    """A value of few, so that there are ties; null one time in five."""
    if rng.random() < 0.2:
        return None
    match type_:
        case "bigint" | "int" | "decimal(10,2)":
            return rng.randint(-3, 3)
        case "double" | "float":
            return rng.choice([-0.0, 0.0, 0.1, 0.5, 1.5, -1.5, 2.0, float("nan"), float("inf"), -float("inf")])
        case "string":
            return rng.choice(WORDS)
        case "boolean":
            return rng.random() < 0.5
    return START + timedelta(microseconds=rng.choice([0, 1, 10**6, 86_400_000_000 * rng.randint(-2, 2)]))


def bound(rng: random.Random, type_: str) -> Any:
    """A value that an argument takes."""
    made = value(rng, type_)
    if made is None or made in ("", "\x00") or (isinstance(made, float) and not math.isfinite(made)):
        return bound(rng, type_)
    if isinstance(made, datetime):
        return made.isoformat()
    numbers = type_ in ("bigint", "int", "double", "float")
    return rng.choice([made, made + 0.5, int(made)]) if numbers else made


def asked(rng: random.Random, name: str) -> dict[str, Any]:
    """Arguments of an expectation at random, of columns it takes."""
    fits = [c for c, t in TYPES.items() if family(t) in OF_ROWS[name].families]
    column = rng.choice(fits)
    alike = [c for c in fits if family(TYPES[c]) == family(TYPES[column]) and c != column]
    given: dict[str, Any] = {"column": column}
    if "pair" in name:
        if not alike:
            return asked(rng, name)
        given = {"column_A": column, "column_B": rng.choice(alike)}
        given |= rng.choice([{}, {"ignore_row_if": "both_values_are_missing"}, {"ignore_row_if": "either_value_is_missing"}])
        return given | (rng.choice([{}, {"or_equal": True}, {"or_equal": False}]) if "greater" in name else {})
    if "unique_within" in name:
        alike = [c for c in alike if TYPES[c] == TYPES[column]]
        ignored = rng.choice([{}, *({"ignore_row_if": w} for w in ("all_values_are_missing", "any_value_is_missing", "never"))])
        return {"column_list": [column, *alike], **ignored} if alike else asked(rng, name)
    if name.endswith("between"):
        lengths = "lengths" in name
        bounds = [rng.randint(0, 4) if lengths else bound(rng, TYPES[column]) for _ in range(2)]
        given |= dict(zip(("min_value", "max_value"), sorted(bounds), strict=True))
        if rng.random() < 0.4:
            del given[rng.choice(["min_value", "max_value"])]
        return given | {k: True for k in ("strict_min", "strict_max") if rng.random() < 0.4}
    if name.endswith("_set"):
        return given | {"value_set": [bound(rng, TYPES[column]) for _ in range(rng.randint(1, 4))]}
    if name.endswith("regex"):
        return given | {"regex": rng.choice(REGEXES)}
    if name.endswith("regex_list"):
        more = {} if "_not_" in name else rng.choice([{}, {"match_on": "any"}, {"match_on": "all"}])
        return given | {"regex_list": rng.sample(REGEXES, rng.randint(1, 3)), **more}
    return given | ({"value": rng.randint(0, 3)} if name.endswith("equal") else {})


def broken(gx: Any, context: Any, number: int, frame: Any, name: str, given: dict[str, Any]) -> set[int]:
    """The rows that Great Expectations finds unexpected."""
    source = context.data_sources.add_pandas(f"s{number}").add_dataframe_asset("a").add_batch_definition_whole_dataframe("b")
    batch = source.get_batch({"dataframe": frame})
    found = batch.validate(expectation_class(gx, name)(**table_arguments(name, given)), result_format="COMPLETE").to_json_dict()
    told = found.get("exception_info", {})
    assert "result" in found and "unexpected_index_list" in found["result"], (name, given, told)
    return set(found["result"]["unexpected_index_list"] or [])


def test_both_find_the_same_rows(spark: SparkSession) -> None:
    rng = random.Random(14)
    gx = import_gx()
    context = _context(gx)
    judged: dict[str, int] = defaultdict(int)
    for n in range(TABLES):
        rows = pa.table({c: pa.array([value(rng, t) for _ in range(ROWS)], ARROW[t]) for c, t in TYPES.items()})
        frame = rows.to_pandas(date_as_object=False)
        cases = [(name, asked(rng, name)) for name in [*OF_ROWS] * (ASKED // TABLES // len(OF_ROWS))]
        assert [(c, m) for c in cases if (m := list(row_mistakes(*c, TYPES)))] == []
        numbered = spark.createDataFrame(rows.append_column("n", pa.array(range(ROWS))))
        holds = [F.coalesce(F.expr(condition(*c, TYPES)), F.lit(True)).alias(f"c{k}") for k, c in enumerate(cases)]
        answers = numbered.select("n", *holds).toArrow().sort_by("n")
        for k, (name, given) in enumerate(cases):
            mine = {i for i, ok in enumerate(answers[f"c{k}"].to_pylist()) if not ok}
            theirs = broken(gx, context, 1000 * n + k, frame, name, given)
            shown = {c: [rows[c][i].as_py() for i in sorted(mine ^ theirs)] for _, c in columns_of(given)}
            assert mine == theirs, (name, given, condition(name, given, TYPES), shown)
            judged[name] += len(mine)
    assert set(judged) == set(OF_ROWS) and all(judged.values())


def test_sql_of_a_spec_reads_no_variable_of_the_environment(spark: SparkSession) -> None:
    """Spark would put them in: a spec spells ``$${env:HOME}``, and past the list of variables it may use."""
    texts = ["${env:HOME}", "${system:user.home}", "${spark.master}", "${hiveconf:spark.master}"]
    (row,) = spark.range(1).select(*(F.expr(f"'{t}'") for t in texts)).collect()
    assert list(row) == texts
