"""Turn an operator's numbers into rows of tables: objects and keys in the user's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.columns import BATCH, Column, Group, Values, changes_layout
from skyband.framework.base.items import SCORE, ItemColumn
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import QueryNode
from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.framework.streaming.bucket.store import WindowStore
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.operators.base import CAUSES, F64, NULL, AnyArray, Changes, Finals, Items, Traces

I64 = npt.NDArray[np.int64]
KeyValues = Callable[[I64], pa.Table]
_Block = TypeVar("_Block", Changes, Traces)
_STAMP = pa.timestamp("us", "UTC")
_CAUSES = pa.array(CAUSES, pa.string())
_SIGNS = pa.array(["-", "+"], pa.string())
_FIXED: Final[Mapping[str, Callable[[Changes, I64], pa.Array]]] = {
    "changed_at": lambda changes, mine: pa.array(changes.at[mine]).cast(_STAMP),
    "step": lambda changes, mine: pa.array(changes.step[mine].astype(np.int64)),
    "pos": lambda changes, mine: pa.array(changes.pos[mine].astype(np.int32)),
    "change": lambda changes, mine: _SIGNS.take(pa.array((changes.sign[mine] > 0).astype(np.int8))),
    "cause": lambda changes, mine: _CAUSES.take(pa.array(changes.cause[mine])),
}
"""The values of the columns of ``base.columns.changes_layout`` that are the same in every job, less ``batch_id``."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one query's result did in a call: its ``changes`` with their ``rows``, and the points of its trajectory with theirs."""

    changes: Changes
    rows: pa.Table
    traces: Traces | None = None
    points: pa.Table | None = None


