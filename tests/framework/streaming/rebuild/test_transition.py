"""Queries that come to a bucket, or leave it, without its rows: from state to state."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.live import Live, LiveQuery, from_instant
from skyband.framework.plan.model import Plan
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.load import validated_file
from skyband.framework.spec.parsing.live_parts import LivePart, LiveParts
from skyband.framework.streaming.rebuild.add_queries import changed
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket import test_bucket, test_bucket_topk
from tests.framework.streaming.rebuild.test_backfill import QUICK, Driven, Row, row, specs, split
from tests.seeds import cases


class Kind:
    """A kind's spec, with some of its queries in the spec and some of them live."""

    def __init__(self, directory: Path, text: str) -> None:
        test_bucket_topk.write_tables(directory)
        self.path = directory / "spec.yaml"
        self.head, self.lines, self.end = split(text.replace("column: ts}", "column: ts, watermark: 3 minutes}"))
        self.names = [x.split(":")[0].strip() for x in self.lines]
        self.may_live = [n for n, x in zip(self.names, self.lines, strict=True) if "queries_from" not in x]
        self.path.write_text(self.head + "".join(self.lines) + self.end)
        whole = validated_file(str(self.path), {})
        assert whole.document is not None and not whole.errors
        self.entries: dict[str, Any] = whole.document.data["queries"]
        self.scoring = set(whole.document.data.get("scoring", {}))

    def plan(self, of_spec: list[str], live: list[str], begins: int | None = None, texts: tuple[str, ...] = ()) -> Plan:
        """The plan with the queries ``of_spec`` in the spec, and ``live`` ones, which begin at an instant."""
        lines = [x for n, x in zip(self.names, self.lines, strict=True) if n in of_spec]
        self.path.write_text(self.head + "".join(lines) + self.end)
        queries = tuple(LiveQuery(n, self.text(n, begins), "from_now", "2026-01-01T00:00:00Z", begins) for n in live)
        parts = LiveParts(tuple(LivePart(q.name, q.text) for q in queries))
        found = validated_file(str(self.path), {}, live=parts)
        assert found.job is not None, [e.render() for e in found.errors]
        return compile_job(found.job, Live(queries, texts=texts))

    def text(self, name: str, begins: int | None) -> str:
        text = json.dumps({"queries": {name: self.entries[name]}})
        return text if begins is None else from_instant(text, name, "ts", query_type(self.entries[name]["type"]).sides, begins)


def moved(of: Driven, plan: Plan) -> None:
    """The bucket goes on with ``plan``."""
    before = {o.name for o in of.plan.operators}
    of.use(plan)
    of.state = changed(HostConfig.of(plan, (), "test"), of.state, {o.name for o in plan.operators} - before)


@pytest.mark.parametrize("kind", [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in specs()])
@settings(max_examples=cases(8), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(rows=st.lists(row, min_size=1, max_size=40), seed=st.randoms(use_true_random=False))
def test_queries_that_begin_now_are_as_if_they_had_been_there_and_leave_no_trace(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: list[Row], seed: random.Random
) -> None:
    """With the condition that rows are not before now, which is what they are registered with."""
    of = Kind(tmp_path_factory.mktemp("specs"), specs()[kind])
    mine = seed.sample(of.may_live, seed.randint(1, min(3, len(of.may_live))))
    rest = [n for n in of.names if n not in mine] or [of.names[0]]
    rows = sorted(rows, key=lambda r: r[0] + seed.random() * 6)
    batches = test_bucket.batches_of(rows, [seed.randint(1, 9) for _ in range(6)])
    cut = seed.randint(1, len(batches))
    end = seed.randint(cut, len(batches))
    live = [n for n in mine if n not in rest]
    # All constants are known from the start: see Live.texts.
    texts = of.plan(rest, live).texts
    plain, later = Driven(of.plan(rest, [], texts=texts)), Driven(of.plan(rest, [], texts=texts))
    for batch in batches[:cut]:
        plain.run(batch)
        later.run(batch)
    begins = max(int(json.loads(later.state["core"])["until"]), -(2**61))
    from_start = Driven(of.plan(rest, live, max(begins, -62_000_000_000_000_000), texts))
    for batch in batches[:cut]:
        from_start.run(batch)
    moved(later, from_start.plan)
    for batch in batches[cut:end]:
        for one in (plain, later, from_start):
            one.run(batch)
    assert later.sorted() == from_start.sorted()
    # A skyband that has nothing yet is not sent.
    assert {k: rows for k, rows in later.skybands.items() if rows} == {k: rows for k, rows in from_start.skybands.items() if rows}
    moved(later, plain.plan)
    for batch in [*batches[end:], []]:
        plain.run(batch)
        later.run(batch)
    kinds = [k for k in plain.told if k.split(":")[1] in rest]
    assert {k: later.sorted()[k] for k in kinds} == {k: plain.sorted()[k] for k in kinds}
    assert {n for n in later.state if not n.startswith(("chunk", "seen"))} == {
        n for n in plain.state if not n.startswith(("chunk", "seen"))
    }
    for name in ("keys", "pending", "key_rows", "deleted"):
        assert later.state.get(name) == plain.state.get(name), name
