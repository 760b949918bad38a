"""Run the cases of the matrix: in memory, in memory with shards, or by the local engine over files and real tables."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.framework.base.messages import FOUND
from skyband.framework.plan.growth import sharded
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.shards import Shards
from tests.local.jobs import run
from tests.matrix.case import COLUMNS, DISK, EPOCH, GROUPS, LOYALTY, Case, Query, Row
from tests.matrix.definition import Expected, definition
from tests.spark.jobs import table
from tests.specs import plan_of_text

Tables = Mapping[str, pa.Table]
SHARDS = 2


class _WithShards:
    """Stands for the one bucket of a rehearsal: its shards search for its pairs, before it and over the same rows."""

    def __init__(self, config: HostConfig) -> None:
        self._given = config
        self.bucket = Bucket(self._sharded(), 0)
        self.shards = [Bucket(self._sharded().of_shard(n), 0) for n in range(SHARDS)]
        self._states: list[dict[str, bytes]] = [{} for _ in range(1 + SHARDS)]

    def _sharded(self) -> HostConfig:
        return replace(self._given, shards=Shards(SHARDS, 1))

    @property
    def config(self) -> HostConfig:
        return self._given

    @config.setter
    def config(self, config: HostConfig) -> None:
        self._given = config
        self.bucket.config = self._sharded()
        for n, shard in enumerate(self.shards):
            shard.config = self._sharded().of_shard(n)

    def run(self, data: Sequence[bytes], watermark: int, reached: int | None = None, flush: bool = False) -> Any:
        found = [m for shard in self.shards for kind, m in shard.run(data, watermark, reached, flush) if kind == FOUND]
        return self.bucket.run(data, watermark, reached, flush, found)

    def restart(self) -> None:
        """Stop the bucket and its shards, each of which has a state of its own, and restart them."""
        for bucket, state in zip((self.bucket, *self.shards), self._states, strict=True):
            values, dropped = bucket.save()
            state |= values
            for name in dropped:
                state.pop(name, None)
        own, *others = self._states
        self.bucket = Bucket.restore(self._sharded(), 0, own.get)
        self.shards = [Bucket.restore(self._sharded().of_shard(n), 0, state.get) for n, state in enumerate(others)]


class _ShardedRehearsal(Rehearsal):
    """A rehearsal with shards."""

    def __init__(self, plan: Plan) -> None:
        assert sharded(plan), "no query whose search shards share"
        super().__init__(plan)
        self._bucket: Any = _WithShards(self._bucket.config)

    def restart(self) -> None:
        """Stop the job and restart it from its state."""
        self._bucket.restart()


def differences(case: Case, directory: Path) -> list[str]:
    """Return what is wrong with the tables of a case. ``directory``: an empty one, for jobs on disk."""
    expected = definition(case)
    plan = plan_of_text(case.spec(str(directory)))
    tables = _on_disk(case, plan, directory) if case.options["source"] in DISK else _in_memory(case, plan)
    return compare(case, tables, expected)


def _in_memory(case: Case, plan: Plan) -> Tables:
    made = _ShardedRehearsal(plan) if case.options["source"] == "shards" else Rehearsal(plan)
    for batch in case.batches:
        made.drop(batch)
        if case.options["restarts"] == "restarts":
            made.restart()
    made.finish("end")
    return made.tables()


def _on_disk(case: Case, plan: Plan, directory: Path) -> Tables:
    """Run the job once for each batch, whose rows are in three files."""
    spec = directory / "spec.yaml"
    spec.write_text(case.spec(str(directory)), encoding="utf-8")
    (directory / "in").mkdir()
    for number, batch in enumerate(case.batches):
        for part in range(3):
            name = f"{number}{part}.{case.options['source']}"
            _write(directory / "in" / name, batch[part::3], number * 10 + part)
        run(spec, finish=number == len(case.batches) - 1)
    names = [path.name for path in (directory / "out").iterdir() if (path / "_delta_log").exists()]
    return {name: table(directory, name) for name in names}


def _write(path: Path, rows: Sequence[Row], at: int) -> None:
    if path.suffix == ".parquet":
        types = {"bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "string": pa.string(), "double": pa.float64()}
        pq.write_table(pa.table({n: pa.array([r[n] for r in rows], types[t]) for n, t in COLUMNS.items()}), path)
    else:
        shown = [{**r, "ts": _instant(r["ts"])} for r in rows]
        with path.open("w", newline="", encoding="utf-8") as f:
            if path.suffix == ".json":
                f.writelines(json.dumps(r) + "\n" for r in shown)
            else:
                out = csv.DictWriter(f, list(COLUMNS))
                out.writeheader()
                out.writerows(shown)
    os.utime(path, (1_600_000_000 + at, 1_600_000_000 + at))


def _instant(micros: int) -> str:
    return (EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# ---------------------------------------------------------------- comparison


def compare(case: Case, tables: Tables, expected: Expected) -> list[str]:
    """Return the first difference of every table from what it holds by definition."""
    found = []
    rejected = Counter(tables["rejected"]["reason"].to_pylist())
    if rejected != expected.rejected:
        found.append(f"rejected: {dict(rejected)} for {dict(expected.rejected)}")
    for query in case.queries:
        mine = _rows(tables[f"{query.name}_changes"])
        made = [_change(case, query, r) for r in mine]
        found += _first(f"{query.name}_changes", sorted(made, key=_in_order), sorted(expected.changes[query.name], key=_in_order))
        for name, rows, shape in (
            (f"{query.name}_trajectory", expected.points.get(query.name), _point),
            (f"{query.name}_final", expected.finals.get(query.name), _final),
        ):
            if rows is not None:
                found += _first(name, sorted((shape(case, query, r) for r in _rows(tables[name])), key=repr), sorted(rows, key=repr))
        if query.type != "matches":
            found += _first(f"{query.name}_now", sorted(_now(case, query, tables), key=repr), sorted(_members(expected, query), key=repr))
    return found


def _rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table, with instants in microseconds."""
    for i, f in enumerate(table.schema):
        if pa.types.is_timestamp(f.type):
            table = table.set_column(i, f.name, table.column(i).cast(pa.timestamp("us", f.type.tz)).cast(pa.int64()))
    return list(table.to_pylist())