class ItemRows:
    """Builds blocks of ``<query>_changes`` and ``<state>_skyband`` rows (all columns but ``batch_id``)."""

    def __init__(self, config: HostConfig, objects: Mapping[tuple[str, ...], ObjectNumbers], codes: TextCodes) -> None:
        self.config = config
        self.objects = objects
        self.codes = codes
        self.schema = config.host_schema()
        self.by_operator: list[list[QueryNode]] = [[] for _ in config.operators]
        for q in config.queries:
            self.by_operator[q.operator].append(q)
        for queries in self.by_operator:
            queries.sort(key=lambda q: q.index)
        self.members = {q.name: pa.array(q.members, pa.string()) for q in config.queries if q.members}

    def entry(self, operator: int, query: int) -> str:
        """The spec's entry that query number ``query`` of an operator belongs to."""
        queries = self.by_operator[operator]
        return queries[0 if queries[0].members else query].name

    def changes(self, operator: int, changes: Changes, store: WindowStore, keys: KeyValues) -> Iterator[tuple[str, pa.Table]]:
        """(query, rows) for every query of ``operator`` that changed."""
        for q in self.by_operator[operator]:
            mine = np.arange(len(changes)) if q.members else np.nonzero(changes.query == q.index)[0]
            if not len(mine):
                continue
            key = changes.key[mine]
            columns: list[tuple[str, pa.Array | pa.ChunkedArray]] = []
            for part in changes_layout(q.item.lasting):
                if part is Group.STREAM:
                    if q.members:
                        columns.append((QUERY_COLUMN, self.members[q.name].take(pa.array(changes.query))))
                    columns += self._key_columns(keys, key)
                elif part is Group.ITEM:
                    columns += self._items(q, key, changes.items[mine], store)
                    columns += self._carried_values(q.item.carried, changes.values, mine)
                elif isinstance(part, Values):
                    columns += _values(q, changes.score, changes.values, mine)
                elif isinstance(part, Column) and part.name != BATCH:
                    columns.append((part.name, _FIXED[part.name](changes, mine)))
            yield q.name, _table(columns)

    def trajectories(self, operator: int, traces: Traces, store: WindowStore, keys: KeyValues) -> Iterator[tuple[str, pa.Table]]:
        """(query, points) for every query of ``operator`` with points of trajectories."""
        for q in self.by_operator[operator]:
            mine = np.nonzero(traces.query == q.index)[0]
            if not len(mine):
                continue
            key = traces.key[mine]
            columns: list[tuple[str, pa.Array | pa.ChunkedArray]] = list(self._key_columns(keys, key))
            columns += self._items(q, key, traces.items[mine], store)
            columns += self._carried_values(q.item.carried, traces.values, mine)
            columns.append(("valid_from", pa.array(traces.at[mine]).cast(_STAMP)))
            columns += _values(q, traces.values.get(SCORE, np.empty(0)), traces.values, mine)
            yield q.name, _table(columns)

    def results(
        self, operator: int, changes: Changes, rows: Mapping[str, pa.Table], points: Mapping[str, pa.Table]
    ) -> dict[str, Result]:  # fmt: skip
        """Return what the queries of an operator changed of which there are ``rows`` of changes or ``points`` of trajectories."""
        found = {}
        for q in (q for q in self.by_operator[operator] if q.name in rows or q.name in points):
            mine, traces = _of_query(changes, changes.query == q.index), changes.traces
            if traces is not None:
                traces = _of_query(traces, traces.query == q.index)
            found[q.name] = Result(mine, rows.get(q.name, pa.table({})), traces, points.get(q.name))
        return found

    def finals(self, operator: int, finals: Finals, store: WindowStore, keys: KeyValues) -> Iterator[tuple[str, pa.Table]]:
        """(query, rows) for every query of ``operator`` with results of windows that have closed."""
        for q in self.by_operator[operator]:
            mine = np.nonzero(finals.query == q.index)[0]
            if not len(mine):
                continue
            key = finals.key[mine]
            columns: list[tuple[str, pa.Array | pa.ChunkedArray]] = list(self._key_columns(keys, key))
            columns += [
                ("window_start", pa.array(finals.start[mine]).cast(_STAMP)),
                ("window_end", pa.array(finals.end[mine]).cast(_STAMP)),
                ("rank", pa.array(finals.rank[mine].astype(np.int32))),
            ]
            columns += self._items(q, key, finals.items[mine], store)
            columns += self._carried_values(q.item.carried, finals.values, mine)
            columns += _values(q, finals.values.get(SCORE, np.empty(0)), finals.values, mine)
            yield q.name, _table(columns)

    def skyband(self, operator: int, items: Items, store: WindowStore, keys: KeyValues, bucket: int) -> pa.Table:
        """Return the whole skyband of this bucket, without objects that have left the window since."""
        q = self.by_operator[operator][0]
        alive = np.ones(len(items.key), bool)
        for j, part in enumerate(q.item.parts):
            if part.is_row:
                alive &= store.has(items.key, items.items[:, j])
        mine = np.nonzero(alive)[0]
        key = items.key[mine]
        columns = list(self._key_columns(keys, key))
        columns += self._items(q, key, items.items[mine], store, carried=self._carried(operator))
        columns += _values(q, items.score, items.extra, mine)
        columns += [(v.name, _nullable(items.extra[v.name][mine]).cast(arrow_type(v.type))) for v in q.item.extra]
        columns.append(("bucket", pa.array(np.full(len(mine), bucket, np.int32))))
        return _table(columns)

    def _carried(self, operator: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for q in self.by_operator[operator] for c in q.carry))

    def _key_columns(self, keys: KeyValues, key: I64) -> Iterator[tuple[str, pa.ChunkedArray]]:
        if self.config.intake.partition_by:
            values = keys(key)
            for name in self.config.intake.partition_by:
                yield name, values[name]

    def _items(
        self, q: QueryNode, key: I64, items: I64, store: WindowStore, carried: tuple[str, ...] | None = None
    ) -> list[tuple[str, pa.Array | pa.ChunkedArray]]:
        intake = self.config.intake
        rows: dict[int, tuple[pa.Table, I64]] = {
            j: store.take(key, items[:, j]) for j, part in enumerate(q.item.parts) if part.is_row
        }  # fmt: skip
        named = {j: self.objects[p.columns].rows(items[:, j]) for j, p in enumerate(q.item.parts) if not p.is_row}
        columns: list[tuple[str, pa.Array | pa.ChunkedArray]] = []
        for c in q.item.columns(intake.id, q.carry if carried is None else carried, intake.partition_by):
            if c.what == "seq":
                columns.append((c.name, pa.array(np.ascontiguousarray(items[:, c.part]))))
            elif c.what == "time":
                columns.append((c.name, pa.array(rows[c.part][1]).cast(_STAMP)))
            elif c not in q.item.carried:
                columns.append((c.name, (named[c.part] if c.what == "object" else rows[c.part][0])[c.source]))
        return columns

    def _carried_values(
        self, carried: Iterable[ItemColumn], values: Mapping[str, AnyArray], mine: I64
    ) -> Iterator[tuple[str, pa.Array]]:  # fmt: skip
        for c in carried:
            found, type_ = values[c.name][mine], self.schema.field(c.source).type if c.type is None else arrow_type(c.type)
            if pa.types.is_string(type_):
                yield c.name, self.codes.decode(found)
            elif pa.types.is_temporal(type_):
                yield c.name, _nullable(found).cast(_STAMP).cast(type_)
            else:
                yield c.name, (_nullable(found) if found.dtype == np.int64 else pa.array(found, from_pandas=True)).cast(type_)


def _of_query(block: _Block, mine: npt.NDArray[np.bool_]) -> _Block:
    """Return the rows ``mine`` of changes or of traces, without what belongs to several queries."""
    arrays: dict[str, Any] = {f.name: column[mine] for f in fields(block) if isinstance(column := getattr(block, f.name), np.ndarray)}
    return replace(block, **arrays, values={name: column[mine] for name, column in block.values.items()})


def _values(q: QueryNode, score: F64, values: Mapping[str, AnyArray], mine: I64) -> Iterator[tuple[str, pa.Array]]:
    for v in q.item.values:
        if v.nullable:
            yield v.name, pa.array((score if v.name == SCORE else values[v.name])[mine], from_pandas=True)
        elif v.name == SCORE:
            yield v.name, pa.array(score[mine])
        else:
            yield v.name, _nullable(values[v.name][mine]).cast(arrow_type(v.type))


def _nullable(values: AnyArray) -> pa.Array:
    """An operator's column; ``NULL`` of an int64 column as null."""
    return pa.array(values, mask=values == NULL) if values.dtype == np.int64 else pa.array(values)


def _table(columns: list[tuple[str, pa.Array | pa.ChunkedArray]]) -> pa.Table:
    return pa.table([c for _, c in columns], names=[n for n, _ in columns])
