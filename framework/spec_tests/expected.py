"""What a test expects held against what came: equal in the columns that it names, or a difference in lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.spec.models.examples import SpecTest
from skyband.framework.spec.parsing.cells import spelled
from skyband.framework.spec_tests.tables import Looked, Row, Tables, looked_at

_AROUND: Final = 2
"""Equal rows shown before and after a difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one table. ``lines``: rows in YAML, expected ones behind ``-``, those that came behind ``+``, equal ones behind a space."""

    table: str
    expected: int
    came: int
    lines: tuple[str, ...]


def compared(plan: Plan, test: SpecTest, tables: Tables) -> list[Difference]:
    """The tables that are not as the test expects. O(rows squared) where they differ."""
    found = (_compare(looked_at(plan, name), rows, tables, test) for name, rows in test.expect.items())
    return [d for d in found if d is not None]


def columns_of(looked: Looked, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns that a test's rows of a table name, in the order in which they do; those that are recorded if it has no rows."""
    return tuple(dict.fromkeys(c for row in rows for c in row)) or looked.shown


def row_text(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """A row in YAML."""
    return "{" + ", ".join(f"{c}: {spelled(row.get(c))}" for c in columns) + "}"


def _compare(looked: Looked, expected: Sequence[Row], tables: Tables, test: SpecTest) -> Difference | None:
    columns = columns_of(looked, expected)
    came = looked.rows(tables)
    keys = [_keys(looked, rows, columns, test) for rows in (expected, came)]
    order = [list(range(len(k))) for k in keys]
    if not looked.ordered:
        order = [sorted(o, key=lambda i, k=k: repr(k[i])) for o, k in zip(order, keys, strict=True)]  # type: ignore[misc]
    left, right = ([k[i] for i in o] for k, o in zip(keys, order, strict=True))
    if left == right:
        return None
    shown = [{c: looked.native(row.get(c), c) for c in columns} for row in expected]
    rows = [[row_text(source[i], columns) for i in o] for source, o in zip((shown, came), order, strict=True)]
    return Difference(looked.name, len(expected), len(came), tuple(_lines(left, right, rows[0], rows[1])))


def _keys(looked: Looked, rows: Sequence[Row], columns: Sequence[str], test: SpecTest) -> list[tuple[Any, ...]]:
    try:
        return [tuple(looked.plain(row.get(c), c) for c in columns) for row in rows]
    except ValueError as e:
        raise SkybandError("SKY-E530", f"test {test.name!r} expects of table {looked.name} what it cannot hold: it {e}") from e


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
