"""Who runs in a batch, with what, and which buckets stay in memory: for buckets and shards, without Spark."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import (
    ASIDE,
    COUNTS,
    FLUSH,
    FOUND,
    HOST,
    REJECTED,
    ROWS,
    ROWS_IN,
    SHARD,
    STATE,
    TIMES,
    Tally,
    time_count,
)
from skyband.framework.base.reasons import CONTROL
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.bucket_states import BucketState, parsed
from skyband.framework.streaming.bucket.calls import Call, HeldBuckets, Packed, Watermarks, calls
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.bucket.state_names import state_name
from skyband.framework.streaming.rebuild.new_states import of_shards, written
from skyband.framework.streaming.rows.blocks import table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.rows.shards import Shards
from tests.framework.streaming.bucket.test_bucket import MINUTE, SPEC, Row, keeping_a_journal, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of

TOKEN = "0123456789abcdef"


@pytest.fixture
def config(tmp_path: Path) -> HostConfig:
    """Of a job with three buckets, without a delay."""
    plan = plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 4}", small="{count: 2}", delay=0))
    return replace(HostConfig.of(plan, (), "test"), buckets=3)


def counts(**named: int) -> bytes:
    return Tally({ROWS_IN: 0, **named}).message()


# What reading gives.


def test_messages_go_to_the_driver_or_to_their_bucket() -> None:
    packed = Packed()
    packed.add(HOST, 2, ROWS, b"a")
    packed.add(ASIDE, 0, REJECTED, b"b")
    packed.add(SHARD, -3, ROWS, b"c")
    packed.add(HOST, 2, "file:rows", b"d")
    packed.add(ASIDE, 0, COUNTS, counts(null_id=2))
    assert packed.aside == [(REJECTED, b"b"), (COUNTS, counts(null_id=2))]
    assert packed.rows == {2: [(ROWS, b"a"), ("file:rows", b"d")], -3: [(ROWS, b"c")]}
    assert not packed.flush


@pytest.mark.parametrize(("names", "flush"), [([CONTROL], False), ([FLUSH], True), ([FLUSH, CONTROL], True)])
def test_rows_of_the_control_source_that_ask_for_a_flush_are_known_by_their_counts(names: list[str], flush: bool) -> None:
    packed = Packed()
    for name in names:
        packed.add(ASIDE, 0, COUNTS, counts(**{name: 1}))
    # Tasks without such rows change nothing, whichever is read last.
    packed.add(ASIDE, 0, COUNTS, counts(filtered=3))
    assert packed.flush == flush
    # Nor do other messages with that text.
    other = Packed()
    other.add(ASIDE, 0, REJECTED, counts(**{FLUSH: 1}))
    other.add(HOST, 0, COUNTS, counts(**{FLUSH: 1}))
    assert not other.flush


@pytest.mark.parametrize(
    ("before", "instants", "delay", "after"),
    [(0, [], 5, 0), (70, [], 5, 70), (0, [100], 5, 95), (0, [100, 300, 200], 0, 300), (96, [100], 5, 96), (0, [3], 5, 0), (0, [-7], 0, 0)],
)
def test_the_latest_instant_moves_the_watermark_and_never_back(before: int, instants: list[int], delay: int, after: int) -> None:
    packed = Packed()
    for instant in instants:
        packed.reaches(instant)
    assert packed.watermarks(before, delay) == Watermarks(before, after)


# Who runs.


def due(
    config: HostConfig,
    states: dict[int, int | None] | None = None,
    rows: Sequence[int] = (),
    after: int = 0,
    flush: bool = False,
) -> list[Call]:
    """The calls of a batch. ``states``: when each bucket wakes. ``rows``: the numbers that have a message of rows."""
    packed = Packed(flush=flush)
    for number in rows:
        packed.rows[number].append((ROWS, str(number).encode()))
    known = None if states is None else {number: BucketState(TOKEN, wakes) for number, wakes in states.items()}
    return list(calls(packed, known, config, Watermarks(0, after)))


def test_buckets_with_rows_run_and_those_in_which_something_is_due_at_the_watermark_after(config: HostConfig) -> None:
    assert due(config) == due(config, {}) == due(config, {0: None, 1: 5}, after=4) == []
    assert due(config, rows=[2]) == [Call(2, None, [(ROWS, b"2")])]
    states = {0: 10, 1: 9, 2: None}
    assert due(config, states, after=8) == []
    assert due(config, states, after=9) == [Call(1, BucketState(TOKEN, 9), ())]
    assert [call.number for call in due(config, states, after=10)] == [0, 1]
    assert due(config, states, rows=[2], after=9) == [Call(1, BucketState(TOKEN, 9), ()), Call(2, BucketState(TOKEN, None), [(ROWS, b"2")])]
    # A bucket that has had no row has nothing that could be due.
    assert [call.number for call in due(config, {1: 0}, after=1 << 60)] == [1]


def test_a_flush_runs_every_bucket_that_has_a_state(config: HostConfig) -> None:
    assert due(config, {0: None, 2: 7}, flush=True) == [
        Call(number, BucketState(TOKEN, w), (), flush=True) for number, w in ((0, None), (2, 7))
    ]
    # One that gets its first row has nothing deferred, and saves a whole state as it is asked to.
    assert due(config, rows=[1], flush=True) == [Call(1, None, [(ROWS, b"1")], flush=True)]


def test_shards_come_before_buckets_and_have_states_of_their_own(config: HostConfig) -> None:
    sharded = replace(config, shards=Shards(2, 3))
    assert list(sharded.numbers()) == [-1, -2, -3, -4, -5, -6, 0, 1, 2]
    assert [sharded.bucket_of(number) for number in sharded.numbers()] == [0, 0, 1, 1, 2, 2, 0, 1, 2]
    assert [sharded.shard_of(number) for number in range(-1, -7, -1)] == [0, 1, 0, 1, 0, 1]
    found = due(sharded, {1: 5, -3: None, -4: None}, rows=[1, -3, -4], after=5)
    assert [(c.number, c.state, c.rows) for c in found] == [
        (-3, BucketState(TOKEN, None), [(ROWS, b"-3")]),
        (-4, BucketState(TOKEN, None), [(ROWS, b"-4")]),
        (1, BucketState(TOKEN, 5), [(ROWS, b"1")]),
    ]
    # What is due in a bucket is no work for its shards, and neither do they defer anything.
    assert [c.number for c in due(sharded, {1: 5, -3: None}, after=5)] == [1]
    flushed = due(sharded, {1: 5, -3: None, -4: None}, rows=[-1, 0], flush=True)
    assert [(c.number, c.flush) for c in flushed] == [(-1, False), (0, True), (1, True)]


# The buckets of a process.


class Process:
    """A worker process: its buckets in memory, over state files that others have too."""

    def __init__(self, config: HostConfig, root: Path) -> None:
        self.config, self.files = config, StateFiles(root)
        self.buckets = HeldBuckets(config, self.files)

    def run(
        self,
        number: int,
        rows: list[Row],
        watermarks: tuple[int, int],
        state: BucketState | None,
        found: Sequence[Block] = (),
        flush: bool = False,
    ) -> tuple[list[Block], BucketState]:
        """One call; what is sent, and the state after it."""
        data = [(ROWS, table_bytes(table_of(self.config, rows)))] if rows else []
        *sent, (kind, last) = self.buckets.run(Call(number, state, data, found, flush), Watermarks(*watermarks))
        assert kind == STATE
        ((named, after),) = parsed(last).items()
        assert named == number
        return sent, after

    def values(self, number: int, state: BucketState) -> dict[str, bytes]:
        return self.files.read(number, state.token)[1]


def content(sent: Sequence[Block]) -> list[tuple[str, object]]:
    """Tables as they are, and counts that are neither times nor an operator's own work."""
    tally = Tally()
    for kind, data in sent:
        if kind == COUNTS:
            tally.add(data)
    counted = {name: n for name, n in tally.items() if not name.startswith("us_") and "." not in name}
    return [*((kind, bytes(data)) for kind, data in sent if kind != COUNTS), (COUNTS, counted)]


