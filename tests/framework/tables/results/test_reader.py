"""Results at any instant and snapshots from the tables, against the definition and against DuckDB running the SQL that is offered."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import asdict
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.framework.streaming.job.layout import JobFile
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.results.reader import Reader
from skyband.framework.tables.schemas import skyband_schema, tables
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.operators.base import Window
from tests import kept
from tests.framework.tables.plans import DAY, batch_blocks, item_row, make_plan, random_changes, to_table
from tests.framework.tables.writing.test_sink import commit, instant, replay

ITEMS = [(i, j) for i in range(990, 1010) for j in range(i + 1, 1010) if (i * j) % 3]


def job(
    directory: Path, keys: tuple[str, ...], roles: tuple[str, ...] = ("older", "newer"), derived: bool = True
) -> tuple[Plan, list[Any]]:
    """A job whose tables are in ``directory``, and its changes, batch by batch."""
    made, changes = _made(keys, roles, derived)
    shutil.copytree(made, directory, dirs_exist_ok=True)
    return make_plan(str(directory), keys, roles, "max"), deepcopy(changes)


@cache
def _made(keys: tuple[str, ...], roles: tuple[str, ...], derived: bool) -> tuple[Path, list[Any]]:
    directory = kept.directory()
    plan = make_plan(str(directory), keys, roles, "max")
    (directory / "_skyband").mkdir()
    (directory / "_skyband" / "job.json").write_text(json.dumps(asdict(JobFile(plan.job, "g", fingerprint(plan), 2, None))))
    sink = Sink(plan, DriverWriter(directory), "g")
    sink.ensure_all()
    changes = random_changes(plan, seed=12, batches=4, steps=40)
    for n in range(4):
        commit(sink, changes, n)
        if n == 1 or derived:
            derive(sink, n)
    # Last batch: a bigger skyband, and the frontier after everything.
    stamp = pa.timestamp("us", "UTC")
    heads, rows = [], []
    for i, key in enumerate("abc" if keys else "a"):
        mine = dict.fromkeys(keys, key) | {"bucket": i}
        heads.append(mine | {"last_seq": 1009, "last_time": DAY + 1009, "as_of": DAY + 1009 + i})
        for pair in ITEMS[i::2]:
            seqs = pair[::-1] if roles == ("a", "b") and sum(pair) % 2 else pair
            rows.append(mine | item_row(seqs, roles, ("x", "price", "day")) | {"score": float(sum(pair) % 7)})
    skyband = to_table(rows, skyband_schema(plan, plan.operators[0]))
    blocks = {f"skyband:near:{b}": skyband.filter(pc.equal(skyband["bucket"], b)) for b in {h["bucket"] for h in heads}}
    blocks["heads"] = pa.table(
        {
            k: pa.array([h[k] for h in heads], pa.int64()).cast(stamp) if k in ("last_time", "as_of") else [h[k] for h in heads]
            for k in heads[0]
        }
    )
    blocks["runs"] = sink.runs_row({"batch_id": 4, "frontier": instant(DAY + 900_000_000), "counters": "{}"})
    sink.commit(4, blocks)
    return directory, changes


def views(directory: Path, plan: Plan) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for spec in tables(plan):
        connection.register(spec.name, delta_read.read(delta_read.open_table(directory, spec.name)))
    return connection


@pytest.mark.long
@pytest.mark.parametrize("derived", [True, False])
@pytest.mark.parametrize("keys", [(), ("grp",)])
def test_result_at_an_instant(tmp_path: Path, keys: tuple[str, ...], derived: bool) -> None:
    plan, changes = job(tmp_path, keys, derived=derived)
    reader = Reader(plan)
    rows = replay(plan, changes, "near")
    instants = sorted({r["valid_from"] for r in rows} | {r["valid_to"] for r in rows if r["valid_to"]})
    seen = 0
    for t in [*instants[::3], instants[-1] + 1]:
        expected = [r for r in rows if r["valid_from"] <= t and (r["valid_to"] is None or t < r["valid_to"])]
        expected.sort(key=lambda r: (r.get("grp", "") if keys else "", -r["score"], -r["older_seq"], -r["newer_seq"]))
        answer = reader.as_of("near", instant(t))
        found = answer.rows.to_pylist()
        assert [(r["older_seq"], r["newer_seq"]) for r in found] == [(r["older_seq"], r["newer_seq"]) for r in expected]
        seen += len(found)
        if derived:
            elsewhere = views(tmp_path, plan).sql(answer.sql).to_arrow_table()
            assert elsewhere["older_seq"].to_pylist() == [r["older_seq"] for r in found]
    assert seen > 20
    early = reader.as_of("near", instant(DAY - 1))
    assert early.rows.num_rows == 0 and early.note is not None and "before the first result" in early.note
    with pytest.raises(SkybandError, match=r"complete only up to 2020-01-01T00:14:59\.999999"):
        reader.as_of("near", instant(DAY + 900_000_000))


@pytest.mark.long
@pytest.mark.parametrize("roles", [("older", "newer"), ("a", "b")])
@pytest.mark.parametrize("keys", [(), ("grp",)])
@pytest.mark.parametrize("window", [Window(12, None), Window(None, 899_000_000), Window(15, 899_998_990), Window(None, 1)])
def test_snapshot_by_definition_and_in_duckdb(tmp_path: Path, keys: tuple[str, ...], roles: tuple[str, ...], window: Window) -> None:
    plan, _ = job(tmp_path, keys, roles)
    answer = Reader(plan).snapshot("near", 4, window)
    as_of = DAY + 900_000_000 - 1
    expected = []
    for i, key in enumerate("abc" if keys else "a"):
        mine = [p for p in ITEMS[i::2] if (window.count is None or p[0] > 1009 - window.count)]
        mine = [p for p in mine if window.micros is None or DAY + p[0] > as_of - window.micros]
        mine.sort(key=lambda p: (-(sum(p) % 7), -p[0], -p[1]))
        expected += [(key, n, p) for n, p in enumerate(mine[:4], 1)]
    rows = answer.rows.to_pylist()
    assert [(r.get("grp", "a"), r["rank"], tuple(sorted((r[f"{roles[0]}_seq"], r[f"{roles[1]}_seq"])))) for r in rows] == expected
    elsewhere = views(tmp_path, plan).sql(answer.sql).to_arrow_table()
    for name in elsewhere.column_names:
        assert elsewhere[name].to_pylist() == answer.rows[name].to_pylist(), name


def test_keys_are_chosen_by_value(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ("grp",))
    reader = Reader(plan)
    assert set(reader.snapshot("near", 2, Window(50, None), {"grp": "b"}).rows["grp"].to_pylist()) == {"b"}
    assert set(reader.as_of("near", None, {"grp": "c"}).rows["grp"].to_pylist()) <= {"c"}
    with pytest.raises(SkybandError, match="no rows of this key"):
        reader.as_of("near", None, {"grp": "nobody"})
    with pytest.raises(SkybandError, match="not a key column"):
        reader.as_of("near", None, {"group": "a"})


def test_a_key_whose_row_of_heads_is_deferred_has_a_result(tmp_path: Path) -> None:
    plan, changes = job(tmp_path, ("grp",))
    # Batch 5 is not derived yet.
    sink, entered = Sink(plan, DriverWriter(tmp_path), "g"), next(r for b in changes for r in b["near"] if r["change"] == "+")
    new = {q.name: [] for q in plan.queries} | {"near": [entered | {"grp": "new", "step": 1, "pos": 0}]}
    blocks = batch_blocks(plan, new, 5)
    runs = {"batch_id": 5, "frontier": instant(DAY + 950_000_000), "counters": '{"behind": 1}'}
    sink.commit(5, blocks | {"runs": sink.runs_row(runs)})
    answer = Reader(plan).as_of("near", None, {"grp": "new"})
    assert answer.rows["older_seq"].to_pylist() == [entered["older_seq"]] and answer.as_of == instant(DAY + 950_000_000 - 1)


def test_what_the_tables_do_not_hold_is_refused(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ())
    reader = Reader(plan)
    for k, window, words in (
        (6, Window(10, None), "from 1 to 5"),
        (0, None, "from 1 to 5"),
        (2, Window(1001, None), "1,000 rows"),
        (2, Window(None, 2**50), "1 hour"),
    ):
        with pytest.raises(SkybandError, match=words) as e:
            reader.snapshot("near", k, window)
        assert e.value.code == "SKY-E201"
    with pytest.raises(SkybandError, match="did you mean 'near3'"):
        reader.as_of("naer3")
    with pytest.raises(SkybandError, match="SKY-E400"):
        Reader(make_plan(str(tmp_path / "nowhere"))).as_of("near")


def test_every_table_is_read_by_duckdb_and_has_comments(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ("grp",))
    connection = views(tmp_path, plan)
    for spec in tables(plan):
        opened = delta_read.open_table(tmp_path, spec.name)
        assert all(f.metadata.get("comment") for f in opened.schema().fields), spec.name
        assert opened.protocol().min_reader_version == 1
        assert opened.schema().to_arrow() is not None
        (count,) = connection.execute(f'select count(*) from "{spec.name}"').fetchone()  # type: ignore[misc]
        assert count == delta_read.read(opened).num_rows
        # Not through Arrow but by DuckDB's own Parquet reader.
        files = [str(tmp_path / spec.name / u.split(f"/{spec.name}/")[1]) for u in opened.file_uris()]
        if files:
            (direct,) = connection.execute("select count(*) from read_parquet(?)", [files]).fetchone()  # type: ignore[misc]
            assert direct == count


def test_current_and_timing_of_now(tmp_path: Path) -> None:
    plan, _ = job(tmp_path, ())
    answer = Reader(plan).as_of("near")
    now = delta_read.read(delta_read.open_table(tmp_path, "near_now")).sort_by("rank")
    assert answer.rows["older_seq"].to_pylist() == now["older_seq"].to_pylist()
    assert answer.as_of == instant(DAY + 900_000_000) - timedelta(microseconds=1)
