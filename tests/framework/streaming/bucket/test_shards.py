"""A bucket that takes the pairs of its shards sends and saves what one does that searches itself, byte for byte."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import COUNTS, FOUND
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.search_host import shard_state
from skyband.framework.streaming.bucket.state_names import JOURNAL
from skyband.framework.streaming.rows.blocks import table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.rows.shards import Shards, Taken, found_table, pairs_found
from skyband.operators.shards import FoundPairs, Share
from tests.framework.streaming.bucket.test_bucket import MINUTE, keeping_a_journal, table_of
from tests.seeds import cases
from tests.specs import spec_text

WINDOWS = {"{count: 4}": "{count: 2}", "{time: 9 minutes}": "{time: 3 minutes}", "{count: 5, time: 6 minutes}": "{count: 3}"}
TEXTS = ("a", "a b", "b A", "b c a", "c d", "a b c d e")
Rows = list[tuple[int, int, str, float | None, str]]

row = st.tuples(
    st.integers(0, 30), st.integers(0, 60), st.sampled_from("pq"), st.sampled_from([None, 0.0, 1.0, 2.0, 5.0]), st.sampled_from(TEXTS)
)


class Step(NamedTuple):
    """A batch. ``shards``: how many there are from now on, after a flush; None: as many as before. ``restored``: what is read back."""

    rows: Rows
    shards: int | None
    restored: tuple[bool, bool]


steps = st.lists(
    st.builds(Step, st.lists(row, max_size=9), st.sampled_from([None, None, None, 1, 2, 3]), st.tuples(st.booleans(), st.booleans())),
    min_size=1, max_size=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    """By window: every query type whose search is shared, and two whose is not. Rows wait for five minutes."""
    made = {}
    path = tmp_path_factory.mktemp("specs") / "spec.yaml"
    for window, small in WINDOWS.items():
        text = spec_text(
            "shared",
            "{id: bigint, ts: timestamp, grp: string, x: double, side: string}",
            partition_by="[grp]",
            event_time="{column: ts, watermark: 5 minutes}",
            window=window,
            scoring={"near": '{expression: "abs(a.x - b.x)", direction: min}', "high": "{expression: x, direction: max}"},
            tokens={"words": "{column: side}"},
            queries={
                "near2": "{type: topk_pairs, scoring: near, k: 2, carry: [x]}",
                "near1": f'{{type: topk_pairs, scoring: near, k: 1, where: "a.side <> b.side", window: {small}}}',
                "slow": "{type: topk_pairs, scoring: near, k: 2, every: 7 minutes}",
                "spaced": "{type: topk_pairs, scoring: near, k: 2, max_per_object: 1}",
                "twins": "{type: topk_similar_sets, tokens: words, k: 2, carry: [side]}",
                "close": "{type: threshold_pairs, scoring: near, max_score: 1}",
                "next": f"{{type: matches, scoring: near, k: 2, window: {small}}}",
                "alike": "{type: similar_sets, tokens: words, min_score: 0.5}",
                "seen": "{type: matches, tokens: words, k: 2}",
                "best": "{type: topk, scoring: high, k: 2}",
                "sky": "{type: skyline, dimensions: {x: min, id: min}}",
            },
        )
        path.write_text(text)
        job, errors = validate_file(str(path), {})
        assert job is not None and not errors, [e.render() for e in errors]
        made[window] = compile_job(job)
    return made


class Stored:
    """A bucket with its state as it is stored."""

    def __init__(self, config: HostConfig, state: dict[str, bytes] | None = None) -> None:
        self.config, self.state = config, dict(state or {})
        self.bucket = Bucket.restore(config, 0, self.state.get)

    def run(self, data: list[bytes], watermark_ms: int, flush: bool = False, found: list[bytes] | None = None) -> list[Block]:
        """Run it, and save its state."""
        sent = self.bucket.run(data, watermark_ms, flush=flush, found=found or [])
        values, dropped = self.bucket.save()
        self.state |= values
        for name in dropped:
            del self.state[name]
        return sent

    def restore(self) -> None:
        """Go on with what is stored."""
        self.bucket = Bucket.restore(self.config, 0, self.state.get)


def content(sent: list[Block]) -> list[tuple[str, object]]:
    """Tables as they are; of the counts those that are neither times nor an operator's own work."""
    counts = [{k: n for k, n in json.loads(data).items() if "." not in k and not k.startswith("us_")} for k, data in sent if k == COUNTS]
    return [*((kind, bytes(data)) for kind, data in sent if kind != COUNTS), (COUNTS, counts)]


def saved(state: dict[str, bytes]) -> dict[str, object]:
    """The values of a state; of entries of a journal those without what shards have found are not here."""
    return {name: value for name, value in state.items() if not name.startswith(f"{JOURNAL}/")} | {
        "entries": sum(name.startswith(f"{JOURNAL}/") for name in state)
    }


