"""Changed sources, look-ups, statistics and corrections: ``plan`` reports them, and a rebuild makes the tables of a fresh job."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyband.jobs import cli
from tests.spark.equality import assert_equal_tables, differences
from tests.spark.jobs import stamp, table, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPEC = """\
job: changed
source:
  id: [id]
  event_time: {{column: ts, watermark: 10 minutes, tie_break: [version]}}
  on_duplicate: keep_first
sources:
  shop:
    format: csv
    path: "{directory}/in"
    schema: {{id: bigint, ts: timestamp, version: int, host: string, amount: double}}
  web:
    format: json
    path: "{directory}/web"
    schema: {{id: bigint, ts: {{type: timestamp, from: at}}, version: int, host: string, amount: double}}
lookups:
  site:
    format: csv
    path: "{directory}/sites.csv"
    schema: {{name: string, region: string, tier: int}}
    match: {{host: name}}
    take: [region, tier]
quality: {{max_rejected: 100%, max_unusable: 100%}}
window: {{time: 5 hours}}
stats:
  usual: {{mean: amount, stddev: amount, by: [region], window: 2 hours, at_least: 2}}
scoring:
  unusual: {{expression: "(amount - usual.mean) / usual.stddev", direction: max}}
  amount: {{expression: amount, direction: max}}
queries:
  odd: {{type: topk, scoring: unusual, k: 5, carry: [region, usual_mean]}}
  web: {{type: topk, scoring: amount, k: 3, from: web, carry: [tier]}}
  regions: {{type: topk_groups, group: region, score: sum(amount), k: 2}}
sink: {{path: "{directory}/out"}}
run: {{max_files: 2}}
"""
ADDED = """\
  west: {{type: topk, scoring: unusual, k: 2, where: "region = 'west' and source = 'shop'", carry: [usual_mean]}}
  busy: {{type: topk_groups, group: region, score: sum(recent.count), k: 2}}
"""
RECENT = "  recent: {{count: amount, by: [host], window: 1 hour}}\n"
POSITION = """\
job: placed
source:
  format: csv
  path: "{directory}/in"
  schema: {{id: bigint, ts: timestamp, version: int, host: string, amount: double}}
  id: {id}
  event_time: {{column: ts, watermark: 10 minutes, tie_break: [version]}}
quality: {{max_rejected: 100%}}
window: {{time: 5 hours}}
scoring: {{amount: {{expression: amount, direction: max}}}}
queries:
  most: {{type: topk, scoring: amount, k: 9}}
  hosts: {{type: topk_groups, group: host, score: sum(amount), k: 2}}
sink: {{path: "{directory}/out"}}
run: {{max_files: 2}}
"""
COLUMNS = ("id", "ts", "version", "host", "amount")
SITES = "p,east,1\nq,west,2\nr,east,3\n"
EDITS = {
    "statistics": ("by: [region], window: 2 hours", "by: [region], window: 1 hour", "stats.usual.window.time was 2 hours, now 1 hour"),
    "look-up": ("take: [region, tier]", "take: [region, tier]\n    missing: reject", "lookups.site.missing was null, now reject"),
    "corrections": ("on_duplicate: keep_first", "on_duplicate: replace", "source.on_duplicate was keep_first, now replace"),
    "source": (
        'path: "{directory}/web"',
        'path: "{directory}/web"\n    idle_after: 1 hour',
        "sources.web.idle_after was not set, now 1 hour",
    ),
    "sources": (
        "lookups:\n",
        '  post: {{format: csv, path: "{directory}/post", schema: {{id: bigint, ts: timestamp, version: int, host: string}}}}\nlookups:\n',
        "sources.post is new (csv)",
    ),
}
"""What is edited in a spec, one after the other: from, to, and what ``plan`` says."""


def write(directory: Path, number: int) -> None:
    """Files of all sources for run ``number``: ids come again in the window."""
    rng = random.Random(number)
    rows = [[rng.randrange(40), stamp(90 * number + rng.randrange(90)), n, rng.choice("pqrs"), rng.randrange(1, 50)] for n in range(60)]
    write_file(directory, f"{number}.csv", rows[:40], at=10 * number, columns=COLUMNS)
    (directory / "web").mkdir(exist_ok=True)
    names = ("id", "at", "version", "host", "amount")
    lines = (json.dumps(dict(zip(names, r, strict=True))) + "\n" for r in rows[40:])
    (directory / "web" / f"{number}.json").write_text("".join(lines))
    (directory / "post").mkdir(exist_ok=True)
    lines = (f"{n},{r[1]},7,{r[3]}\n" for n, r in enumerate(rows[:9]))
    (directory / "post" / f"{number}.csv").write_text("id,ts,version,host\n" + "".join(lines))


def job(directory: Path, text: str, sites: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "sites.csv").write_text("name,region,tier\n" + sites)
    path = directory / "spec.yaml"
    path.write_text(text.format(directory=directory))
    return path


def said_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command says in this process."""
    found = cli.main([*words])
    said = "".join(capsys.readouterr())
    assert found == code, said
    return said


