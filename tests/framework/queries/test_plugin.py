"""A query type of another package's, that of ``skyband init --plugin``: checked, compiled, run, its tables asked and verified.

Its items are accounts, not rows: the host numbers them, and tables, ranks, replay and brute force name them by their column.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.load import validate_text
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.verify.brute_force.objects import Accepted, objects
from skyband.jobs import cli
from skyband.jobs.plugin_template.package.query_type import EXAMPLE, FREQUENT
from tests.spark.jobs import changes, run, stamp, table, write_file
from tests.specs import plan_of_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    with QUERY_TYPES.added(FREQUENT.name, FREQUENT):
        yield


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("account: account, times: 3", "account: acount, times: 3", "12:41 SKY-E120 unknown column 'acount'"),
        ("account: account, times: 3", "account: region, times: 3", "SKY-E126 accounts are whole numbers"),
        ("times: 3", "times: 0", "'times' must be at least 1, not '0'"),
        ("times: 3", "tims: 3", "unknown field 'tims' in queries.busy"),
        ("times: 3", "times: 3, every: 1 hour", "SKY-E117 frequent works after every event"),
        ("{type: frequent, account: account, times: 3}", "{type: frequent, times: 3}", "queries.busy needs the field 'account'"),
        ("account: bigint", "account: bigint, entered_by: string", None),
        ("id: [id]", "id: [id]\n  partition_by: [entered_by]", "SKY-E12"),
    ],
)
def test_its_mistakes_are_told_like_those_of_the_built_in_types(old: str, new: str, said: str | None) -> None:
    _, errors = validate_text(EXAMPLE.replace(old, new, 1), {}, "job.yaml")
    if said is None:
        assert errors == []
    else:
        assert any(said.removeprefix("12:41 ") in e.render() for e in errors), [e.render() for e in errors]


def rows_of(seed: int, n: int) -> list[tuple[int, int, int | None, str]]:
    """(id, second, account, region) in order of time; accounts come and go."""
    rng = random.Random(seed)
    at, rows = 0, []
    for i in range(n):
        at += rng.choice([0, 0, 1, 5, 40])
        rows.append((i, at, rng.choice([None, 7, 7, i // 20, i // 20, rng.randrange(6)]), rng.choice("ns")))
    return rows


def block(config: HostConfig, rows: list[tuple[int, int, int | None, str]]) -> bytes:
    ids, at, account, region = zip(*rows, strict=True)
    key = [0 if r == "n" else 1 for r in region]
    made = {
        "id": ids, "ts": pa.array([s * SECOND for s in at]).cast(pa.timestamp("us", "UTC")), "account": pa.array(account, pa.int64()),
        "region": region, "__h1": ids, "__h2": ids, "__k1": key, "__k2": key, "__origin": pa.nulls(len(rows), pa.string()),
    }  # fmt: skip
    return table_bytes(pa.table({n: made[n] for n in config.row_schema().names}).cast(config.row_schema()))


def host(plan: Plan, batches: list[list[tuple[int, int, int | None, str]]], restore: bool) -> dict[str, list[dict[str, Any]]]:
    """The change rows of every query, by region and step, and what is left in the end."""
    config = HostConfig.of(plan, (), "test")
    bucket, state, out = Bucket(config, 0), {}, defaultdict(list)
    for batch in [*batches, []]:
        watermark = (batches[-1][-1][1] * 1000 + 1) if not batch else 0
        for kind, data in bucket.run([block(config, batch)] if batch else [], watermark):
            if kind.startswith("changes:"):
                out[kind.partition(":")[2]] += bytes_table(data).to_pylist()
        values, dropped = bucket.save()
        state |= values
        for name in dropped:
            del state[name]
        if restore:
            bucket = Bucket.restore(config, 0, state.get)
    return {name: sorted(rows, key=lambda r: (r.get("region", ""), r["step"], r["pos"])) for name, rows in out.items()}


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_cuts_and_restarts_leave_no_trace_although_numbers_are_given_anew(seed: int, keyed: bool) -> None:
    plan = plan_of_text(EXAMPLE.replace("  id: [id]", "  id: [id]\n  partition_by: [region]") if keyed else EXAMPLE)
    rows = rows_of(seed, 120)
    whole = host(plan, [rows], restore=False)
    assert len(whole["busy"]) > 20 and {r["account"] for r in whole["busy"]} > {7}
    rng = random.Random(seed)
    for restore in (False, True):
        cuts = sorted({0, len(rows), *(rng.randrange(len(rows)) for _ in range(15))})
        assert host(plan, [rows[a:b] for a, b in itertools.pairwise(cuts)], restore) == whole


def test_the_changes_replayed_are_the_definition() -> None:
    plan, rows = plan_of_text(EXAMPLE), rows_of(9, 150)
    config = HostConfig.of(plan, (), "test")
    data = objects(plan, Accepted((), bytes_table(block(config, rows)), [at * SECOND for _, at, _, _ in rows], {}))
    for query in plan.queries:
        told, shown = host(plan, [rows], restore=False)[query.name], set()
        for at in sorted({r[1] for r in rows}):
            for change in [c for c in told if c["changed_at"].timestamp() <= at]:
                (shown.add if change["change"] == "+" else shown.remove)(change["account"])
                told.remove(change)
            found = FREQUENT.brute_force(Question(plan, query, data, at * SECOND))
            assert [(a,) for a in sorted(shown)] == [item for item, _ in found], (query.name, at)


@pytest.mark.spark
def test_it_runs_through_spark_into_tables_that_are_asked_and_verified(spark: SparkSession, tmp_path: Path, capsys: Any) -> None:
    rows = [[i, stamp(at / 60), account, region] for i, at, account, region in rows_of(3, 400)]
    directories = {}
    for name, cuts in (("whole", [0, 400]), ("parts", [0, 90, 200, 210, 400])):
        directory = directories[name] = tmp_path / name
        directory.mkdir()
        spec = directory / "spec.yaml"
        spec.write_text(EXAMPLE.replace("path: in", f'path: "{directory}/in"').replace("path: out", f'path: "{directory}/out"'))
        for n, (a, b) in enumerate(itertools.pairwise(cuts)):
            mine = [["" if v is None else v for v in row] for row in rows[a:b]]
            write_file(directory, f"f{n}.csv", mine, at=n, columns=("id", "ts", "account", "region"))
            run(spark, spec, finish=b == 400)
    for query in ("busy", "busy_lately"):
        told = changes(directories["parts"], query)
        assert told.num_rows > 50 and told.equals(changes(directories["whole"], query))
    assert table(directories["parts"], "busy").column_names[:2] == ["account", "entered_by"]
    spec = str(directories["parts"] / "spec.yaml")
    capsys.readouterr()
    assert cli.main(["verify", spec, "--instants", "80"]) == 0
    assert "no difference found" in capsys.readouterr().out
    assert cli.main(["query", spec, "busy_lately", "--at", "2020-01-01T00:20", "--format", "csv"]) == 0
    told_rows = capsys.readouterr().out.splitlines()
    assert told_rows[0] == "rank,account,entered_by" and [r.split(",")[0] for r in told_rows[1:]] == [
        str(i + 1) for i in range(len(told_rows) - 1)
    ]
    assert cli.main(["explain", spec]) == 0 and "FrequentOperator" in capsys.readouterr().out
