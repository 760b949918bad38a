"""The registry has what batches add up to, by job and label."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skyband.framework.observe.metrics import all_metrics as m
from skyband.framework.observe.metrics import observer
from skyband.framework.observe.metrics.all_metrics import Metric
from skyband.framework.observe.metrics.observer import MetricsObserver
from skyband.framework.observe.metrics.registry import MOST, OTHERS, Distribution, Registry
from skyband.framework.sources.files.listing import listing as listing_of
from tests.framework.observe.metrics.batches import T0, batch, outcome, run
from tests.framework.streaming import checkpoints


def observed(registry: Registry, job: str = "flights", batches: int = 3) -> MetricsObserver:
    observer = MetricsObserver(registry, now=lambda: T0 + 100.0)
    observer.started(run(job))
    for number in range(batches):
        observer.committed(batch(number), datetime.fromtimestamp(T0 + number, UTC))
    return observer


def test_counters_add_up_and_gauges_are_the_last() -> None:
    registry = Registry()
    observed(registry)
    found = {metric.name: dict(samples) for metric, samples in registry.read().items()}
    assert found["skyband.rows"] == {("flights",): 300}
    assert found["skyband.rows.accepted"] == {("flights",): 270} and found["skyband.rows.filtered"] == {("flights",): 9}
    rejected = found["skyband.rows.rejected"]
    assert {k: n for k, n in rejected.items() if n} == {("flights", "late"): 15, ("flights", "rule:positive"): 6}
    assert ("flights", "duplicate_id") in rejected, "a counter that begins with its first value is not seen to rise"
    assert found["skyband.changes"] == {("flights", "near"): 12, ("flights", "far"): 9}
    assert found["skyband.rows.unusable"] == {("flights", "near"): 6} and found["skyband.rows.warned"] == {("flights", "odd"): 12}
    assert found["skyband.rows.pending"] == {("flights",): 5} and found["skyband.batches"] == {("flights",): 3}
    assert found["skyband.batch.id"] == {("flights",): 2} and found["skyband.batch.commit.timestamp"] == {("flights",): T0 + 2}
    assert found["skyband.task.time"][("flights", "load")] == 4.5 and found["skyband.task.time"][("flights", "operator")] == 0.75
    assert found["skyband.watermark.timestamp"] == {("flights",): T0 - 60} and found["skyband.watermark.lag"] == {("flights",): 160}
    assert found["skyband.newest.lag"] == {("flights",): 110}
    # Bucket 1 last ran in batch 1, bucket 0 in batch 2.
    assert found["skyband.state.rows"] == {("flights",): 51 + 52}
    assert found["skyband.state.size"] == {("flights", "memory"): 1000, ("flights", "disk"): 500}
    durations = found["skyband.batch.duration"][("flights",)]
    assert isinstance(durations, Distribution)
    assert durations.total == 6 and dict(durations.cumulated())["1.0"] == 0 and dict(durations.cumulated())["2.5"] == 3


def test_a_bound_is_part_of_its_bucket() -> None:
    found = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        found.observe(value)
    assert found.cumulated() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)] and found.total == 7.5


def test_jobs_are_apart_and_the_end_is_seen() -> None:
    registry = Registry()
    observed(registry, "a", 1)
    observed(registry, "b", 2).ended(outcome("failed", 3))
    found = registry.read()
    assert dict(found[m.ROWS]) == {("a",): 100, ("b",): 200}
    assert dict(found[m.RUN_ACTIVE]) == {("a",): 1, ("b",): 0} and dict(found[m.EXIT_CODE]) == {("b",): 3}


def test_labels_without_bound_end_in_one_sample() -> None:
    registry = Registry()
    for i in range(MOST + 50):
        registry.update(m.REJECTED_ROWS, "j", {(f"rule:{i}",): 1})
    registry.update(m.REJECTED_ROWS, "j", {("rule:0",): 1})
    found = dict(registry.read()[m.REJECTED_ROWS])
    assert len(found) == MOST + 1 and found[("j", OTHERS)] == 50 and found[("j", "rule:0")] == 2


def test_threads_lose_no_count() -> None:
    registry = Registry()

    def count() -> None:
        for _ in range(2_000):
            registry.update(m.BATCHES, "j", {(): 1})
            registry.read_one(m.BATCHES)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.read_one(m.BATCHES) == [(("j",), 8_000)]


def test_names_follow_prometheus_rules() -> None:
    names = [metric.prometheus for metric in m.METRICS]
    assert len(set(names)) == len(names) == len({metric.name for metric in m.METRICS})
    assert m.ROWS.prometheus == "skyband_rows_total" and m.STAGE_DURATION.prometheus == "skyband_batch_stage_duration_seconds"
    assert m.TASK_TIME.prometheus == "skyband_task_time_seconds_total" and m.STATE_SIZE.prometheus == "skyband_state_size_bytes"
    assert Metric("a.b", "gauge", "{row}", "").prometheus == "a_b"
    assert all(metric.prometheus_labels[0] == "skyband_job" for metric in m.METRICS)
    assert all((metric.kind == "histogram") == bool(metric.bounds) for metric in m.METRICS)


def test_the_backlog_is_the_files_that_no_batch_has_taken(tmp_path: Path) -> None:
    source, home, now = tmp_path / "in", tmp_path / "_skyband", [0.0]
    source.mkdir()
    for i in range(4):
        (source / f"{i}.csv").write_text("x" * (i + 1))
    log = home / "checkpoint" / "sources" / "0"
    part = SimpleNamespace(format="csv", path=str(source), options=(), number=0)
    plan = SimpleNamespace(source=SimpleNamespace(each=[("", part)]))
    waits = observer.SourceBacklog(plan, home, lambda: now[0])  # type: ignore[arg-type]
    assert waits.look() == (4, 10)
    checkpoints.write(log / "0", f'v1\n{{"path": "{(source / "0.csv").as_uri()}", "timestamp": 1, "batchId": 0}}')
    assert waits.look() == (4, 10), "the directory is not listed at every look"
    now[0] = 1e6
    assert waits.look() == (3, 9)
    (source / "0.csv").unlink()
    (source / "9.csv").write_text("yy")
    now[0] = 2e6
    assert waits.look() == (4, 11)


@pytest.mark.parametrize("path", ["s3://bucket/in", None])
def test_no_backlog_is_given_where_it_cannot_be_known(tmp_path: Path, path: str | None) -> None:
    part = SimpleNamespace(format="csv" if path else "rate", path=path, options=(), number=0)
    plan = SimpleNamespace(source=SimpleNamespace(each=[("", part)]))
    assert observer.SourceBacklog(plan, tmp_path).look() is None  # type: ignore[arg-type]


def test_many_clients_cause_one_look_at_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, home, now = tmp_path / "in", tmp_path / "_skyband", [0.0]
    source.mkdir()
    (source / "0.csv").write_text("x")
    part = SimpleNamespace(format="csv", path=str(source), options=(), number=0)
    waits = observer.SourceBacklog(SimpleNamespace(source=SimpleNamespace(each=[("", part)])), home, lambda: now[0])  # type: ignore[arg-type]
    assert waits.look() == (1, 1)
    listed, go_on, listing = threading.Semaphore(0), threading.Event(), listing_of

    def slow(node: Any) -> Any:
        found = listing(node)
        listed.release()
        assert go_on.wait(60)
        return found

    monkeypatch.setattr(observer, "listing", slow)
    now[0] = 1e6
    threads = [threading.Thread(target=waits.look, daemon=True) for _ in range(2)]
    threads[0].start()
    assert listed.acquire(timeout=60)
    # A batch takes a file that the first look has not seen, while a second client asks.
    (source / "1.csv").write_text("yy")
    log = home / "checkpoint" / "sources" / "0"
    checkpoints.write(log / "0", f'v1\n{{"path": "{(source / "1.csv").as_uri()}", "timestamp": 1, "batchId": 0}}')
    threads[1].start()
    threads[1].join(20)
    assert not threads[1].is_alive() and not listed.acquire(blocking=False)
    go_on.set()
    threads[0].join(60)
    now[0] = 2e6
    assert waits.look() == (1, 1), "a file that was taken during a look does not wait for ever"
