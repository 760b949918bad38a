"""Values that move: current results and answers as of any instant, reckoned from trajectories, whenever and however often derived."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.items import ItemShape, TimeVarying
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.queries.loyalty_rows.brute_force import most_loyal
from skyband.framework.queries.protocol import Question
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import derived_tables
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.verify.brute_force.accepted import Accepted
from skyband.framework.verify.brute_force.objects import objects
from skyband.framework.verify.replay.replay import Point, differences, off_line
from tests.framework.streaming.bucket.test_bucket import MINUTE, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import SPEC
from tests.seeds import seeds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOTION = ItemShape((), (), time_varying=TimeVarying("loyalty_seconds", "slope"))
MOVING = Timeline(cast("QueryNode", SimpleNamespace(item=MOTION)), (), ("item",))
Row = tuple[int, int, str, float | None, str]


def plan_at(sink: Path) -> Plan:
    job, errors = validate_text(SPEC, {})
    assert job is not None, errors
    return replace(compile_job(job), sink=str(sink), buckets=1)


def rows_of(seed: int, n: int) -> list[Row]:
    rng = random.Random(seed)
    times = sorted(rng.randrange(80) for _ in range(n))
    return [(at, i, rng.choice("pq"), rng.choice([0.0, 2.0, None]), rng.choice(["b", "ba", "Ä", ""])) for i, at in enumerate(times)]


def write(plan: Plan, rows: list[Row], cuts: list[int], derived: set[int]) -> Sink:
    """The job's tables after ``rows`` in batches, results derived after those in ``derived`` and at the end; each batch comes twice."""
    config, sink = HostConfig.of(plan, (), "test"), Sink(plan, DriverWriter(Path(plan.sink)), "g")
    sink.ensure_all()
    bucket, watermark = Bucket(config, 0), 0
    ends = [*cuts, len(rows), len(rows)]
    for number, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        last = number == len(ends) - 1
        watermark = rows[-1][0] * MINUTE // 1000 + 1 if last else watermark
        blocks: dict[str, list[pa.Table]] = defaultdict(list)
        for kind, data in bucket.run([table_bytes(table_of(config, rows[a:b]))] if b > a else [], watermark):
            if kind != "counts":
                blocks[kind].append(bytes_table(data))
        frontier = EPOCH + timedelta(milliseconds=watermark) if watermark else None
        watermark = max(watermark, rows[b - 1][0] * MINUTE // 1000)
        merged = {kind: pa.concat_tables(parts) for kind, parts in blocks.items()}
        merged["runs"] = sink.runs_row({"batch_id": number, "batch_time": EPOCH, "frontier": frontier, "newest": EPOCH, "counters": "{}"})
        sink.commit(number, merged)
        sink.commit(number, merged)
        if number in derived or last:
            derive(sink, number)
    return sink


@pytest.mark.parametrize("seed", seeds(0, 3))
def test_answers_and_current_results_are_the_definitions_however_derived(tmp_path: Path, seed: int) -> None:
    rows = rows_of(seed, 90)
    plans = [plan_at(tmp_path / name) for name in ("often", "once")]
    sinks = [write(plans[0], rows, [10, 11, 40, 70], {0, 1, 2, 3, 4}), write(plans[1], rows, [50], set())]
    for query in plans[0].queries:
        now, again = (s.writer.read(f"{query.name}_now").sort_by([("grp", "ascending"), ("rank", "ascending")]) for s in sinks)
        assert now.equals(again) and now.num_rows, query.name
        points, same = (s.writer.read(f"{query.name}_trajectory").drop_columns(["batch_id"]).to_pylist() for s in sinks)
        assert sorted(map(repr, points)) == sorted(map(repr, same)) and points
        # Truth, not derived: a commit that is gone is missed, and the table is never made anew.
        assert f"{query.name}_trajectory" in sinks[0].committed and f"{query.name}_trajectory" not in derived_tables(plans[0])
    assert_the_definitions(plans[0], rows, seed)


def assert_the_definitions(plan: Plan, rows: list[Row], seed: int) -> None:
    rng, reader, config = random.Random(seed), Reader(plan), HostConfig.of(plan, (), "test")
    newest = rows[-1][0] * MINUTE
    for grp in "pq":
        mine = [r for r in rows if r[2] == grp]
        data = objects(plan, Accepted((), table_of(config, mine), [r[0] * MINUTE for r in mine], {}))
        for query in plan.queries:
            for at in [None, newest, *(rng.randrange(newest) for _ in range(6))]:
                when = None if at is None else EPOCH + timedelta(microseconds=at)
                answer = reader.as_of(query.name, when, {"grp": grp}).rows
                assert answer["rank"].to_pylist() == list(range(1, answer.num_rows + 1))
                named = query.item.identity(plan.intake.partition_by)
                told = [(tuple(r[n] for n in named), r["loyalty_seconds"]) for r in answer.to_pylist()]
                as_of = reader.as_of(query.name, when, {"grp": grp}).as_of
                assert as_of is not None
                expected = most_loyal(Question(plan, query, data, (as_of - EPOCH) // timedelta(microseconds=1)))
                assert told == expected, (query.name, grp, at)


def intervals(*rows: tuple[str, int, float, int]) -> pa.Table:
    items, since, values, slopes = zip(*rows, strict=True)
    stamps = pa.array(since, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"item": items, "valid_from": stamps, "loyalty_seconds": values, "slope": pa.array(slopes, pa.int32())})


def test_the_latest_point_by_then_counts_and_an_interval_is_one() -> None:
    rows = intervals(("a", 0, 1.0, 1), ("b", 5_000_000, 3.0, 0), ("c", 2_000_000, 9.0, -1))
    points = intervals(("a", 2_000_000, 3.0, 0), ("a", 4_000_000, 3.0, -1), ("a", 9_000_000, 0.0, 0), ("c", 2_500_001, 8.499999, 1))
    got = MOVING.values_at(rows, points, np.array([4_500_000, 6_000_000, 2_500_003]))
    assert got["loyalty_seconds"].to_pylist() == [2.5, 3.0, 8.500001] and got["slope"].to_pylist() == [-1, 0, 1]
    assert MOVING.values_at(rows.slice(0, 0), points, np.empty(0, np.int64)).num_rows == 0
    alone = replace(MOVING, identity=())
    assert alone.values_at(rows.slice(0, 1), points.slice(0, 0), np.array([1])).column("loyalty_seconds").to_pylist() == [1.000001]
    with pytest.raises(SkybandError, match="before it entered the result"):
        MOVING.values_at(rows, points, np.array([4_500_000, 4_999_999, 2_500_003]))


def test_trajectories_that_do_not_fit_are_told() -> None:
    line = [Point(0, 0, 1), Point(10, 10, 0), Point(20, 10, -1)]
    assert not list(differences("x", Point(0, 0, 1), (25, 5), line, False))
    assert not list(differences("x", Point(12, 10, 0), None, line, True))
    wrong: list[tuple[Any, ...]] = [
        (Point(12, 10, 0), None, line, False),  # a member's trajectory begins where it enters
        (Point(0, 1, 1), None, line, False),
        (Point(0, 0, 0), None, line, False),
        (Point(0, 0, 1), (25, 6), line, False),
        (Point(0, 0, 1), None, [*line, Point(30, 1, 0)], False),
        (Point(0, 0, 1), None, [*line, Point(30, 0, 2)], False),
        (Point(0, 0, 1), None, [], False),
    ]
    for start, end, points, of_all in wrong:
        assert list(differences("x", start, end, points, of_all)), (start, end, points)
    assert list(off_line("x", [Point(0, 0, 1), Point(0, 0, 1)]))


def test_verify_finds_a_point_that_is_gone_or_moved(tmp_path: Path) -> None:
    from skyband.framework.verify.replay.causes import Clocks
    from skyband.framework.verify.replay.replay import replay
    from skyband.framework.verify.stored import Stored

    plan = plan_at(tmp_path / "sink")
    write(plan, rows_of(5, 60), [30], {0})
    (tmp_path / "sink" / "_skyband").mkdir(exist_ok=True)
    (tmp_path / "sink" / "_skyband" / "job.json").write_text('{"generation": "g"}')
    for name in ("two", "long"):
        query = next(q for q in plan.queries if q.name == name)
        directory = tmp_path / "sink" / f"{name}_trajectory"
        whole = DeltaTable(str(directory)).to_pyarrow_table().sort_by("valid_from")
        middle = whole.num_rows // 2
        value = whole["loyalty_seconds"].to_pylist()
        moved_point = [*value[:middle], value[middle] + 1e-6, *value[middle + 1 :]]
        gone = whole.filter(pc.not_equal(pa.array(range(whole.num_rows)), middle))
        for rows, fine in ((whole, True), (gone, False), (whole.set_column(3, "loyalty_seconds", pa.array(moved_point)), False)):
            write_deltalake(str(directory), rows.cast(whole.schema), mode="overwrite")
            stored = Stored(plan)
            found = replay(stored, query, Clocks(stored)).differences
            assert (found == []) is fine, (name, whole.slice(middle, 1).to_pylist(), found)
