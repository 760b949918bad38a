"""Jobs with look-ups in memory: what rows take, which are rejected and why, and that cuts change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups.in_memory import read_tables
from skyband.framework.plan.explain import explain
from skyband.framework.plan.model import Plan
from skyband.framework.preview.judged import judged
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.jobs import cli
from tests.specs import plan_of_text, spec_text

MINUTE = 60_000_000
SITES = "host,region,tier\na,eu,1\nb,us,2\n,zz,9\n"


def text(directory: Path, missing: str = "null", more: str = "", **sections: str) -> str:
    site = {
        "format": "csv", "path": f'"{directory}/sites"', "schema": "{host: string, region: string, tier: int}", "on": "{host: host}",
        "take": "{region: region, level: tier}", "missing": missing,
    }  # fmt: skip
    return spec_text(
        "looked", "{id: bigint, ts: timestamp, host: string, x: double}",
        path=f'"{directory}/in"', event_time="{column: ts, watermark: 5 minutes}", sink=f'{{path: "{directory}/out"}}',
        lookups={"site": site}, transform=['derive: {worth: {sql: "x * level", type: double}}', 'where: "coalesce(x, 0) <> 99"'],
        quality={"rows": ['{name: small, expect: "level < 9"}']}, window="{count: 4}",
        scoring={"worth": "{expression: worth, direction: max}"}, queries={"best": "{type: topk, scoring: worth, k: 2, carry: [region]}"},
        **sections,
    ) + more  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, content in (("sites/1.csv", SITES), ("in/1.csv", "id,ts,host,x\n1,2024-01-01T00:00:00,a,5\n2,2024-01-01T00:01:00,c,5\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
    return tmp_path


def row(number: int, host: str | None, x: float | None = 1.0) -> dict[str, object]:
    return {"id": number, "ts": number * MINUTE, "host": host, "x": None if x is None else float(x)}


def test_rows_take_columns_before_transforms_and_the_first_reason_counts(directory: Path) -> None:
    plan = plan_of_text(text(directory, "reject"))
    job = Rehearsal(plan, read_tables(plan))
    job.drop([row(1, "a", 5), row(2, "b", 4), row(3, "c"), row(4, None), row(5, "c", 99), row(6, "b", 99)])
    job.finish()
    tables = job.tables()
    assert [(r["id"], r["region"], r["score"]) for r in tables["best_now"].to_pylist()] == [(2, "us", 8), (1, "eu", 5)]
    # The look-up stands before the filter; a null matches nothing, not even a null.
    assert tables["rejected"]["reason"].to_pylist() == ["no_match:site"] * 3
    assert '"region":null' in tables["rejected"]["text"][0].as_py()
    assert job.counts["no_match"] == 3 and job.counts["filtered"] == 1


def test_without_a_match_rows_take_nulls(directory: Path) -> None:
    plan = plan_of_text(text(directory))
    found = judged(plan)
    assert found.rows.select(["id", "region", "level", "worth"]).to_pylist() == [
        {"id": 1, "region": "eu", "level": 1, "worth": 5.0},
        {"id": 2, "region": None, "level": None, "worth": None},
    ]
    assert not found.rejected


@pytest.mark.parametrize("seed", range(4))
def test_cuts_and_restarts_change_nothing(directory: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = plan_of_text(text(directory, str(rng.choice(["null", "reject"]))))
    rows = [row(i, rng.choice(["a", "b", "c", None]), float(rng.integers(0, 5))) for i in range(30)]
    whole, cut = Rehearsal(plan, read_tables(plan)), Rehearsal(plan, read_tables(plan))
    whole.drop(rows)
    left = list(rows)
    while left:
        n = int(rng.integers(1, 9))
        cut.drop(left[:n])
        left = left[n:]
        if rng.random() < 0.5:
            cut.restart()
    for job in (whole, cut):
        job.finish()
    columns = ["id", "region", "step", "change", "score"]
    assert whole.tables()["best_changes"].select(columns) == cut.tables()["best_changes"].select(columns)
    assert whole.tables()["best_changes"].num_rows


def test_a_test_of_a_spec_has_rows_of_its_own(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the table nor the source is read."""
    tests = """tests:
  - name: own
    rows: [{id: 1, ts: "2024-01-01", host: q, x: 2}, {id: 2, ts: "2024-01-02", host: a, x: 2}]
    lookups: {site: [{host: q, region: far, tier: 3}]}
    expect: {best_now: [{id: 1, region: far, score: 6}], rejected: [{id: 2, reason: "no_match:site"}]}
"""
    spec = directory / "spec.yaml"
    spec.write_text(text(directory / "nowhere", "reject", tests))
    assert cli.main(["test", str(spec)]) == 0, capsys.readouterr()
    spec.write_text(spec.read_text().replace("host: q, region", "host: a, region"))
    assert cli.main(["test", str(spec)]) == 1
    assert "no_match:site" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (SITES + "a,eu,1\n", "SKY-E320", "two rows have the key host = 'a'"),
        ("host,region\na,eu\n", "SKY-E321", "lacks the column 'tier'"),
        ("host,region,tier\na,eu,x\n", "SKY-E321", "1 row of its table cannot be read"),
        (None, "SKY-E321", "there is no directory"),
    ],
)
def test_tables_that_cannot_be_used(directory: Path, content: str | None, code: str, said: str) -> None:
    file = directory / "sites" / "1.csv"
    file.unlink()
    if content is None:
        file.parent.rmdir()
    else:
        file.write_text(content)
    with pytest.raises(SkybandError) as e:
        read_tables(plan_of_text(text(directory)))
    assert e.value.code == code and said in e.value.message and "look-up site" in e.value.message
    assert "source." not in (e.value.hint or "")


def test_the_plan_says_what_is_looked_up(directory: Path) -> None:
    plan: Plan = plan_of_text(text(directory, "reject"))
    found = explain(plan)
    assert "look up in site where host = host: region, level = tier; without a match rejected as no_match:site" in found
    assert "read by Spark, not by Arrow: a look-up" in found
