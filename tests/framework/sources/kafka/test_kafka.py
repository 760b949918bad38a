"""A topic as a source: what a spec may say of it, and what Spark is handed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.sources.kafka.format import KafkaFormat
from skyband.framework.sources.kafka.records import taken
from skyband.framework.spec.load import validate_text

SPEC = """\
job: readings
source:
  format: kafka
  options: {OPTIONS}
  schema:
    sensor: SENSOR
    at: timestamp
    x: double
  id: [sensor, at]
  event_time: {column: at, watermark: 1 day}
window: {count: 10}
scoring: {x: {expression: x, direction: max}}
queries:
  best: {type: topk, scoring: x, k: 2}
sink: {path: /srv/out}
"""
ENV = {"SECRET": 's3cr"et\\', "KAFKA": "a:1,b:2"}
GOOD = "servers: 'broker:9092', topic: readings"


def found(options: str, sensor: str = "string") -> list[tuple[str, int, str]]:
    text = SPEC.replace("OPTIONS", options).replace("SENSOR", sensor)
    return [(e.code, e.where.line if e.where else 0, e.message) for e in validate_text(text, ENV)[1]]


@pytest.mark.parametrize(
    "options, sensor",
    [
        (GOOD, "string"), ("servers: '${KAFKA}', topic: a.b_c-d, value: csv, sep: ';', start: latest, rows: '5'", "string"),
        (GOOD + ", user: me, password: '${SECRET}', mechanism: PLAIN, tls: 'true'", "string"), (GOOD, "{type: string, from: $key}"),
        (GOOD + ", key: json", "{type: string, from: $key.name}"), (GOOD, "{type: bigint, from: $offset}"),
    ],
)  # fmt: skip
def test_what_a_topic_takes(options: str, sensor: str) -> None:
    assert found(options, sensor) == []


@pytest.mark.parametrize(
    "options, sensor, code, said",
    [
        ("topic: readings", "string", "SKY-E111", "needs 'servers'"), ("servers: 'b:1'", "string", "SKY-E111", "needs 'topic'"),
        ("servers: b, topic: t", "string", "SKY-E114", "HOST:PORT"), ("servers: 'b:1', topic: 'a,b'", "string", "SKY-E114", "one topic"),
        ("servers: 'b:1', topic: '..'", "string", "SKY-E114", "one topic"),
        (GOOD + ", kafka.sasl.jaas.config: com.sun.security.auth.module.JndiLoginModule", "string", "SKY-E119", "does not take"),
        (GOOD + ", subscribePattern: '.*'", "string", "SKY-E119", "does not take"),
        (GOOD + ", failOnDataLoss: 'false'", "string", "SKY-E119", "does not take"),
        (GOOD + ", value: xml", "string", "SKY-E114", "'value' is"), (GOOD + ", sep: ';'", "string", "SKY-E119", "values in CSV"),
        (GOOD + ", user: me, password: open", "string", "SKY-E119", "does not stand in a spec"),
        (GOOD + ", user: me", "string", "SKY-E111", "needs 'password'"), (GOOD, "{type: string, from: $ofset}", "SKY-E114", "nothing"),
        (GOOD, "{type: string, from: $offset}", "SKY-E114", "bigint"), (GOOD, "{type: string, from: $key.a}", "SKY-E114", "keys in JSON"),
    ],
)  # fmt: skip
def test_what_it_refuses_and_where(options: str, sensor: str, code: str, said: str) -> None:
    (only,) = found(options, sensor)
    assert only[0] == code and only[1] in (4, 6) and said in only[2], only


def test_a_path_is_refused() -> None:
    text = SPEC.replace("OPTIONS", GOOD).replace("SENSOR", "string").replace("  format: kafka\n", "  format: kafka\n  path: /srv/in\n")
    assert [(e.code, e.message) for e in validate_text(text, ENV)[1]] == [("SKY-E119", "a topic has no path")]


def test_the_client_is_handed_checked_values_and_no_other() -> None:
    from skyband.framework.sources.kafka.spark_reader import client

    given = {"servers": "a:1", "topic": "t", "user": 'm"e', "password": ENV["SECRET"], "tls": "true", "rows": "5"}
    assert client(given) == {
        "kafka.bootstrap.servers": "a:1", "subscribe": "t", "failOnDataLoss": "true", "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="m\\"e" password="s3cr\\"et\\\\";',
    }  # fmt: skip
    assert client({"servers": "a:1", "topic": "t"})["kafka.security.protocol"] == "PLAINTEXT"


def test_what_has_been_taken_is_between_the_first_batch_and_the_last_that_is_done(tmp_path: Path) -> None:
    assert taken(tmp_path) == ({}, {})
    for directory in ("commits", "offsets", "sources/0"):
        (tmp_path / directory).mkdir(parents=True)
    for batch, ends in enumerate(({"0": 5}, {"0": 9, "1": 4}, {"0": 20, "1": 20})):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'t': ends})}\n-\n")
        if batch < 2:
            (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    with pytest.raises(SkybandError, match="offsets of the source"):
        taken(tmp_path)
    (tmp_path / "sources" / "0" / "0").write_text('\0v1\n{"t":{"0":2}}')
    assert taken(tmp_path) == ({"t": {"0": 2, "1": 0}}, {"t": {"0": 9, "1": 4}})


@pytest.mark.parametrize(
    "said, part",
    [
        ("[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost", "no longer in the topic"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x", "no such topic"),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed", "refuse the login"),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: describeTopics", "no broker"),
    ],
)
def test_the_engines_errors_in_the_users_words(said: str, part: str) -> None:
    error = KafkaFormat().failure(said, None)
    assert error is not None and error.code == "SKY-E301" and part in error.message and error.hint
    assert KafkaFormat().failure("something else", None) is None
