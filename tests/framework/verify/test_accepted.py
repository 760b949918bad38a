"""The rows that a job accepts, as verification derives them from the source: those of the run, with what each deletes or replaces."""

from __future__ import annotations

import textwrap
from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.messages import REJECTED
from skyband.framework.plan.model import Plan
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.framework.verify.brute_force.accepted import accepted, with_operations
from tests.framework.streaming.bucket.test_bucket import MINUTE, table_of
from tests.framework.streaming.bucket.test_bucket_topk import MODES
from tests.seeds import cases
from tests.specs import plan_of_text, spec_text

LATEST = 20
row = st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from("pq"), st.sampled_from([None, 0.0, 1.0]), st.sampled_from("uvwd"))


def plan_of(mode: str, window: str, tie_break: str) -> Plan:
    source, _, top = MODES[mode].partition("deletes: ")
    more = {"deletes": top} if top else {}
    return plan_of_text(
        spec_text(
            "order", "{id: bigint, ts: timestamp, grp: string, x: double, side: string}", event_time=f"{{column: ts{tie_break}}}",
            partition_by="[grp]", more=textwrap.dedent(source), window=window, scoring={"high": "{expression: x, direction: max}"},
            queries={"best": "{type: topk, scoring: high, k: 1}"}, **more,
        )
    )  # fmt: skip


PLANS = {
    (mode, window): plan_of(mode, window, tie)
    for mode in MODES
    for window, tie in (("{count: 3}", ""), ("{time: 3 minutes}", ", tie_break: [x]"))
}


@pytest.mark.parametrize(("mode", "window"), PLANS)
@settings(max_examples=cases(30))
@given(rows=st.lists(row, max_size=25), cuts=st.lists(st.integers(1, 6), max_size=6))
def test_accepted_rows_are_those_of_the_run(mode: str, window: str, rows: list[Any], cuts: list[int]) -> None:
    plan = PLANS[mode, window]
    config = HostConfig.of(plan, (), "test")
    rows = sorted(rows, key=lambda r: r[0])
    # Nothing is late: a batch has the rows from the frontier on.
    ends = [*sorted(c for c in {*cuts}), 10, 11]
    sequencer, out = Sequencer(config), Outbox()
    found: dict[int, list[tuple[int, int, int]]] = {}
    ids: dict[int, list[int]] = {}
    for start, end in pairwise([0, *ends]):
        batch = [r for r in rows if start <= r[0] < end]
        due, limit = sequencer.due_rows([table_bytes(table_of(config, batch))] if batch else [], start * MINUTE, None, out)
        taken = sequencer.sequence(due, TextCodes(config.texts), out)
        sequencer.close(taken, limit, 0, out, whole=False)
        for key, time, seq, target, ident in zip(
            taken.key.tolist(), taken.time.tolist(), taken.seq.tolist(), taken.target.tolist(), taken.rows["id"].to_pylist(), strict=True
        ):
            found.setdefault(key, [])
            ids.setdefault(key, [])
            if seq < 0:
                found[key].append((time, len(ids[key]), target))
            else:
                assert seq == len(ids[key])
                ids[key].append(ident)
    keys = sequencer.key_values(pa.array(range(sequencer.keys.known))).to_pylist()
    numbers = {r["grp"]: n for n, r in enumerate(keys)}
    source = with_operations(plan, table_of(config, rows))
    defined = accepted(source, plan.intake, plan.window, {("p",): LATEST * MINUTE, ("q",): LATEST * MINUTE})
    rejected: Counter[str] = Counter()
    for (name,), mine in defined.items():
        number = numbers.get(name, -1)
        assert mine.rows["id"].to_pylist() == ids.get(number, [])
        assert mine.deletions == found.get(number, [])
        assert mine.deleted == {seq: time for time, _, seq in mine.deletions}
        rejected.update({reason: rows.num_rows for reason, rows in mine.rejected.items()})
    sent = [r["reason"] for kind, data in out.blocks if kind == REJECTED for r in bytes_table(data).to_pylist()]
    assert Counter(sent) == rejected