def rows_of(minutes: range) -> list[Row]:
    return [(t, t, "pq"[t % 2], float(t * 7 % 5), "uv"[t % 3 % 2]) for t in minutes]


def ms(minute: int) -> int:
    return minute * MINUTE // 1000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The states that are read."""
    found: list[tuple[int, str]] = []
    read = StateFiles.read

    def noted(self: StateFiles, bucket: int, token: str) -> object:
        found.append((bucket, token))
        return read(self, bucket, token)

    monkeypatch.setattr(StateFiles, "read", noted)
    return found


def test_a_bucket_stays_in_memory_as_long_as_nobody_else_saves_it(config: HostConfig, tmp_path: Path, reads: list[tuple[int, str]]) -> None:
    mine, other = Process(config, tmp_path / "states"), Process(config, tmp_path / "states")
    _, first = mine.run(1, rows_of(range(8)), (0, ms(7)), None)
    _, second = mine.run(1, rows_of(range(8, 12)), (ms(7), ms(11)), first)
    assert reads == [] and first.token != second.token
    _, third = other.run(1, rows_of(range(12, 16)), (ms(11), ms(15)), second)
    assert reads == [(1, second.token)]
    # This process has the bucket as it was before that.
    sent, fourth = mine.run(1, rows_of(range(16, 20)), (ms(15), ms(19)), third)
    assert reads == [(1, second.token), (1, third.token)]
    alone = Bucket(config, 1)
    for start, end in ((0, 8), (8, 12), (12, 16)):
        alone.run([table_bytes(table_of(config, rows_of(range(start, end))))], ms(max(0, start - 1)), ms(end - 1))
        alone.save()
    expected = alone.run([table_bytes(table_of(config, rows_of(range(16, 20))))], ms(15), ms(19))
    assert content(sent) == content(expected)
    assert mine.values(1, fourth)["keys"] == alone.save()[0]["keys"]


