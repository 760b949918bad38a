"""Alerts of real runs: killed after a request, with a receiver that answers 500, at rest, and after a rebuild."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.framework.alerts.jobs import Receiver, receiver
from tests.spark.broker import broker
from tests.spark.cuts import stream, write
from tests.spark.jobs import run_apart, table, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = stream(12, 160)
QUERIES = ("far5", "near4")
ALERTS = "alerts:\n  pairs: {channel: pager, queries: [far5, near4], every: 0 seconds, at_most: 10000, batch: 20, history: true}\n"


def told(hook: Receiver) -> dict[str, tuple[object, ...]]:
    """The messages by id: (query, key, step, pos, kind). A repeated one has the same bytes."""
    found: dict[str, str] = {}
    for message in hook.messages:
        assert found.setdefault(message["id"], json.dumps(message)) == json.dumps(message)
    said = (json.loads(text) for text in found.values())
    return {m["id"]: (m["query"], m["key"]["grp"], m["step"], m["pos"], m["on"]) for m in said}


def held(directory: Path) -> list[tuple[object, ...]]:
    """The same of the rows of the tables of changes."""
    rows = [(q, r) for q in QUERIES for r in table(directory, f"{q}_changes").to_pylist()]
    return sorted((q, r["grp"], r["step"], r["pos"], {"+": "enter", "-": "leave"}[r["change"]]) for q, r in rows)


def test_every_change_is_told_once_to_a_receiver_that_drops_what_it_has(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    directory.mkdir()
    spec = write_spec(directory, watermark="2 days", partition=True, buckets=2, job="pairs")
    spec.write_text(spec.read_text() + ALERTS)
    write(directory, ROWS, 4, slice(0, 1))
    refused = run_apart(spec, failpoint="engine.started", SKYBAND_CHANNELS="")
    assert refused.returncode == 2 and "SKY-E661 alert 'pairs' of job 'pairs' needs channel 'pager'" in refused.stderr, refused.stderr
    with receiver() as hook:
        channels = tmp_path / "channels.toml"
        channels.write_text('[pager]\nwebhook = "${HOOK}"\n')
        channels.chmod(0o600)
        env = {"SKYBAND_CHANNELS": str(channels), "HOOK": hook.url}
        assert run_apart(spec, "--finish", failpoint="alerts.sent", **env).returncode == -signal.SIGKILL
        assert hook.bodies
        write(directory, ROWS, 4, slice(1, 3))
        done = run_apart(spec, "--finish", **env)
        assert done.returncode == 0 and "alert" not in done.stderr, done.stderr
        assert sorted(told(hook).values()) == held(directory) and len(hook.messages) > len(told(hook)) > 40
        hook.status = 500
        write(directory, ROWS, 4, slice(3, 4))
        done = run_apart(spec, "--finish", **env)
        assert done.returncode == 0 and "could not be sent to channel pager: it answered 500" in done.stderr, done.stderr
        assert hook.url not in done.stderr and sorted(told(hook).values()) != held(directory)
        hook.status = 200
        # At rest: what waits is sent without an engine.
        done = run_apart(spec, "--finish", failpoint="engine.started", **env)
        assert done.returncode == 0, done.stderr
        assert sorted(told(hook).values()) == held(directory)
        # A rebuild makes the same changes again and tells nobody, nor does the run after it.
        count, words = len(hook.messages), [sys.executable, "-m", "skyband.jobs.cli", "rebuild", str(spec), "--finish"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        done = run_apart(spec, "--finish", failpoint="engine.started", **env)
        assert done.returncode == 0 and len(hook.messages) == count, done.stderr


def test_a_topic_gets_a_record_for_each_message(tmp_path: Path) -> None:
    directory, channels = tmp_path / "job", tmp_path / "channels.toml"
    directory.mkdir()
    spec = write_spec(directory, watermark="2 days", partition=True, buckets=2, job="pairs")
    spec.write_text(spec.read_text() + ALERTS.replace("batch: 20", "batch: 1000"))
    with broker(tmp_path / "kafka") as kafka:
        channels.write_text(f'[pager]\nkafka = {{servers = "{kafka.servers}", topic = "alerts"}}\n')
        channels.chmod(0o600)
        kafka.topic("alerts", 1)

        def records() -> dict[str, tuple[object, ...]]:
            found: dict[str, str] = {}
            for _, _, _, key, value in kafka.read("alerts"):
                assert found.setdefault(key, value) == value
            said = {key: json.loads(value) for key, value in found.items()}
            assert all(m["id"] == key and (m["format"], m["job"], m["alert"]) == (1, "pairs", "pairs") for key, m in said.items())
            return {key: (m["query"], m["key"]["grp"], m["step"], m["pos"], m["on"]) for key, m in said.items()}

        def run_until_sent() -> None:
            # On a slow machine Spark may need longer than the end of a run waits: then the next run sends the rest.
            for _ in range(4):
                done = run_apart(spec, "--finish", SKYBAND_CHANNELS=str(channels))
                assert done.returncode == 0, done.stderr
                if "alert" not in done.stderr:
                    break
            assert sorted(records().values()) == held(directory)

        write(directory, ROWS, 3, slice(0, 1))
        run_until_sent()
        assert len(records()) > 20
        kafka.stop()
        write(directory, ROWS, 3, slice(1, 3))
        done = run_apart(spec, "--finish", SKYBAND_CHANNELS=str(channels))
        assert done.returncode == 0 and "could not be sent to channel pager" in done.stderr and "Traceback" not in done.stderr, done.stderr
        kafka.start()
        run_until_sent()
