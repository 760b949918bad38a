"""Loyalty through the whole job: cuts and restarts leave no trace; what plain SQL makes of the trajectories is the definition's."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from skyband.framework.tables.results.reader import Reader
from skyband.jobs.spec import load_plan
from tests.oracles import loyalty as oracle
from tests.spark.cuts import stream, verified, whole_and_in_parts
from tests.spark.jobs import COLUMNS, changes, sorted_rows, table
from tests.spark.kinds import LOYALTY, MORE, with_more

pytestmark = pytest.mark.long

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_files_restarts_and_partitions_leave_no_trace(tmp_path: Path, keyed: bool) -> None:
    rows = [[i, *r[1:]] for i, r in enumerate(stream(23, n=240))]
    more = {"queries": LOYALTY, "more": MORE, "window": "{time: 5 hours}"}
    whole, parts = whole_and_in_parts(None, tmp_path, with_more(rows), keyed, **more)
    keys = ("grp",) if keyed else ()
    for name in ("loyal", "fresh", "steady", "slowly"):
        expected = changes(whole, name, keys)
        assert expected.num_rows > 10, name
        assert changes(parts, name, keys).equals(expected), name
        for of in (name, f"{name}_now"):
            assert sorted_rows(table(parts, of)) == sorted_rows(table(whole, of)), of
        of = f"{name}_trajectory"
        assert sorted_rows(table(parts, of), ["batch_id"]) == sorted_rows(table(whole, of), ["batch_id"]), of
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
    reasons = Counter(table(parts, "rejected")["reason"].to_pylist())
    assert reasons.keys() == {"null_object:who", "no_update:busy"}
    runs = table(parts, "runs").to_pylist()
    assert reasons["null_object:who"] == sum(r["rejected_null"] for r in runs)
    assert reasons["no_update:busy"] == sum(r["rejected_other"] for r in runs)
    assert_sql_gives_the_definitions_loyalty(parts, rows, keyed)
    assert_answers_as_of_any_instant_are_those_of_their_sql(parts)


def assert_sql_gives_the_definitions_loyalty(directory: Path, rows: list[list[Any]], keyed: bool) -> None:
    """Anyone's loyalty at any instant, in one line over ``fresh_trajectory``, which has the trajectories of all objects."""
    reports: dict[Any, list[oracle.Report]] = {}
    for row in sorted(rows, key=lambda r: (r[1], r[5], r[0])):
        r = dict(zip(COLUMNS, row, strict=True))
        null = r["y"] == 3 and r["x"] != "" and r["x"] < 1
        no_update = r["y"] < 3 and r["x"] in ("", 11)
        if not null and not no_update and r["x"] != "":
            name = (r["grp"] if keyed else "", f"{r['side']}{float(r['y'])}")
            at = (datetime.fromisoformat(r["ts"]) - EPOCH) // timedelta(microseconds=1)
            reports.setdefault(name, []).append(oracle.Report(at, name, r["x"] > 5))
    ends = [r.time for mine in reports.values() for r in mine]
    rng, sql = random.Random(7), connected(directory)
    looked = 0
    for name, mine in reports.items():
        spans = oracle.spans(mine, HOUR // 2)[name]
        of_key = f" and grp = '{name[0]}'" if keyed else ""
        for at in [rng.choice(ends) + rng.choice([0, 0, -1, 61_000_003]) for _ in range(4)]:
            if at > max(ends):
                continue
            t = f"timestamptz '{EPOCH + timedelta(microseconds=at)}'"
            found = sql.execute(
                f"select loyalty_seconds + slope * extract(epoch from ({t} - valid_from)), slope from fresh_trajectory "
                f"where who = '{name[1]}'{of_key} and valid_from <= {t} order by valid_from desc limit 1"
            ).fetchone()
            expected = (oracle.loyalty(spans, HOUR, at) / 1e6, oracle.slope(spans, HOUR, at))
            assert (found or (0.0, 0)) == pytest.approx(expected, abs=1e-6), (name, at)
            looked += expected[0] > 0
    assert looked > 5


def assert_answers_as_of_any_instant_are_those_of_their_sql(directory: Path) -> None:
    reader, sql = Reader(load_plan(str(directory / "spec.yaml"))), connected(directory)
    for name in ("loyal", "fresh", "steady", "slowly"):
        for at in (datetime(2020, 1, 1, 3, 7, tzinfo=UTC), datetime(2020, 1, 1, 5, tzinfo=UTC), None):
            answer = reader.as_of(name, at)
            columns = [c for c in answer.rows.column_names if c != "rank"]
            selected = sql.execute(f"select {', '.join(columns)} from ({answer.sql})").fetchall()
            assert selected == [tuple(r[c] for c in columns) for r in answer.rows.to_pylist()], (name, at)


def connected(directory: Path) -> duckdb.DuckDBPyConnection:
    sql = duckdb.connect()
    sql.execute("set timezone = 'UTC'")
    for path in (directory / "out").iterdir():
        if (path / "_delta_log").is_dir():
            sql.register(path.name, table(directory, path.name))
    return sql
