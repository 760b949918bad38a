"""Tables of parameters of one expression, as a whole job in memory: results are the definition's, whatever the drops and restarts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.spec.load import validate_file
from skyband.operators.threshold.many import ManyThreshold
from skyband.operators.topk.many import ManyTopK
from tests.specs import spec_text

SPEC = spec_text(
    "families",
    "{id: bigint, ts: timestamp, x: double, y: int}",
    path="/nowhere/in",
    sink="{path: /nowhere/out}",
    window="{count: 30}",
    scoring={"product": '{expression: "(c + x) * (e + y)", direction: max}', "near": '{expression: "abs(x - c) + abs(y - e)"}'},
    queries={
        "best": "{type: topk, scoring: product, k: 3, queries_from: {format: csv, path: table.csv}}",
        "close": "{type: threshold, scoring: near, at_most: 3, queries_from: {format: csv, path: table.csv}}",
    },
)
CONSTANTS = {f"q{i}": (i - 4.0, i * 7 % 5 - 1.5) for i in range(10)}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    rows = "".join(f"{name},{c!r},{e!r}\n" for name, (c, e) in CONSTANTS.items())
    (tmp_path / "table.csv").write_text(f"name,c,e\n{rows}")
    (tmp_path / "spec.yaml").write_text(SPEC)
    job, errors = validate_file(str(tmp_path / "spec.yaml"), {})
    assert job is not None and not errors, [e.render() for e in errors]
    return compile_job(job)


def test_results_are_those_of_the_definition(plan: Plan) -> None:
    assert [type(o.operator) for o in plan.operators] == [ManyTopK, ManyThreshold]
    rng = np.random.default_rng(1)
    rows = [
        {"id": i, "ts": i * 60_000_000, "x": None if rng.random() < 0.1 else float(rng.integers(-3, 9)), "y": int(rng.integers(0, 5))}
        for i in range(120)
    ]
    job = Rehearsal(plan)
    for i in range(0, len(rows), 25):
        job.drop(rows[i : i + 25])
        job.restart()
    job.finish()
    alive = [(seq, r["x"], r["y"]) for seq, r in enumerate(rows) if seq >= len(rows) - 30 and r["x"] is not None]
    now = {name: job.tables()[f"{name}_now"].to_pylist() for name in ("best", "close")}
    for name, (c, e) in CONSTANTS.items():
        best = sorted((((c + x) * (e + y), seq) for seq, x, y in alive), reverse=True)[:3]
        assert [(r["score"], r["seq"]) for r in now["best"] if r["query"] == name] == best
        close = {(abs(x - c) + abs(y - e), seq) for seq, x, y in alive if abs(x - c) + abs(y - e) <= 3}
        assert {(r["score"], r["seq"]) for r in now["close"] if r["query"] == name} == close
