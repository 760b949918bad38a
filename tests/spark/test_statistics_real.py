"""Scores by statistics of the rows before, on prices and on sensors: every statistic and every change by definition, in fractions."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles import whole
from tests.spark.cuts import verified
from tests.spark.defined import DAY, EPOCH, Values, defined, instant, mean, number_or_null, of_groups, of_rows, written
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.slow]

SPEC = """\
job: unusual
source:
  format: csv
  path: "{directory}/in"
  options: {{header: true}}
  schema: {{at: {{type: timestamp, from: {at}}}, name: {{type: string, from: {name}}}, x: {{type: double, from: {x}}}, {more}}}
  id: [at, name]
  event_time: {{column: at}}
quality: {{max_rejected: 100%, max_unusable: 100%}}
window: {{count: 20000, time: {days} days}}
stats:
  usual: {{mean: x, stddev: x, count: x, by: [{by}], at_least: 5}}
  recent: {{min: x, max: x, sum: x, by: [name], window: {{count: {rows}, time: {recent} days}}}}
scoring:
  unusual: {{expression: "(x - usual.mean) / usual.stddev", direction: max}}
  above: {{expression: "(x - recent.min) / (recent.max - recent.min)", direction: max}}
queries:
  odd: {{type: topk, scoring: unusual, k: 10, carry: [x, usual_mean, usual_stddev, usual_count]}}
  shortly:
    {{type: topk, scoring: above, k: 5, where: "usual.count >= 10 and x < 2 * usual.mean", window: {{time: 1 day}}, carry: [recent_sum]}}
  names: {{type: topk_groups, group: name, score: mean(x - usual.mean), k: 5, window: {{time: 2 days}}}}
sink: {{path: "{directory}/out"}}
"""


@dataclass(frozen=True)
class Case:
    """Rows of a file from ``first`` on, the columns that a job reads, and the windows of its statistics."""

    file: str
    first: int
    many: int
    at: str
    name: str
    x: str
    by: str
    days: int
    rows: int
    recent: int
    more: str = ""


CASES = {
    "prices": Case("sp500_5yr.csv.gz", 0, 14_000, "date", "Name", "close", "name", 30, 5_000, 9, "volume: bigint"),
    "sensors": Case("prsa.csv.gz", 43_000, 9_000, "ts", "station", "TEMP", "wind", 7, 300, 2, "wind: {type: string, from: wd}"),
}


def rows_before(rows: Sequence[tuple[int, Values]], by: str, micros: int, count: int | None = None) -> list[list[float]]:
    """For each row in order, the values of x of the rows before it with the same value of ``by``, in a window that ends before it."""
    groups: defaultdict[str | None, deque[tuple[int, int, float | None]]] = defaultdict(deque)
    found = []
    for seq, (at, values) in enumerate(rows):
        group = groups[values[by]]
        while group and (group[0][0] <= at - micros or (count is not None and group[0][1] < seq - count)):
            group.popleft()
        found.append([] if values[by] is None else [x for _, _, x in group if x is not None])
        group.append((at, seq, values["x"]))
    return found


def usual(values: list[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation, the exact ones rounded; null for fewer than five values."""
    n = len(values)
    if n < 5:
        return None, None
    ratios = [v.as_integer_ratio() for v in values]
    unit = max(d for _, d in ratios)
    whole_numbers = [n * (unit // d) for n, d in ratios]
    total, squares = sum(whole_numbers), sum(v * v for v in whole_numbers)
    return float(Fraction(total, unit * n)), math.sqrt(float(Fraction(n * squares - total**2, unit**2 * n * (n - 1))))


def divided(x: float, y: float) -> float | None:
    return x / y if y else None if x == 0 else math.copysign(math.inf, x)


@pytest.mark.parametrize("name", CASES)
def test_scores_by_what_was_usual(spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path], name: str) -> None:
    case = CASES[name]
    with gzip.open(shared_data(f"data/{case.file}"), "rt", newline="") as file:
        read = list(islice(csv.DictReader(file), case.first, case.first + case.many))
    spec = tmp_path / "spec.yaml"
    words = {n: getattr(case, n) for n in ("at", "name", "x", "by", "days", "rows", "recent", "more")}
    spec.write_text(SPEC.format(directory=tmp_path, **words))
    (tmp_path / "in").mkdir()
    size = -(-len(read) // 3)
    for number in range(3):
        # The rows of an instant may come in two runs.
        with (tmp_path / "in" / f"{number}.csv").open("w", newline="") as file:
            out = csv.DictWriter(file, list(read[0]))
            out.writeheader()
            out.writerows(read[size * number : size * (number + 1)])
        run(spark, spec, finish=number == 2)
    assert table(tmp_path, "rejected").num_rows == 0

    rows: list[tuple[int, Values]] = []
    for r in sorted(read, key=lambda r: (r[case.at], r[case.name])):
        at = instant(r[case.at])
        wind = (r.get("wd") or None) if case.by == "wind" else None
        rows.append((at, {"at": EPOCH + timedelta(microseconds=at), "name": r[case.name], "x": number_or_null(r[case.x]), "wind": wind}))
    long = rows_before(rows, case.by, case.days * DAY)
    short = rows_before(rows, "name", case.recent * DAY, case.rows)
    for (_, v), before, recent in zip(rows, long, short, strict=True):
        center, spread = usual(before)
        x = v["x"]
        usable = x is not None and center is not None
        v |= {"usual_mean": center, "usual_stddev": spread, "usual_count": None if v[case.by] is None else float(len(before))}
        v["recent_sum"] = float(sum(map(Fraction, recent))) if recent else None
        v["odd"] = divided(x - center, spread) if usable else None
        v["apart"] = x - center if usable else None
        asked = usable and len(before) >= 10 and x < 2 * center
        v["above"] = divided(x - min(recent), max(recent) - min(recent)) if asked and recent else None
    streams: dict[str | None, list[whole.Row]] = {None: whole.numbered(rows)}

    def value(column: str) -> Callable[[whole.Values], Any]:
        return lambda v: v[column]

    odd = ("at", "name", "x", "usual_mean", "usual_stddev", "usual_count")
    shortly = ("at", "name", "recent_sum")
    want = {
        "odd": defined(streams, case.days * DAY, lambda e: whole.first(e, 10, whole.rows_by(value("odd"))), of_rows(*odd)),
        "shortly": defined(streams, DAY, lambda e: whole.first(e, 5, whole.rows_by(value("above"))), of_rows(*shortly)),
        "names": defined(streams, 2 * DAY, lambda e: whole.groups(e, 5, value("name"), value("apart"), mean), of_groups),
    }
    columns: dict[str, tuple[str, ...]] = {"odd": ("seq", *odd), "shortly": ("seq", *shortly), "names": ("name",)}
    for query, changes in want.items():
        assert written(tmp_path, query, columns[query]) == changes, query
    assert all(len(c) > 100 for c in want.values())
    assert sum(v["odd"] is not None for _, v in rows) > 5_000
    assert verified(spec)
