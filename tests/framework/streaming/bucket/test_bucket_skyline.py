"""A bucket with skylines: its output is a function of the rows alone, and what its tables say at any moment is the definition's result."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.skyline.brute_force import unbeaten
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.tables.schemas import skyband_schema
from skyband.framework.verify.brute_force.accepted import Accepted
from skyband.framework.verify.brute_force.objects import objects
from skyband.operators.base import NULL
from tests.framework.streaming.bucket.test_bucket import MINUTE, assert_cuts_leave_no_trace, batches_of, drive, table_of
from tests.oracles.skyline import LogicalQuery, dominance, stream
from tests.seeds import cases
from tests.specs import spec_text

SPEC = Template(
    spec_text(
        "cuts",
        "{id: bigint, ts: timestamp, grp: string, x: double, side: string}",
        partition_by="[grp]",
        window="$window",
        queries={
            "one": "{type: skyline, dimensions: {x: min, id: max}, carry: [x]}",
            "small": "{type: skyline, dimensions: {x: min, id: max}, window: $small}",
            "slow": "{type: skyline, dimensions: {x: min, id: max}, every: 7 minutes}",
            "band": "{type: skyline, dimensions: {x: max, id: min, side: equal}, band: 2}",
            "once": '{type: skyline, dimensions: {x: min}, distinct: true, where: "id < 20 or x > 1"}',
        },
    )
)
WINDOWS = {
    "{count: 4}": "{count: 2}",
    "{time: 9 minutes}": "{time: 3 minutes}",
    "{count: 5, time: 6 minutes}": "{count: 3}",
}
DIMENSIONS = {
    "one": {"x": "min", "id": "max"},
    "small": {"x": "min", "id": "max"},
    "slow": {"x": "min", "id": "max"},
    "band": {"x": "max", "id": "min", "side": "equal"},
    "once": {"x": "min"},
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    made = {}
    path = Path(tmp_path_factory.mktemp("specs")) / "spec.yaml"
    for window, small in WINDOWS.items():
        path.write_text(SPEC.substitute(window=window, small=small))
        job, errors = validate_file(str(path), {})
        assert job is not None and not errors, [e.render() for e in errors]
        made[window] = compile_job(job)
    return made


row = st.tuples(
    st.integers(0, 30), st.integers(0, 40), st.sampled_from("pq"), st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, 5.0]), st.sampled_from("uvw")
)
streams = st.lists(row, min_size=1, max_size=25, unique_by=lambda r: r[1]).map(lambda rows: sorted(rows, key=lambda r: (r[0], r[1])))


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=cases(40))
@given(rows=streams, cuts=st.lists(st.integers(1, 9), max_size=6))
def test_cuts_and_restarts_leave_no_trace(plans: dict[str, Plan], window: str, rows: list[Any], cuts: list[int]) -> None:
    plan = plans[window]
    assert_cuts_leave_no_trace(plan, rows, batches_of(rows, cuts))


def mine(rows: list[Any], grp: str) -> list[Any]:
    """The rows of a key in order."""
    return sorted((r for r in rows if r[2] == grp), key=lambda r: (r[0], r[1]))


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=cases(30))
@given(rows=streams)
def test_changes_are_those_of_the_definition(plans: dict[str, Plan], window: str, rows: list[Any]) -> None:
    plan = plans[window]
    got = drive(plan, [rows], restore=False)
    assert not got.get("rejected")
    # The last call of ``drive`` takes everything up to a millisecond after the newest row.
    until = max(r[0] for r in rows) * MINUTE + 1000
    for query in plan.queries:
        op: Any = plan.operators[query.operator].operator
        expected = []
        for grp in "pq":
            of_key = mine(rows, grp)
            named = {"x": [r[3] for r in of_key], "id": [r[1] for r in of_key], "side": [r[4] for r in of_key]}
            values = np.empty((len(of_key), len(DIMENSIONS[query.name])), object)
            usable = np.ones(len(of_key), bool)
            for j, name in enumerate(DIMENSIONS[query.name]):
                values[:, j] = named[name]
                usable &= np.array([v is not None for v in named[name]], bool)
            if query.name == "once":
                usable &= np.array([r[1] < 20 or (r[3] is not None and r[3] > 1) for r in of_key], bool)
            values[~usable] = 0
            dom = dominance(values, list(DIMENSIONS[query.name].values()), usable, op.distinct)
            logical = LogicalQuery(query.window.count, query.window.micros, query.every_micros)
            for at, step, pos, sign, _, seq in stream([r[0] * MINUTE for r in of_key], dom, usable, op.band, logical, until):
                expected.append((grp, at, step, pos, "+" if sign > 0 else "-", of_key[seq][1], seq, of_key[seq][0] * MINUTE))
        found = [
            (r["grp"], micros(r["changed_at"]), r["step"], r["pos"], r["change"], r["id"], r["seq"], micros(r["time"]))
            for r in got.get(f"changes:{query.name}", [])
        ]
        assert found == expected, query.name


def micros(at: Any) -> int:
    return pa.scalar(at, pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()  # type: ignore[no-any-return]


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=cases(30))
@given(rows=streams)
def test_the_skyband_answers_every_window(plans: dict[str, Plan], window: str, rows: list[Any]) -> None:
    """By the rule of the table's comments, after every row, for windows of 1, 2, ... rows or minutes up to the state's."""
    plan = plans[window]
    config = HostConfig.of(plan, (), "test")
    bucket = Bucket(config, 0)
    bands: dict[str, pa.Table] = {}
    for i, r in enumerate(rows):
        if i + 1 < len(rows) and rows[i + 1][0] == r[0]:
            continue
        batch = [x for x in rows if x[0] == r[0]]
        blocks = bucket.run([table_bytes(table_of(config, batch))], 0)
        for kind, block in [*blocks, *bucket.run([], (r[0] * MINUTE) // 1000 + 1)]:
            if kind.startswith("skyband:"):
                bands[kind.split(":")[1]] = bytes_table(block)
        bucket_until = bucket.until - 1
        for node in plan.operators:
            query = next(q for q in plan.queries if q.name == node.name)
            assert set(bands[node.name].column_names) == set(skyband_schema(plan, node).names)
            for grp in "pq":
                of_key = [x for x in mine(rows, grp) if x[0] <= r[0]]
                data = objects(plan, Accepted((), table_of(config, of_key), [x[0] * MINUTE for x in of_key], {}))
                band = bands[node.name].filter(pc.equal(bands[node.name]["grp"], grp))
                for count, minutes in smaller(plan):
                    narrowed = narrow(query, count, minutes)
                    found = unbeaten(Question(plan, narrowed, data, bucket_until))
                    assert found is not None
                    expected = [item[0] for item, _ in found]
                    assert answered(band, len(of_key) - 1, bucket_until, count, minutes) == expected, (node.name, grp, count, minutes)


def smaller(plan: Plan) -> list[tuple[int | None, int | None]]:
    most, micros_ = plan.window.count, plan.window.micros
    counts = [None] if most is None else list(range(1, most + 1))
    times = [None] if micros_ is None else list(range(1, micros_ // MINUTE + 1))
    return [(c, t) for c in counts for t in times]


def narrow(query: Any, count: int | None, minutes: int | None) -> Any:
    from dataclasses import replace

    from skyband.operators.base import Window

    return replace(query, window=Window(count, None if minutes is None else minutes * MINUTE), every_micros=None)


def answered(band: pa.Table, last: int, at: int, count: int | None, minutes: int | None) -> list[int]:
    """Seqs, newest first, of the rows that are in the window and whose ``pred`` is not."""

    def alive(seq: int, time: int) -> bool:
        return (count is None or seq > last - count) and (minutes is None or time > at - minutes * MINUTE)

    preds = band["pred_time"].cast(pa.int64()).to_pylist() if band.num_rows else []
    columns = zip(band["seq"].to_pylist(), band["time"].cast(pa.int64()).to_pylist(), band["pred"].to_pylist(), preds, strict=True)
    return sorted((s for s, t, p, pt in columns if alive(s, t) and (p is None or not alive(p, pt))), reverse=True)


def test_restored_arrays_equal(plans: dict[str, Plan]) -> None:
    config = HostConfig.of(plans["{count: 5, time: 6 minutes}"], (), "test")
    bucket = Bucket(config, 0)
    rows = [(t, t, "pq"[t % 2], float(t * 7 % 5), "uv"[t % 2]) for t in range(20)]
    bucket.run([table_bytes(table_of(config, rows))], 0)
    values, _ = bucket.save()
    again, _ = Bucket.restore(config, 0, values.get).save()
    assert {n for n in values if n.startswith("operator/")}
    for name, value in values.items():
        if not name.startswith(("chunk/", "seen/")):
            assert again[name] == value, name


def test_codes_of_held_texts_survive() -> None:
    codes = TextCodes(("c",))
    first = codes.encode(pa.chunked_array([["x", "c", None, "y", "z", "y"]])).tolist()
    assert first == [1, 0, NULL, 2, 3, 2]
    kept = codes.held([pa.chunked_array([["z", None, "c"]]), pa.chunked_array([["y"]])])
    assert kept.to_pylist() == [{"value": "y", "code": 2}, {"value": "z", "code": 3}]
    again = TextCodes(("c",), bytes_table(table_bytes(kept)))
    assert again.encode(pa.chunked_array([["new", "z"], ["c", "y", None]])).tolist() == [4, 3, 0, 2, NULL]
    assert again.held([pa.chunked_array([["z", "y"]])]).equals(kept)
    assert TextCodes(()).encode(pa.chunked_array([[]], pa.string())).tolist() == []
