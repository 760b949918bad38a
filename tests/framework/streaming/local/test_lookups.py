"""Look-ups in this process: the rows that the definition takes, and the tables of each batch kept for its repetition."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.lookups import in_memory
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.streaming.local.engine import LocalEngine
from skyband.framework.streaming.rows import lookup_tables
from skyband.framework.streaming.run import commit
from skyband.framework.streaming.run.context import Texts
from skyband.framework.streaming.run.runner import Runner
from skyband.framework.tables.writing.factory import writer_for
from skyband.jobs.spec import load_plan
from tests.framework.streaming.local.test_loop import content, run
from tests.seeds import seeds
from tests.spark.jobs import stamp, table, write_file
from tests.specs import spec_text

MINUTE = 60_000_000
START = 1_577_836_800_000_000
RULES = ('{name: small, expect: "level < 9"}', '{name: owned, expect: "who is not null", severity: warn}')
COLUMNS = ("id", "ts", "host", "x")


def write_spec(directory: Path, missing: str = "null", max_files: int = 1) -> Path:
    site = {
        "format": "csv", "path": f'"{directory}/sites"', "schema": "{host: string, region: string, tier: int}", "match": "{host: host}",
        "take": "{region: region, level: tier}", "missing": missing,
    }  # fmt: skip
    owner = {
        "format": "csv", "path": f'"{directory}/owners"', "schema": "{region: string, since: timestamp, until: timestamp, who: string}",
        "match": "{region: region}", "take": "[who]", "as_of": "{from: since, to: until}",
    }  # fmt: skip
    path = directory / "spec.yaml"
    path.write_text(
        spec_text(
            "looked", "{id: bigint, ts: timestamp, host: string, x: double}", path=f'"{directory}/in"', partition_by="[region]",
            event_time="{column: ts, watermark: 5 minutes}", sink=f'{{path: "{directory}/out"}}', lookups={"site": site, "owner": owner},
            transform=['derive: {worth: {sql: "x * coalesce(level, 1)", type: double}}', 'where: "coalesce(x, 0) <> 3"'],
            quality={"max_rejected": "100%", "rows": RULES},
            window="{count: 6}", scoring={"worth": "{expression: worth, direction: max}"},
            queries={"best": "{type: topk, scoring: worth, k: 3, carry: [region, who]}"}, run=f"{{max_files: {max_files}, buckets: 2}}",
        )
    )  # fmt: skip
    return path


def sites(directory: Path, *lines: str) -> None:
    (directory / "sites").mkdir(exist_ok=True)
    (directory / "sites" / "1.csv").write_text("\n".join(["host,region,tier", *lines]) + "\n")


def owners(directory: Path) -> None:
    (directory / "owners").mkdir(exist_ok=True)
    lines = [f"eu,,{stamp(20)},ann", f"eu,{stamp(20)},{stamp(30)},bob", f"us,{stamp(10)},,cid", "r1,,,dan"]
    (directory / "owners" / "1.csv").write_text("\n".join(["region,since,until,who", *lines]) + "\n")


@pytest.mark.parametrize("seed", seeds(0, 8))
def test_tables_are_those_of_the_definition(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    spec = write_spec(tmp_path, rng.choice(["null", "reject"]), rng.choice([1, 2, 5]))
    sites(tmp_path, "a,eu,1", "b,us,2", ",zz,9", "c,eu,9", "d,,3")
    owners(tmp_path)
    plan = load_plan(str(spec))
    job = Rehearsal(plan, in_memory.read_tables(plan))
    for part in range(2):
        rows = []
        for i in range(rng.randrange(1, 5)):
            some = [(100 * part + 10 * i + n, rng.randrange(20) + 20 * part, rng.choice(["a", "b", "c", "d", "e", ""]), rng.randrange(5))
                    for n in range(rng.randrange(9))]  # fmt: skip
            write_file(
                tmp_path,
                f"{part}-{i}.csv",
                [(n, stamp(at), host, x) for n, at, host, x in some],
                at=10 * part + rng.randrange(4),
                columns=COLUMNS,
            )
            rows += some
        run(spec, finish=part == 1)
        job.drop([{"id": n, "ts": START + at * MINUTE, "host": host or None, "x": float(x)} for n, at, host, x in rows])
    job.finish()
    expected = job.tables()
    for name, without in (("rejected", ("batch_id", "origin")), ("best", ("batch_id",)), ("best_now", ("batch_id",))):
        assert content(table(tmp_path, name), without) == content(expected[name], without)
    found = table(tmp_path, "runs").to_pylist()
    for count in ("filtered", "accepted", "rejected_rule"):
        assert sum(r[count] for r in found) == job.counts[count]
    warned = [json.loads(r["warned"]) for r in found]
    assert sum(w.get("owned", 0) for w in warned) == job.counts.warned().get("owned", 0)


def test_a_batch_that_is_repeated_keeps_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_spec(tmp_path)
    owners(tmp_path)

    def arrive(n: int) -> None:
        write_file(tmp_path, f"{n}.csv", [(n, stamp(n), "a", 1), (100 + n, stamp(n), "z", 1)], at=n, columns=COLUMNS)

    def fail(name: str) -> None:
        if name == "state.after":
            raise KeyboardInterrupt

    sites(tmp_path, "a,r1,7")
    arrive(0)
    run(spec)
    sites(tmp_path, "a,r2,7")
    arrive(1)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(commit, "failpoint", fail)
        run(spec)
    sites(tmp_path, "a,r3,7")
    arrive(2)
    warnings: list[str] = []
    run(spec, warnings=warnings)
    assert [w for w in warnings if "look-up tables stay as they were" in w]
    arrive(3)
    run(spec, finish=True)
    kept = json.loads((tmp_path / "out" / "_skyband" / "lookups" / "versions.json").read_text())["versions"]
    assert [(v["batch"], v["after"]) for v in kept] == [(0, -1), (1, 0), (3, 2)]
    regions = {r["id"]: r["region"] for r in table(tmp_path, "best").to_pylist()}
    assert {i: r for i, r in regions.items() if i < 100} == {0: "r1", 1: "r2", 2: "r2", 3: "r3"}
    # A table with a key twice stops a run before it writes anything.
    sites(tmp_path, "a,r4,1", "a,r5,1")
    arrive(4)
    with pytest.raises(SkybandError) as e:
        run(spec)
    assert e.value.code == "SKY-E320"
    assert {r["id"] for r in table(tmp_path, "best").to_pylist()} == set(regions)


def test_tables_that_only_spark_reads_are_read_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_spec(tmp_path)
    owners(tmp_path)
    sites(tmp_path, "a,r1,7")
    write_file(tmp_path, "0.csv", [(0, stamp(0), "a", 1)], at=0, columns=COLUMNS)
    tables = in_memory.read_tables(load_plan(str(spec)))
    spec.write_text(spec.read_text().replace("/sites", "/sites/*"))
    plan, session = load_plan(str(spec)), object()

    def read(spark: Any, of: Any) -> dict[str, pa.Table]:
        assert spark is session and of == plan
        return dict(tables)

    monkeypatch.setattr(lookup_tables, "read_tables", read)
    warnings: list[str] = []
    engine = LocalEngine(lambda: session)  # type: ignore[arg-type, return-value]
    Runner(engine, plan, writer_for(plan.sink), lambda _: None, Texts(warnings.append)).run(once=True, finish=True)
    assert warnings == [
        "look-up tables can only be read by Spark, which starts for it: "
        "look-up site, whose path is a pattern, or of another file system, is read by Spark alone"
    ]
    assert [(r["id"], r["region"]) for r in table(tmp_path, "best").to_pylist()] == [(0, "r1")]
