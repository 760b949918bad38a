"""Apply look-ups, transforms and row rules to source rows without Spark, row by row, with the results of ``streaming.rows.intake``.

Every row gets all columns and, if it is not to be processed, the reason; reasons have the intake's precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.reasons import FILTERED, INT_RANGE, NULL_ID, NULL_KEY, NULL_TIME, REASON, RULE, STOPS, TIME_RANGE, YEAR_RANGE
from skyband.framework.base.types import YEARS
from skyband.framework.lookups.join import Join, Tables
from skyband.framework.plan.model import IntakeNode
from skyband.framework.sources.protocol import CORRUPT, ORIGIN
from skyband.framework.sources.values import arrow_column
from skyband.framework.sql_without_spark.intake_sql import IntakeSql
from skyband.framework.streaming.rows.config import ID_HASHES, KEY_HASHES, WARNED
from skyband.operators.base import NEVER, NULL

Row = dict[str, Any]
_NONE: Final[Tables] = {}

_DAY: Final = 86_400_000_000
_FIRST, _LAST = 0, 253_402_128_000_000_000
"""1970-01-01 and 9999-12-30 UTC: the range of Spark's watermark and of readers' calendars."""


class Rows:
    """The intake of one job. Ids and keys are numbered instead of hashed: equal values have equal numbers.

    ``tables``: those of its look-ups. The constructor raises SkybandError SKY-E531 for SQL that only Spark can evaluate.
    """

    def __init__(self, node: IntakeNode, tables: Tables = _NONE) -> None:
        self.node = node
        self.join = Join(node.lookups, tables, node.event_time)
        self.sql = IntakeSql(node)
        self.numbers: dict[tuple[str, tuple[Any, ...]], int] = {}

    def table(self, rows: Sequence[Mapping[str, Any]], reasons: Sequence[str | None] | None = None, texts: Sequence[str] = ()) -> pa.Table:
        """Return the table that Spark's intake makes of source rows (values as ``in_spark`` returns them; missing columns are null).

        ``reasons``: PARSE for rows that did not parse, with their original ``texts``; None for the others. O(rows).
        """
        parsed = reasons or [None] * len(rows)
        made = self._rows([dict(r) for r in rows], parsed)
        columns: dict[str, Any] = {f.name: arrow_column([r[f.name] for r, _, _ in made], f.type) for f in self.node.fields}
        for names, of in ((KEY_HASHES, self.node.partition_by), (ID_HASHES, self.node.id if self.node.unique == "checked" else ())):
            if of:
                numbers = pa.array([self._number(names[0], r, of) for r, _, _ in made], pa.int64())
                columns |= {n: numbers for n in names}
        nothing = pa.nulls(len(made), pa.string())
        columns[ORIGIN] = nothing
        columns[CORRUPT] = pa.array([t if p else None for t, p in zip(texts or [""] * len(made), parsed, strict=True)], pa.string())
        columns[REASON] = pa.array([reason for _, reason, _ in made], pa.string())
        if self.node.rules_of("warn"):
            columns[WARNED] = pa.array([warned for _, _, warned in made], pa.string())
        return pa.table(columns)

    def _number(self, what: str, row: Row, names: Iterable[str]) -> int:
        value = tuple(row[n] for n in names)
        return self.numbers.setdefault((what, value), len(self.numbers))

    def _rows(self, rows: list[Row], parsed: Sequence[str | None]) -> list[tuple[Row, str | None, str | None]]:
        """Return (all columns, reason, broken rules of severity ``warn``) of each row."""
        unmatched = []
        for row in rows:
            for f in self.node.fields:
                row.setdefault(f.name, None)
            unmatched.append(self.join.add(row))
        keep = [True] * len(rows)
        for name, expression in self.sql.steps:
            found = expression.values(rows)
            if name is None:
                keep = [k and v is True for k, v in zip(keep, found, strict=True)]
            else:
                for row, value in zip(rows, found, strict=True):
                    row[name] = value
        broken: dict[str, list[list[str]]] = {s: [[] for _ in rows] for s in ("fail", "reject", "warn")}
        for rule, holds in self.sql.rules:
            for names, held in zip(broken[rule.severity], holds.values(rows), strict=True):
                if held is False:
                    names.append(rule.name)
        return [
            (
                row,
                parsed[n] or unmatched[n] or self._reason(row, keep[n], broken["fail"][n], broken["reject"][n]),
                ",".join(broken["warn"][n]) or None,
            )
            for n, row in enumerate(rows)
        ]

    def _reason(self, row: Row, keep: bool, fail: Sequence[str], reject: Sequence[str]) -> str | None:
        node = self.node
        if not keep:
            return FILTERED
        for broken, begins in ((fail, STOPS), (reject, RULE)):
            if broken:
                return begins + ",".join(broken)
        if any(row[n] is None for n in node.id):
            return NULL_ID
        at = row[node.event_time]
        if at is None:
            return NULL_TIME
        if not _FIRST <= at <= _LAST:
            return TIME_RANGE
        if any(row[n] is None for n in node.partition_by):
            return NULL_KEY
        if any(self._equals_null_code(row[n], node.field(n).type) for n in node.whole):
            return INT_RANGE
        outside = (f.name for f in node.fields if f.type in YEARS and row[f.name] is not None and not _within(row[f.name], *YEARS[f.type]))
        return next((f"{YEAR_RANGE}{name}" for name in outside), None)

    @staticmethod
    def _equals_null_code(value: Any, type_: str) -> bool:
        if value is None:
            return False
        return bool(abs(value) > NEVER // _DAY if type_ == "date" else value == NULL)


def _within(value: int, first: int, last: int) -> bool:
    return first <= value <= last
