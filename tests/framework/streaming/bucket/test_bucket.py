"""A bucket's output is a function of the rows alone: any cuts, state written and read back at every cut."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.bucket import bucket as bucket_module
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.tokens import key_of, sets, usable
from tests.seeds import cases

MINUTE = 60_000_000
SPEC = """\
job: cuts
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, x: double, side: string}}
  id: [id]
  event_time: {{column: ts, watermark: {delay} minutes}}
  partition_by: [grp]
window: {window}
scoring:
  near: {{expression: "abs(a.x - b.x)", direction: min}}
queries:
  near2: {{type: topk_pairs, scoring: near, k: 2, carry: [x]}}
  near1: {{type: topk_pairs, scoring: near, k: 1, where: "a.side <> b.side", window: {small}}}
  slow: {{type: topk_pairs, scoring: near, k: 2, every: 7 minutes}}
sink: {{path: out}}
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory) -> dict[tuple[str, int], Plan]:
    made = {}
    directory = tmp_path_factory.mktemp("specs")
    for window, small in (
        ("{count: 4}", "{count: 2}"),
        ("{time: 9 minutes}", "{time: 3 minutes}"),
        ("{count: 5, time: 6 minutes}", "{count: 3}"),
    ):
        for delay in (0, 5):
            path = directory / "spec.yaml"
            path.write_text(SPEC.format(window=window, small=small, delay=delay))
            job, errors = validate_file(str(path), {})
            assert job is not None and not errors, [e.render() for e in errors]
            made[window, delay] = compile_job(job)
    return made


row = st.tuples(
    st.integers(0, 30), st.integers(0, 8), st.sampled_from("pq"), st.sampled_from([None, 0.0, 1.0, 2.0, 5.0]), st.sampled_from("uv")
)


