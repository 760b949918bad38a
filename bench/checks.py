"""The cost of the quality gate over 1,000 runs, simulated on the tables without Spark, and of the invariants of a derivation.

A run is one batch of about 60 changes, a derivation of results, and the gate: expectations on append-only tables (new rows only), on the
current results, and rules over runs. A row is a point in time: the median, over the last 50 runs, of the CPU milliseconds of gate and
derivation (wall time for a single check), and the share of the derivation that its invariants took. The last row derives 1,000,000
changes at once. ``SKYBAND_CHECKS_RUNS`` makes it shorter.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

WORK = Path(__file__).resolve().parents[1] / "build" / "bench" / "checks"
RUNS = 1000
EVERY = 100
LAST = 50


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.plan.nodes import Check, RunRule

    checks = (
        Check("near_changes", "expect_column_values_to_be_between", '{"column":"score","min_value":0,"max_value":10}', "critical", "new"),
        Check("near_now", "expect_table_row_count_to_be_between", '{"max_value":100}', "critical"),
    )
    rules = (RunRule("critical", max_delay_micros=600_000_000), RunRule("critical", min_rows=1, per_micros=86_400_000_000))
    yield from _runs(int(os.environ.get("SKYBAND_CHECKS_RUNS", RUNS)), checks, rules)
    yield _large(1_000_000)


def _runs(runs: int, checks: Any, rules: Any) -> Iterator[dict[str, Any]]:
    from skyband.framework.console.lines import Lines
    from skyband.framework.quality.gate import Gate
    from skyband.framework.tables.results import derive, invariants
    from skyband.framework.tables.writing.driver_writer import DriverWriter
    from skyband.framework.tables.writing.sink import Sink
    from tests.framework.tables.plans import batch_blocks, make_plan, random_changes

    shutil.rmtree(WORK, ignore_errors=True)
    plan = make_plan(str(WORK), checks=checks)
    plan = replace(plan, run_rules=rules, queries=(plan.queries[0],))
    sink = Sink(plan, DriverWriter(WORK), "g")
    sink.ensure_all()
    changes = random_changes(plan, seed=1, batches=runs, steps=60)
    spent: dict[str, list[float]] = {"gate": [], "derive": [], "invariants": []}
    now = datetime.now(UTC) - timedelta(minutes=runs)
    with _timed(invariants, "broken", spent["invariants"]):
        for n in range(runs):
            at = now + timedelta(minutes=n)
            row = {"batch_id": n, "batch_time": at, "rows_in": 100, "frontier": at, "newest": at, "counters": "{}"}
            blocks = {k: v for k, v in batch_blocks(plan, changes[n], n).items() if k.startswith("changes")}
            sink.commit(n, blocks | {"runs": sink.runs_row(row)})
            for name, what in (
                ("derive", lambda n=n: derive.derive(sink, n)),
                ("gate", lambda: Gate(plan, Lines(io.StringIO())).look(sink, None)),
            ):
                began = time.process_time()
                what()
                spent[name].append(1000 * (time.process_time() - began))
            if (n + 1) % EVERY == 0:
                found = sink.writer.read("checks").sort_by("batch_id")
                assert len(found) == (n + 1) * (len(checks) + len(rules)) and len(sink.writer.read("published")) == 3
                last = found.slice(len(found) - LAST * (len(checks) + len(rules)))
                part = sum(spent["invariants"][-LAST:]) / sum(spent["derive"][-LAST:])
                yield {
                    "operator": "gate", "params": {"runs": n + 1},
                    "ms": {
                        "gate": statistics.median(spent["gate"][-LAST:]), "check": statistics.median(last["check_ms"].to_pylist()),
                        "derive": statistics.median(spent["derive"][-LAST:]),
                    },
                    "invariants_percent_of_derive": 100 * part,
                    "failed": sum(not ok for ok in last["success"].to_pylist()),
                }  # fmt: skip


class _timed:
    """While entered, the seconds' thousandths that calls of a generator function take, from its start to its end, are added to a list."""

    def __init__(self, module: Any, name: str, spent: list[float]) -> None:
        self.module, self.name, self.spent = module, name, spent
        self.real: Callable[..., Iterator[Any]] = getattr(module, name)

    def __enter__(self) -> None:
        def timed(*args: Any) -> list[Any]:
            began = time.process_time()
            found = list(self.real(*args))
            self.spent.append(1000 * (time.process_time() - began))
            return found

        setattr(self.module, self.name, timed)

    def __exit__(self, *_: object) -> None:
        setattr(self.module, self.name, self.real)


def _large(rows: int) -> dict[str, Any]:
    """One derivation of many changes of 100 keys, as after a first run over much."""
    from skyband.framework.tables.results import derive, invariants
    from skyband.framework.tables.writing.driver_writer import DriverWriter
    from skyband.framework.tables.writing.sink import Sink
    from tests.framework.tables.plans import DAY, item_row, make_plan, to_table, without

    shutil.rmtree(WORK, ignore_errors=True)
    plan = make_plan(str(WORK), ("grp",))
    plan = replace(plan, queries=(plan.queries[0],))
    sink = Sink(plan, DriverWriter(WORK), "g")
    sink.ensure_all()
    rng = random.Random(1)
    made = []
    steps = dict.fromkeys(range(100), 0)
    for i in range(rows // 2):
        key = rng.randrange(100)
        steps[key] += 1
        row = {"grp": f"k{key}", "changed_at": DAY + i, "step": steps[key], "cause": "arrival", "score": 1.0} | item_row(
            (i, i + 1), ("older", "newer"), ("x", "price")
        )
        made += [row | {"pos": 0, "change": "+"}, row | {"step": steps[key] + 1, "pos": 0, "change": "-"}]
        steps[key] += 1
    schema = without(sink.specs["near_changes"].schema, "batch_id")
    blocks: dict[str, pa.Table] = {"changes:near": to_table(made, schema)}
    heads = [{"grp": f"k{k}", "bucket": 0, "last_seq": rows, "last_time": DAY + rows, "as_of": DAY + rows} for k in range(100)]
    blocks["heads"] = to_table(heads, sink.specs["heads"].schema)
    sink.commit(0, blocks | {"runs": sink.runs_row({"batch_id": 0, "counters": "{}"})})
    spent: list[float] = []
    with _timed(invariants, "broken", spent):
        began = time.process_time()
        derive.derive(sink, 0)
        whole = 1000 * (time.process_time() - began)
    return {
        "operator": "derive", "params": {"changes": rows}, "ms": {"derive": whole, "invariants": sum(spent)},
        "invariants_percent_of_derive": 100 * sum(spent) / whole,
    }  # fmt: skip
