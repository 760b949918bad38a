"""Top-k and threshold queries, tables of them, and deletions through the whole job: cuts leave no trace, results are the definition's."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.tables.results.reader import Reader
from skyband.jobs.spec import load_plan
from skyband.operators.base import Window
from tests.framework.tables.sql.elsewhere import same_elsewhere
from tests.local.jobs import run
from tests.spark.cuts import same, verified, whole_and_in_parts, write
from tests.spark.jobs import changes, table, write_spec
from tests.spark.ranked import NAMES, QUERIES, SCORING, TABLES, deleting_stream, write_queries

pytestmark = pytest.mark.long


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_restarts_and_partitions_leave_no_trace(tmp_path: Path, keyed: bool) -> None:
    rows = deleting_stream(7)
    keys = ("grp",) if keyed else ()

    whole, parts = whole_and_in_parts(
        None, tmp_path, rows, keyed, prepare=write_queries, queries=QUERIES, scoring=SCORING, deletes="deletes: side = 'd'"
    )
    for name in NAMES:
        same(whole, parts, name, ("query", *keys) if name in TABLES else keys)
    assert "delete" in set(changes(whole, "best", keys)["cause"].to_pylist())
    runs = table(parts, "runs").to_pylist()
    assert all(r["rows_in"] == r["filtered"] + r["rejected"] + r["accepted"] + r["pending_change"] for r in runs)
    rejected = table(parts, "rejected").to_pylist()
    assert sum(r["rejected_no_target"] for r in runs) == sum(r["reason"] == "no_target" for r in rejected) > 5
    assert sum(r["rejected_duplicate_id"] for r in runs) > 5
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    own_results(parts, keys)
    refused_when_the_table_has_changed(parts)


def own_results(directory: Path, keys: tuple[str, ...]) -> None:
    """A query's own result and its first k come from the tables, for all queries of a table or one; SQL gives what the command gives."""
    reader = Reader(load_plan(str(directory / "spec.yaml")))
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for name in NAMES:
        sql.register(f"{name}_now", table(directory, f"{name}_now"))
        everything = reader.as_of(name).rows
        best = reader.snapshot(name, k=1)
        assert best.rows.to_pylist() == [r for r in everything.to_pylist() if r["rank"] == 1]
        assert sql.sql(best.sql).to_arrow_table().select(best.rows.column_names).to_pylist() == best.rows.to_pylist()
        with pytest.raises(SkybandError, match="only its own window"):
            reader.snapshot(name, window=Window(3, None))
    answer = reader.as_of("many", key={"query": "q3"})
    one = answer.rows.to_pylist()
    assert same_elsewhere(reader.plan, "many", answer) == len(one)
    assert one == [r for r in reader.as_of("many").rows.to_pylist() if r["query"] == "q3"] and one
    sql.register("many", table(directory, "many"))
    shown = [c for c in answer.rows.column_names if c != "rank"]
    assert sql.sql(answer.sql).to_arrow_table().select(shown).to_pylist() == [{c: r[c] for c in shown} for r in one]
    for member in reader.query("many").members:
        ranked = [r for r in table(directory, "many_now").to_pylist() if r["query"] == member]
        for key in {tuple(r[c] for c in keys) for r in ranked}:
            mine = sorted((r for r in ranked if tuple(r[c] for c in keys) == key), key=lambda r: r["rank"])
            scores = [r["score"] for r in mine]
            assert scores == sorted(scores, reverse=int(member[1:]) % 3 != 0), member
    # The largest k of the table is not that of each of its queries.
    assert {a.k for a in reader.query("many").asked} == {1, 3, 5}
    assert reader.snapshot("many", k=5, key={"query": next(a.name for a in reader.query("many").asked if a.k == 5)}).rows.num_rows
    with pytest.raises(SkybandError, match="from 1 to 1"):
        reader.snapshot("many", k=5)
    with pytest.raises(SkybandError, match="no query 'q99'"):
        reader.as_of("many", key={"query": "q99"})


def refused_when_the_table_has_changed(directory: Path) -> None:
    path = directory / "queries.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4].replace("q3,", "q3,9"), *lines[6:], "extra,1,1,,,"]) + "\n")
    for again in (lambda: run(directory / "spec.yaml"), lambda: verified(directory / "spec.yaml")):
        with pytest.raises(SpecErrors) as e:
            again()
        assert {x.message for x in e.value.errors} == {
            "queries.many.queries_from.q3 has changed", "queries.many.queries_from.q4 has been removed",
            "queries.many.queries_from.extra is new",
        }  # fmt: skip


def test_a_skyband_is_kept_without_deletions_and_answers_other_windows(tmp_path: Path) -> None:
    write_queries(tmp_path)
    spec = write_spec(tmp_path, queries=QUERIES, scoring=SCORING)
    write(tmp_path, deleting_stream(8), 3)
    run(spec)
    assert verified(spec)
    reader = Reader(load_plan(str(spec)))
    rows = pd.read_csv(tmp_path / "in" / "000.csv")
    accepted = pd.concat([rows, *(pd.read_csv(tmp_path / "in" / f"00{i}.csv") for i in (1, 2))])
    assert len(accepted) == 420
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for name in ("heads", "best_skyband"):
        sql.register(name, table(tmp_path, name))
    for k, window in ((4, Window(7, None)), (2, Window(None, 3_600_000_000)), (3, Window(30, 5_400_000_000))):
        answer = reader.snapshot("best", k, window)
        assert answer.rows.num_rows == k
        assert sql.sql(answer.sql).to_arrow_table().select(answer.rows.column_names).to_pylist() == answer.rows.to_pylist()
        scores = answer.rows["score"].to_pylist()
        assert scores == sorted(scores, reverse=True)
