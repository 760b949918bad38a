"""Values in Avro: records written by hand, byte by byte, and read by the library; what is none is rejected."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.broker import broker
from tests.spark.jobs import run_apart, table, verified_apart

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = {
    "type": "record", "name": "reading", "fields": [
        {"name": "sensor", "type": "string"}, {"name": "sent", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "x", "type": ["null", "double"]}, {"name": "rest", "type": {"type": "array", "items": "int"}},
    ],
}  # fmt: skip
SPEC = """\
job: readings
source:
  format: kafka
  options: {{servers: "{servers}", topic: {topic}, value: avro, framing: {framing}, avro_schema: '{schema}'}}
  schema: {{sensor: string, at: {{type: timestamp, from: sent}}, x: double, n: {{type: bigint, from: $offset}}}}
  id: [n]
  event_time: {{column: at, watermark: 1 day}}
window: {{count: 100}}
scoring: {{x: {{expression: x, direction: max}}}}
queries:
  best: {{type: topk, scoring: x, k: 3, carry: [sensor]}}
quality: {{max_rejected: 100%}}
sink: {{path: "{directory}/out"}}
"""
WRITE = """\
import sys
from skyband.framework.sources.kafka.client import JAR
from skyband.framework.streaming.spark.session import get_session
spark = get_session(packages=(JAR,))
for topic in sys.argv[2].split(","):
    rows = [(bytearray.fromhex(v) if v != "-" else None,) for v in open(f"{sys.argv[3]}/{topic}").read().split()]
    frame = spark.createDataFrame(rows, "value binary").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", sys.argv[1]).option("topic", topic).save()
"""


def whole(n: int) -> bytes:
    """A whole number: zigzag, seven bits a byte."""
    left, out = (n << 1) ^ (n >> 63), b""
    while left > 0x7F:
        out, left = out + bytes([left & 0x7F | 0x80]), left >> 7
    return out + bytes([left])


def encoded(sensor: str, micros: int, x: float | None, rest: list[int]) -> bytes:
    """A record of the schema."""
    name = sensor.encode()
    union = whole(0) if x is None else whole(1) + struct.pack("<d", x)
    items = (whole(len(rest)) + b"".join(map(whole, rest)) if rest else b"") + whole(0)
    return whole(len(name)) + name + whole(micros) + union + items


def test_records_in_avro(tmp_path: Path) -> None:
    at = 1_600_000_000_000_000
    good = [encoded(f"s{i}ü", at + i, x, [i] * i) for i, x in enumerate((1.5, None, -2.25, 9.0))]
    bad = [good[0][:-1], good[0][:6], good[0] + b"\0", b"", b"\xff" * 20, whole(2**40) + b"x"]
    plain = [*good, *bad]
    framed = [b"\0\0\0\0\7" + g for g in good] + [good[0], b"\1\0\0\0\7" + good[0], b"\0\0", b"\0\0\0\0\7" + bad[0]]
    for topic, values in (("plain", plain), ("framed", framed)):
        (tmp_path / topic).write_text("\n".join([*(v.hex() or "-" for v in values), "-"]))
    with broker(tmp_path / "broker") as kafka:
        for topic in ("plain", "framed"):
            kafka.topic(topic, 1)
        written = subprocess.run(
            [sys.executable, "-c", WRITE, kafka.servers, "plain,framed", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert written.returncode == 0, written.stderr
        for topic, framing, values in (("plain", "none", plain), ("framed", "confluent", framed)):
            directory = tmp_path / f"job-{topic}"
            directory.mkdir()
            spec = directory / "spec.yaml"
            said = json.dumps(SCHEMA)
            spec.write_text(SPEC.format(servers=kafka.servers, topic=topic, framing=framing, schema=said, directory=directory))
            done = run_apart(spec, "--once", "--finish")
            assert done.returncode == 0, done.stderr
            best = [(r["n"], r["sensor"], r["score"]) for r in table(directory, "best_now").sort_by("rank").to_pylist()]
            assert best == [(3, "s3ü", 9.0), (0, "s0ü", 1.5), (2, "s2ü", -2.25)]
            assert {(r["n"], r["time"].microsecond) for r in table(directory, "best_changes").to_pylist()} == {(0, 0), (2, 2), (3, 3)}
            rejected = {r["origin"]: r["reason"] for r in table(directory, "rejected").to_pylist()}
            assert rejected == {f"{topic}/0@{n}": "parse" for n in range(len(good), len(values) + 1)}
            assert verified_apart(spec)
