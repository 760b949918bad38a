"""Random damage to source files, and every reader of them: a value or an error with a code, never a library's.

``python -m tests.framework.sources.fuzz [cases] [first seed]`` runs many.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.types import readable
from skyband.framework.guess.draft import draft
from skyband.framework.plan.model import Plan
from skyband.framework.preview.judged import judged, share_of
from skyband.framework.sources.kafka.avro_schema import columns, rebuilt
from skyband.framework.sources.kafka.records import taken
from skyband.framework.sources.text.line_limit import too_large
from skyband.framework.storage.location import location
from tests.specs import plan_of_text, spec_text

SCHEMA = "{id: bigint, ts: timestamp, s: string, x: double, day: date, d: 'decimal(10,2)', tags: array<string>}"
QUERIES = {"scoring": "{x: {expression: x, direction: max}}", "queries": "{best: {type: topk, scoring: x, k: 2, carry: [day, d]}}"}
ODD_JSON: list[Any] = [
    None, True, 0, -1, 1.5, 2**63, -(10**40), 1e308, "", "x", "\ud800", "\U0001f600", "\0", "9" * 5_000, [], {}, [[]], [None],
    {"a": {"b": 1}},
    "19701-01-01", 2024, "1.25", "1e999999999", "1e-999999999", "24:00:00", "2020-01-01T00:00:00Z",
]  # fmt: skip
LINES = [
    b"[" * 100_000, b'{"a":' * 100_000, b'{"id":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b'{"id": ' + b"9" * 5_000 + b"}", b"\xff\xfe\x80",
    b'{"s": "\\ud800"}', b'{"\\ud800": 1}', b"{'s': '\\ud800'}", b'{"s": "\\ud800\\udc00"}',
    b'"', b"'", b",,,,,,", b"\0" * 64, b"1e999", b"{}", b"[]",
    b'{"day": "\\udfff", "id": 1}', b"1," * 3_000, b'"' * 999,
]  # fmt: skip


TABLE = pa.schema({
    "id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "s": pa.string(), "x": pa.float64(), "day": pa.date32(), "d": pa.decimal128(10, 2),
    "tags": pa.list_(pa.string()),
})  # fmt: skip
AVRO: Any = {"type": "record", "name": "r", "fields": [
    {"name": "sensor", "type": "string"}, {"name": "sent", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "x", "type": ["null", "float"], "default": None}, {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "e", "type": {"type": "enum", "name": "n.e", "symbols": ["X", "Y"]}},
    {"name": "f", "type": {"type": "fixed", "name": "f", "size": 4}},
]}  # fmt: skip
ODD_NAMES: list[Any] = [
    "../v.parquet", "/etc/passwd", "file:///etc/passwd", "s3://b/x", "a%2F..%2F..%2Fb", "x" * 300, "%", "%00", "array", "struct",
    "decimal(99,2)",
    "decimal(10,2)", "timestamp_ntz", "variant", "void", {"type": "struct", "fields": []}, {"type": "array"}, 3, 7, 10**18,
]  # fmt: skip
DEEP = json.dumps("INT").replace("INT", '{\\"type\\":\\"array\\",\\"containsNull\\":true,\\"elementType\\":' * 3_000)
ACTIONS: list[dict[str, Any]] = [
    {"add": {"path": "p", "partitionValues": {}, "size": 10**18, "modificationTime": 0, "dataChange": True}},
    {"add": {"path": "p", "partitionValues": {"s": None}, "size": -1, "modificationTime": -1, "dataChange": True, "stats": "{"}},
    {"add": {"path": "p", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True, "deletionVector": {
        "storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1, "sizeInBytes": 2**31 - 1, "cardinality": 2**62}}},
    {"add": {"path": "p", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True, "deletionVector": {
        "storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40, "cardinality": 6}}},
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping", "deletionVectors", "x"],
                  "writerFeatures": ["columnMapping"]}},
    {"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}},
    {"metaData": {"id": "x", "format": {"provider": "orc", "options": {}}, "schemaString": json.loads(DEEP), "partitionColumns": ["none"],
                  "configuration": {"delta.columnMapping.mode": "name", "delta.checkpoint.writeStatsAsStruct": "maybe"}}},
    {"sidecar": {"path": "x", "sizeInBytes": 1, "modificationTime": 0}}, {"checkpointMetadata": {"version": -1}}, {"cdc": {"path": "x"}},
]  # fmt: skip


def rows(rng: random.Random) -> list[dict[str, Any]]:
    at = datetime(2020, 1, 1, tzinfo=UTC)
    return [
        {"id": i, "ts": (at + timedelta(seconds=i)).isoformat(), "s": "a", "x": i / 2, "day": "2020-01-01", "d": 1.25, "tags": ["a"]}
        for i in range(rng.randrange(1, 6))
    ]


def typed_rows(rng: random.Random) -> list[dict[str, Any]]:
    at, day = datetime(2020, 1, 1, tzinfo=UTC), date(2020, 1, 1)
    return [{**row, "ts": at + timedelta(seconds=row["id"]), "day": day, "d": Decimal("1.25")} for row in rows(rng)]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some bytes replaced, left out, doubled or put between."""
    for _ in range(rng.randrange(4)):
        at, size = rng.randrange(len(data) + 1), rng.choice([1, 1, 4, 40])
        data = data[:at] + rng.choice([b"", rng.randbytes(size), data[at : at + size] * 2, rng.choice(LINES)]) + data[at + size :]
    return data


