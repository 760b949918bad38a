"""The cost of inline row rules: the demo job with rules of every severity and kind against the same job without rules.

Both process the same days into fresh tables, by turns in one warm session. ``of_without`` is the throughput with rules as a share of the
throughput without, by the medians of wall time and of CPU time. No rule rejects a row, so both jobs have the same work.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.pipeline import ROOT, WORK, _once

REPEATS = 5
DAYS = int(os.environ.get("BENCH_DAYS", "365"))
"""Fewer, where the machine has other things to do."""
RULES = """\
quality:
  max_rejected: 5%
  rows:
    - {name: known_airport, expect: "origin in ('EWR', 'JFK', 'LGA')", severity: fail}
    - {name: in_order, expect: "departed > scheduled - interval 2 hours"}
    - {expectation: expect_column_values_to_be_between, column: distance, min_value: 1, max_value: 10000}
    - {expectation: expect_column_values_to_be_between, column: air_time, min_value: 1, max_value: 1440}
    - {expectation: expect_column_values_to_match_regex, column: carrier, regex: "^[A-Z0-9]{2}$"}
    - {expectation: expect_column_value_lengths_to_equal, column: dest, value: 3}
    - {expectation: expect_column_values_to_not_be_null, column: tailnum, severity: warn}
    - {expectation: expect_column_values_to_be_between, column: dep_delay, max_value: 180, severity: warn}
"""


def run() -> Iterator[dict[str, Any]]:
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.spec.load import validate_text
    from skyband.framework.streaming.spark.session import get_session
    from skyband.jobs.authoring.demo_data import write_landing

    landing, whole = WORK / "rules", WORK / "landing"
    write_landing(whole)
    shutil.rmtree(landing, ignore_errors=True)
    landing.mkdir(parents=True)
    for path in sorted(whole.iterdir())[:DAYS]:
        shutil.copy2(path, landing)
    os.environ |= {"LANDING": str(landing), "WAREHOUSE": str(WORK / "tables")}
    text = (ROOT / "specs" / "flights.yaml").read_text(encoding="utf-8").replace("quality: {max_rejected: 5%}\n", RULES)
    job, errors = validate_text(text, os.environ)
    assert job is not None and not errors, [e.render() for e in errors]
    ruled = compile_job(job)
    plans = {"without": replace(ruled, intake=replace(ruled.intake, rules=())), "rules": ruled}
    spark = get_session("skyband-bench", quick=False)
    for plan in plans.values():  # starts workers, compiles kernels
        _once(spark, plan)
    made: dict[str, list[dict[str, float]]] = {name: [] for name in plans}
    for _ in range(REPEATS):
        for name, plan in plans.items():
            made[name].append(_once(spark, plan))
    seconds, cpu = ({n: sorted(r[of] for r in runs)[REPEATS // 2] for n, runs in made.items()} for of in ("seconds", "cpu"))
    rows = made["rules"][0]["rows"]
    for name in plans:
        yield {
            "operator": "topk_pairs",
            "params": {"job": "flights", "rows": int(rows), "rules": len(plans[name].intake.rules)},
            "cpu_ns_per_event": 1e9 * cpu[name] / rows,
            "wall_ns_per_event": 1e9 * seconds[name] / rows,
            "peers": {},
            "rows_per_second": rows / seconds[name],
            "of_without": seconds["without"] / seconds[name],
            "of_without_cpu": cpu["without"] / cpu[name],
        }
