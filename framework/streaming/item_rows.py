"""From an operator's numbers to rows of tables: which objects, which keys, in the user's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.plan.model import QueryNode
from skyband.framework.spec.names import QUERY_COLUMN
from skyband.framework.streaming.config import HostConfig
from skyband.framework.streaming.store import WindowStore
from skyband.operators.base import CAUSES, NULL, AnyArray, Changes, Items

I64 = npt.NDArray[np.int64]
KeyValues = Callable[[I64], pa.Table]
_STAMP = pa.timestamp("us", "UTC")
_CAUSES = pa.array(CAUSES, pa.string())
_SIGNS = pa.array(["-", "+"], pa.string())


class ItemRows:
    """Builds blocks of ``<query>_changes`` and ``<state>_skyband`` rows (all columns but ``batch_id``)."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config
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
            if q.members:
                columns.append((QUERY_COLUMN, self.members[q.name].take(pa.array(changes.query))))
            columns += self._key_columns(keys, key)
            columns += [
                ("at", pa.array(changes.at[mine]).cast(_STAMP)),
                ("step", pa.array(changes.step[mine].astype(np.int64))),
                ("pos", pa.array(changes.pos[mine].astype(np.int32))),
                ("change", _SIGNS.take(pa.array((changes.sign[mine] > 0).astype(np.int8)))),
            ]
            columns += self._items(q, key, changes.items[mine], store)
            if q.scored:
                columns.append(("score", pa.array(changes.score[mine])))
            columns.append(("cause", _CAUSES.take(pa.array(changes.cause[mine]))))
            yield q.name, _table(columns)

    def skyband(self, operator: int, items: Items, store: WindowStore, keys: KeyValues, bucket: int) -> pa.Table:
        """The whole skyband of this bucket; what has left the window since is left out."""
        q = self.by_operator[operator][0]
        alive = np.ones(len(items.key), bool)
        for j in range(items.items.shape[1]):
            alive &= store.has(items.key, items.items[:, j])
        mine = np.nonzero(alive)[0]
        key = items.key[mine]
        columns = list(self._key_columns(keys, key))
        columns += self._items(q, key, items.items[mine], store, carried=self._carried(operator))
        if q.scored:
            columns.append(("score", pa.array(items.score[mine])))
        for name, values in items.extra.items():
            columns.append((name, _nullable(values[mine])))
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
        columns: list[tuple[str, pa.Array | pa.ChunkedArray]] = []
        for j, role in enumerate(q.roles):
            rows, times = store.take(key, items[:, j])
            prefix = f"{role}_" if role else ""
            for name in intake.id:
                if prefix or name not in intake.partition_by:
                    columns.append((prefix + name, rows[name]))
            columns.append((prefix + "seq", pa.array(np.ascontiguousarray(items[:, j]))))
            columns.append((prefix + "time", pa.array(times).cast(_STAMP)))
            for name in q.carry if carried is None else carried:
                columns.append((prefix + name, rows[name]))
        return columns


def _nullable(values: AnyArray) -> pa.Array:
    """An operator's column; ``NULL`` of an int64 column as null."""
    return pa.array(values, mask=values == NULL) if values.dtype == np.int64 else pa.array(values)


def _table(columns: list[tuple[str, pa.Array | pa.ChunkedArray]]) -> pa.Table:
    return pa.table([c for _, c in columns], names=[n for n, _ in columns])