def text_file(rng: random.Random, form: str) -> bytes:
    made = rows(rng)
    for row in made:
        if rng.random() < 0.5:
            row[rng.choice(list(row))] = rng.choice(ODD_JSON)
    if form == "json":
        lines = [json.dumps(r).encode() for r in made]
    else:
        lines = [",".join(made[0]).encode(), *(",".join(str(v) for v in r.values()).encode("utf-8", "surrogatepass") for r in made)]
    if rng.random() < 0.5:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(LINES))
    return rng.choice([b"\n", b"\n", b"\r\n"]).join(lines) + b"\n"


def typed_file(rng: random.Random, form: str) -> bytes:
    n = rng.randrange(1, 5)
    whole = [rng.choice([0, 1, -1, 2**63 - 1, -(2**63), 253_402_300_800_000_000]) for _ in range(n)]
    days = pa.array([rng.choice([0, 2**31 - 1, -(2**31), 2_932_897]) for _ in range(n)], pa.int32()).cast(pa.date32())
    stamps = pa.array(whole, pa.int64()).cast(pa.timestamp(rng.choice(["us", "ns", "ms"]), rng.choice([None, "UTC"])))
    made: dict[str, Any] = {
        "id": pa.array(range(n), pa.int64()), "ts": stamps, "s": pa.array(["a"] * n), "x": pa.array([0.5] * n), "day": days,
        "d": pa.array([None] * n, pa.decimal128(10, 2)), "tags": pa.array([["a"]] * n),
    }  # fmt: skip
    if rng.random() < 0.5:
        made[rng.choice(list(made))] = rng.choice([pa.nulls(n), days, stamps, pa.array([b"\xff"] * n), pa.array([{"a": 1}] * n)])
    out = pa.BufferOutputStream()
    write: Callable[[pa.Table, Any], None] = pq.write_table if form == "parquet" else pyarrow.orc.write_table
    try:
        write(pa.table(made), out)
    except pa.ArrowException:
        return b""
    return bytes(out.getvalue().to_pybytes())


def delta_table(rng: random.Random, directory: Path) -> None:
    """Write a Delta table of some commits, then damage its log, its files, or both."""
    path = str(directory)
    for n in range(rng.randrange(1, 4)):
        partition = ["s"] if rng.random() < 0.2 and n == 0 else None
        write_deltalake(path, pa.Table.from_pylist(typed_rows(rng), TABLE), mode="append" if n else "error", partition_by=partition)
        if rng.random() < 0.2:
            DeltaTable(path).delete("id = 0")
        if rng.random() < 0.3:
            DeltaTable(path).create_checkpoint()
    log = directory / "_delta_log"
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        files = sorted(p for p in directory.rglob("*") if p.is_file())
        if not files:
            break
        in_log = [p for p in files if p.parent == log]
        file = rng.choice(in_log if in_log and rng.random() < 0.7 else files)
        kind = rng.randrange(9)
        if kind < 4 and file.suffix == ".json":
            _write(file, b"\n".join(_action(rng, line) for line in file.read_bytes().splitlines()))
        elif kind < 6:
            _write(file, damaged(rng, file.read_bytes()))
        elif kind == 6:
            file.unlink()
        elif kind == 7:
            _write(file, rng.choice(LINES) if rng.random() < 0.5 else rng.choice(files).read_bytes())
        else:
            number = rng.choice([0, 1, 2, 3, 7, 10**19])
            name = rng.choice(
                ["{:020}.json", "{:020}.checkpoint.parquet", "_last_checkpoint", "{:020}.json.tmp", "x{:020}.json", "{:020}.crc"]
            )
            _write(
                log / name.format(number),
                rng.choice([*LINES, b"", file.read_bytes() if file.exists() else b"", typed_file(rng, "parquet")]),
            )


