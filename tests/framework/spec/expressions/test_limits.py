"""What a machine may write into a spec is bounded before it is parsed, and what people write is far within the bounds."""

from __future__ import annotations

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.expressions.sql import check_sql
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.parsing.limits import MAX_MISTAKES, MAX_NESTING, MAX_TOKENS, MAX_TYPE_NESTING, Work
from skyband.operators.spelling import bounded, closest
from tests.framework.spec.worst_cases import CASES, derive, spec

TYPES = Columns({"x": "double", "s": "string"})
DEEP = {
    "brackets": ("(", ")", MAX_NESTING),
    "calls": ("abs(", ")", MAX_NESTING),
    "arrays": ("array(", ")", MAX_TYPE_NESTING),
    "structs": ("struct(", ")", MAX_TYPE_NESTING),
    "types as calls": ("date(", ")", MAX_TYPE_NESTING),
    "types with an index": ("decimal[", "]", MAX_TYPE_NESTING),
    "calls in types": ("date(abs(", "))", MAX_TYPE_NESTING),
    "cases": ("case when x > 1 then ", " end", MAX_NESTING),
}


@pytest.mark.parametrize("opening, closing, most", DEEP.values(), ids=DEEP)
def test_nesting_is_bounded_and_told_at_its_place(opening: str, closing: str, most: int) -> None:
    good = check_sql(opening * most + "x" + closing * most, TYPES)
    assert not any("inside one another" in p.message for p in good.problems)
    (bad,) = check_sql(opening * 40 + "x" + closing * 40, TYPES).problems
    assert bad.code == "SKY-E131" and "inside one another" in bad.message and bad.hint
    assert opening.rstrip()[-1] in "([" or opening.startswith("case")
    assert len(opening) * most <= bad.start < len(opening) * (most + 1) and bad.end > bad.start


def test_types_inside_types_are_bounded() -> None:
    text = "cast(s as {}int{})"
    assert not check_sql(text.format("array<" * MAX_NESTING, ">" * MAX_NESTING), TYPES).problems
    (bad,) = check_sql(text.format("array<" * 21, ">" * 21), TYPES).problems
    assert bad.code == "SKY-E131" and "levels of types" in bad.message


def test_length_is_bounded() -> None:
    half = MAX_TOKENS // 2
    assert not any("words and signs" in p.message for p in check_sql("+".join(["x"] * half), TYPES).problems)
    (bad,) = check_sql("+".join(["x"] * (half + 1)), TYPES).problems
    assert "4,000 words and signs" in bad.message and bad.start == MAX_TOKENS


def test_closed_brackets_do_not_count() -> None:
    assert check_sql(" + ".join(["struct(struct(x)).col1.col1"] * 100), TYPES).problems == ()


def mistakes(text: str) -> list[SkybandError]:
    job, errors = validate_text(text, {}, "spec.yaml")
    assert (job is None) == bool(errors)
    return errors


def test_a_thousand_columns_are_no_excess() -> None:
    columns = "".join(f", c{i}: double" for i in range(1000))
    steps = "".join(f"- derive: {{d{i}: c{i} + c{i // 2} / 2}}\n" for i in range(1000))
    queries = "".join(f"  q{i}: {{type: topk, scoring: f, k: 3, where: c{i} > 1}}\n" for i in range(100))
    assert mistakes(spec(columns=columns, transform="transform:\n" + steps, queries="queries:\n" + queries)) == []


@pytest.mark.long
def test_many_good_expressions_are_too_much_altogether_at_the_place_of_the_first_that_is() -> None:
    for which in ("many short derived", "many queries"):
        text = CASES[which]()
        (error,) = mistakes(text)
        assert error.code == "SKY-E103" and error.hint and error.where is not None
        assert 500 < error.where.line < text.count("\n")


def test_only_some_mistakes_are_told_of_one_text() -> None:
    assert len(mistakes(derive("+".join(["y"] * 100)).split("- derive: {d1:")[0] + spec().split("\n", 2)[2])) == MAX_MISTAKES


def test_work_that_is_gone_stays_gone() -> None:
    work = Work(100)
    assert work.take(10) and not work.take(70) and work.gone and not work.take(0)


def test_names_are_compared_until_the_comparisons_are_used_up() -> None:
    names = [f"column_{i}" for i in range(10)]
    with bounded(15):
        assert [closest("colum_3", names) for _ in range(3)] == ["column_3", "column_3", None]
    assert closest("COLUM_3", names) == "column_3"


@pytest.mark.parametrize("expression", ["(" * 5000 + "x" + ")" * 5000, "not " * 5000 + "x > 1", "- " * 5000 + "x", "x" + "+x" * 9000])
def test_expressions_that_are_too_much_are_told_of(expression: str) -> None:
    (error,) = mistakes(spec(scoring=f'scoring: {{f: {{expression: "{expression}"}}}}\n'))
    assert error.code == "SKY-E130" and ("too deep" in error.message or "too large" in error.message) and error.where is not None


@pytest.mark.parametrize(
    "old, new",
    [
        ("sink:", "schedule: {cron: '" + "9" * 5000 + " * * * *'}\nsink:"),
        ("sink:", "schedule: {cron: '*/" + "9" * 5000 + " * * * *'}\nsink:"),
        ("sink:", "schedule: {cron: '\u00b2 * * * *'}\nsink:"),
        ("count: 10", "time: " + "9" * 5000 + ".5 days"),
        ("count: 10", "time: " + "9" * 5000 + " days"),
        ("sink:", "run: {max_bytes: " + "9" * 5000 + " MB}\nsink:"),
    ],
)
def test_huge_numbers_are_mistakes(old: str, new: str) -> None:
    (error,) = mistakes(spec().replace(old, new))
    assert error.code.startswith("SKY-E11") and "4300" not in error.render()


def test_a_mistake_beside_a_secret_does_not_show_it() -> None:
    errors = mistakes("{job: !a x, source: {options: {password: hunter2}}}")
    assert errors and not any("hunter2" in e.render() for e in errors)


@pytest.mark.long
def test_a_file_of_too_many_values_is_told_of_where_they_are_too_many() -> None:
    (error,) = mistakes(CASES["many nodes"]())
    assert error.code == "SKY-E103" and error.where is not None and error.where.col > 10_000
