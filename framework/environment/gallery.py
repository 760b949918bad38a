"""Plans that together use the kernels of most jobs, and rehearsals of them: what a bundle of kernels is compiled from.

The plans are those of the query types' examples, of the package's specs and of ``gallery.yaml``, each also with keys, with deletions, as a
change feed and with a window of time. Rehearsals take made-up rows in several batches, with restarts between them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import FOUND, HOST
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Field, Plan, SourceNode
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.csv import cells
from skyband.framework.sources.csv.quote_kernel import plain_quotes
from skyband.framework.sources.json.arrow_reader import JsonArrowReader, names_of
from skyband.framework.sources.json.line_kernel import plain_lines
from skyband.framework.spec.load import validated_file
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.hashes import xxhash64
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.rows.shards import Shards
from skyband.operators.shards import can_be_sharded
from skyband.operators.single_rows.scores import Linear, read_only, scorer

_PACKAGE: Final = Path(__file__).parents[2]
_BATCHES, _ROWS = 4, 120
_LONG, _LONG_ROWS = "long", 3_000
"""Name the job whose batches are long, and say how many rows these have."""
_SECONDS: Final = 20
"""Event time from one made-up row to the next: windows of some minutes lose rows."""
_START: Final = 1_600_000_000_000_000
_GONE, _OPERATION = "gone", "op"
"""Columns that variants of a plan add: whether a row deletes another one, and what a row of a change feed does."""
_WORDS: Final = ("a", "red", "green", "blue", "old", "new", "door", "roof", "light", "water")


VARIATIONS: Final = ("plain", "keyed", "deleted", "feed", "timed")
"""What variants of a plan are."""


class Variant(NamedTuple):
    """Holds a plan of the gallery, its name, and which of ``VARIATIONS`` it is."""

    name: str
    variation: str
    plan: Plan


def specs() -> Iterator[Path]:
    """Yield the paths of the files of specs that the gallery is made of."""
    yield from sorted((_PACKAGE / "framework" / "queries").glob("*/example.yaml"))
    yield from sorted((_PACKAGE / "specs").glob("*.yaml"))
    yield Path(__file__).with_name("gallery.yaml")


def variants(path: Path) -> Iterator[Variant]:
    """Yield the plans of a file of specs and those made of them. Queries that do not support a variation are left out of it."""
    for number, spec in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8"))):
        spec.pop("tests", None)
        name = path.parent.name if path.stem == "example" else path.stem
        for variation, made in _variations(spec).items():
            if (plan := _plan(path, made)) is not None:
                yield Variant(f"{name} {number} {variation}", variation, plan)


def _variations(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a spec and specs made of it, by name."""
    found = {name: deepcopy(spec) for name in VARIATIONS}
    if "schema" not in spec["source"]:
        return {"plain": spec}
    key = next((n for n, kind in spec["source"]["schema"].items() if kind == "string" and n not in spec["source"]["id"]), None)
    if key is None or "partition_by" in spec["source"]:
        del found["keyed"]
    else:
        found["keyed"]["source"]["partition_by"] = [key]
    found["deleted"]["source"]["schema"][_GONE] = "boolean"
    found["deleted"]["deletes"] = _GONE
    found["feed"]["source"]["schema"][_OPERATION] = "string"
    found["feed"]["source"]["op"] = {"column": _OPERATION, "insert": ["i"], "update": ["u"], "delete": ["d"]}
    if "count" in spec["window"]:
        found["timed"]["window"] = {"time": "1 day"}
        for query in found["timed"]["queries"].values():
            if "count" in query.get("window", ()):
                query["window"] = {"time": "10 minutes"}
    else:
        del found["timed"]
    return found


def _plan(path: Path, spec: Mapping[str, Any]) -> Plan | None:
    """Return the plan of a spec, without the queries that it does not support; None if there are no others."""
    if (plan := _compiled(path, spec)) is not None:
        return plan
    queries = {name: query for name, query in spec["queries"].items() if _compiled(path, {**spec, "queries": {name: query}}) is not None}
    return _compiled(path, {**spec, "queries": queries}) if queries else None


def _compiled(path: Path, spec: Mapping[str, Any]) -> Plan | None:
    """Return the plan of a spec as if it were in the directory of ``path``; None if it is not valid."""
    env = {"LANDING": "landing", "WAREHOUSE": "tables"}
    job = validated_file(path, env, yaml.safe_dump(spec, sort_keys=False).encode()).job
    if job is None:
        return None
    try:
        return compile_job(job)
    except SkybandError:
        return None


def score_columns() -> None:
    """Run the kernels of linear scores of one to eight columns, floats as they come from Arrow, and integers: one kernel for each."""
    for count in range(1, 9):
        names = [f"c{number}" for number in range(count)]
        floats, integers = read_only(np.zeros(1)), np.zeros(1, np.int64)
        for column, ints in ((floats, frozenset[str]()), (integers, frozenset(names))):
            scorer(Linear(tuple((name, 1.0) for name in names), ints), None, "max", ())(dict.fromkeys(names, column), 1)


