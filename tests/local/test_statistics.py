"""A job whose scores compare rows with what was usual before, through a whole job: two runs, then proven from the source."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from skyband.jobs import cli
from tests.local.jobs import LOCAL
from tests.spark.jobs import stamp, table, write_file, write_spec

pytestmark = pytest.mark.long

SECTIONS = """\
  unusual: {expression: "(x - usual.mean) / usual.stddev", direction: max}
stats:
  usual: {mean: x, stddev: x, count: id, by: [side], window: 2 hours, at_least: 3}
"""
QUERIES = """\
  alarms: {type: threshold, scoring: unusual, at_least: -1000, where: "usual.count >= 3", carry: [x, side, usual_mean, usual_stddev]}
  most: {type: topk, scoring: unusual, k: 3}
"""


def test_scores_by_what_was_usual_before(tmp_path: Path) -> None:
    rng = random.Random(4)
    rows = [[i, stamp(5 * i), "pq"[i % 2], rng.randrange(9) / 10, 0, rng.choice("ab")] for i in range(160)]
    spec = write_spec(
        tmp_path, queries=QUERIES, scoring=SECTIONS, partition=True, buckets=2, watermark="0 minutes", window="{time: 5 hours}"
    )
    for number in (0, 1):
        write_file(tmp_path, f"{number}.csv", rows[80 * number : 80 * number + 80], at=10 * number)
        assert cli.main(["run", str(spec), *LOCAL, "--quiet", *(["--finish"] if number else [])]) == 0
    found = {r["id"]: r for r in table(tmp_path, "alarms_changes").to_pylist() if r["change"] == "+"}
    assert len(found) > 100
    for i, row in found.items():
        # Rows come every 5 minutes: those of the 2 hours before are at most 23 rows away.
        values = [Fraction(x) for _, _, grp, x, _, side in rows[max(0, i - 23) : i] if (grp, side) == (row["grp"], row["side"])]
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
        assert (row["usual_mean"], row["usual_stddev"]) == (float(mean), math.sqrt(float(variance)))
    assert cli.main(["verify", str(spec), "--instants", "5"]) == 0