def test_a_batch_that_is_repeated_begins_from_the_state_before_it(config: HostConfig, tmp_path: Path, reads: list[tuple[int, str]]) -> None:
    mine = Process(config, tmp_path / "states")
    _, first = mine.run(0, rows_of(range(8)), (0, ms(7)), None)
    batch = 0, rows_of(range(8, 14)), (ms(7), ms(13)), first
    sent, _ = mine.run(*batch)
    again, _ = mine.run(*batch)
    assert content(again) == content(sent) and reads == [(0, first.token)]
    # Its first batch, too, though the bucket is in memory.
    fresh = Process(config, tmp_path / "fresh")
    sent, _ = fresh.run(0, rows_of(range(8)), (0, ms(7)), None)
    again, _ = fresh.run(0, rows_of(range(8)), (0, ms(7)), None)
    assert content(again) == content(sent)


def test_a_second_attempt_of_a_task_does_no_harm(config: HostConfig, tmp_path: Path) -> None:
    """Spark starts one where the first is slow, and takes what the one sends that ends first. The other may go on after that."""
    first, second, files = Process(config, tmp_path / "states"), Process(config, tmp_path / "states"), StateFiles(tmp_path / "states")
    _, before = first.run(0, rows_of(range(8)), (0, ms(7)), None)
    alone = Process(config, tmp_path / "alone")
    _, start = alone.run(0, rows_of(range(8)), (0, ms(7)), None)
    expected, middle = alone.run(0, rows_of(range(8, 14)), (ms(7), ms(13)), start)
    later, _ = alone.run(0, rows_of(range(14, 20)), (ms(13), ms(19)), middle)
    attempts = [process.run(0, rows_of(range(8, 14)), (ms(7), ms(13)), before) for process in (first, second)]
    assert [content(sent) for sent, _ in attempts] == [content(expected)] * 2
    states = [state for _, state in attempts]
    assert states[0].token != states[1].token
    # Whichever counts, each process goes on from it.
    for taken in states:
        for process in (first, second):
            sent, _ = process.run(0, rows_of(range(14, 20)), (ms(13), ms(19)), taken)
            assert content(sent) == content(later)
    # What the other has written is garbage.
    kept = first.values(0, states[0])
    assert files.collect([{0: before.token}, {0: states[0].token}]) > 0
    assert first.values(0, states[0]) == kept and first.values(0, before)
    with pytest.raises(SkybandError, match="SKY-E303"):
        first.values(0, states[1])