def _write(file: Path, data: bytes) -> None:
    if file.parent.is_dir() and not file.is_dir():
        file.write_bytes(data)


def _action(rng: random.Random, line: bytes) -> bytes:
    """Return a line of a log with another value, without one, or with one more."""
    try:
        action = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if rng.random() < 0.4 or not isinstance(action, dict):
        return line
    if rng.random() < 0.15:
        action |= rng.choice(ACTIONS)
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = [action]
    while todo:
        value = todo.pop()
        names = list(value) if isinstance(value, dict) else range(len(value))
        places += [(value, name) for name in names]
        todo += [value[name] for name in names if isinstance(value[name], (dict, list))]
    if not places:
        return line
    holder, name = rng.choice(places)
    if isinstance(holder[name], str) and holder[name].startswith("{") and rng.random() < 0.7:
        holder[name] = _action(rng, holder[name].encode()).decode("utf-8", "replace")  # schemaString, stats
    elif rng.random() < 0.2 and isinstance(holder, dict):
        del holder[name]
    else:
        holder[name] = rng.choice([*ODD_JSON, *ODD_NAMES])
    return json.dumps(action).encode()


def kafka(rng: random.Random, directory: Path) -> None:
    """Read a damaged Avro schema, and the offsets of a damaged checkpoint. Raises whatever is no error of ours."""
    schema = json.dumps(AVRO).encode()
    for _ in range(rng.randrange(4)):
        schema = _action(rng, schema) if rng.random() < 0.7 else damaged(rng, schema)
    try:
        json.dumps(columns(rebuilt(schema.decode("utf-8", "replace"))))
    except ValueError as e:
        assert str(e), schema
    log = json.dumps({"topic": {"0": 5, "1": 7}}).encode()
    files = {"commits/0": b"v1\n{}", "offsets/0": b"v1\n{}\n" + log, "sources/0/0": b"\0v1\n" + log}
    for name, data in files.items():
        path = directory / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = rng.randrange(4)
        if kind:
            path.write_bytes(data if kind == 1 else damaged(rng, data) if kind == 2 else data.replace(log, _action(rng, log)))
    try:
        taken(location(directory / "checkpoint"))
    except SkybandError as e:
        assert e.code == "SKY-E303", e


def plan_of(directory: Path, form: str, multi: bool) -> Plan:
    options = "{multiLine: true}" if multi else None
    schema = SCHEMA if form != "csv" else SCHEMA.replace("array<string>", "string")
    return plan_of_text(spec_text("small", schema, format=form, path=str(directory), options=options, window="{count: 9}", **QUERIES))


def case(seed: int, directory: Path) -> None:
    """Read one damaged source by every reader. Raises whatever is no error of ours."""
    rng = random.Random(seed)
    form = rng.choice(["json", "json", "csv", "csv", "parquet", "orc", "delta", "delta", "kafka"])
    shutil.rmtree(directory, ignore_errors=True)
    if form == "kafka":
        kafka(rng, directory)
        return
    if form == "delta":
        delta_table(rng, directory)
    else:
        _damaged_file(rng, form, directory)
    plan = plan_of(directory, form, multi=form == "json" and rng.random() < 0.3)

    def preview() -> None:
        found = judged(plan)
        json.dumps([*readable(found.rows).to_pylist(), *(readable(t).to_pylist() for t in found.tables.values())], default=str).encode()

    for read in (preview, lambda: share_of(plan), lambda: draft(directory, directory.parent / "spec.yaml")[0].encode()):
        try:
            read()
        except SkybandError as e:
            assert e.code != "SKY-E900", e
            e.render().encode()


def _damaged_file(rng: random.Random, form: str, directory: Path) -> None:
    data = text_file(rng, form) if form in ("csv", "json") else typed_file(rng, form)
    data = damaged(rng, data) if rng.random() < 0.7 else data
    packed = form in ("csv", "json") and rng.random() < 0.2
    if packed:
        data = damaged(rng, gzip.compress(data))
    directory.mkdir()
    path = directory / f"a.{form}{'.gz' if packed else ''}"
    path.write_bytes(data)
    if form != "orc":
        too_large(plan_of(directory, form, multi=False).source, str(path))


def main(cases: int, first: int) -> None:
    with tempfile.TemporaryDirectory(prefix="skyband-fuzz-") as scratch:
        for seed in range(first, first + cases):
            try:
                case(seed, Path(scratch) / "in")
            except Exception as e:
                e.add_note(f"case {seed}")
                raise
    print(f"{cases:,} damaged sources: each read, or refused with a code")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
