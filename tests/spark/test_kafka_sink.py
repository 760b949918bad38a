"""Changes sent to topics: whatever is killed, what a consumer has after dropping what it had already is what the tables hold."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.spark.broker import Broker, broker
from tests.spark.cuts import stream, write
from tests.spark.jobs import run_apart, table, verified_apart, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]

ROWS = stream(12, 240)
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
QUERIES = ("far5", "far3", "near4", "hourly")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def spec_of(directory: Path, job: str, said: str) -> Path:
    directory.mkdir()
    path = write_spec(directory, watermark="2 days", partition=True, buckets=2, job=job)
    text = path.read_text()
    assert '/out"}' in text
    path.write_text(text.replace('/out"}', f'/out", kafka: {{{said}}}}}'))
    return path


def row_of(value: dict[str, Any]) -> dict[str, Any]:
    """A record's value, as the table spells its row."""
    return {n: v.removesuffix("Z") if isinstance(v, str) and INSTANT.fullmatch(v) else v for n, v in value.items()}


def held(directory: Path, query: str) -> list[str]:
    """The rows of a change table as JSON."""
    rows = table(directory, f"{query}_changes").to_pylist()
    spelled = [{n: v.strftime("%Y-%m-%dT%H:%M:%S.%f") if hasattr(v, "strftime") else v for n, v in r.items()} for r in rows]
    return sorted(json.dumps(r, sort_keys=True) for r in spelled)


def consumed(records: Sequence[list[str]]) -> tuple[dict[str, list[str]], int]:
    """(rows as JSON by table, of what a consumer keeps, records that it had already).

    Asserts that a record that comes again is the same, and that those of a stream come in its order, in one partition.
    """
    seen: dict[tuple[str, int, int], str] = {}
    places: dict[str, tuple[str, tuple[int, int]]] = {}
    again = 0
    for partition, _, headers, key, value in records:
        said = dict(h.split(":") for h in headers.split(","))
        row = json.loads(value)
        step, pos = row["step"], row["pos"]
        assert (said["step"], said["pos"], said["table"]) == (str(step), str(pos), json.loads(key)["table"])
        if (key, step, pos) in seen:
            assert seen[key, step, pos] == headers + value
            again += 1
            continue
        before = places.get(key, (partition, (0, 0)))
        assert before[0] == partition and before[1] < (step, pos)
        places[key] = partition, (step, pos)
        seen[key, step, pos] = headers + value
    by: dict[str, list[str]] = {}
    for (key, _, _), text in seen.items():
        row = json.loads(text[text.index("{") :])
        assert json.loads(key).get("key", {}) == {n: row[n] for n in json.loads(key).get("key", {})}
        by.setdefault(json.loads(key)["table"], []).append(json.dumps(row_of(row), sort_keys=True))
    return {t: sorted(rows) for t, rows in by.items()}, again


def test_killed_before_and_after_sending_nothing_is_lost(kafka: Broker, tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = spec_of(directory, "kills", f"servers: '{kafka.servers}'")
    for query in QUERIES:
        kafka.topic(f"kills.{query}.changes")
    for part, failpoint in enumerate(("kafka.before", "kafka.sent", "sink.between:2")):
        write(directory, ROWS, 5, slice(part, part + 1))
        assert run_apart(spec, "--finish", failpoint=failpoint).returncode == -signal.SIGKILL
    write(directory, ROWS, 5, slice(3, 4))
    done = run_apart(spec)
    assert done.returncode == 0, done.stderr
    # A broker that is away, and comes back.
    kafka.stop()
    write(directory, ROWS, 5, slice(4, 5))
    done = run_apart(spec, "--finish")
    assert done.returncode == 3 and "SKY-E640 changes cannot be sent to Kafka: no broker answers" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    kafka.start()
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    found = [consumed(kafka.read(f"kills.{query}.changes")) for query in QUERIES]
    for query, (rows, _) in zip(QUERIES, found, strict=True):
        assert rows == {f"{query}_changes": held(directory, query)} and len(held(directory, query)) > 20
    assert sum(again for _, again in found) > 0
    assert verified_apart(spec)


def test_one_topic_that_comes_later_gets_all_and_a_run_at_rest_sends_nothing(kafka: Broker, tmp_path: Path) -> None:
    directory = tmp_path / "job"
    spec = spec_of(directory, "later", f"servers: '{kafka.servers}', topic: all-of-it, queries: [far3, near4]")
    text = spec.read_text()
    spec.write_text(text.replace(text[text.index(", kafka: ") : text.index("}}", text.index(", kafka: ")) + 1], ""))
    write(directory, ROWS, 2, slice(0, 1))
    assert run_apart(spec, "--finish").returncode == 0
    spec.write_text(text)
    kafka.topic("all-of-it")
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    first = kafka.read("all-of-it")
    rows, again = consumed(first)
    assert rows == {f"{q}_changes": held(directory, q) for q in ("far3", "near4")} and again == 0
    # At rest again: no engine is started, so nothing is sent.
    assert run_apart(spec, "--finish", failpoint="engine.started").returncode == 0
    assert kafka.read("all-of-it") == first
