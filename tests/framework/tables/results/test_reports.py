"""Items that are told once: one table, no results to derive; asked for the newest, replayed, and nothing else made or promised."""

from __future__ import annotations

import io
import json
import random
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Lines
from skyband.framework.plan.explain import tables_of
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.plan.model import Plan
from skyband.framework.quality.gate import Gate
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.results.reader import NEWEST, Reader
from skyband.framework.tables.schemas import changes_schema, derived_tables, tables
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from skyband.framework.verify.brute_force.query_rows import Reports
from skyband.framework.verify.replay.causes import Clocks
from skyband.framework.verify.replay.replay import Replayed, replay, stream_of
from skyband.framework.verify.stored import Stored
from skyband.jobs.cli import main
from skyband.jobs.reading import query as command
from skyband.operators.base import Window
from tests.framework.streaming import checkpoints
from tests.framework.tables.plans import DAY, item_row, make_plan, to_table, without
from tests.framework.tables.results.test_reader import views
from tests.framework.tables.writing.test_sink import instant

BATCHES = 5
TABLES = ["near_changes", "near3_changes", "heads", "rejected", "checks", "published", "runs", "job_runs"]
Rows = list[dict[str, Any]]


def once(plan: Plan) -> Plan:
    """The plan, of items that are told once."""
    queries = tuple(replace(q, item=replace(q.item, lasting=False)) for q in plan.queries)
    return replace(plan, queries=queries, operators=tuple(replace(o, skyband=False) for o in plan.operators))


def told(plan: Plan, rng: random.Random, keys: list[str]) -> list[Rows]:
    """Rows of ``near_changes`` batch by batch: most arrivals have up to three partners."""
    step, seq, at, made = dict.fromkeys(keys, 0), dict.fromkeys(keys, 3), DAY, []
    for _ in range(BATCHES):
        rows: Rows = []
        for _ in range(30):
            key, at = rng.choice(keys), at + rng.choice([0, 1, 1_000_000])
            partners = rng.sample(range(seq[key] - 3, seq[key]), rng.randrange(4))
            step[key] += bool(partners)
            for pos, older in enumerate(partners):
                row = dict.fromkeys(plan.intake.partition_by, key) | {"changed_at": at, "step": step[key], "pos": pos, "score": float(pos)}
                row |= item_row((older, seq[key]), ("older", "newer"), ("x", "price")) | {"older_time": DAY - 1, "newer_time": at}
                rows.append(row)
            seq[key] += 1
        made.append(rows)
    return made


class Job:
    """A job without a JVM, and one batch more in its changes than is complete."""

    def __init__(self, directory: Path, keyed: bool) -> None:
        self.plan = once(make_plan(str(directory), ("grp",) if keyed else ()))
        self.layout = Layout(self.plan.sink)
        self.head = JobFile(self.plan.job, "g", fingerprint(self.plan), 2, None)
        (directory / "_skyband").mkdir()
        (directory / "_skyband" / "job.json").write_text(json.dumps(asdict(self.head)))
        self.sink = Sink(self.plan, DriverWriter(directory), "g")
        self.sink.ensure_all()
        self.schema = without(changes_schema(self.plan, self.plan.queries[0]), "batch_id")
        self.batches = told(self.plan, random.Random(3), list("abc") if keyed else [""])
        self.rows = [row for rows in self.batches[:-1] for row in rows]
        self.last = max(r["changed_at"] for r in self.rows)
        stamp = pa.timestamp("us", "UTC")
        for n, rows in enumerate(self.batches):
            keys = [{"grp": k} for k in "abc"] if keyed else [{}]
            heads = [k | {"bucket": i, "last_seq": n, "last_time": self.last, "as_of": self.last} for i, k in enumerate(keys)]
            blocks = {"changes:near": to_table(rows, self.schema), "heads": to_table(heads, self.sink.specs["heads"].schema)}
            if n < BATCHES - 1:
                frontier = pa.scalar(self.last, stamp).as_py()
                blocks["runs"] = self.sink.runs_row({"batch_id": n, "frontier": frontier, "counters": "{}"})
            self.sink.commit(n, blocks)
        derive(self.sink, BATCHES - 2)