def read_texts() -> None:
    """Run the kernels that read files and hash ids, which rehearsals do without."""
    for kind, text in (("bigint", "7"), ("int", "7"), ("double", "0.5"), ("date", "2024-02-29"), ("timestamp", "2024-02-29 23:59:59.5")):
        cells.read(pa.array([text, None]), kind, least=0)
    plain_quotes(np.frombuffer(b'a,"b ""c"""\n', np.uint8), ord(","), True)
    line, fields = b'{"id": "a"}\n', (Field("id", "string", "text", "id"),)
    plain_lines(np.frombuffer(line, np.uint8), np.frombuffer(b"id", np.uint8), np.array([0, 2]), np.array([0]))
    source = SourceNode("json", "", (), fields)
    list(JsonArrowReader("", False, source, fields).rows(line, names_of(source, fields)))
    for column in (pa.array(["text"]), pa.array([1])):
        xxhash64([column], 1, 0)


def rehearse(plan: Plan) -> dict[str, pa.Table]:
    """Run made-up rows through a job, once with restarts and once with shards, if it can have them. Return the tables of the former.

    Raises SkybandError SKY-E531 if the job has SQL that only Spark can evaluate.
    """
    plan = replace(plan, buckets=1)
    batches = list(_batches(plan))
    job = Rehearsal(plan)
    for batch in batches:
        job.drop(batch)
        job.restart()
    job.finish()
    if any(can_be_sharded(node.operator) for node in plan.operators):
        _rehearse_shards(plan, batches)
    return job.tables()


def _rehearse_shards(plan: Plan, batches: list[list[dict[str, Any]]]) -> None:
    """Run rows through a bucket with two shards, and restart them from their states."""
    config = replace(HostConfig.of(plan, (), "gallery"), shards=Shards(2, 1))
    rows, newest = Rows(plan.intake), 0
    hosts = [Bucket(config, 0), *(Bucket(config.of_shard(number), 0) for number in range(2))]
    states: list[dict[str, bytes]] = [{}, {}, {}]
    for batch in batches:
        packed = [m for b in Pack(config, clock=lambda: None)(iter(rows.table(batch).to_batches())) for m in b.to_pylist()]
        data = [m["data"] for m in packed if m["node"] == HOST]
        found = [block for shard in hosts[1:] for kind, block in shard.run(data, newest) if kind.endswith(FOUND)]
        hosts[0].run(data, newest, found=found)
        newest = max(newest, max(row[plan.intake.event_time] for row in batch) // 1000 - plan.intake.delay_ms)
        for number, host in enumerate(hosts):
            values, dropped = host.save()
            states[number] |= values
            for name in dropped:
                states[number].pop(name, None)
            hosts[number] = Bucket.restore(host.config, 0, states[number].get)


def _batches(plan: Plan) -> Iterator[list[dict[str, Any]]]:
    """Yield batches of made-up source rows, whose times are out of order by less than two rows' time."""
    rng = random.Random(1)
    fields = [f for f in plan.intake.fields if f.source_name is not None]
    tokens = {t.column for t in plan.intake.tokens}
    rows = _LONG_ROWS if plan.job == _LONG else _ROWS
    for first in range(0, _BATCHES * rows, rows):
        batch = []
        for number in range(first, first + rows):
            again = rng.random() < 0.2 and number > 20
            of = number - rng.randrange(1, 20) if again else number
            row = {f.name: _value(f.type, of if f.name in plan.intake.id else rng.randrange(12), f.name in tokens, rng) for f in fields}
            row[plan.intake.event_time] = _START + (number * _SECONDS + rng.randrange(_SECONDS)) * 1_000_000
            if _GONE in row:
                row[_GONE] = again
            if _OPERATION in row:
                row[_OPERATION] = rng.choice("ud") if again else "i"
            batch.append(row)
        yield batch


def _value(kind: str, number: int, words: bool, rng: random.Random) -> Any:
    """Return a value of a type that is made of ``number``; of ``words``, if it is a column of tokens."""
    if kind.startswith("array<"):
        part = kind.removeprefix("array<").removesuffix(">")
        return [_value(part, rng.randrange(12), words, rng) for _ in range(4)]
    if kind == "string":
        return " ".join(rng.sample(_WORDS, 4)) if words else f"v{number}"
    if kind == "timestamp":
        return _START + number * 1_000_000
    if kind == "boolean":
        return number % 2 == 0
    if kind == "binary":
        return str(number).encode()
    return Decimal(number) if kind.startswith("decimal") else float(number) if kind in ("double", "float") else number
