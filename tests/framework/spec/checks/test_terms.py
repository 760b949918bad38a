"""Terms of a global score: what each stands for, mistakes, and warnings where the combination is not monotone."""

import math

import numpy as np
import pytest

from skyband.framework.spec.expressions.scoring import scoring_text
from skyband.framework.spec.load import validate_text, validated_file
from skyband.framework.verify.brute_force.expressions import Values, score_of
from skyband.jobs.cli import main
from skyband.operators.expressions import parse
from tests.framework.spec.examples import ENV, SENSORS

TERMS = "terms: [{abs_difference: temp}, {abs_difference: humidity, weight: 2.0}]"
A, B = 3.0, -5.0
LOCAL = {
    "abs_difference: temp": 8.0,
    "squared_difference: temp": 64.0,
    "sum: temp": -2.0,
    "average: temp": -1.0,
    "product: temp": -15.0,
    "min: temp": -5.0,
    "max: temp": 3.0,
    "expression: sqrt(abs(a.temp - b.temp))": math.sqrt(8.0),
    "expression: 'mod(a.temp - b.temp, 3)', monotone: true": 2.0,
    "expression: a.temp - b.temp": 8.0,
}


def spec(terms: str, combine: str = "sum") -> str:
    assert TERMS in SENSORS and "combine: sum" in SENSORS
    return SENSORS.replace(TERMS, f"terms: {terms}").replace("combine: sum", f"combine: {combine}")


def score(text: str) -> float:
    """The score of a pair of rows."""
    job, errors = validate_text(text, ENV)
    assert job is not None, errors
    node = parse(scoring_text(job.scoring["closest"]), {"temp": "float", "humidity": "float"}, ("a", "b"), "score")
    a, b = ({c: Values(np.array([v]), np.ones(1, bool)) for c in ("temp", "humidity")} for v in (A, B))
    return float(score_of(node)(a, b)[0])


@pytest.mark.parametrize("combine, of", [("sum", sum), ("product", math.prod), ("min", min), ("max", max)])
@pytest.mark.parametrize("term", LOCAL)
def test_a_score_combines_local_scores(term: str, combine: str, of: object) -> None:
    value = LOCAL[term]
    assert score(spec(f"[{{{term}}}]", combine)) == value
    assert score(spec(f"[{{{term}, weight: -2}}, {{max: humidity}}, {{{term}}}]", combine)) == of([-2 * value, 3.0, value])  # type: ignore[operator]


@pytest.mark.parametrize(
    "terms, code, marked, said",
    [
        ("[{}]", "SKY-E117", "{}", "names no function"),
        ("[{abs_difference: temp, max: temp}]", "SKY-E117", "{abs_difference: temp, max: temp}", "names abs_difference or max"),
        ("[{sum: temp, expression: a.temp}]", "SKY-E117", "{sum: temp, expression: a.temp}", "names sum or expression"),
        ("[{average: tempp}]", "SKY-E120", "tempp", "unknown column"),
        ("[{expression: a.tempp - b.temp}]", "SKY-E130", "tempp", "unknown attribute"),
        ("[{expression: a.temp > b.temp}]", "SKY-E130", "a.temp > b.temp", "a score must be a number"),
        ("[{expression: sin(a.temp - b.temp)}]", "SKY-E117", "sin(a.temp - b.temp)", "not proven"),
        ("[{expression: a.temp - b.humidity}]", "SKY-E117", "a.temp - b.humidity", "reads 'temp' and 'humidity'"),
        ("[{expression: 5 * 3}]", "SKY-E117", "5 * 3", "reads no column"),
        ("[{abs_difference: temp, monotone: true}]", "SKY-E117", "monotone", "loosely monotone anyway"),
        ("[{abs_difference: temp, weight: much}]", "SKY-E112", "much", "number"),
        ("[{expression: 'a.temp) + (b.temp'}]", "SKY-E130", ")", "closes nothing"),
    ],
)
def test_mistakes_of_terms(terms: str, code: str, marked: str, said: str) -> None:
    text = spec(terms)
    job, errors = validate_text(text, ENV, "x.yaml")
    assert job is None and [e.code for e in errors] == [code]
    (error,) = errors
    assert said in error.message and error.where is not None and error.where.text is not None
    shown = error.where.text[error.where.col - 1 :][: error.where.length]
    assert marked in shown or shown in marked
    assert error.hint or code != "SKY-E117"


@pytest.mark.parametrize("function", ["dot(a.e, b.e)", "jaccard(a.words, b.words)"])
def test_a_term_reads_a_vector_or_a_set(function: str) -> None:
    vector = '- derive: {e: {sql: "array(temp, humidity)", type: array<double>}}'
    text = spec(f"[{{expression: '{function}', monotone: true}}]").replace("- derive: {hours:", f"{vector}\n  - derive: {{hours:")
    text += "vectors: {e: 2}\ntokens: {words: {column: building}}\n"
    job, errors = validate_text(text, ENV)
    assert job is not None, errors
    _, errors = validate_text(text.replace(", monotone: true", ""), ENV)
    assert ["not proven" in e.message for e in errors] == [True]


@pytest.mark.parametrize(
    "combine, terms, warned",
    [
        ("product", "[{abs_difference: temp}, {squared_difference: humidity}]", []),
        ("product", "[{abs_difference: temp, weight: -1}, {expression: exp(a.humidity - b.humidity)}]", []),
        ("product", "[{sum: temp}]", []),
        ("sum", "[{sum: temp}, {expression: 'sin(a.temp)', monotone: true}]", []),
        ("max", "[{sum: temp}, {product: humidity}]", []),
        ("product", "[{abs_difference: temp}, {average: humidity}]", ["average of humidity"]),
        ("product", "[{min: temp}, {expression: a.humidity}]", ["min of temp", "this expression"]),
        ("product", "[{max: temp}, {expression: 'sin(a.temp)', monotone: true}]", ["max of temp", "this expression"]),
    ],
)
def test_a_product_that_is_not_monotone_is_warned_of(combine: str, terms: str, warned: list[str], tmp_path, capsys, monkeypatch) -> None:
    path = tmp_path / "x.yaml"
    text = spec(terms, combine)
    path.write_text(text)
    line = text.count("\n", 0, text.index(f"terms: {terms}")) + 1
    found = validated_file(path, ENV)
    assert found.job is not None and found.document is not None
    warnings = found.document.warnings
    assert [w.code for w in warnings] == ["SKY-E129"] * len(warned)
    for warning, what in zip(warnings, warned, strict=True):
        assert f"not monotone: {what} may be negative" in warning.message
        assert warning.where is not None and str(warning.where).startswith(f"{path}:{line}:")
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    assert main(["validate", str(path)]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("SKY-E129") == len(warned) and (f", {len(warned)} warning" in shown.out) == bool(warned)
