"""Compare the tables of a test with the expected ones, in the columns that the test names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

from skyband.framework.base.cells import spelled
from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.spec.models.job import SpecTest
from skyband.framework.spec_tests.tables import Row, Tables, TestedTable, tested_table

_AROUND: Final = 2
"""Equal rows shown before and after a difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of one table. ``lines``: rows in YAML, ``-`` for expected, ``+`` for actual, a space for equal ones."""

    table: str
    expected: int
    came: int
    lines: tuple[str, ...]


def compare_tables(plan: Plan, test: SpecTest, tables: Tables) -> list[Difference]:
    """Return the differences of tables that are not as expected. O(rows squared) where they differ."""
    found = (_compare(tested_table(plan, name), rows, tables, test) for name, rows in test.expect.items())
    return [d for d in found if d is not None]


def columns_of(table: TestedTable, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the columns that a test's rows of a table name, in their order, or the recorded columns if it has no rows."""
    return tuple(dict.fromkeys(c for row in rows for c in row)) or table.shown


def row_text(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return a row in YAML."""
    return "{" + ", ".join(f"{c}: {spelled(row.get(c))}" for c in columns) + "}"


def _compare(table: TestedTable, expected: Sequence[Row], tables: Tables, test: SpecTest) -> Difference | None:
    columns = columns_of(table, expected)
    came = table.rows(tables)
    keys = [_keys(table, rows, columns, test) for rows in (expected, came)]
    order = [list(range(len(k))) for k in keys]
    if not table.ordered:
        order = [sorted(o, key=lambda i, k=k: repr(k[i])) for o, k in zip(order, keys, strict=True)]  # type: ignore[misc]
    left, right = ([k[i] for i in o] for k, o in zip(keys, order, strict=True))
    if left == right:
        return None
    shown = [{c: table.native(row.get(c), c) for c in columns} for row in expected]
    rows = [[row_text(source[i], columns) for i in o] for source, o in zip((shown, came), order, strict=True)]
    return Difference(table.name, len(expected), len(came), tuple(_lines(left, right, rows[0], rows[1])))


def _keys(table: TestedTable, rows: Sequence[Row], columns: Sequence[str], test: SpecTest) -> list[tuple[Any, ...]]:
    try:
        return [tuple(table.plain(row.get(c), c) for c in columns) for row in rows]
    except ValueError as e:
        raise SkybandError("SKY-E530", f"test {test.name!r} expects a value that table {table.name} cannot hold: it {e}") from e


def _lines(left: list[Any], right: list[Any], expected: list[str], came: list[str]) -> list[str]:
    lines: list[str] = []
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    for n, (what, i1, i2, j1, j2) in enumerate(blocks):
        if what != "equal":
            lines += [f"- {t}" for t in expected[i1:i2]] + [f"+ {t}" for t in came[j1:j2]]
            continue
        head = _AROUND if n else 0
        tail = _AROUND if n + 1 < len(blocks) else 0
        if i2 - i1 <= head + tail + 1:
            lines += [f"  {t}" for t in expected[i1:i2]]
            continue
        lines += [f"  {t}" for t in expected[i1 : i1 + head]]
        lines.append(f"  ... {counted(i2 - i1 - head - tail, 'row')} alike")
        lines += [f"  {t}" for t in expected[i2 - tail : i2]] if tail else []
    return lines
