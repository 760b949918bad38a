"""Messages are sent at least once, and once if nothing fails: with real receivers that are down, slow or answer 500, and after kills."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skyband.framework.alerts import alerts as alerts_module
from skyband.framework.alerts import messages
from skyband.framework.alerts.alerts import Alerts, caught_up, refused, waiting
from skyband.framework.alerts.channels import Channel
from skyband.framework.alerts.positions import Positions
from skyband.framework.base.errors import SkybandError
from skyband.framework.console.receivers import LONGEST_RETRY_AFTER, retry_after
from tests.framework.alerts import defined
from tests.framework.alerts.jobs import QUERIES, VALUED, Receiver, job_of, last_of, plan_of, put, receiver, rows_of, tables_of

ALERTS = (
    "{all: {channel: c, every: 0 seconds, at_most: 10000, batch: 7}, "
    "values: {channel: c, queries: [best, groups, busy, traced], when: [value], above: 12, below: 0.7, every: 0 seconds, at_most: 10000}}"
)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@dataclass
class Job:
    """A job whose tables grow on disk batch by batch, and the runs that send its alerts."""

    root: Path
    alerts: str = ALERTS
    generation: str = "gen1"
    tables: dict[str, pa.Table] = field(default_factory=dict)
    upto: int = -1
    history: bool = True

    def __post_init__(self) -> None:
        plan = plan_of(self.alerts, self.root)
        self.plan = replace(plan, alerts=tuple(replace(a, history=self.history) for a in plan.alerts))
        self.tables = self.tables or tables_of(self.plan, rows_of(1, 90), 6)
        self.last = last_of(self.tables)
        put(self.root, self.tables, -2, -1)

    def commit(self, upto: int) -> None:
        put(self.root, self.tables, self.upto, upto)
        self.upto = upto

    def start(self, channel: Channel) -> Alerts:
        layout, job = job_of(self.root, self.generation)
        return Alerts(self.plan, layout, job, self.upto, {"c": channel})

    def run(self, channel: Channel, upto: int | None = None) -> list[str]:
        """A run that commits the batches up to ``upto``, one by one."""
        alerts = self.start(channel)
        news = []
        for batch in range(self.upto + 1, (self.upto if upto is None else upto) + 1):
            self.commit(batch)
            news += alerts.committed(batch)
        return [*news, *alerts.close()]

    @property
    def caught_up(self) -> bool:
        layout, job = job_of(self.root, self.generation)
        return caught_up(self.plan, layout, job, self.upto)

    def expected_changes(self) -> Counter[defined.Told]:
        """The messages about items that enter and leave."""
        return defined.entered_and_left(self.tables, tuple(QUERIES))

    def expected(self) -> Counter[defined.Told]:
        until = max(defined.micros(t) for t in self.tables["runs"]["frontier"].to_pylist() if t is not None)
        found = defined.entered_and_left(self.tables, tuple(QUERIES))
        for query in VALUED:
            found += defined.passed(self.tables, query, 12, 0.7, until)
        return found


def by_id(bodies: list[bytes]) -> dict[str, str]:
    """The messages by id, as JSON; asserts that a repeated one has the same bytes."""
    found: dict[str, str] = {}
    for body in bodies:
        for message in json.loads(body)["messages"]:
            text = json.dumps(message)
            assert found.setdefault(message["id"], text) == text
    return found


@pytest.mark.parametrize("cuts", [*(pytest.param(c, marks=pytest.mark.slow) for c in ((1000,), (5, 9, 1000))), (1, 2, 3, 4, 20)])
def test_once_each_whatever_the_runs(cuts: tuple[int, ...], hook: Receiver, tmp_path: Path) -> None:
    job, channel = Job(tmp_path), Channel("c", webhook=hook.url, headers=(("X-Key", "k"),))
    for cut in (*cuts, 1000):
        assert job.run(channel, min(cut, job.last)) == [] and job.caught_up
    assert defined.told(hook.messages) == job.expected() and len(by_id(hook.bodies)) == len(hook.messages)
    said = [json.loads(body) for body in hook.bodies]
    assert {(b["format"], b["job"], b["alert"]) for b in said} == {(1, "machines", "all"), (1, "machines", "values")}
    assert max(len(b["messages"]) for b in said if b["alert"] == "all") == 7
    assert all(h["X-Key"] == "k" and h["Content-Type"] == "application/json" for h in hook.headers)


class Killed(BaseException):
    """Ends a thread as a kill ends a process: nothing more is written."""


@pytest.mark.parametrize("point", ["alerts.before", "alerts.sent"])
def test_a_run_that_is_killed_is_repeated_with_the_same_bytes(
    point: str, hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    job, channel, hits = Job(tmp_path), Channel("c", webhook=hook.url), Counter[str]()
    kills, counting = {1, 3, 8}, threading.Lock()

    def failpoint(name: str) -> None:
        # Two alerts send at once: each of their threads has to see its own number.
        with counting:
            hits[name] += 1
            number = hits[name]
        if name == point and number in kills:
            raise Killed

    monkeypatch.setattr(alerts_module, "failpoint", failpoint)
    for upto in (2, 4, 6, job.last, job.last, job.last):
        job.run(channel, upto)
    # On a busy machine a request holds more messages, so there are fewer of them.
    killed = sum(n <= hits[point] for n in kills)
    assert killed >= 2 and job.caught_up
    assert Counter(defined.told([json.loads(m) for m in by_id(hook.bodies).values()])) == job.expected()
    again = Counter(hook.bodies)
    if point == "alerts.sent":
        # Whole requests are repeated.
        assert sorted(again.values())[-killed:] == [2] * killed and sum(again.values()) == len(again) + killed
    else:
        assert set(again.values()) == {1}


def test_a_receiver_that_answers_500_and_comes_back(hook: Receiver, tmp_path: Path) -> None:
    job, channel = Job(tmp_path), Channel("c", webhook=hook.url)
    hook.status = 500
    news = job.run(channel, 9)
    assert [n for n in news if "alert all: " in n and "to channel c: it answered 500" in n and "the next run sends what waits" in n]
    assert not job.caught_up and hook.bodies == []
    layout, file = job_of(tmp_path)
    done = {name: t.filter(pc.field("batch_id") <= 9) for name, t in job.tables.items() if "batch_id" in t.column_names}
    left = waiting(job.plan, layout, file, 9)
    assert left["all"] == sum(defined.entered_and_left(done, tuple(QUERIES)).values()) and left["values"] > 0
    hook.status = 200
    # A run that commits nothing sends what waits.
    assert job.run(channel) == [] and job.caught_up and waiting(job.plan, layout, file, 9) == {}
    assert len(hook.messages) == sum(left.values())
    assert job.run(channel, job.last) == []
    assert defined.told(hook.messages) == job.expected()


def test_a_receiver_that_is_down_and_one_that_hangs_delay_no_batch(hook: Receiver, tmp_path: Path) -> None:
    job, down = Job(tmp_path), Channel("c", webhook="http://127.0.0.1:9/x")
    assert any("Connection refused" in text for text in job.run(down, 3))
    hook.hang.clear()
    alerts = job.start(Channel("c", webhook=hook.url, seconds=30))
    hook.asked.acquire()
    for batch in range(4, 10):
        job.commit(batch)
        # Returns while a request hangs.
        assert alerts.committed(batch) == []
    assert hook.bodies == []
    left = alerts.close(0.2)
    assert len(left) == 2 and "could not be sent to channel c" in left[0]
    # The thread that hung writes nothing any more: another run has the file.
    before = (tmp_path / "_skyband" / "alerts.json").read_bytes()
    hook.hang.set()
    until = time.monotonic() + 10
    while not hook.bodies and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    assert hook.bodies and (tmp_path / "_skyband" / "alerts.json").read_bytes() == before
    assert job.run(Channel("c", webhook=hook.url), job.last) == []
    assert Counter(defined.told([json.loads(m) for m in by_id(hook.bodies).values()])) == job.expected()


def test_it_tries_again_by_itself(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts_module, "_FIRST_WAIT", 0.01)
    job = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10000, batch: 1000}}")
    job.commit(job.last)
    layout, _ = job_of(tmp_path)
    hook.status = 503
    Positions(layout.home, ["all"])
    job.upto = -1
    alerts = job.start(Channel("c", webhook=hook.url))
    assert alerts.committed(job.last) == []
    for _ in range(3):
        hook.asked.acquire()
    hook.status = 200
    until = time.monotonic() + 20
    while not hook.bodies and time.monotonic() < until:
        time.sleep(0.01)
    # It says once that something could not be sent.
    news = alerts.committed(job.last)
    assert len(news) == 1 and "could not be sent yet to channel c: it answered 503" in news[0]
    assert alerts.close() == [] and len(hook.messages) == sum(defined.entered_and_left(job.tables, tuple(QUERIES)).values())


def test_a_command_and_its_failures(tmp_path: Path) -> None:
    out, alerts = tmp_path / "out.jsonl", "{all: {channel: c, every: 0 seconds, at_most: 10000, batch: 1000}}"
    job = Job(tmp_path / "job", alerts)
    assert any("ended with exit code 1" in text for text in job.run(Channel("c", command=("false",)), 5))
    assert any("No such file" in text for text in job.run(Channel("c", command=("no-such-command",)), 6))
    assert any("no answer within 1 s" in text for text in job.run(Channel("c", command=("sh", "-c", "sleep 60 & wait"), seconds=1), 7))
    assert job.run(Channel("c", command=("sh", "-c", f"cat >> {out}")), job.last) == []
    said = [json.loads(line) for line in out.read_text().splitlines()]
    assert defined.told([m for body in said for m in body["messages"]]) == defined.entered_and_left(job.tables, tuple(QUERIES))


def test_beyond_the_rate_messages_become_one_with_their_number(hook: Receiver, tmp_path: Path) -> None:
    job = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10, batch: 4}}")
    job.commit(job.last)
    job.upto = -1
    alerts = job.start(Channel("c", webhook=hook.url, at_most=6))
    alerts.committed(job.last)
    assert alerts.close() == []
    single, combined = [m for m in hook.messages if m["on"] != "combined"], [m for m in hook.messages if m["on"] == "combined"]
    every = sum(defined.entered_and_left(job.tables, tuple(QUERIES)).values())
    # The last of the six that are allowed stands for all others.
    assert len(single) == 5 and len(combined) == 1 and combined[0]["count"] == every - 5
    assert sum(combined[0]["counts"].values()) == every - 5 and combined[0]["text"].startswith(
        f"{every - 5} messages of alert all of machines: "
    )
    assert combined[0]["from"] <= combined[0]["to"] and combined[0]["id"] not in {m["id"] for m in single}
    job.upto = job.last
    assert job.caught_up


def test_a_combined_message_is_repeated_as_it_was(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    job = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 1}}")
    killed: list[int] = []

    def failpoint(name: str) -> None:
        if name == "alerts.sent" and not killed:
            killed.append(1)
            raise Killed

    monkeypatch.setattr(alerts_module, "failpoint", failpoint)
    job.start(Channel("c", webhook=hook.url)).close()
    job.commit(4)
    job.upto = -1
    alerts = job.start(Channel("c", webhook=hook.url))
    alerts.committed(4)
    alerts.close()
    job.upto = 4
    # More has come since.
    job.run(Channel("c", webhook=hook.url), job.last)
    assert killed and hook.bodies[0] == hook.bodies[1] and hook.messages[0]["on"] == "combined"
    counts = [m["count"] for m in hook.messages[1:] if m["on"] == "combined"]
    assert sum(counts) + sum(m["on"] != "combined" for m in hook.messages) == sum(
        defined.entered_and_left(job.tables, tuple(QUERIES)).values()
    )


@pytest.mark.parametrize("at_most", [10_000, 25])
def test_a_backlog_that_does_not_fit_in_memory_at_once(
    at_most: int, hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts_module, "_WINDOW", 30)
    monkeypatch.setattr(messages, "ROWS", 50)
    monkeypatch.setattr(messages, "_AT_ONCE", 7)
    job = Job(tmp_path, f"{{all: {{channel: c, every: 0 seconds, at_most: {at_most}, batch: 11}}}}")
    job.commit(job.last)
    job.upto = -1
    hook.status = 500
    alerts = job.start(Channel("c", webhook=hook.url))
    alerts.committed(job.last)
    assert "could not be sent" in alerts.close()[0]
    hook.status = 200
    alerts = job.start(Channel("c", webhook=hook.url))
    alerts.committed(job.last)
    assert alerts.close() == []
    every = sum(defined.entered_and_left(job.tables, tuple(QUERIES)).values())
    assert sum(m.get("count", 1) for m in hook.messages) == every > 150
    assert {"combined" in m["on"] for m in hook.messages} == ({False} if at_most == 10_000 else {False, True})
    job.upto = job.last
    assert job.caught_up


def test_tables_that_cannot_be_read_for_a_moment(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts_module, "_FIRST_WAIT", 0.01)
    job, read, fails = Job(tmp_path), messages.AlertMessages.read, Counter[str]()

    def breaking(self: messages.AlertMessages, *given: Any) -> Iterator[messages.Message]:
        fails["reads"] += 1
        for n, message in enumerate(read(self, *given)):
            if n == 5 and fails["reads"] % 3:
                raise SkybandError("SKY-E400", "the table is gone")
            yield message

    monkeypatch.setattr(messages.AlertMessages, "read", breaking)
    alerts = job.start(Channel("c", webhook=hook.url))
    job.commit(job.last)
    news = alerts.committed(job.last)
    until = time.monotonic() + 60
    while Counter(defined.told(hook.messages)) != job.expected() and time.monotonic() < until:
        news += alerts.committed(job.last)
        time.sleep(0.02)
    assert alerts.close() == [] and any("the table is gone" in text for text in news)
    assert defined.told(hook.messages) == job.expected()


def test_a_new_alert_begins_with_the_next_changes(hook: Receiver, tmp_path: Path) -> None:
    job, channel = Job(tmp_path), Channel("c", webhook=hook.url)
    job.commit(8)
    assert not job.caught_up and job.run(channel) == [] and job.caught_up and hook.messages == []
    assert job.run(channel, job.last) == []
    rest = {q: t.filter(pc.greater(t["batch_id"], 8)) for q, t in job.tables.items() if "batch_id" in t.column_names}
    got = defined.told([m for m in hook.messages if m["on"] in ("enter", "leave")])
    assert got == defined.entered_and_left(rest, tuple(QUERIES)) and sum(got.values()) > 20
    # A file that is damaged is as none: it says so.
    (tmp_path / "_skyband" / "alerts.json").write_text('{"alerts": {"all": {"batch": "1"}}}')
    count = len(hook.messages)
    assert any("cannot be used" in text and "begin with the next changes" in text for text in job.run(channel))
    assert len(hook.messages) == count and job.caught_up


def test_after_a_rebuild_only_what_is_new_is_sent(hook: Receiver, tmp_path: Path) -> None:
    rows, channel = rows_of(5, 120), Channel("c", webhook=hook.url)
    plan = plan_of(ALERTS, tmp_path / "job")
    old = tables_of(plan, rows[:60], 6, finish=False)
    job = Job(tmp_path / "job", tables=old)
    assert job.run(channel, job.last) == []
    before = len(hook.messages)
    assert before > 100
    # The same rows and further ones, in other batches of another generation.
    (tmp_path / "job" / "_skyband" / "alerts.json").rename(tmp_path / "alerts.json")
    new = Job(tmp_path / "new", generation="gen2", tables=tables_of(plan, rows, 11))
    new.commit(new.last)
    job_of(new.root)
    (tmp_path / "alerts.json").rename(new.root / "_skyband" / "alerts.json")
    assert not new.caught_up and new.run(channel) == [] and new.caught_up
    sent = hook.messages
    assert {m["generation"] for m in sent[before:]} == {"gen2"}
    assert defined.told(sent) == new.expected() and len(sent) > before


def test_an_edited_alert_goes_on(hook: Receiver, tmp_path: Path) -> None:
    job, channel = Job(tmp_path, "{all: {channel: c, queries: [best], every: 0 seconds}}"), Channel("c", webhook=hook.url)
    assert job.run(channel, 6) == []
    edited = Job(tmp_path, "{all: {channel: c, queries: [flat], every: 0 seconds, message: 'x'}}", tables=job.tables, upto=6)
    assert edited.run(channel, job.last) == []
    assert {(m["query"], m["text"] == "x") for m in hook.messages} == {("best", False), ("flat", True)}
    without = replace(edited.plan, alerts=())
    layout, file = job_of(tmp_path)
    assert caught_up(without, layout, file, 99)


def test_no_secret_in_what_it_says(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.framework.base.redaction import conceal, reveal_all

    job: Job = Job(tmp_path, "{all: {channel: c, every: 0 seconds}}")
    conceal("TOKEN", "sesame-open")

    def fails(*_: Any) -> None:
        raise OSError("cannot open sesame-open")

    try:
        alerts = job.start(Channel("c", webhook=hook.url))
        made: list[Callable[..., None]] = [fails]
        for one in alerts._senders:
            one._deliver = made[0]
        job.commit(6)
        news = [*alerts.committed(6), *alerts.close()]
    finally:
        reveal_all()
    assert news and all("sesame" not in text for text in news) and any("${TOKEN}" in text for text in news)
    assert b"sesame" not in (tmp_path / "_skyband" / "alerts.json").read_bytes()


def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of a hundredth of a second in place of a second."""
    monkeypatch.setattr(alerts_module, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(alerts_module, "_LONGEST_WAIT", 0.02)


def test_a_receiver_that_asks_to_be_left_alone_is(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)
    job, channel = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10000}}"), Channel("c", webhook=hook.url)
    hook.status, hook.retry_after = 429, "3600"
    alerts = job.start(channel)
    job.commit(6)
    alerts.committed(6)
    assert hook.asked.acquire(timeout=30)
    # It would be asked again after hundredths of a second, and at the end of the run.
    assert not hook.asked.acquire(timeout=0.5)
    (said,) = [n for n in [*alerts.committed(6), *alerts.close()] if "the next run sends what waits" in n]
    assert "it answered 429" in said and hook.requests == 1 and hook.bodies == []
    # A short wait is waited for.
    hook.retry_after = "0"
    alerts = job.start(channel)
    alerts.committed(6)
    assert all(hook.asked.acquire(timeout=30) for _ in range(3))
    hook.status = 200
    alerts.close()
    assert job.run(channel, job.last) == [] and defined.told(hook.messages) == job.expected_changes()


