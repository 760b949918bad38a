"""A count and its noun agree, wherever a message has one: never ``1 rows``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyband.framework.base.counts import agree, counted

NOUNS = [
    "batches",
    "buckets",
    "bytes",
    "cells",
    "changes",
    "characters",
    "checks",
    "columns",
    "differences",
    "errors",
    "events",
    "expectations",
    "fields",
    "files",
    "instants",
    "items",
    "keys",
    "lines",
    "messages",
    "mistakes",
    "objects",
    "outcomes",
    "pages",
    "pairs",
    "queries",
    "rows",
    "rules",
    "seconds",
    "specs",
    "states",
    "steps",
    "tables",
    "tasks",
    "tests",
    "times",
    "tokens",
    "transforms",
    "values",
    "views",
]
_COUNT = re.compile(rf" (?:[a-z]+ )?({'|'.join(NOUNS)})\b(?![/\w])")


@pytest.mark.parametrize(
    ("n", "noun", "plural", "said"),
    [(0, "row", None, "0 rows"), (1, "row", None, "1 row"), (2, "row", None, "2 rows"), (1_234, "batch", "batches", "1,234 batches"),
     (1, "batch", "batches", "1 batch"), (-1, "row", None, "-1 rows")],
)  # fmt: skip
def test_a_count_has_its_noun(n: int, noun: str, plural: str | None, said: str) -> None:
    assert counted(n, noun, plural) == said


def test_a_verb_agrees_with_its_count() -> None:
    assert [agree(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]


def counts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of every f-string that has a noun in the plural behind a value that may be 1."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            found = _COUNT.match(str(after.value))
            if found and not _counted(value):
                yield node.lineno, f"{ast.unparse(value.value)}{found.group()}"


def _counted(value: ast.FormattedValue) -> bool:
    """Whether it is no count, or one that is never 1: a constant, a text."""
    of = value.value
    if isinstance(of, ast.Name | ast.Attribute):
        name = of.id if isinstance(of, ast.Name) else of.attr
        if name.replace("_", "").isupper():
            return True
    is_count = value.format_spec is not None and bool({",", "f", "g"} & set(ast.unparse(value.format_spec)[2:-1]))
    is_count |= isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id in ("len", "sum")
    is_count |= isinstance(of, ast.Name | ast.Attribute) and ast.unparse(of).rpartition(".")[2] in (
        "n",
        "count",
        "rows",
        "num_rows",
        "total",
    )
    return not is_count


def test_no_message_has_a_count_before_a_noun_that_does_not_agree(root: Path) -> None:
    found = []
    for directory in ("framework", "jobs", "scripts"):
        for file in sorted((root / directory).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found += [f"{file.relative_to(root)}:{line}: {text}" for line, text in counts(tree)]
    assert found == []


def test_the_rule_sees_what_it_has_to() -> None:
    bad = ast.parse("f'{n:,} rows'; f'{len(x)} files read'; f'{a.num_rows} more rows'; f'{n:,} new files'")
    good = ast.parse("f'{n:,} rows/s'; f'{MOST:,} rows'; f'{counted(n, \"row\")} of it'; f'{text} rows'")
    assert [line for line, _ in counts(bad)] == [1, 1, 1, 1] and list(counts(good)) == []
