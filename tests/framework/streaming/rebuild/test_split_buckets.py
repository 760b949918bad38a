"""A bucket's state divided among several: what they tell from then on is what one, and what several from the start, would have told."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from skyband.framework.plan.model import Plan
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rebuild.split_buckets import Division
from skyband.framework.streaming.rows.blocks import arrays_bytes, bytes_arrays, bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket import test_bucket
from tests.framework.streaming.bucket.test_bucket import table_of
from tests.framework.streaming.rebuild.test_backfill import Row, Specs, specs
from tests.seeds import cases

KEYS = "abcdefgh"
row = st.tuples(
    st.integers(0, 30), st.integers(0, 25), st.sampled_from(KEYS), st.sampled_from([None, 0.0, 1.0, 2.0, 3.0, 5.0]),
    st.sampled_from(["a", "b", "a b", "b c a", "d", "u"]),
)  # fmt: skip


class Buckets:
    """All buckets of a job, fed batch by batch; a bucket runs if it has rows or something is due, and is read back from its state."""

    def __init__(self, plan: Plan, buckets: int) -> None:
        self.states: dict[int, dict[str, bytes]] = defaultdict(dict)
        self.told: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.newest = self.watermark = 0
        self.use(replace(plan, buckets=buckets))

    def use(self, plan: Plan) -> None:
        self.plan, self.config = plan, HostConfig.of(plan, (), "test")

    def run(self, rows: list[Row]) -> None:
        """One batch; without rows the last, which takes all that waits."""
        if not rows:
            self.watermark = self.newest // 1000 + 1
        table = table_of(self.config, rows)
        key = pa.array([KEYS.index(r[2]) * 5 for r in rows], pa.int64())
        for name in ("__k1", "__k2"):
            table = table.set_column(table.column_names.index(name), name, key)
        for number in range(self.plan.buckets):
            mine = table.filter(pa.array([k % self.plan.buckets == number for k in key.to_pylist()], pa.bool_()))
            bucket = Bucket.restore(self.config, number, self.states[number].get)
            due = bucket.due()
            if mine.num_rows or (due is not None and due // 1000 < self.watermark):
                self.hear(bucket.run([table_bytes(mine)] if mine.num_rows else [], self.watermark))
                values, dropped = bucket.save()
                self.states[number] |= values
                for name in dropped:
                    del self.states[number][name]
        self.newest = max([self.newest, *(r[0] * test_bucket.MINUTE for r in rows)])
        self.watermark = max(self.watermark, self.newest // 1000 - self.plan.intake.delay_micros // 1000, 0)

    def hear(self, blocks: list[tuple[str, bytes]]) -> None:
        for kind, data in blocks:
            if kind.startswith(("changes:", "trajectory:")):
                self.told[kind] += bytes_table(data).to_pylist()
            elif kind == "rejected":
                self.counts.update((r["text"], r["reason"]) for r in bytes_table(data).to_pylist())

    def divide(self, buckets: int) -> None:
        """The job has so many buckets from now on."""
        before, self.states = self.states, defaultdict(dict)
        for was, values in before.items():
            if values:
                division = Division(self.config, values, buckets)
                for number in range(was, buckets, self.plan.buckets):
                    self.states[number] = division.of(number)
        self.use(replace(self.plan, buckets=buckets))

    def sorted(self) -> dict[str, list[Any]]:
        """What was told of each query, in the order of its steps."""
        keys = ("query", "grp", "step", "pos", "valid_from")
        return {k: sorted(v, key=lambda r: [r[n] for n in keys if n in r] + [repr(r)]) for k, v in self.told.items()}

    def skybands(self) -> dict[str, list[str]]:
        """By operator, all rows of its skybands, as the states have them."""
        found: dict[str, list[str]] = defaultdict(list)
        for number, values in self.states.items():
            if values:
                bucket = Bucket.restore(self.config, number, values.get)
                for i, node in enumerate(self.config.operators):
                    if node.skyband and bucket.sequencer.keys.known:
                        host = bucket.host
                        rows = host.items.skyband(i, host.logics[i].skyband(), host.store, bucket.sequencer.key_values, number)
                        found[node.name] += [repr(r) for r in rows.to_pylist()]
        return {name: sorted(rows) for name, rows in found.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Specs:
    return Specs(Path(tmp_path_factory.mktemp("specs")))


@pytest.mark.parametrize("kind", [k if k == "pairs" else pytest.param(k, marks=pytest.mark.slow) for k in specs()])
@settings(max_examples=cases(8), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    rows=st.lists(row, min_size=1, max_size=60), sizes=st.sampled_from([(1, 8), (2, 4), (3, 6), (2, 2), (1, 40)]),
    seed=st.randoms(use_true_random=False),
)  # fmt: skip
def test_a_divided_job_tells_what_it_would_have_told(
    made: Specs, kind: str, rows: list[Row], sizes: tuple[int, int], seed: random.Random
) -> None:
    plan = made.plan(kind, tuple(range(made.queries(kind))))
    rows = sorted(rows, key=lambda r: r[0] + seed.random() * 6)
    batches = test_bucket.batches_of(rows, [seed.randint(1, 9) for _ in range(6)])
    cut = seed.randint(0, len(batches))
    few, many, grown = Buckets(plan, sizes[0]), Buckets(plan, sizes[1]), Buckets(plan, sizes[0])
    for number, batch in enumerate([*batches, [], []]):
        if number == cut:
            grown.divide(sizes[1])
        for job in (few, many, grown):
            job.run(batch)
    assert grown.sorted() == many.sorted() == few.sorted()
    assert grown.counts == many.counts
    assert grown.skybands() == many.skybands()


def test_it_is_divided_twice_with_nothing_in_between(made: Specs) -> None:
    plan = made.plan("pairs", tuple(range(made.queries("pairs"))))
    rng = random.Random(3)
    rows = [(t, t, rng.choice(KEYS), float(t % 4), "ab"[t % 2]) for t in range(60)]
    once, twice = Buckets(plan, 2), Buckets(plan, 2)
    for job in (once, twice):
        job.run(rows[:40])
    twice.divide(4)
    twice.divide(8)
    once.divide(8)
    assert {n for n, v in once.states.items() if v} == set(range(8))
    for number, values in once.states.items():
        assert values == twice.states[number]
    for job in (once, twice):
        job.run(rows[40:])
        job.run([])
    assert once.sorted() == twice.sorted()


def test_nothing_is_taken_for_granted_of_a_state(made: Specs) -> None:
    plan = made.plan("pairs", tuple(range(made.queries("pairs"))))
    job = Buckets(plan, 1)
    job.run([(0, 0, "a", 1.0, "a"), (1, 1, "b", 2.0, "b")])
    with pytest.raises(ValueError, match="unknown value of a state: other"):
        Division(job.config, job.states[0] | {"other": b""}, 2)
    name = f"operator/{plan.operators[0].name}"
    arrays = bytes_arrays(job.states[0][name]) | {"news": np.zeros(2)}
    with pytest.raises(ValueError, match="state_keys does not declare news"):
        Division(job.config, job.states[0] | {name: arrays_bytes(arrays)}, 2).of(0)