def test_a_wait_that_the_receiver_asked_for_ends_with_another_failure(
    hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a refusal with Retry-After and then a disk that is full for a moment, the usual waits count."""
    quickly(monkeypatch)
    job = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10000}}")
    hook.status, hook.retry_after = 429, "2"
    save, full = Positions.save, Counter[str]()

    def saving(self: Positions, *given: Any) -> None:
        if hook.requests and not full["once"]:
            full["once"] = 1
            hook.status, hook.retry_after = 200, None
            raise OSError(28, "No space left on device")
        save(self, *given)

    monkeypatch.setattr(Positions, "save", saving)
    waits = list[float]()
    failed = alerts_module.Sender._failed

    def noting(self: alerts_module.Sender, why: str, closing: bool) -> None:
        failed(self, why, closing)
        waits.append(self._due(self._failed_at))

    monkeypatch.setattr(alerts_module.Sender, "_failed", noting)
    alerts = job.start(Channel("c", webhook=hook.url))
    job.commit(6)
    alerts.committed(6)
    assert hook.asked.acquire(timeout=30) and hook.asked.acquire(timeout=30)
    alerts.close()
    assert [round(w) for w in waits] == [2, 0] and full["once"] and hook.bodies


@pytest.mark.parametrize("status", [400, 401, 404, 410, 413, 422])
def test_what_is_refused_for_good_is_given_up_until_the_next_run(
    status: int, hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quickly(monkeypatch)
    job, channel = Job(tmp_path, "{all: {channel: c, every: 0 seconds, at_most: 10000}}"), Channel("c", webhook=hook.url)
    hook.status = status
    alerts = job.start(channel)
    job.commit(6)
    alerts.committed(6)
    assert hook.asked.acquire(timeout=30) and not hook.asked.acquire(timeout=0.3)
    alerts.close()
    layout, file = job_of(job.root)
    assert hook.requests == 1 and refused(job.plan, layout) == {"all": status}
    # Nothing is lost, and a receiver that takes them again clears it.
    assert waiting(job.plan, layout, file, 6)["all"] > 10
    hook.status = 200
    assert job.run(channel, job.last) == [] and refused(job.plan, layout) == {}
    assert defined.told(hook.messages) == job.expected_changes()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
def test_what_may_heal_is_tried_again(status: int, hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)
    job = Job(tmp_path, "{all: {channel: c, queries: [best], every: 0 seconds, at_most: 10000}}")
    hook.status = status
    alerts = job.start(Channel("c", webhook=hook.url))
    job.commit(6)
    alerts.committed(6)
    assert all(hook.asked.acquire(timeout=30) for _ in range(4))
    layout, _ = job_of(job.root)
    assert refused(job.plan, layout) == {}
    hook.status = 200
    assert [n for n in alerts.close() if "the next run" in n] == [] and hook.messages


def test_a_first_run_sends_no_history_unless_asked(hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's first run, in two processes of which the first is killed; what is committed after it is news, whatever its time."""
    channel = Channel("c", webhook=hook.url)
    tables = Job(tmp_path / "other", "{all: {channel: c}}").tables
    times = sorted(defined.micros(t) for t in tables["best_changes"]["changed_at"].to_pylist())
    began = times[len(times) // 3]
    monkeypatch.setattr(alerts_module, "now_micros", lambda: began)
    job = Job(tmp_path / "job", ALERTS, tables=tables, history=False)
    half = job.last // 2
    alerts = job.start(channel)
    job.commit(half)
    alerts.committed(half)
    alerts.close()
    # Another process goes on with the first run: its start is that of the first one.
    monkeypatch.setattr(alerts_module, "now_micros", lambda: began + 10**15)
    alerts = job.start(channel)
    job.commit(half + 2)
    alerts.committed(half + 2)
    assert not job.caught_up
    alerts.close(complete=True)
    assert job.caught_up
    sent = defined.told(hook.messages)
    first = Counter({told: n for told, n in job.expected().items() if told[4] >= began})
    assert sent and not sent - first and all(m["time"] >= "2024" for m in hook.messages)
    assert job.run(channel, job.last) == []
    # All that is later than the start, and all of the later batches.
    sent = defined.told(hook.messages)
    assert not first - sent and not sent - job.expected()
    later = {q: t.filter(pc.field("batch_id") > half + 2) for q, t in tables.items() if "batch_id" in t.column_names}
    assert not defined.entered_and_left(later, tuple(QUERIES)) - sent
    assert len(by_id(hook.bodies)) == len(hook.messages)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0), ("", 0), ("17", 17), (" 17 ", 17), ("-3", 0), ("1e3", 0), ("99999999999999999999", LONGEST_RETRY_AFTER), ("nonsense", 0),
        ("Fri, 01 Mar 2024 00:01:30 GMT", 90), ("Fri, 01 Mar 2024 00:01:30 -0000", 90), ("Thu, 29 Feb 2024 00:00:00 GMT", 0),
        ("Fri, 01 Mar 2124 00:00:00 GMT", LONGEST_RETRY_AFTER), ("\u0663", 0), ("Fri, 99 Mar 2024 00:00:00 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_read_and_bounded(value: str | None, seconds: float) -> None:
    assert retry_after(value, datetime(2024, 3, 1, tzinfo=UTC)) == seconds
