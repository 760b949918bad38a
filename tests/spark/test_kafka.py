"""A topic as a source: the tables are those of the same rows in files, whatever is killed; what cannot be read is told."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.broker import Broker, broker
from tests.spark.cuts import stream, write
from tests.spark.equality import assert_equal_tables
from tests.spark.jobs import run_apart, start_apart, table, verified_apart, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]

ROWS = stream(11, 240)
OF_FILES = '  format: csv\n  path: "{directory}/in"\n  options: {{header: true}}\n'
OF_TOPIC = "  format: kafka\n  options: {{servers: '{servers}', topic: {topic}, value: csv, rows: '70'}}\n"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def spec_of(directory: Path, kafka: Broker, topic: str) -> Path:
    directory.mkdir()
    path = write_spec(directory, watermark="2 days", partition=True, buckets=2)
    before, after = OF_FILES.format(directory=directory), OF_TOPIC.format(servers=kafka.servers, topic=topic)
    text = path.read_text().replace(", max_files: 100", "")
    assert before in text
    path.write_text(text.replace(before, after))
    return path


def lines(rows: list[list[object]]) -> list[str]:
    return [",".join(str(c) for c in r) for r in rows]


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as a file, in one run."""
    directory = tmp_path_factory.mktemp("files") / "job"
    directory.mkdir()
    spec = write_spec(directory, watermark="2 days", partition=True, buckets=2)
    write(directory, ROWS, 1)
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    return directory


def test_a_topic_gives_the_tables_of_its_rows_in_files(kafka: Broker, left_alone: Path, tmp_path: Path) -> None:
    kafka.topic("plain")
    spec = spec_of(tmp_path / "job", kafka, "plain")
    kafka.write("plain", lines(ROWS[:100]))
    assert run_apart(spec).returncode == 0
    kafka.write("plain", [*lines(ROWS[100:]), "7,never,p,1,1,a", "k\t"])
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    odd = [r for r in table(tmp_path / "job", "rejected").to_pylist() if r["reason"] in ("parse", "null_id")]
    assert sorted((r["reason"], r["text"].startswith("7,never")) for r in odd) == [("null_id", False), ("parse", True)]
    assert all(r["origin"].startswith("plain/") and "@" in r["origin"] for r in odd)
    assert verified_apart(spec)
    same = {n: table(tmp_path / "job", n).num_rows for n in ("far5", "far3", "near4", "hourly")}
    assert same == {n: table(left_alone, n).num_rows for n in same} and min(same.values()) > 5


@pytest.mark.parametrize("failpoint", ["state.after", "engine.started"])
def test_a_killed_driver_changes_nothing(kafka: Broker, left_alone: Path, tmp_path: Path, failpoint: str) -> None:
    topic = failpoint.replace(".", "-")
    kafka.topic(topic)
    kafka.write(topic, lines(ROWS))
    spec = spec_of(tmp_path / "job", kafka, topic)
    assert run_apart(spec, failpoint=failpoint).returncode == -signal.SIGKILL
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    assert_equal_tables(tmp_path / "job", left_alone, same_cuts=False, same_files=False)
    assert verified_apart(spec)


def test_a_broker_that_comes_back_is_waited_for(kafka: Broker, left_alone: Path, tmp_path: Path) -> None:
    kafka.topic("back")
    spec = spec_of(tmp_path / "job", kafka, "back")
    kafka.write("back", lines(ROWS[:100]))
    assert run_apart(spec).returncode == 0
    kafka.write("back", lines(ROWS[100:]))
    kafka.stop()
    running = start_apart(spec, "--finish")
    kafka.start()
    _, said = running.communicate(timeout=600)
    assert running.returncode == 0, said
    assert_equal_tables(tmp_path / "job", left_alone, same_cuts=False, same_files=False)


def test_records_that_have_expired_are_named(kafka: Broker, tmp_path: Path) -> None:
    kafka.topic("short", 1)
    spec = spec_of(tmp_path / "job", kafka, "short")
    kafka.write("short", lines(ROWS[:50]))
    assert run_apart(spec).returncode == 0
    kafka.write("short", lines(ROWS[50:100]))
    kafka.expire("short", 0, 80)
    done = run_apart(spec)
    assert done.returncode == 3 and "SKY-E301 records that the job has not read are no longer in the topic" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    runs = table(tmp_path / "job", "runs").to_pylist()
    assert sum(r["rows_in"] for r in runs) == 50


def test_json_keys_and_places_are_columns(kafka: Broker, tmp_path: Path) -> None:
    kafka.topic("json", 1)
    (tmp_path / "spec.yaml").write_text(f"""\
job: readings
source:
  format: kafka
  options: {{servers: "{kafka.servers}", topic: json, key: json}}
  schema:
    sensor: {{type: string, from: $key.sensor}}
    at: {{type: timestamp, from: $timestamp}}
    n: {{type: bigint, from: $offset}}
    x: double
  id: [n]
  event_time: {{column: at, watermark: 1 day}}
window: {{count: 10}}
scoring: {{x: {{expression: x, direction: max}}}}
queries:
  best: {{type: topk, scoring: x, k: 2, carry: [sensor]}}
quality: {{max_rejected: 100%}}
sink: {{path: "{tmp_path}/out"}}
run: {{trigger: once}}
""")
    key = lambda name: json.dumps({"sensor": name})  # noqa: E731
    values = ['{"x": 1}', '{"x": 5}', '{"x": "?"}', "no json", '[{"x": 9}]', '{"x": 3}']
    kafka.write("json", [f"{key(f's{n}')}\t{v}" for n, v in enumerate(values)] + ['oops\t{"x": 99}'])
    done = run_apart(tmp_path / "spec.yaml", "--finish")
    assert done.returncode == 0, done.stderr
    best = [
        (r["n"], r["carry_sensor"] if "carry_sensor" in r else r["sensor"], r["score"])
        for r in table(tmp_path, "best_now").sort_by("rank").to_pylist()
    ]
    assert best == [(1, "s1", 5.0), (5, "s5", 3.0)]
    assert sorted(r["origin"] for r in table(tmp_path, "rejected").to_pylist()) == ["json/0@2", "json/0@3", "json/0@4", "json/0@6"]