def assert_shards_leave_no_trace(plan: Plan, batches: list[Step], order: random.Random) -> None:
    """With shards and without, over the same batches, the same comes out and is saved."""
    plain_config = HostConfig.of(plan, (), "test")
    plain, merging = Stored(plain_config), Stored(plain_config)
    shards: list[Stored] = []
    newest = watermark = 0
    for i, step in enumerate([*batches, Step([], None, (True, True))]):
        last = i == len(batches)
        if last:
            watermark = newest // 1000 + 1
        data = [table_bytes(table_of(plain_config, step.rows))] if step.rows else []
        flush = last or (i + 1 < len(batches) and batches[i + 1].shards is not None)
        if step.shards is not None:
            # The state of shards is that of their bucket, which has been flushed.
            config = replace(plain_config, shards=Shards(step.shards, 1))
            shards = [Stored(config.of_shard(n), shard_state(merging.state)) for n in range(step.shards)]
            merging = Stored(config, merging.state)
            # So that both have read back their states.
            plain.restore()
        found = [message for shard in shards for kind, message in shard.run(data, watermark) if kind == FOUND]
        order.shuffle(found)
        assert content(merging.run(data, watermark, flush, found)) == content(plain.run(data, watermark, flush))
        assert saved(merging.state) == saved(plain.state)
        if step.restored[0]:
            plain.restore()
            merging.restore()
        for shard in shards:
            if step.restored[1] and order.random() < 0.5:
                shard.restore()
        if step.rows:
            newest = max(newest, max(r[0] for r in step.rows) * MINUTE)
            watermark = max(watermark, (newest - plan.intake.delay_micros) // 1000, 0)


@pytest.mark.parametrize("window", list(WINDOWS))
@settings(max_examples=cases(8))
@given(batches=steps, order=st.randoms(use_true_random=False))
def test_shards_leave_no_trace(plans: dict[str, Plan], window: str, batches: list[Step], order: random.Random) -> None:
    assert_shards_leave_no_trace(plans[window], batches, order)


@pytest.mark.parametrize("window", list(WINDOWS))
@settings(max_examples=cases(8))
@given(batches=steps, order=st.randoms(use_true_random=False))
def test_shards_leave_no_trace_in_journals(plans: dict[str, Plan], window: str, batches: list[Step], order: random.Random) -> None:
    with keeping_a_journal():
        assert_shards_leave_no_trace(plans[window], batches, order)


TAKEN = Taken(3, 7)


def message(number: int, of: int, taken: Taken = TAKEN, names: tuple[str, ...] = ("near", "far")) -> bytes:
    """What a shard sends that has found nothing."""
    return table_bytes(found_table(Share(number, of), taken, {name: FoundPairs.none() for name in names}))


def test_a_shard_that_is_missing_or_disagrees_is_told() -> None:
    taken = TAKEN
    good = [message(n, 3) for n in range(3)]
    assert list(pairs_found(good, taken)) == ["near", "far"]
    for wrong in (
        [],
        good[:2],
        [*good, good[0]],
        [good[0], good[1], good[1]],
        [message(0, 3), message(1, 2)],
        [message(1, 2), message(2, 2)],
        [message(0, 2), message(1, 2, Taken(2, 7))],
        [message(0, 2), message(1, 2, Taken(3, 8))],
        [message(0, 2), message(1, 2, names=("near",))],
        [message(0, 2), b""],
        [message(0, 2), message(1, 2)[:50]],
        [message(0, 2), b"file:/nowhere"],
        [message(0, 1)[::-1]],
        [table_bytes(pa.table({"operator": [1]}))],
    ):
        with pytest.raises(SkybandError, match="the shards of a bucket do not agree with it") as told:
            pairs_found(wrong, taken)
        assert told.value.code == "SKY-E900"


def test_a_bucket_does_not_go_on_without_its_shards(plans: dict[str, Plan]) -> None:
    config = replace(HostConfig.of(plans["{count: 4}"], (), "test"), shards=Shards(2, 1))
    rows = [table_bytes(table_of(config, [(t, t, "p", 1.0, "a") for t in range(9)]))]
    found = [d for n in range(2) for kind, d in Bucket(config.of_shard(n), 0).run(rows, 0) if kind == FOUND]
    for wrong in ([], found[:1]):
        with pytest.raises(SkybandError, match="do not agree with it"):
            Bucket(config, 0).run(rows, 0, found=wrong)
    assert Bucket(config, 0).run(rows, 0, found=found)


def test_every_number_has_its_bucket_and_shard(plans: dict[str, Plan]) -> None:
    """Numbers of buckets begin at 0, those of shards are negative: bucket 0 is not taken for a shard."""
    config = replace(HostConfig.of(replace(plans["{count: 4}"], buckets=2), (), "test"), shards=Shards(3, 2))
    numbers = list(config.numbers())
    assert numbers == [-1, -2, -3, -4, -5, -6, 0, 1]
    assert [config.bucket_of(n) for n in numbers] == [0, 0, 0, 1, 1, 1, 0, 1]
    assert [config.shard_of(n) for n in numbers if n < 0] == [0, 1, 2, 0, 1, 2]
    assert [replace(config, shards=None).bucket_of(n) for n in (0, 1)] == [0, 1]
