"""What brute force works on: one key's accepted objects in columns, and which of them a query's window holds at an instant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.plan.model import Plan, QueryNode, TokenNode
from skyband.framework.streaming.columns import TextCodes, operator_column
from skyband.framework.streaming.tokens import tokens
from skyband.operators.base import NEVER, AnyArray, Window

I64 = npt.NDArray[np.int64]
Found = list[tuple[tuple[Any, ...], float]]
"""A result: (values of the identity columns of an item, score or 0.0) in rank order."""

MAX_PAIRS = 200_000_000
"""Pairs scored or compared for one result; a larger window is not verified by brute force (and ``verify`` says so)."""


@dataclass(slots=True)
class Accepted:
    """One key's objects in order: row i has seq i. ``deleted``: seq -> instant of its deletion."""

    key: tuple[Any, ...]
    rows: pa.Table
    time: list[int]
    deleted: dict[int, int]


@dataclass(slots=True)
class Objects:
    """One key's accepted objects: row i has seq i. ``deleted``: the instant at which each was deleted, or NEVER.

    ``tokens``: each object's tokens as texts, by the name of the sets. ``named``: what rows report on, by the columns that name it:
    the different names, in order of first sight, and the number of each row's in them.
    """

    time: I64
    columns: dict[str, AnyArray]
    deleted: I64
    tokens: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    named: dict[tuple[str, ...], tuple[list[tuple[Any, ...]], I64]] = field(default_factory=dict)


def objects(plan: Plan, mine: Accepted) -> Objects:
    """The columns the plan's operators read."""
    codes = TextCodes(plan.texts)
    wanted = {c.name: c.kind for node in plan.operators for c in node.attributes}
    deleted = np.full(len(mine.time), NEVER)
    deleted[list(mine.deleted)] = list(mine.deleted.values())
    columns = {n: operator_column(mine.rows[n], kind, codes) for n, kind in wanted.items()}
    sets = {t.name: _sets(t, mine.rows) for t in plan.intake.tokens}
    named = {of: _named(mine.rows, of) for node in plan.operators for of in node.objects}
    return Objects(np.array(mine.time, np.int64), columns, deleted, sets, named)


def _named(rows: pa.Table, columns: tuple[str, ...]) -> tuple[list[tuple[Any, ...]], I64]:
    known: dict[tuple[Any, ...], int] = {}
    numbers = [known.setdefault(name, len(known)) for name in zip(*[rows[c].to_pylist() for c in columns], strict=True)]
    return list(known), np.array(numbers, np.int64)


def _sets(node: TokenNode, rows: pa.Table) -> list[frozenset[str]]:
    found: list[set[str]] = [set() for _ in range(rows.num_rows)]
    row, token = tokens(node, rows[node.column])
    for i, t in zip(row.tolist(), token.to_pylist(), strict=True):
        found[i].add(t)
    return [frozenset(s) for s in found]


def window_of(query: QueryNode, window: Window, data: Objects, at: int) -> tuple[int, int, int]:
    """(first, end, instant): the seqs in ``window`` after all events with time <= ``at``, or the last boundary by then."""
    if query.every_micros:
        at = at // query.every_micros * query.every_micros
    end = int(np.searchsorted(data.time, at, side="right"))
    first = 0
    if window.micros:
        first = int(np.searchsorted(data.time, at - window.micros, side="right"))
    if window.count:
        first = max(first, end - window.count)
    return min(first, end), end, at