@pytest.fixture(params=[False, True], ids=["one stream", "keyed"])
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Job:
    (tmp_path / "tables").mkdir()
    return Job(tmp_path / "tables", request.param)


def test_there_is_one_table_and_nothing_is_derived(job: Job) -> None:
    assert [t.name for t in tables(job.plan)] == TABLES
    assert sorted(p.name for p in job.layout.root.iterdir()) == sorted(["_skyband", *TABLES])
    of_job = ["runs", "checks", "published", "job_runs"]
    assert tables_of(job.plan) == [*(t for t in TABLES if t not in of_job), *of_job] and derived_tables(job.plan) == []
    names = changes_schema(job.plan, job.plan.queries[0]).names
    assert {"changed_at", "step", "pos", "score", "batch_id", "older_id", "newer_time"} < set(names)
    assert not {"change", "cause"} & set(names)


def test_the_newest_by_definition_and_in_duckdb(job: Job) -> None:
    reader, keyed = Reader(job.plan), bool(job.plan.intake.partition_by)
    job.rows.sort(key=lambda r: (-r["changed_at"], r.get("grp", ""), -r["step"], r["pos"]))
    assert len(job.rows) > NEWEST
    late = job.rows[60]["changed_at"]
    for at, newest, key in (
        (None, None, None), (None, 7, None), (None, 10**6, None), (late, None, None), (late, 11, None),
        (DAY - 1, None, None), (None, 0, None), *([(None, 5, {"grp": "b"})] if keyed else []),
    ):  # fmt: skip
        answer = reader.as_of("near", None if at is None else instant(at), key, newest)
        mine = [r for r in job.rows if (at is None or r["changed_at"] <= at) and (key is None or r["grp"] == key["grp"])]
        expected = mine[: NEWEST if newest is None else newest]
        found = answer.rows.to_pylist()
        assert answer.rows.column_names[: 2 + keyed] == [*(["grp"] if keyed else []), "changed_at", "rank"]
        told = [(r["changed_at"], r["rank"] - 1, r["older_seq"], r["newer_seq"], r["score"]) for r in found]
        assert told == [(instant(r["changed_at"]), r["pos"], r["older_seq"], r["newer_seq"], r["score"]) for r in expected]
        assert (answer.note is None) == (len(expected) == len(mine)) and answer.as_of == instant(job.last if at is None else at)
        elsewhere = views(job.layout.root, job.plan).sql(answer.sql).to_arrow_table()
        assert elsewhere["newer_seq"].to_pylist() == [r["newer_seq"] for r in expected]
        assert elsewhere["pos"].to_pylist() == [r["pos"] for r in expected]


def test_no_other_k_or_window_can_be_had(job: Job) -> None:
    for k, window in ((1, None), (None, Window(3)), (2, Window(3))):
        with pytest.raises(SkybandError, match=r"reports every arrival once") as e:
            Reader(job.plan).snapshot("near", k, window)
        assert e.value.code == "SKY-E201" and "--limit" in (e.value.hint or "")
    with pytest.raises(SkybandError, match=r"complete only up to"):
        Reader(job.plan).as_of("near", instant(job.last) + timedelta(seconds=1))


