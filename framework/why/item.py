"""Parse the item to explain: a row by its id, a pair by two ids, an object by the columns that name it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skyband.framework.base.cells import cell
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec_tests.tables import plain_value


@dataclass(frozen=True, slots=True)
class Item:
    """The item to explain. ``names``: of each of its rows or objects, columns and values (see ``plain_value``), in the order given."""

    names: tuple[Mapping[str, Any], ...]

    def text(self) -> str:
        """Return the item in words."""
        return " and ".join(", ".join(f"{c} {v}" for c, v in name.items()) for name in self.names)


def item_of(plan: Plan, query: QueryNode, texts: Sequence[str]) -> Item:
    """Parse one text per row or object: ``value,value`` in the order of the columns that name it, or ``column=value,...``.

    One text of a pair means all pairs of that row. SkybandError SKY-E201 for a text that names no item.
    """
    parts = query.item.parts
    columns = plan.intake.id if parts[0].is_row else parts[0].columns
    if len(texts) > len(parts):
        said = f"an item of query {query.name} is named by {'one text' if len(parts) == 1 else 'one text or two'}, not {len(texts)}"
        raise SkybandError("SKY-E201", said, hint=f"its columns, separated by commas: {','.join(columns)}")
    return Item(tuple(_name(plan, columns, text) for text in texts))


def _name(plan: Plan, columns: Sequence[str], text: str) -> Mapping[str, Any]:
    cells = next(csv.reader([text]), [])
    named = [c.partition("=") for c in cells]
    if all(equals and name.strip() in columns for name, equals, _ in named) and cells:
        given = {name.strip(): value for name, _, value in named}
    else:
        given = dict(zip(columns, cells, strict=False)) if len(cells) == len(columns) else {}
    missing = [c for c in columns if c not in given]
    if missing:
        hint = did_you_mean(named[0][0], columns) if cells and named[0][1] else None
        said = f"{text!r} has no value for {one_of(missing)}"
        raise SkybandError("SKY-E201", said, hint=hint or f"write {','.join(columns)}, or {columns[0]}=... for each of them")
    return {c: value_of(plan, c, given[c]) for c in columns}


def value_of(plan: Plan, column: str, text: str) -> Any:
    """Return a value of a column, given as text, as ``plain_value`` does. SkybandError SKY-E201 if it is none."""
    field = plan.intake.field(column)
    try:
        if field.kind == "int":
            value: Any = int(text)
        elif field.kind == "float":
            value = float(text)
        elif field.kind == "bool":
            value = {"true": True, "false": False}[text.strip().lower()]
        else:
            value = cell(text.replace("T", " ") if field.kind == "time" else text, field.kind)
        return plain_value(value, arrow_type(field.type))
    except (ValueError, KeyError) as e:
        raise SkybandError(
            "SKY-E201", f"{text!r} is not a value of {column}, which is {field.type}", hint="write the value as the tables show it"
        ) from e
