"""Take over a job whose state Spark keeps, without Spark: its buckets go on from what it had saved, wherever a run is killed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.bucket_states import parsed
from skyband.framework.streaming.bucket.calls import HeldBuckets, Packed, Watermarks, calls
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.migrations import Before, Filling
from skyband.framework.streaming.rebuild import takeover
from skyband.framework.streaming.rebuild.takeover import taken_over
from skyband.framework.streaming.rows.blocks import table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming import checkpoints
from tests.framework.streaming.bucket.test_bucket import MINUTE, SPEC, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of

DONE = 1
"""The last batch that is done."""
WHOLE, HALF = False, True
"""Whether tables have a part of a batch."""


class Killed(BaseException):
    """As a signal would."""


class Store:
    """Spark's reader of a state store: each value with its length before it, in pieces, in no order."""

    def __init__(self, states: dict[int, dict[str, bytes]], size: int = 50) -> None:
        self.asked = 0
        self.streams = object()
        self.read = self
        self.rows = [
            {"bucket": bucket, "name": name, "piece": at // size, "data": data[at : at + size]}
            for bucket, values in states.items()
            for name, value in values.items()
            for data in [len(value).to_bytes(8, "little") + value]
            for at in range(0, len(data), size)
        ][::-1]

    def start(self) -> Any:
        self.asked += 1
        return self

    def format(self, name: str) -> Store:
        assert name == "statestore"
        return self

    def option(self, name: str, value: str) -> Store:
        return self

    def load(self) -> Store:
        return self

    def select(self, *names: str) -> Store:
        return self

    def orderBy(self, *names: str) -> Any:
        ordered = sorted(self.rows, key=lambda row: [row[name] for name in names])
        return SimpleNamespace(toLocalIterator=lambda: iter(ordered))


def no_spark() -> NoReturn:
    pytest.fail("Spark was started")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A job of an earlier version, two batches of which are done."""
    made = Layout(str(tmp_path / "out"))
    checkpoints.write(made.root / "best_changes" / "_delta_log" / "0.json", "a table")
    checkpoints.make(made.home, batches=DONE + 1)
    made.save(JobFile("j", "g", {"queries": {}, "states": {}}, 2, None, salt="s", before=Before(), engine_reads="its files are odd"))
    return made


STATES = {0: {"core": b"0", "keys": bytes(300), "empty": b""}, 3: {"core": b"3"}}


def everything(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def states_of(layout: Layout, job: JobFile) -> dict[int, dict[str, bytes]]:
    assert job.new_states is not None and job.new_states.batch == DONE
    states = parsed(job.new_states.text)
    assert all(state.wakes_ms == 0 for state in states.values()), "each runs in the next batch"
    return {bucket: StateFiles(layout.state).read(bucket, state.token)[1] for bucket, state in states.items()}


def assert_taken_over(layout: Layout, job: JobFile) -> None:
    assert layout.known() == job and (job.before, job.spark_keeps, job.engine_reads) == (None, False, "")
    assert states_of(layout, job) == STATES
    assert not (layout.checkpoint / "state").exists() and not (layout.home / "filling").exists()
    assert (layout.root / "best_changes" / "_delta_log" / "0.json").read_text() == "a table"
    assert (layout.checkpoint / "commits" / str(DONE)).exists()
    assert [p.name for p in layout.control.glob("*.json")] == [f"wake-states-{DONE}.json"]


@pytest.mark.parametrize("planned", [False, True])
def test_states_of_spark_become_files(layout: Layout, planned: bool) -> None:
    """A batch that was planned and of which no table has a row is repeated by this version."""
    if planned:
        checkpoints.plan(layout.home, DONE + 1)
    store = Store(STATES)
    assert_taken_over(layout, taken_over(store.start, layout, layout.known(), WHOLE))
    assert store.asked == 1
    # That was all: the next run finds it done.
    after = everything(layout.root)
    assert taken_over(no_spark, layout, layout.known(), WHOLE) == layout.known()
    assert everything(layout.root) == after


def test_a_job_whose_state_is_in_files_only_loses_what_was_before(layout: Layout) -> None:
    """A run was killed before the end of taking the job over."""
    layout.save(replace(layout.known(), before=None))
    checkpoints.write(layout.home / "filling" / "0", "a state")
    before = everything(layout.root)
    assert taken_over(no_spark, layout, layout.known(), HALF) == layout.known()
    former = ("_skyband/checkpoint/state/", "_skyband/filling/")
    assert everything(layout.root) == {name: data for name, data in before.items() if not name.startswith(former)}
    assert taken_over(no_spark, layout, layout.known(), WHOLE) == layout.known()


@pytest.mark.parametrize("what", ["committed", "moving", "resharding"])
def test_what_only_the_earlier_version_can_complete_is_left_to_it(layout: Layout, what: str) -> None:
    job = layout.known()
    if what == "committed":
        checkpoints.plan(layout.home, DONE + 1)
    else:
        job = replace(job, before=Before(moving=7 if what == "moving" else None, resharding=what == "resharding"))
        layout.save(job)
    before = everything(layout.root)
    with pytest.raises(SkybandError, match="only that version can complete it") as e:
        taken_over(no_spark, layout, job, HALF if what == "committed" else WHOLE)
    assert e.value.code == "SKY-E209" and e.value.hint == "run the job once with it, then with this version"
    assert everything(layout.root) == before


def test_a_state_that_is_cut_off_is_not_taken_over(layout: Layout) -> None:
    store = Store(STATES)
    store.rows = [row for row in store.rows if (row["bucket"], row["name"], row["piece"]) != (0, "keys", 3)]
    before = layout.file.read_bytes()
    with pytest.raises(SkybandError, match="the state of bucket 0 is incomplete") as e:
        taken_over(store.start, layout, layout.known(), WHOLE)
    assert e.value.code == "SKY-E303" and layout.file.read_bytes() == before and (layout.checkpoint / "state").exists()
    assert_taken_over(layout, taken_over(Store(STATES).start, layout, layout.known(), WHOLE))


def write_filling(layout: Layout, states: dict[int, dict[str, bytes]]) -> None:
    (layout.home / "filling").mkdir()
    for bucket, values in states.items():
        table = pa.table({"name": pa.array(values, pa.string()), "value": pa.array(values.values(), pa.large_binary())})
        (layout.home / "filling" / str(bucket)).write_bytes(table_bytes(table))


@pytest.mark.parametrize("keeper", ["spark", "files"])
def test_states_that_waited_to_be_loaded_are_those_of_the_job(layout: Layout, keeper: Any) -> None:
    """Queries were added by the earlier version, and no batch has run since: what else keeps states has those before that."""
    write_filling(layout, STATES)
    job = replace(layout.known(), before=Before(keeper, Filling("earlier", [0, 3])), engine_reads="")
    layout.save(job)
    assert_taken_over(layout, taken_over(no_spark, layout, layout.known(), WHOLE))


def test_a_file_of_states_that_waited_and_is_lost_ends_the_run(layout: Layout) -> None:
    write_filling(layout, {0: STATES[0]})
    layout.save(replace(layout.known(), before=Before("files", Filling("earlier", [0, 3]))))
    before = everything(layout.root)
    with pytest.raises(SkybandError, match=r"SKY-E303.*filling/3 cannot be read"):
        taken_over(no_spark, layout, layout.known(), WHOLE)
    assert {n: d for n, d in everything(layout.root).items() if n in before and not n.startswith("_skyband/state/")} == before


@pytest.mark.parametrize("point", ["made", "saved"])
def test_killed_at_every_step_it_is_as_before_or_taken_over(layout: Layout, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    before = everything(layout.root)

    def killed(*_: object) -> NoReturn:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(takeover, *(("failpoint", killed) if point == "made" else ("remove_tree", killed)))
        taken_over(Store(STATES).start, layout, layout.known(), WHOLE)
    left = {n: d for n, d in everything(layout.root).items() if not n.startswith(("_skyband/state/", "_skyband/control/wake-"))}
    assert (left == before) == (point == "made")
    store = Store(STATES)
    assert_taken_over(layout, taken_over(store.start, layout, layout.known(), WHOLE))
    assert store.asked == (point == "made")


def test_buckets_go_on_byte_for_byte(layout: Layout, tmp_path: Path) -> None:
    """What Spark kept is the state of the same bucket."""
    plan = plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 4}", small="{count: 2}", delay=0))
    config = replace(HostConfig.of(plan, (), "test"), buckets=2)

    def rows(minutes: range) -> bytes:
        return table_bytes(table_of(config, [(t, t, "pq"[t % 2], float(t * 7 % 5), "uv"[t % 2]) for t in minutes]))

    alone = Bucket(config, 1)
    alone.run([rows(range(12))], 0, 11 * MINUTE // 1000)
    values, _ = alone.save()
    job = taken_over(Store({1: values}, size=1000).start, layout, layout.known(), WHOLE)
    assert job.new_states is not None
    packed = Packed()
    packed.rows[1].append(("rows", rows(range(12, 16))))
    states = parsed(job.new_states.text)
    (call,) = calls(packed, states, config, watermarks := Watermarks(11 * MINUTE // 1000, 15 * MINUTE // 1000))
    held = HeldBuckets(config, StateFiles(layout.state))
    *blocks, (kind, last) = held.run(call, watermarks)
    sent = [block for block in blocks if block[0] != "counts"]
    assert kind == "state" and sent == [block for block in alone.run([rows(range(12, 16))], *watermarks) if block[0] != "counts"]
    saved, expected = StateFiles(layout.state).read(1, parsed(last)[1].token)[1], values | alone.save()[0]
    assert json.loads(saved.pop("core")) == json.loads(expected.pop("core"))
    assert {name: saved[name] for name in expected if name in saved} == {name: expected[name] for name in expected if name in saved}