def table_of(config: HostConfig, rows: list[tuple[int, int, str, float | None, str]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    ids = pa.array(columns[1], pa.int64())
    key = pa.array([hash(g) for g in ([0 if g == "p" else 1 for g in columns[2]])], pa.int64())
    made = {
        "id": ids, "ts": pa.array([MINUTE * t for t in columns[0]], pa.timestamp("us", "UTC")), "grp": pa.array(columns[2], pa.string()),
        "x": pa.array(columns[3], pa.float64()), "side": pa.array(columns[4], pa.string()), "__k1": key, "__k2": key,
        "__h1": ids, "__h2": ids, "__origin": pa.nulls(len(rows), pa.string()),
    }  # fmt: skip
    made |= {t.codes: usable(t, sets(t, pa.chunked_array([made[t.column]]), key_of(config.cache_key))) for t in config.intake.tokens}
    return pa.table(made).select(config.row_schema().names)


COUNTED = ("accepted", "late", "duplicate_id", "no_target", "deleted", "changes", "pending")


Row = tuple[int, int, str, float | None, str]


class Step(NamedTuple):
    """A call of a bucket: its rows, and the arguments ``watermark_ms``, ``reached_ms`` and ``flush``."""

    rows: list[Row]
    watermark_ms: int
    reached_ms: int | None
    flush: bool


def alone(plan: Plan, batches: list[list[Row]]) -> Iterator[Step]:
    """The bucket knows its own rows only: what else is due is processed with the next batch, the rest with an empty one."""
    watermark = newest = 0
    for batch in batches:
        yield Step(batch, watermark, None, False)
        newest = max(newest, max(r[0] for r in batch) * MINUTE)
        watermark = max(watermark, newest // 1000 - plan.intake.delay_ms, 0)
    yield Step([], newest // 1000 + 1, None, True)


def combined(plan: Plan, batches: list[list[Row]], chance: random.Random) -> Iterator[Step]:
    """Each call processes all that its batch makes due, to which rows of other buckets may add; the last one processes everything."""
    watermark = newest = 0
    for i, batch in enumerate(batches):
        newest = max(newest, max(r[0] for r in batch) * MINUTE)
        later = [r[0] * MINUTE // 1000 for b in batches[i + 1 :] for r in b]
        own = max(watermark, newest // 1000 - plan.intake.delay_ms, 0)
        # No row of a later batch gets late by this.
        reached = chance.choice([own, max(own, min(later)), chance.randint(own, max(own, min(later)))]) if later else newest // 1000 + 1
        yield Step(batch, watermark, reached, not later)
        watermark = reached


def drive(
    plan: Plan, batches: list[list[Row]], restore: bool, then: Plan | None = None, chance: random.Random | None = None
) -> dict[str, list[dict]]:
    """All blocks of a bucket fed batch by batch: as ``combined`` if there is a ``chance``, else ``alone``.

    ``then``: the plan from the first restart on.
    """
    config = HostConfig.of(plan, (), "test")
    bucket, state, out = Bucket(config, 0), {}, defaultdict(list)
    heads: dict[str, dict] = {}
    skybands: dict[str, list[dict]] = {}
    totals: dict[str, int] = defaultdict(int)
    for batch, watermark, reached, flush in alone(plan, batches) if chance is None else combined(plan, batches, chance):
        data = [table_bytes(table_of(config, batch))] if batch else []
        for kind, block in bucket.run(data, watermark, reached, flush):
            if kind.startswith(("changes:", "trajectory:", "rejected")):
                out[kind] += bytes_table(block).to_pylist()
            elif kind == "counts":
                for name, n in json.loads(block).items():
                    totals[name] += n if name.startswith("unusable:") or name in COUNTED else 0
            elif kind == "heads":
                heads |= {r["grp"]: r for r in bytes_table(block).drop_columns("as_of").to_pylist()}
            else:
                skybands[kind] = sorted(bytes_table(block).to_pylist(), key=repr)
        due = bucket.due()
        assert due is None or due >= bucket.until
        assert not reached or bucket.until == 1000 * reached
        values, dropped = bucket.save()
        state |= values
        for name in dropped:
            del state[name]
        if restore:
            config = config if then is None else HostConfig.of(then, (), "test")
            bucket = Bucket.restore(config, 0, state.get)
    for kind in out:
        if kind.startswith("changes:"):
            out[kind].sort(key=lambda r: (r.get("query", ""), r["grp"], r["step"], r["pos"]))
        else:
            out[kind].sort(key=repr)
    out["heads"] = sorted(heads.values(), key=repr)
    out |= skybands
    out["totals"] = [{name: n for name, n in totals.items() if n}]
    return dict(out)


@contextmanager
def keeping_a_journal() -> Iterator[None]:
    """Buckets save their input instead of their state, four times of five."""
    with patch.multiple(bucket_module, LEAST=1, SHARE=0, ENTRIES=4):
        yield


def batches_of(rows: list, cuts: list[int]) -> list[list]:
    """``rows`` in batches of the sizes ``cuts``, then what is left."""
    batches, i = [], 0
    for n in [*cuts, len(rows)]:
        batches.append(rows[i : i + n])
        i += n
    return [b for b in batches if b]


def assert_cuts_leave_no_trace(plan: Plan, rows: list, batches: list[list]) -> None:
    """However the rows are cut, and though state is written and read back at every cut, the same comes out."""
    whole = drive(plan, [rows], restore=False)
    assert drive(plan, batches, restore=False) == whole
    assert drive(plan, batches, restore=True) == whole
    with keeping_a_journal():
        assert drive(plan, batches, restore=False) == whole
        assert drive(plan, batches, restore=True) == whole
    assert drive(plan, [[r] for r in rows], restore=True) == whole


def assert_combined_batches_leave_no_trace(plan: Plan, rows: list, batches: list[list], chance: random.Random) -> None:
    """However the rows are cut, and however far each batch goes beyond its own rows, the same comes out as where nothing is combined."""
    whole = drive(plan, [rows], restore=False)
    assert drive(plan, [rows], restore=False, chance=chance) == whole
    assert drive(plan, batches, restore=False, chance=chance) == whole
    assert drive(plan, batches, restore=True, chance=chance) == whole
    with keeping_a_journal():
        assert drive(plan, batches, restore=False, chance=chance) == whole
        assert drive(plan, batches, restore=True, chance=chance) == whole
    assert drive(plan, [[r] for r in rows], restore=True, chance=chance) == whole


@pytest.mark.parametrize("window", ["{count: 4}", "{time: 9 minutes}", "{count: 5, time: 6 minutes}"])
@settings(max_examples=cases(40))
@given(rows=st.lists(row, min_size=1, max_size=25), cuts=st.lists(st.integers(1, 9), max_size=6))
def test_cuts_and_restarts_leave_no_trace(plans, window, rows, cuts):
    plan = plans[window, 0]
    # With no delay, rows in time order are never late, however they are cut.
    rows.sort(key=lambda r: r[0])
    assert_cuts_leave_no_trace(plan, rows, batches_of(rows, cuts))


@pytest.mark.parametrize("window", ["{count: 4}", "{time: 9 minutes}", "{count: 5, time: 6 minutes}"])
@settings(max_examples=cases(40))
@given(rows=st.lists(row, min_size=1, max_size=25), cuts=st.lists(st.integers(1, 9), max_size=6), chance=st.randoms(use_true_random=False))
def test_combined_batches_leave_no_trace(plans, window, rows, cuts, chance):
    rows.sort(key=lambda r: r[0])
    for delay in (0, 5):
        assert_combined_batches_leave_no_trace(plans[window, delay], rows, batches_of(rows, cuts), chance)


@settings(max_examples=cases(40))
@given(rows=st.lists(row, min_size=1, max_size=25), cuts=st.lists(st.integers(1, 9), max_size=6), chance=st.randoms(use_true_random=False))
def test_rows_of_a_combined_batch_are_in_any_order(plans, rows, cuts, chance):
    """None is late because of another row of its batch, however far the batch goes, with the delay or without."""
    rows.sort(key=lambda r: r[0])
    shuffled = [chance.sample(batch, len(batch)) for batch in batches_of(rows, cuts)]
    for delay in (0, 5):
        plan = plans["{count: 5, time: 6 minutes}", delay]
        assert drive(plan, shuffled, restore=True, chance=chance) == drive(plan, [rows], restore=False)


@given(rows=st.lists(row, min_size=1, max_size=30), order=st.randoms())
def test_disorder_within_the_watermark_leaves_no_trace(plans, rows, order):
    plan = plans["{time: 9 minutes}", 5]
    jitter = sorted(rows, key=lambda r: (r[0] + order.random() * 4.9, repr(r)))
    expected = drive(plan, [sorted(rows, key=lambda r: r[0])], restore=False)
    assert drive(plan, [jitter[i : i + 3] for i in range(0, len(jitter), 3)], restore=True) == expected


def test_a_slow_query_takes_back_items_that_died_since_its_last_boundary(plans):
    plan = plans["{count: 4}", 0]
    rows = [(t, t, "p", float(t % 3), "u") for t in range(30)]
    whole = drive(plan, [rows], restore=False)
    assert len(whole["changes:slow"]) > 8
    assert drive(plan, [[r] for r in rows], restore=True) == whole


def test_late_rows_are_rejected_and_change_nothing(plans):
    plan = plans["{time: 9 minutes}", 0]
    rows = [(t, t, "p", float(t), "u") for t in range(10)]
    late = [(3, 100, "p", 3.0, "v"), (4, 101, "q", 1.0, "v")]
    clean = drive(plan, [rows[:8], rows[8:]], restore=True)
    got = drive(plan, [rows[:8], [*late, *rows[8:]]], restore=True)
    assert [r["reason"] for r in got.pop("rejected")] == ["late", "late"]
    assert got["totals"][0].pop("late") == 2
    assert got == clean


def test_queries_and_columns_may_change_places_between_runs(plans):
    plan = plans["{count: 4}", 0]
    rows = [(t, t, "pq"[t % 2], float(t * 7 % 5), "uv"[t % 2]) for t in range(24)]
    whole = drive(plan, [rows], restore=False)
    text = SPEC.format(window="{count: 4}", small="{count: 2}", delay=0)
    lines = text.splitlines()
    at = lines.index("queries:")
    first, second = lines[at + 1 : at + 3]
    text = "\n".join([*lines[: at + 1], second, first, *lines[at + 3 :]])
    text = text.replace("grp: string, x: double", "x: double, grp: string")
    # Paths are relative to the spec: the same file is written again.
    spec = Path(plan.source.path or "").parent / "spec.yaml"
    spec.write_text(text)
    job, errors = validate_file(str(spec), {})
    assert job is not None and not errors
    swapped = compile_job(job)
    assert compare(fingerprint(plan), fingerprint(swapped)) == []
    assert drive(plan, [rows[:10], rows[10:]], restore=True, then=swapped) == whole


def test_a_second_finish_within_one_millisecond_is_a_later_watermark(plans):
    plan = plans["{time: 9 minutes}", 0]
    config = HostConfig.of(plan, ((10_001, 10_000_001), (10_002, 10_000_501)), "test")
    assert [config.frontier(w) for w in (0, 10_000, 10_001, 10_002, 10_003)] == [None, 10_000_000, 10_000_001, 10_000_501, 10_003_000]


def test_restored_arrays_equal(plans):
    config = HostConfig.of(plans["{count: 4}", 0], (), "test")
    bucket = Bucket(config, 0)
    bucket.run([table_bytes(table_of(config, [(t, t, "pq"[t % 2], float(t), "uv"[t % 2]) for t in range(20)]))], 0)
    values, _ = bucket.save()
    again, _ = Bucket.restore(config, 0, values.get).save()
    for name, value in values.items():
        if not name.startswith(("chunk/", "seen/")):
            assert again[name] == value, name
    assert np.array_equal(bucket.sequencer.keys.next_seq[:2], [10, 10]) or bucket.sequencer.pending.num_rows