def _in_order(change: tuple[Any, ...]) -> tuple[Any, ...]:
    key, _, step, pos, *_ = change
    return key, step, pos


def _first(name: str, got: list[Any], expected: list[Any]) -> list[str]:
    if got == expected:
        return []
    at = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), min(len(got), len(expected)))
    return [f"{name}: {len(got)} rows for {len(expected)}; row {at} is {got[at : at + 1]}, by definition {expected[at : at + 1]}"]


def _key(case: Case, row: Row) -> tuple[Any, ...]:
    return tuple(row[c] for c in case.keys)


def _object(case: Case, query: Query, row: Row) -> tuple[Any, ...]:
    """Return what identifies an item."""
    if query.type in GROUPS:
        return tuple(row[c] for c in query.fields["group"])
    if query.type in LOYALTY:
        return tuple(row[c] for c in _names(case, query))
    pair = [row[f"{side}_seq"] for side in _pair_sides(row)]
    return tuple(pair or [row["seq"]])


def _names(case: Case, query: Query) -> Sequence[str]:
    """Return the columns of an object's name: those of the spec, or what the query's result consists of."""
    if "object" in query.fields:
        return list(query.fields["object"])
    of = next(q for q in case.queries if q.name == query.fields["of"])
    return list(of.fields["group"]) if of.type in GROUPS else list(of.fields["object"])


def _pair_sides(row: Row) -> tuple[str, ...]:
    return next((sides for sides in (("older", "newer"), ("a", "b")) if f"{sides[0]}_seq" in row), ())


def _values(case: Case, query: Query, row: Row) -> tuple[Any, ...]:
    if query.type in GROUPS:
        carried = [c.removesuffix(")").replace("(", "_").removesuffix("_") for c in query.fields.get("carry", ())]
        return (row["score"], *(row[c] for c in carried))
    if query.type in LOYALTY:
        return round(row["loyalty_seconds"] * 1_000_000), row["slope"]
    if sides := _pair_sides(row):
        return (*(row[f"{side}_id"] for side in sides), row["score"])
    return (row["id"], row["time"], *([row["score"]] if "score" in row else []))


def _change(case: Case, query: Query, row: Row) -> tuple[Any, ...]:
    at = row["changed_at"], row["step"], row["pos"], row.get("change", "+"), row.get("cause", "arrival")
    return (_key(case, row), *at, _object(case, query, row), _values(case, query, row))


def _point(case: Case, query: Query, row: Row) -> tuple[Any, ...]:
    return _key(case, row), row["valid_from"], _object(case, query, row), _values(case, query, row)


def _final(case: Case, query: Query, row: Row) -> tuple[Any, ...]:
    return _key(case, row), row["window_end"], row["rank"], _object(case, query, row), _values(case, query, row)


def _now(case: Case, query: Query, tables: Tables) -> list[tuple[Any, ...]]:
    return [(_key(case, r), _object(case, query, r)) for r in _rows(tables[f"{query.name}_now"])]


def _members(expected: Expected, query: Query) -> list[tuple[Any, ...]]:
    """Return (key, item) of the last result, by adding up the changes."""
    found = set[tuple[Any, ...]]()
    for key, _, _, _, sign, _, item, _ in expected.changes[query.name]:
        (found.add if sign == "+" else found.discard)((key, item))
    return list(found)
