"""Sources without files: rows made up (``rate``), and a Delta table that follows its changes."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark.cuts import verified
from tests.spark.jobs import run_apart, table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RATE = """\
job: load
source:
  format: rate
  options: {{rows: "500", keys: "3", per_second: "7"}}
  schema: {{n: {{type: bigint, from: $n}}, at: {{type: timestamp, from: $time}}, k: {{type: int, from: $key}}, x: double, t: string}}
  id: [n]
  event_time: {{column: at}}
  partition_by: [k]
window: {{count: 50}}
scoring: {{x: {{expression: x, direction: max}}}}
queries:
  best: {{type: topk, scoring: x, k: 3, carry: [t]}}
sink: {{path: "{directory}/out"}}
run: {{buckets: 2}}
"""
ORDERS = """\
job: orders
source:
  format: delta
  path: "{directory}/in"
  options: {{changes: "true", startingVersion: "0"}}
  schema: {{id: bigint, amount: double, op: {{type: string, from: {column}}}, at: {{type: timestamp, from: $committed}}}}
  id: [id]
  event_time: {{column: at, tie_break: [op]}}
{deletes}
window: {{time: 365 days}}
scoring: {{amount: {{expression: amount, direction: max}}}}
queries:
  largest: {{type: topk, scoring: amount, k: 1000}}
sink: {{path: "{directory}/out"}}
run: {{max_files: 2}}
"""
OF_CHANGE = {"column": "$change", "deletes": "deletes: op = 'delete'"}
OF_CHANGE_TYPE = {
    "column": "$change_type",
    "deletes": "  op: {column: op, insert: [insert], update: [update_postimage], delete: [delete], ignore: [update_preimage]}",
}


@pytest.mark.chaos
def test_rows_made_up_are_the_same_after_a_kill_and_for_verify(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(RATE.format(directory=tmp_path))
    assert run_apart(spec, "--once").returncode == 0
    assert run_apart(spec, "--once", failpoint="sink.between").returncode == -signal.SIGKILL
    done = run_apart(spec, "--once")
    assert done.returncode == 0, done.stderr
    runs = table(tmp_path, "runs").to_pylist()
    read = sum(r["rows_in"] for r in runs)
    assert read >= 1000 and read % 500 == 0 and sum(r["rejected"] for r in runs) == 0
    assert verified(spec)
    told = table(tmp_path, "best_changes").to_pylist()
    start = min(r["time"] for r in told if r["n"] == min(x["n"] for x in told))
    by = {r["n"]: (r["k"], (r["time"] - start).total_seconds()) for r in told}
    first = min(by)
    # The n-th row is a seventh of a second after the one before.
    assert all(abs(s - (n - first) / 7) < 2e-6 for n, (_, s) in by.items()) and {k for k, _ in by.values()} == {0, 1, 2}


@pytest.mark.parametrize("read", [OF_CHANGE, OF_CHANGE_TYPE], ids=["change", "change type"])
def test_the_result_is_that_of_the_table_as_it_is_now(tmp_path: Path, read: dict[str, str]) -> None:
    spec, path = tmp_path / "spec.yaml", str(tmp_path / "in")
    spec.write_text(ORDERS.format(directory=tmp_path, **read))
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, pa.table({"id": pa.array(range(20)), "amount": [float(i % 7) for i in range(20)]}), configuration=feed)

    def as_it_is() -> list[tuple[int, float]]:
        return sorted((r["id"], r["amount"]) for r in DeltaTable(path).to_pyarrow_table().to_pylist())

    def told() -> list[tuple[int, float]]:
        return sorted((r["id"], r["score"]) for r in table(tmp_path, "largest_now").to_pylist())

    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    assert told() == as_it_is() and len(told()) == 20
    DeltaTable(path).update(updates={"amount": "amount + 100"}, predicate="id < 5")
    DeltaTable(path).delete("id = 3 or id = 11")
    news = pa.table({"id": pa.array([1, 2, 50]), "amount": [0.5, 7.25, 9.0]})
    merge = DeltaTable(path).merge(news, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    # Deleted, and there again.
    write_deltalake(path, pa.table({"id": pa.array([3]), "amount": [1.75]}), mode="append")
    done = run_apart(spec, "--finish")
    assert done.returncode == 0, done.stderr
    assert told() == as_it_is() and len(told()) == 20
    assert table(tmp_path, "rejected").num_rows == 0
    assert {r["cause"] for r in table(tmp_path, "largest_changes").to_pylist()} >= {"delete", "arrival"}
    assert verified(spec)


def test_a_table_without_a_feed_is_refused(tmp_path: Path) -> None:
    spec, path = tmp_path / "spec.yaml", str(tmp_path / "in")
    spec.write_text(ORDERS.format(directory=tmp_path, **OF_CHANGE))
    write_deltalake(path, pa.table({"id": pa.array(range(20)), "amount": [1.0] * 20}))
    done = run_apart(spec, "--finish")
    assert done.returncode == 3 and "SKY-E301 the table does not hold the changes" in done.stderr, done.stderr