def test_a_call_that_fails_leaves_no_bucket_that_is_half_run(
    config: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[tuple[int, str]]
) -> None:
    mine = Process(config, tmp_path / "states")
    _, first = mine.run(0, rows_of(range(8)), (0, ms(7)), None)

    def full(self: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr("skyband.framework.streaming.bucket.state_files.BucketFiles.save", full)
        mine.run(0, rows_of(range(8, 14)), (ms(7), ms(13)), first)
    sent, _ = mine.run(0, rows_of(range(8, 14)), (ms(7), ms(13)), first)
    assert reads == [(0, first.token)]
    other = Process(config, tmp_path / "states")
    assert content(other.run(0, rows_of(range(8, 14)), (ms(7), ms(13)), first)[0]) == content(sent)


def test_a_crowded_bucket_is_read_back(
    config: HostConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[tuple[int, str]]
) -> None:
    mine = Process(config, tmp_path / "states")
    monkeypatch.setattr(Bucket, "crowded", property(lambda self: self.number == 1))
    states = {number: mine.run(number, rows_of(range(8)), (0, ms(7)), None)[1] for number in (0, 1)}
    for number, state in states.items():
        mine.run(number, rows_of(range(8, 12)), (ms(7), ms(11)), state)
    assert reads == [(1, states[1].token)]


def test_a_bucket_says_when_it_has_to_run_again(config: HostConfig, tmp_path: Path) -> None:
    """Rows that are not due, expiries, boundaries: as soon as the watermark is past them, and never by this watermark again."""
    mine = Process(config, tmp_path / "states")
    _, state = mine.run(0, [(10, 1, "p", 1.0, "u")], (0, ms(5)), None)
    # The row of minute 10 waits: it is due at the first millisecond after it.
    assert state.wakes_ms == ms(10) + 1
    sent, state = mine.run(0, [], (ms(5), ms(10) + 1), state)
    assert content(sent)[-1][1]["accepted"] == 1  # type: ignore[index]
    assert state.wakes_ms is None or state.wakes_ms > ms(10) + 1
    # What is still due has to wait for a later watermark than this one, such as after a finish within a millisecond.
    held = Process(replace(config, finishes=((ms(10), ms(10) * 1000 - 400),)), tmp_path / "others")
    _, state = held.run(0, [(10, 1, "p", 1.0, "u")], (0, ms(10)), None)
    assert state.wakes_ms == ms(10) + 1


def test_the_time_to_read_and_to_save_is_counted(config: HostConfig, tmp_path: Path) -> None:
    sent, _ = Process(config, tmp_path / "states").run(0, rows_of(range(8)), (0, ms(7)), None)
    tally = Tally()
    for kind, data in sent:
        if kind == COUNTS:
            tally.add(data)
    assert {time_count(name) for name in TIMES} <= set(tally) and all(tally[time_count(name)] >= 0 for name in TIMES)


# States of shards, made of those of their buckets.


@pytest.mark.parametrize("journal", [False, True])
def test_shards_take_up_their_part_of_the_state_of_their_bucket(config: HostConfig, tmp_path: Path, journal: bool) -> None:
    """With a journal: of a job that an earlier version ran with as many shards, and was stopped before its tables had all of it."""
    sharded, plain = replace(config, shards=Shards(2, 3)), Bucket(config, 0)
    bucket, shards, after = Bucket(sharded, 0), [Bucket(sharded.of_shard(n), 0) for n in range(2)], dict[str, bytes]()

    def batch(minutes: range) -> None:
        rows, watermarks = [table_bytes(table_of(config, rows_of(minutes)))], (ms(max(0, minutes[0] - 1)), ms(minutes[-1]))
        found = [data for shard in shards for kind, data in shard.run(rows, *watermarks) if kind == FOUND]
        bucket.run(rows, *watermarks, found=found)
        plain.run(rows, *watermarks)
        plain.save()
        values, dropped = bucket.save()
        after.update(values)
        for name in dropped:
            del after[name]

    with keeping_a_journal() if journal else contextlib.nullcontext():
        batch(range(8))
        batch(range(8, 12))
    assert ("journal/0" in after) == journal
    taker, files = Process(sharded, tmp_path / "states"), StateFiles(tmp_path / "states")
    states = {0: written(files, 0, after), **of_shards(files, 0, after, sharded.shards)}
    assert sorted(states) == [-2, -1, 0] and [state.wakes_ms for state in states.values()] == [0, None, None]
    for number in states:
        assert json.loads(taker.values(number, states[number])["core"])["until"] == 1000 * ms(7 if journal else 11)
    # Then they go on as one bucket does that searches itself.
    rows, watermarks = rows_of(range(12, 20)), (ms(11), ms(19))
    found = [b for number in (-1, -2) for b in taker.run(number, rows, watermarks, states[number])[0] if b[0] == FOUND]
    assert len(found) == 2
    sent, _ = taker.run(0, rows, watermarks, states[0], found, flush=True)
    expected = plain.run([table_bytes(table_of(config, rows))], *watermarks, flush=True)
    assert changes_of(content(sent)) == changes_of(content(expected)) != []


def changes_of(sent: Sequence[tuple[str, object]]) -> list[tuple[str, object]]:
    return [block for block in sent if block[0].startswith("changes:")]


def test_a_shard_sends_what_it_has_found_and_only_its_own_counts(config: HostConfig, tmp_path: Path) -> None:
    sharded = replace(config, shards=Shards(2, 3))
    process = Process(sharded, tmp_path / "states")
    rows = [*rows_of(range(8)), (2, 2, "p", 0.0, "u")]
    for number, shard in ((-3, 0), (-4, 1)):
        sent, state = process.run(number, rows, (0, ms(8)), None)
        assert (tmp_path / "states" / state_name(number) / f"{state.token}.list").is_file() and state_name(number) == f"shard-{-1 - number}"
        assert [kind for kind, _ in sent if kind != COUNTS] == [FOUND]
        tally = Tally()
        for kind, data in sent:
            if kind == COUNTS:
                tally.add(data)
        # Accepted, rejected and kept rows are counted by the bucket; nothing waits here.
        assert f"shard.{shard}.us" in tally and not {"accepted", "duplicate_id", "changes", "pending", "newest"} & set(tally)
        assert not any(name.startswith("kept:") for name in tally)
        assert state.wakes_ms is None or state.wakes_ms > ms(8)


def test_messages_are_opened_before_they_reach_a_bucket(config: HostConfig, tmp_path: Path) -> None:
    rows = table_bytes(table_of(config, rows_of(range(8))))
    opened: list[tuple[str, bytes]] = []

    def read(kind: str, data: bytes) -> bytes | pa.Buffer:
        opened.append((kind, data))
        return pa.py_buffer(rows) if kind == "file:rows" else data

    buckets = HeldBuckets(config, StateFiles(tmp_path / "states"), read)
    sent = list(
        buckets.run(
            Call(0, None, [("file:rows", b"elsewhere"), (ROWS, table_bytes(table_of(config, rows_of(range(8, 10)))))]), Watermarks(0, ms(9))
        )
    )
    assert [kind for kind, _ in opened] == ["file:rows", ROWS]
    expected = Bucket(config, 0).run([table_bytes(table_of(config, rows_of(range(10))))], 0, ms(9))
    assert [b for b in content(sent[:-1]) if b[0] != COUNTS] == [b for b in content(expected) if b[0] != COUNTS]
