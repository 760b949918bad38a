"""Similar sets of real itineraries, commits and baskets: results are the definition's."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from bench.similar_sets import WORD
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.authoring.demo_data import flights, itineraries, write_itineraries
from skyband.jobs.spec import load_plan
from tests.conftest import ROOT
from tests.spark.cuts import verified
from tests.spark.jobs import run, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_itineraries_are_the_definitions(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_itineraries(tmp_path / "itineraries", 9)
    (tmp_path / "landing").mkdir()
    monkeypatch.setenv("LANDING", str(tmp_path / "landing"))
    monkeypatch.setenv("WAREHOUSE", str(tmp_path / "tables"))
    spec = ROOT / "specs" / "itineraries.yaml"
    run(spark, spec)
    assert verified(spec)
    days = itineraries(flights()).to_pandas()
    days = days[days["date"].map(str) < "2013-01-10"]
    days["last"] = pd.to_datetime(days["last"])
    days = days[days["airports"].map(len) >= 4].sort_values(["last", "date", "tailnum"])
    alive = days[days["last"] > days["last"].max() - pd.Timedelta(days=7)].to_dict("records")
    scores = []
    for a, b in combinations(alive, 2):
        common = len({*a["airports"]} & {*b["airports"]})
        if common and a["tailnum"] != b["tailnum"]:
            scores.append(common / (len(a["airports"]) + len(b["airports"]) - common))
    rows = Reader(load_plan(str(spec))).as_of("alike").rows.to_pylist()
    assert len(rows) == 10 and [r["score"] for r in rows] == sorted(scores, reverse=True)[:10]
    assert all(r["older_tailnum"] != r["newer_tailnum"] for r in rows)


REAL = """\
job: real
source:
  format: csv
  path: "{directory}/in"
  options: {{sep: "\\t", quote: "", header: {header}}}
  schema: {schema}
  id: [{id}]
  event_time: {{column: {time}, watermark: 1 hour}}
{more}
window: {{count: 500}}
queries:
  near: {{type: topk_similar_sets, tokens: parts, k: 50, where: "{where}"}}
  seen: {{type: matches, tokens: parts, k: 2, min_score: 0.25, where: "{where}"}}
sink: {{path: "{directory}/out"}}
run: {{trigger: once}}
"""
COMMITS = {
    "header": "true", "schema": "{commit_ts: bigint, author_ts: bigint, hash: string, author_id: string, subject: string}", "id": "hash",
    "time": "at", "where": "a.author_id <> b.author_id",
    "more": 'transform:\n  - derive: {at: "timestamp_seconds(commit_ts)"}\n'
    "tokens: {parts: {column: subject, min_tokens: 2, short: reject}}",
}  # fmt: skip
BASKETS = {
    "header": "false", "schema": "{time: timestamp, invoice: string, goods: string}", "id": "invoice", "time": "time",
    "where": "a.invoice <> b.invoice", "more": "tokens: {parts: {column: goods, separator: ' ', min_tokens: 2, short: reject}}",
}  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize(("name", "said"), [("commits_anon", COMMITS), pytest.param("baskets", BASKETS, marks=pytest.mark.slow)])
def test_real_sets(spark: SparkSession, tmp_path: Path, shared_data: Callable[[str], Path], name: str, said: dict[str, str]) -> None:
    library = pytest.importorskip("SetSimilaritySearch", reason="needs the package SetSimilaritySearch")
    (tmp_path / "in").mkdir()
    with gzip.open(shared_data(f"data/{name}.tsv.gz"), "rt", encoding="utf-8", newline="") as packed:
        lines = list(islice(packed, 3000))
    (tmp_path / "in" / "1.csv").write_text("".join(lines), encoding="utf-8")
    spec = tmp_path / "spec.yaml"
    spec.write_text(REAL.format(directory=tmp_path, **said))
    run(spark, spec)
    assert verified(spec)
    cells = [line.rstrip("\r\n").split("\t") for line in lines[said["header"] == "true" :]]
    if name == "baskets":
        rows = [(r[0], r[1], r[1], set(r[2].split(" "))) for r in cells]
    else:
        rows = [(r[0], r[2], r[3], set(WORD.findall(r[4].lower()))) for r in cells]
    window = sorted(r for r in rows if len(r[3]) > 1)[-500:]
    found = library.all_pairs([sorted(r[3]) for r in window], "jaccard", 0.2)
    scores = sorted((s for i, j, s in found if window[i][2] != window[j][2]), reverse=True)[:50]
    assert len(scores) == 50 and [r["score"] for r in Reader(load_plan(str(spec))).as_of("near").rows.to_pylist()] == scores
    runs = table(tmp_path, "runs").to_pylist()
    assert sum(r["accepted"] for r in runs) == sum(len(r[3]) > 1 for r in rows)
    assert sum(r["rejected_tokens"] for r in runs) == sum(len(r[3]) < 2 for r in rows) > 0
    assert table(tmp_path, "seen_changes").num_rows > 100
