"""A bucket with loyalty: its output is a function of the rows alone; changes, trajectories and brute force are the definition's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.queries.loyalty_rows.brute_force import most_loyal
from skyband.framework.queries.protocol import Question
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.verify.brute_force.accepted import Accepted
from skyband.framework.verify.brute_force.objects import objects
from tests.framework.streaming.bucket.test_bucket import MINUTE, assert_cuts_leave_no_trace, batches_of, drive, table_of
from tests.oracles import loyalty as oracle
from tests.seeds import cases
from tests.specs import spec_text

SPEC = spec_text(
    "cuts",
    "{id: bigint, ts: timestamp, grp: string, x: double, side: string}",
    partition_by="[grp]",
    window="{time: 9 minutes}",
    queries={
        "two": "{type: topk_loyalty, object: side, criteria: x > 1, k: 2}",
        "long": "{type: threshold_loyalty, object: side, criteria: x > 1, at_least: 3 minutes, trace: all}",
        "slow": "{type: topk_loyalty, object: side, criteria: x > 1, k: 2, every: 4 minutes}",
        "stale": "{type: topk_loyalty, object: side, criteria: x > 1, stale_after: 2 minutes, k: 1, window: {time: 5 minutes}, trace: all}",
        "alone": "{type: threshold_loyalty, object: grp, criteria: x > 1, at_least: 4 minutes}",
        "some": "{type: threshold_loyalty, object: [grp, side], criteria: x > 1, at_least: 1 minute, where: \"side <> 'b'\", every: 3 minutes}",  # noqa: E501
    },
)
STATES = {"two": ("two", "long", "slow"), "stale": ("stale",), "alone": ("alone",), "some": ("some",)}
MORE = """\
scoring:
  near: {expression: "abs(a.x - b.x)", direction: min}
queries:
  near: {type: topk_pairs, scoring: near, k: 2, carry: [x]}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = Path(tmp_path_factory.mktemp("specs")) / "spec.yaml"
    return plan_of(path, SPEC)


def plan_of(path: Path, spec: str) -> Plan:
    path.write_text(spec)
    job, errors = validate_file(str(path), {})
    assert job is not None and not errors, [e.render() for e in errors]
    return compile_job(job)


# Objects that begin each other's names: ties are by name.
row = st.tuples(
    st.integers(0, 30),
    st.integers(0, 60),
    st.sampled_from("pq"),
    st.sampled_from([None, 0.0, 2.0, 3.0]),
    st.sampled_from(["b", "ba", "Ä", ""]),
)
streams = st.lists(row, min_size=1, max_size=30, unique_by=lambda r: r[1]).map(lambda rows: sorted(rows, key=lambda r: (r[0], r[1])))


def test_queries_of_both_types_share_a_state(plan: Plan) -> None:
    assert {o.name: o.queries for o in plan.operators} == STATES


@settings(max_examples=cases(25))
@given(rows=streams, cuts=st.lists(st.integers(1, 9), max_size=6))
def test_cuts_and_restarts_leave_no_trace(plan: Plan, rows: list[Any], cuts: list[int]) -> None:
    assert_cuts_leave_no_trace(plan, rows, batches_of(rows, cuts))


def test_what_one_state_has_forgotten_and_another_has_not_is_named_again(plan: Plan) -> None:
    # ``stale`` needs these objects until minute 6, ``two`` until minute 10; they come back at minute 8. So many are forgotten for good.
    sides = [f"s{i}" for i in range(100)]
    reports = [(0, 2.0), (1, 0.0), (8, 2.0), (12, 0.0)]
    rows = [(at, 100 * n + i, "p", x, side) for n, (at, x) in enumerate(reports) for i, side in enumerate(sides)]
    rows += [(7, 999, "p", 0.0, "other"), (30, 1000, "p", 0.0, "other")]
    rows.sort(key=lambda r: (r[0], r[1]))
    whole = drive(plan, [rows], restore=False)
    assert len(whole["trajectory:stale"]) > 300
    batches = [[r for r in rows if r[0] == at] for at in sorted({r[0] for r in rows})]
    for restore in (False, True):
        assert drive(plan, batches, restore=restore) == whole


def test_states_that_keep_rows_and_states_that_keep_none_are_read_back_side_by_side(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "mixed.yaml", SPEC.replace("queries:\n", MORE, 1))
    rows = [(at, at, "pq"[at % 2], float(at % 4), ["b", "ba", ""][at % 3]) for at in range(30)]
    assert_cuts_leave_no_trace(plan, rows, batches_of(rows, [7, 3, 11]))


@settings(max_examples=cases(25))
@given(rows=streams)
def test_changes_trajectories_and_brute_force_are_the_definitions(plan: Plan, rows: list[Any]) -> None:
    got = drive(plan, [rows], restore=False)
    end = rows[-1][0] * MINUTE + 1
    for grp in "pq":
        mine = [r for r in rows if r[2] == grp]
        data = objects(plan, Accepted((), table_of(HostConfig.of(plan, (), "test"), mine), [r[0] * MINUTE for r in mine], {}))
        for query in plan.queries:
            op: Any = plan.operators[query.operator].operator
            entry = op.queries[query.index]
            definition = oracle.Query(entry.k, entry.at_least, entry.every, entry.trace_all)
            reports = [
                oracle.Report(r[0] * MINUTE, () if query.name == "alone" else (r[4].encode(),), r[3] > 1)
                for r in mine
                if r[3] is not None and (query.name != "some" or r[4] != "b")
            ]
            named = query.item.identity(plan.intake.partition_by)

            def item_of(row: dict[str, Any], named: tuple[str, ...] = named) -> tuple[bytes, ...]:
                return tuple(row[n].encode() for n in named)

            window, stale = op.window.micros, op.stale_after
            spans = oracle.spans(reports, stale)
            at = oracle.instants(spans, window, [definition], end)
            changes = [c for c in got.get(f"changes:{query.name}", []) if c["grp"] == grp]
            emitted = [
                (micros(c["changed_at"]), c["step"], c["pos"], c["change"], c["cause"], item_of(c), c["loyalty_seconds"], c["slope"])
                for c in changes
            ]
            expected = oracle.changes(reports, stale, window, definition, at)
            assert emitted == [(c.at, c.step, c.pos, "-+"[c.sign > 0], c.cause, c.object, c.loyalty / 1e6, c.slope) for c in expected]
            traced = [
                (micros(p["valid_from"]), item_of(p), p["loyalty_seconds"], p["slope"])
                for p in got.get(f"trajectory:{query.name}", [])
                if p["grp"] == grp
            ]
            points = oracle.points(reports, stale, window, definition, at)
            assert sorted(traced) == sorted((p.at, p.object, p.loyalty / 1e6, p.slope) for p in points)
            for t in at:
                boundary = t // definition.every * definition.every if definition.every else t
                members = oracle.ranked(spans, window, t, oracle.result(spans, window, definition, boundary))
                worth = [(tuple(n.decode() for n in o), oracle.loyalty(spans[o], window, t) / 1e6) for o in members]
                assert most_loyal(Question(plan, query, data, t)) == worth, (query.name, t)


def micros(at: Any) -> int:
    return pa.scalar(at, pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()  # type: ignore[no-any-return]
