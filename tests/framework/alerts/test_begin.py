"""Where an alert begins and goes on: beside files that are damaged, that lie, or that name alerts which were removed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skyband.framework.alerts import alerts as alerts_module
from skyband.framework.alerts import messages
from skyband.framework.alerts.alerts import waiting
from skyband.framework.alerts.channels import Channel
from skyband.framework.alerts.messages import Summary
from skyband.framework.alerts.positions import Position, Positions, Request
from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.run import alerting
from tests.framework.alerts import defined
from tests.framework.alerts.jobs import QUERIES, Receiver, job_of, plan_of, receiver, rows_of, tables_of
from tests.framework.alerts.test_sender import ALERTS, Job, by_id

FORGED = "0" * 16


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return tables_of(plan_of(ALERTS, tmp_path_factory.mktemp("plan")), rows_of(1, 90), 10)


def send(job: Job, channel: Channel, upto: int) -> list[str]:
    """A run that commits the batches up to ``upto`` at once."""
    alerts = job.start(channel)
    if upto > job.upto:
        job.commit(upto)
    return [*alerts.committed(job.upto), *alerts.close()]


def frontier_of(job: Job, upto: int) -> int:
    rows = job.tables["runs"].filter(pc.field("batch_id") <= upto)
    return max(defined.micros(t) for t in rows["frontier"].to_pylist() if t is not None)


def file_of(job: Job) -> Path:
    return job.root / "_skyband" / "alerts.json"


def test_a_new_alert_tells_of_no_value_that_passed_before(hook: Receiver, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    old, new, channel = Job(tmp_path / "old", tables=tables), Job(tmp_path / "new", tables=tables), Channel("c", webhook=hook.url)
    assert send(old, channel, 5) == []
    before = len(hook.messages)
    assert send(old, channel, old.last) == []
    # The alert of the other job is new at batch 5: it sends what the first one sent after it.
    after = hook.messages[before:]
    new.commit(5)
    assert send(new, channel, 5) == [] and send(new, channel, new.last) == []
    sent = hook.messages[before + len(after) :]
    assert sorted(m["id"] for m in sent) == sorted(m["id"] for m in after) and len(after) > 20
    assert {m["on"] for m in sent} == {"enter", "leave", "above", "below"}


def test_a_new_alert_then_a_rebuild_sends_no_history(hook: Receiver, tmp_path: Path) -> None:
    rows, channel = rows_of(5, 80), Channel("c", webhook=hook.url)
    plan = plan_of(ALERTS, tmp_path / "job")
    old = Job(tmp_path / "job", tables=tables_of(plan, rows[:50], 10, finish=False))
    old.commit(old.last)
    # The alert is new: nothing of what is there is sent.
    assert old.run(channel) == [] and hook.messages == []
    new = Job(tmp_path / "new", generation="gen2", tables=tables_of(plan, rows, 20))
    new.commit(new.last)
    job_of(new.root)
    file_of(old).rename(file_of(new))
    assert new.run(channel) == []
    begun = frontier_of(old, old.last)
    sent = defined.told(hook.messages)
    assert sent == {told: n for told, n in new.expected().items() if told[4] >= begun} and sum(sent.values()) > 20


def test_a_rebuild_after_an_interrupted_first_run_sends_no_history(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, channel = rows_of(5, 80), Channel("c", webhook=hook.url)
    plan = plan_of(ALERTS, tmp_path / "job")
    old = Job(tmp_path / "job", tables=tables_of(plan, rows, 10), history=False)
    times = sorted(defined.micros(t) for t in old.tables["best_changes"]["changed_at"].to_pylist())
    began = times[2 * len(times) // 3]
    monkeypatch.setattr(alerts_module, "now_micros", lambda: began)
    # The first run reads half of the backlog only: the rest of the history is still in the source.
    assert send(old, channel, old.last // 2) == [] and frontier_of(old, old.last // 2) < began
    assert all(told[4] >= began for told in defined.told(hook.messages))
    new = Job(tmp_path / "new", generation="gen2", tables=old.tables, history=False)
    new.commit(new.last)
    job_of(new.root)
    file_of(old).rename(file_of(new))
    assert new.run(channel) == []
    sent = defined.told(hook.messages)
    assert sent == {told: n for told, n in new.expected().items() if told[4] >= began} and sum(sent.values()) > 20


def test_an_alert_that_was_removed_is_new_when_it_returns(tables: dict[str, pa.Table], tmp_path: Path) -> None:
    job = Job(tmp_path, tables=tables)
    layout, file = job_of(tmp_path)
    Positions(layout.home, ["all"]).save("all", Position("gen1", 3, FORGED))
    opened: Any = SimpleNamespace(plan=replace(job.plan, alerts=()), job=file)
    context: Any = SimpleNamespace(layout=layout)
    for _ in range(2):
        with alerting.Alerting(context) as without:
            without.begin(opened, 5)
        assert Positions(layout.home, ["all"]).get("all") is None and not file_of(job).exists()


def test_a_position_that_the_job_never_had(hook: Receiver, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    job, channel = Job(tmp_path, tables=tables), Channel("c", webhook=hook.url)
    assert send(job, channel, 4) == []
    # The batch after the last complete one may be in the tables already: that is no lie.
    job.upto = 3
    assert send(job, channel, 3) == []
    job.upto = 4
    sent = len(hook.messages)
    known = json.loads(file_of(job).read_text())
    assert known["alerts"]["all"]["batch"] == 4
    known["alerts"]["all"]["batch"] = 100
    file_of(job).write_text(json.dumps(known))
    # A sink that was restored from a backup, or a forged file: nothing would be sent for long, or ever.
    assert not job.caught_up
    assert any("alert all" in text and "ahead of the job's last batch" in text for text in send(job, channel, 4))
    assert send(job, channel, job.last) == []
    got = defined.told([m for m in hook.messages[sent:] if m["on"] in ("enter", "leave")])
    rest = {q: t.filter(pc.field("batch_id") > 4) for q, t in job.tables.items() if "batch_id" in t.column_names}
    assert got == defined.entered_and_left(rest, tuple(QUERIES))
    assert len(by_id(hook.bodies)) == len(hook.messages)


@pytest.mark.parametrize(
    "batch, sending",
    [(-(2**63), None), (-1, Request(100_000_000, True)), (0, Request(100_000_000, False)), (2, Request(1, True))],
)
def test_a_forged_file_chooses_nothing_but_what_is_repeated(
    batch: int, sending: Request | None, hook: Receiver, tables: dict[str, pa.Table], tmp_path: Path
) -> None:
    job = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10000, batch: 20}}", tables=tables)
    channel = Channel("c", webhook=hook.url)
    assert send(job, channel, 4) == []
    known = Positions(tmp_path / "_skyband", ["all"]).get("all")
    assert known is not None
    true, forged = by_id(hook.bodies), replace(known, batch=batch, sending=sending, frontier=2**62)
    Positions(tmp_path / "_skyband", ["all", "other"]).save("other", replace(forged, generation="gen9"))
    Positions(tmp_path / "_skyband", ["all", "other"]).save("all", forged)
    count = len(hook.bodies)
    assert send(job, channel, 4) == [] and job.caught_up
    again = [m for body in hook.bodies[count:] for m in json.loads(body)["messages"]]
    # The same messages once more, or one with their number; to this channel and for this alert only.
    assert again and all(m["on"] == "combined" or true[m["id"]] == json.dumps(m) for m in again) and len(again) <= len(true)
    assert {json.loads(body)["alert"] for body in hook.bodies} == {"all"}


def test_what_cannot_be_recorded_fails_no_run(hook: Receiver, tables: dict[str, pa.Table], tmp_path: Path) -> None:
    job = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10000}}", tables=tables)
    alerts = job.start(Channel("c", webhook=hook.url))
    job.commit(4)
    file_of(job).unlink()
    file_of(job).mkdir()
    news = [*alerts.committed(4), *alerts.close(3)]
    assert any("alert all" in text and "alerts.json" in text for text in news)
    file_of(job).rmdir()
    job.upto = 4
    # Nothing of what was not recorded is lost.
    assert send(job, Channel("c", webhook=hook.url), job.last) == []
    got = defined.told([json.loads(m) for m in by_id(hook.bodies).values()])
    rest = {q: t.filter(pc.field("batch_id") > 4) for q, t in job.tables.items() if "batch_id" in t.column_names}
    assert got == defined.entered_and_left(rest, tuple(QUERIES))


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    first, position = Positions(tmp_path, ["a"]), Position("gen1", 4, FORGED)
    (tmp_path / "alerts.json").mkdir()
    for _ in range(2):
        with pytest.raises(SkybandError):
            first.save("a", position)
    (tmp_path / "alerts.json").rmdir()
    first.save("a", position)
    assert Positions(tmp_path, ["a"]).get("a") == position


def test_what_waits_is_counted_in_parts(
    hook: Receiver, tables: dict[str, pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, tables=tables)
    assert send(job, Channel("c", webhook=hook.url), 1) == []
    sent = len(hook.messages)
    job.commit(job.last)
    most: list[int] = []
    by_batch = messages._by_batch

    def noted(rows: Any, order: Any) -> Any:
        most.append(len(set(rows["batch_id"].to_pylist())))
        return by_batch(rows, order)

    monkeypatch.setattr(messages, "ROWS", 1)
    monkeypatch.setattr(messages, "_by_batch", noted)
    layout, file = job_of(tmp_path)
    assert sum(waiting(job.plan, layout, file, job.last).values()) == sum(job.expected().values()) - sent
    assert max(most) == 1


def test_times_of_a_combined_message_are_in_order() -> None:
    times = ["2024-01-01T00:00:01Z", "2024-01-01T00:00:00.500000Z", "2024-01-01T00:00:01.250000Z", "2024-01-01T00:00:00Z"]
    for some in (times, times[::-1], times[2:] + times[:2]):
        summary = Summary("a", "j")
        for n, time in enumerate(some):
            summary.add({"on": "enter", "id": str(n), "time": time})
        made = summary.message()
        assert (made["from"], made["to"]) == ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01.250000Z")
