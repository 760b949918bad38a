"""Schemas of Avro in a spec: rebuilt, with nothing of them but names and types; columns that lose nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.sources.kafka.avro_schema import columns, rebuilt
from skyband.framework.sources.kafka.client import AVRO, JAR
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.spark.packages import packages

SPEC = """\
job: readings
source:
  format: kafka
  options:
    servers: "b:1"
    topic: readings
    value: avro
    MORE
    avro_schema: |
      SCHEMA
  schema: {sensor: string, at: {type: timestamp, from: sent}, x: COLUMN, p: {type: int, from: $partition}}
  id: [sensor, at]
  event_time: {column: at}
window: {count: 10}
scoring: {x: {expression: x, direction: max}}
queries:
  best: {type: topk, scoring: x, k: 2}
sink: {path: /srv/out}
"""


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields], **more}


FIELDS = (("sensor", "string"), ("sent", {"type": "long", "logicalType": "timestamp-millis"}), ("x", ["null", "float"]))


def found(schema: object, column: str = "double", more: str = 'framing: "confluent"') -> list[tuple[str, str]]:
    said = schema if isinstance(schema, str) else json.dumps(schema)
    text = SPEC.replace("SCHEMA", said).replace("COLUMN", column).replace("MORE", more)
    return [(e.code, e.message) for e in validate_text(text, {})[1]]


def test_what_is_taken_and_what_it_needs() -> None:
    assert found(record(*FIELDS)) == found(record(*FIELDS), "float", "start: latest") == []
    job, _ = validate_text(SPEC.replace("SCHEMA", json.dumps(record(*FIELDS))).replace("COLUMN", "double").replace("MORE", "rows: '5'"), {})
    assert job is not None and packages(compile_job(job)) == (JAR, AVRO)


@pytest.mark.parametrize(
    "schema, column, more, code, said",
    [
        ("{", "double", "", "SKY-E114", "not JSON"), ('"string"', "double", "", "SKY-E114", "not a record"),
        (record(*FIELDS), "int", "", "SKY-E114", "cannot be read as int"), (record(*FIELDS[:2]), "double", "", "SKY-E114", "no field 'x'"),
        (record(*FIELDS), "double", "framing: thrift", "SKY-E114", "'framing' is"),
        (record(*FIELDS), "double", "sep: ';'", "SKY-E119", "values in CSV"),
    ],
)  # fmt: skip
def test_what_is_refused(schema: object, column: str, more: str, code: str, said: str) -> None:
    errors = found(schema, column, more)
    assert errors[0][0] == code and said in errors[0][1], errors


def test_a_schema_is_needed_and_of_avro_alone() -> None:
    text = SPEC.replace("    MORE\n", "").replace("COLUMN", "double").replace("    avro_schema: |\n      SCHEMA\n", "")
    assert [(e.code, e.message) for e in validate_text(text, {})[1]] == [
        ("SKY-E111", "source.options needs 'avro_schema' for values in Avro")
    ]
    other = text.replace("value: avro", "value: json").replace("    topic:", "    framing: none\n    topic:")
    assert [(e.code, e.message) for e in validate_text(other, {})[1]] == [("SKY-E119", "'framing' is for values in Avro")]


def test_nothing_but_names_and_types_is_left() -> None:
    said = record(
        ("a", {"type": "string", "java-class": "java.io.File", "default": "x"}),
        ("b", {"type": "array", "items": {"type": "string", "avro.java.string": "String"}, "java-element-class": "Evil"}),
        ("c", {"type": "enum", "name": "n.e", "symbols": ["X", "Y"], "aliases": ["z"]}),
        ("d", ["null", "e"]), ("e", {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal"}),
        ("f", {"type": "int", "logicalType": "date"}), ("g", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("h", {"type": "map", "values": "int"}), ("i", ["int", "string"]),
        doc="x", namespace="a.b", **{"java-class": "Evil"},
    )  # fmt: skip
    made = rebuilt(json.dumps(said))
    types = {f["name"]: f["type"] for f in made["fields"]}
    assert types == {
        "a": {"type": "string"}, "b": {"type": "array", "items": {"type": "string"}},
        "c": {"type": "enum", "name": "e", "symbols": ["X", "Y"]},
        "d": ["null", "e"], "e": {"type": "fixed", "name": "f", "size": 4}, "f": {"type": "int", "logicalType": "date"},
        "g": {"type": "long"}, "h": {"type": "map", "values": "int"}, "i": ["int", "string"],
    }  # fmt: skip
    assert set(made) == {"type", "name", "fields"} and "Evil" not in json.dumps(made)
    read = columns(made)
    assert read["a"] == ("string",) and read["b"] == ("array<string>",) and read["c"] == ("string",) and read["f"] == ("date",)
    assert read["g"] == ("bigint",) and read["e"] == read["h"] == read["i"] == ()


@pytest.mark.parametrize(
    "schema, said",
    [
        (record(("a", "r")), "no type that is known"), (record(("a", "null")), "no type"), (record(), "without fields"),
        (record(("a", {"type": "array", "items": "null"})), "no type"), 
        (record(("a", "int"), ("a", "int")), "each its own"),
        (record(("a-b", "int")), "no name"), (record(("a", {"type": "fixed", "name": "f", "size": 0})), "a size"),
        (record(("a", {"type": "enum", "name": "r2", "symbols": []})), "without symbols"),
        ({**record(("a", "int")), "name": "skyband_x"}, "name"),
        (record(("a", 5)), "a type is"), (record(("a", {"type": "enum", "name": "e", "symbols": ["A"]}),
         ("b", {"type": "enum", "name": "x.e", "symbols": ["A"]})), "two types"),
    ],
)  # fmt: skip
def test_what_is_no_schema(schema: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rebuilt(json.dumps(schema))


def test_what_is_too_deep() -> None:
    deep: Any = "int"
    for _ in range(30):
        deep = {"type": "array", "items": deep}
    with pytest.raises(ValueError, match="deeper"):
        rebuilt(json.dumps(record(("a", deep))))
    with pytest.raises(ValueError, match=r"not JSON|deeper"):
        rebuilt('{"type":' * 12_000)


def test_a_type_within_a_type() -> None:
    """A type may be given by an object, or a list, in another one."""
    made = rebuilt(json.dumps({"type": record(("a", {"type": {"type": "long"}}), ("b", {"type": ["null", "int"]}))}))
    assert {f["name"]: f["type"] for f in made["fields"]} == {"a": {"type": "long"}, "b": ["null", "int"]}
    with pytest.raises(ValueError, match="a type is"):
        rebuilt(json.dumps(record(("a", {"type": {"type": None}}))))
