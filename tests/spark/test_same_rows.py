"""``init``, ``validate --data``, ``preview`` and Spark see the same rows: over a matrix of formats and of what users' files are like.

For each case, either all accept the source, with the same values, or all refuse it with a coded error. The rows of a run are those of its
intake (``rows_by_spark``), which reads the source as a run does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import REASON
from skyband.framework.guess.draft import draft
from skyband.framework.plan.model import Plan
from skyband.framework.preview.judged import judged
from skyband.framework.preview.spark_rows import rows_by_spark
from skyband.framework.spec.load import validate_file
from skyband.jobs.authoring.validate import checked
from skyband.jobs.spec import load_plan
from tests.framework.preview.test_first_rows import shown
from tests.specs import spec_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

N = 6
MICROS = [1_577_836_800_000_000 + i * 1_500_000 for i in range(N)]
STAMPS = [f"2020-01-01 00:00:{i:02}" for i in range(N)]
TS, X, IDS = pa.array(MICROS, pa.timestamp("us", "UTC")), pa.array([i * 1.5 for i in range(N)]), pa.array(range(N), pa.int64())

Make = Callable[[Path, Any], None]


def text(name: str, content: str) -> Make:
    def make(root: Path, spark: Any) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)

    return make


def parquet(columns: dict[str, Any] | pa.Table, name: str = "a.parquet", **options: Any) -> Make:
    def make(root: Path, spark: Any) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), root / name, **options)

    return make


def orc(columns: dict[str, Any]) -> Make:
    def make(root: Path, spark: Any) -> None:
        pyarrow.orc.write_table(pa.table(columns), root / "a.orc")

    return make


def both(*made: Make) -> Make:
    def make(root: Path, spark: Any) -> None:
        for one in made:
            one(root, spark)

    return make


def delta(*statements: str, properties: str = "", partitioned: str = "") -> Make:
    """A table made by Spark, which writes what other libraries may not."""

    def make(root: Path, spark: Any) -> None:
        spark.createDataFrame(pa.table({"id": IDS, "ts": TS, "x": X})).coalesce(1).createOrReplaceTempView("same_rows")
        given = f" tblproperties({properties})" if properties else ""
        spark.sql(f"create table delta.`{root}` using delta{partitioned}{given} as select * from same_rows")
        for s in statements:
            spark.sql(s.replace("TABLE", f"delta.`{root}`"))

    return make


def rows(of: Callable[[int], str], head: str = "") -> str:
    return head + "".join(of(i) + "\n" for i in range(N))


PLAIN = {"id": IDS, "ts": TS, "x": X}
NS = pa.array([m * 1000 + 7 for m in MICROS], pa.timestamp("ns"))
CSV = rows(lambda i: f"{i},{STAMPS[i]},{i}.5", "id,ts,x\n")
OBJECTS = [{"id": i, "ts": STAMPS[i], "x": i + 0.5} for i in range(N)]
LINES = "".join(json.dumps(o) + "\n" for o in OBJECTS)
ACCEPTED: dict[str, Make] = {
    "csv": text("a.csv", CSV),
    "csv with semicolons and without a header": text("a.csv", rows(lambda i: f"{i};{STAMPS[i]};{i}.5")),
    "csv with epoch seconds": text("a.csv", rows(lambda i: f"{i},{1577836800 + i},{i}.5", "id,ts,x\n")),
    "csv with epoch milliseconds": text("a.csv", rows(lambda i: f"{i},{1577836800000 + i},{i}.5", "id,ts,x\n")),
    "csv with days first": text("a.csv", rows(lambda i: f"{i},{13 + i}.02.2024 08:15:00,{i}.5", "id,ts,x\n")),
    "csv with an instant in parts": text("a.csv", rows(lambda i: f"{i},2024,2,{i + 1},{i}.5", "id,year,month,day,x\n")),
    "csv with ids of 20 digits": text("a.csv", rows(lambda i: f"{3 * 10**19 + i},{STAMPS[i]},{i}.5", "id,ts,x\n")),
    "csv in plain subdirectories": both(text("2024/a.csv", CSV), text("2025/b.csv", CSV.replace("\n0,", "\n7,"))),
    "csv in directories with values": both(text("day=01/a.csv", CSV), text("day=02/b.csv", "id,ts,x\n9,2020-01-02 00:00:00,1\n")),
    "csv with an empty file first": both(text("a.csv", ""), text("b.csv", CSV)),
    "json": text("a.json", LINES),
    "json with single quotes": text("a.json", rows(lambda i: f"{{'id': {i}, 'ts': '{STAMPS[i]}', 'x': {i}.5, 's': 'it\\'s'}}")),
    "json, arrays of rows in lines": text("a.json", json.dumps(OBJECTS[:3]) + "\n" + json.dumps(OBJECTS[3:]) + "\n"),
    "json, one array": text("a.json", json.dumps(OBJECTS, indent=1)),
    "json, nested": text("a.json", rows(lambda i: json.dumps({"id": i, "ts": STAMPS[i], "user": {"x": i + 0.5, "in": {"s": str(i)}}}))),
    "json, names with dots": text("a.json", rows(lambda i: json.dumps({"id": i, "ts": STAMPS[i], "user.x": i + 0.5}))),
    "json with ids of 20 digits": text("a.json", rows(lambda i: json.dumps({"id": 3 * 10**19 + i, "ts": STAMPS[i], "x": i}))),
    "json with epoch seconds": text("a.json", rows(lambda i: json.dumps({"id": i, "ts": 1577836800 + i, "x": i + 0.5}))),
    "parquet": parquet(PLAIN),
    "parquet whose first file has no rows": both(parquet(pa.table(PLAIN).slice(0, 0), "a.parquet"), parquet(PLAIN, "b.parquet")),
    "parquet in directories with values": both(parquet(PLAIN, "y=1/a.parquet"), parquet(PLAIN, "y=2/a.parquet")),
    "parquet with nanoseconds": parquet({**PLAIN, "ts": NS}),
    "parquet with INT96": parquet({**PLAIN, "ts": NS}, use_deprecated_int96_timestamps=True),
    "parquet with instants without a zone": parquet({**PLAIN, "ts": pa.array(MICROS, pa.timestamp("us"))}),
    "parquet with UINT64": parquet({**PLAIN, "id": pa.array([2**63 + i for i in range(N)], pa.uint64())}),
    "parquet with UINT32": parquet({**PLAIN, "id": pa.array([2**32 - 1 - i for i in range(N)], pa.uint32())}),
    "parquet with a dictionary": parquet({**PLAIN, "s": pa.array(["a", "b"] * (N // 2)).dictionary_encode()}),
    "parquet with decimals": parquet({**PLAIN, "d": pa.array([1] * N).cast(pa.decimal128(38, 10))}),
    "parquet with objects": parquet({**PLAIN, "user": pa.array([{"x": float(i), "in": {"s": str(i)}} for i in range(N)])}),
    "parquet with epoch seconds": parquet({**PLAIN, "ts": pa.array([m // 1_000_000 for m in MICROS])}),
    "orc": orc(PLAIN),
    "orc with nanoseconds": orc({**PLAIN, "ts": NS}),
    "delta": delta(),
    "delta with directories": delta(partitioned=" partitioned by (x)"),
    "delta with column mapping": delta(
        "alter table TABLE rename column x to y",
        properties="'delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5'",
    ),
    "delta with deletion vectors": delta("delete from TABLE where id = 3", properties="'delta.enableDeletionVectors'='true'"),
}


def columns_of(found: pa.Table, plan: Plan) -> list[str]:
    return sorted(str(r) for r in shown(found.select([REASON, *(f.name for f in plan.intake.fields)])))


@pytest.mark.parametrize("case", ACCEPTED)
def test_all_accept_with_the_same_rows(spark: SparkSession, tmp_path: Path, case: str) -> None:
    (tmp_path / "in").mkdir()
    ACCEPTED[case](tmp_path / "in", spark)
    path = tmp_path / "job.yaml"
    path.write_text(draft(tmp_path / "in", path)[0])
    _, errors, said, _ = checked(str(path), data=True)
    assert not errors, [e.render() for e in errors]
    assert "0 would be rejected" in said and "not looked at" not in said and "not read" not in said
    plan = load_plan(str(path))
    found = judged(plan, results=False)
    theirs = rows_by_spark(plan, 1_000, spark)[1]
    assert found.first.doubtful == 0 and found.rejected == {}
    assert columns_of(found.rows, plan) == columns_of(theirs, plan)
    assert found.rows.num_rows >= N - 1


SPEC = spec_text(
    "refused",
    "{id: ID, ts: timestamp, x: double}",
    format="FORMAT",
    quality="{max_rejected: 100%}",
    window="{count: 10}",
    scoring="{x: {expression: x, direction: max}}",
    queries="{best: {type: topk, scoring: x, k: 2}}",
)
X_TWICE = pa.table([IDS, TS, X, X], ["id", "ts", "x", "X"])
REFUSED: dict[str, tuple[Make, str, str, bool]] = {
    "csv with two columns of one name": (text("a.csv", CSV.replace("id,ts,x", "id,x,x")), "csv", "bigint", False),
    "csv with two columns but for case": (text("a.csv", rows(lambda i: f"{i},{STAMPS[i]},1,2", "id,ts,x,X\n")), "csv", "bigint", False),
    "parquet with two columns of one name": (parquet(X_TWICE), "parquet", "bigint", False),
    "parquet with UINT64 as bigint": (
        parquet({**PLAIN, "id": pa.array([2**63 + i for i in range(N)], pa.uint64())}), "parquet", "bigint", True,
    ),
    "parquet with nanoseconds as a timestamp": (parquet({**PLAIN, "ts": NS}), "parquet", "bigint", True),
    "directories that do not agree": (both(text("y=1/a.csv", CSV), text("b/c.csv", CSV)), "csv", "bigint", True),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_all_refuse_with_a_coded_error(spark: SparkSession, tmp_path: Path, case: str) -> None:
    make, form, id_, proposes = REFUSED[case]
    (tmp_path / "in").mkdir()
    make(tmp_path / "in", spark)
    path = tmp_path / "job.yaml"
    path.write_text(SPEC.replace("FORMAT", form).replace("ID", id_))
    _, errors, _, _ = checked(str(path), data=True)
    assert errors and all(e.code == "SKY-E206" and e.hint for e in errors), [e.render() for e in errors]
    plan = load_plan(str(path))
    for read in (lambda: judged(plan, results=False), lambda: rows_by_spark(plan, 100, spark)):
        with pytest.raises(SkybandError) as e:
            read()
        assert e.value.code in ("SKY-E206", "SKY-E301", "SKY-E201") and e.value.hint
        assert "Dictionary" not in e.value.message and "AMBIGUOUS" not in e.value.message
    # init proposes what can be read, or says that nothing can.
    try:
        proposed, _ = draft(tmp_path / "in", tmp_path / "other.yaml")
    except SkybandError as error:
        assert not proposes and error.code == "SKY-E201" and error.hint
        return
    (tmp_path / "other.yaml").write_text(proposed)
    assert proposes and validate_file(tmp_path / "other.yaml", {})[1] == [] and not checked(str(tmp_path / "other.yaml"), data=True).errors


def test_a_table_of_another_library_too(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "in"), pa.table(PLAIN))
    path = tmp_path / "job.yaml"
    path.write_text(draft(tmp_path / "in", path)[0].replace("x: double", "x: double\n    gone: int"))
    (error,) = checked(str(path), data=True).errors
    assert error.code == "SKY-E206" and "the table" in error.message and "lacks the column 'gone'" in error.message