def fresh(directory: Path, text: str, sites: str, runs: int) -> Path:
    """A job over the files of that many runs, which it takes in one."""
    spec = job(directory, text, sites)
    for number in range(runs):
        write(directory, number)
    assert cli.main(["run", str(spec), "--quiet", "--finish"]) == 0
    return directory


def test_changed_parts_are_reported_and_rebuilt(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = tmp_path / "job"
    spec = str(job(here, SPEC, SITES))
    for number in range(2):
        write(here, number)
        said_of(capsys, "run", spec, *(["--finish"] if number else []))
    text = SPEC
    for before, after, told in EDITS.values():
        assert text.count(before) == 1
        job(here, SPEC.replace(before, after), SITES)
        assert f"refuses\n  {told}\n" in said_of(capsys, "plan", spec, code=1)
        text = text.replace(before, after)
    # A rebuild takes the tables as they are now.
    sites = SITES.replace("r,east,3", "r,north,3")
    job(here, text, sites)
    said = said_of(capsys, "run", spec, code=2)
    assert "SKY-E150" in said and all(told in said for _, _, told in EDITS.values())
    said_of(capsys, "rebuild", spec, "--finish")
    assert_equal_tables(here, fresh(tmp_path / "fresh", text, sites, 2))
    assert table(here, "rejected").num_rows > 10
    assert "the state fits" in said_of(capsys, "plan", spec)
    # Queries that come with a statistic of their own are made alone, and the job goes on.
    text = text.replace("scoring:\n", RECENT + "scoring:\n").replace("sink:", ADDED + "sink:")
    job(here, text, sites)
    said = said_of(capsys, "plan", spec, code=1)
    assert "stats.recent is new\n" in said and "runs 2 states (west, busy)" in said
    said_of(capsys, "rebuild", spec, "--added", "--finish")
    write(here, 2)
    said_of(capsys, "run", spec, "--finish")
    rows, unequal = differences(here, fresh(tmp_path / "added", text, sites, 3), same_cuts=False)
    assert set(unequal) <= {"runs"} and rows["west_changes"] > 10 and rows["busy_changes"] > 10
    said_of(capsys, "verify", spec, "--instants", "3")


def test_places_instead_of_ids_are_reported_and_rebuilt(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = tmp_path / "job"
    spec = str(job(here, POSITION.replace("{id}", "[id]"), SITES))
    write(here, 0)
    said_of(capsys, "run", spec, "--finish")
    duplicates = table(here, "rejected").num_rows
    text = POSITION.replace("{id}", "position")
    job(here, text, SITES)
    assert "source.id was [id], now [file, file_row]" in said_of(capsys, "plan", spec, code=1)
    said_of(capsys, "rebuild", spec, "--finish")
    assert_equal_tables(here, fresh(tmp_path / "fresh", text, SITES, 1))
    assert duplicates > 5 and table(here, "rejected").num_rows == 0
    said_of(capsys, "verify", spec, "--instants", "3")