def test_the_command_prints_them(job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_plan", lambda spec: job.plan)
    assert main(["query", "spec.yaml", "near", "--limit", "3", "--sql"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("near: 3 rows, as of ") and "LIMIT 3;" in said.out
    assert f"the newest 3 of {len(job.rows):,} rows" in said.err
    assert main(["query", "spec.yaml", "near", "--k", "1"]) == 2
    assert "SKY-E201 query 'near' reports every arrival once" in capsys.readouterr().err


def replayed(plan: Plan) -> Replayed:
    stored = Stored(plan)
    return replay(stored, plan.queries[0], Clocks(stored))


def test_they_are_replayed_up_to_the_last_complete_batch(job: Job) -> None:
    query, stored = job.plan.queries[0], Stored(job.plan)
    found = replayed(job.plan)
    assert (found.differences, found.changes) == ([], len(job.rows))
    assert found.steps == sum(r["pos"] == 0 for r in job.rows)
    assert set(stored.until.values()) == {job.last - 1}  # a batch that is not whole is in the heads: what every key had reached
    some = job.rows[40]
    here = [r for r in job.rows if r["changed_at"] == some["changed_at"] and r.get("grp") == some.get("grp")]
    key = (some["grp"],) if "grp" in some else ()
    results = Reports(stream_of(stored, query))
    assert results.at(key, some["changed_at"]) == [((r["older_seq"], r["newer_seq"]), r["score"]) for r in here]
    assert results.at(key, DAY - 5) == []


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("step", None, "does not follow"),
        ("pos", 7, "does not follow"),
        ("changed_at", DAY - 9, "not reported at"),
        ("twice", None, "reported before"),
    ],
)
def test_what_does_not_replay_is_found(job: Job, column: str, value: int | None, said: str) -> None:
    place = str(job.layout.root / "near_changes")
    rows = DeltaTable(place).to_pyarrow_table().sort_by("step")
    if column == "twice":
        again = rows.filter(pc.less(rows["step"], 2))
        rows = pa.concat_tables([again.set_column(again.column_names.index("step"), "step", pc.add(again["step"], -1)), rows])
    elif value is None:
        rows = rows.filter(pc.not_equal(rows["step"], 2))
    else:
        made = pa.array([value] + [None] * (rows.num_rows - 1), pa.int64()).cast(rows[column].type)
        rows = rows.set_column(rows.column_names.index(column), column, pc.coalesce(made, rows[column]))
    write_deltalake(place, rows, mode="overwrite")
    assert any(said in d.what for d in replayed(job.plan).differences)


def test_results_made_anew_leave_them_alone_and_a_lost_table_is_told(job: Job) -> None:
    checkpoints.make(job.layout.home, batches=BATCHES - 1, planned=BATCHES)
    before = DeltaTable(str(job.layout.root / "near_changes")).to_pyarrow_table()
    assert check(job.plan, job.layout, job.head, rebuild=True).losses == []
    derive(job.sink, BATCHES - 2)
    assert DeltaTable(str(job.layout.root / "near_changes")).to_pyarrow_table().equals(before)
    assert sorted(p.name for p in job.layout.root.iterdir()) == sorted(["_skyband", *TABLES])
    newest = max((job.layout.root / "near_changes" / "_delta_log").glob("*.json"))
    newest.unlink()
    (job.layout.root / "near_changes" / "_delta_log" / f"{int(newest.stem) - 1:020}.json").unlink()
    with pytest.raises(SkybandError, match=r"'near_changes' has lost batch") as e:
        check(job.plan, job.layout, job.head, rebuild=True)
    assert e.value.code == "SKY-E304" and "cannot be made again" in (e.value.hint or "")


@pytest.mark.parametrize("k", [None, 1])
def test_more_than_was_asked_for_is_seen_at_the_gate(job: Job, k: int | None) -> None:
    query = job.plan.queries[0]
    job.sink.plan = replace(job.plan, queries=(replace(query, k=k or query.k), *job.plan.queries[1:]))
    err = io.StringIO()
    code = Gate(job.sink.plan, Lines(err)).look(job.sink, None)
    wrong = [r for r in job.sink.writer.read("checks").to_pylist() if not r["success"]]
    if k is None:
        assert (code, err.getvalue(), wrong) == (0, "", [])
        return
    assert code == 1 and 'SKY-E503 table near_changes violates skyband_result_at_most_k {"most": 1}' in err.getvalue()
    assert sum(r["unexpected"] for r in wrong) == sum(r["pos"] > 0 for r in job.rows) > 0
    assert not job.sink.writer.read("published").num_rows
