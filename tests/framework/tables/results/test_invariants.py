"""What always holds of results, against the definition, change by change; what breaks it is recorded once and not published."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.quality.gate import Gate
from skyband.framework.tables.outcome import BROKEN
from skyband.framework.tables.render import numbered
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.results.invariants import AT_MOST, IN_BOUNDS, IN_ORDER, REPLAYS, broken, broken_by_reports
from skyband.framework.tables.results.timeline import Timeline
from skyband.framework.tables.schemas import changes_schema, results_schema, stream_columns
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import item_row, make_plan, random_changes, to_table
from tests.framework.tables.writing.test_sink import commit

Rows = list[dict[str, Any]]


def plan_of(directory: str = "out", keyed: bool = True, k: int = 4, least: float | None = None, greatest: float | None = None) -> Plan:
    plan = make_plan(directory, ("grp",) if keyed else ())
    query = replace(plan.queries[0], k=k, min_score=least, max_score=greatest)
    return replace(plan, queries=(query,))


def changes(rng: random.Random, keyed: bool, steps: int) -> Rows:
    """Changes that alternate, and keep to no other bound: any number of items, any score, sometimes a time before the last one."""
    held: dict[Any, set[tuple[int, int]]] = defaultdict(set)
    step: dict[Any, int] = defaultdict(int)
    made: Rows = []
    at: dict[Any, int] = defaultdict(lambda: 1_000_000)
    for _ in range(steps):
        key = rng.choice("abc") if keyed else ""
        inside = held[key]
        out = rng.sample(sorted(inside), min(len(inside), rng.randrange(3)))
        free = [(i, j) for i in range(6) for j in range(i + 1, 6) if (i, j) not in inside]
        new = rng.sample(free, min(len(free), rng.randrange(4)))
        if not out and not new:
            continue
        step[key] += 1
        at[key] += rng.choice([0, 1, 5]) if rng.random() < 0.97 else -3
        for pos, (sign, pair) in enumerate([("-", p) for p in out] + [("+", p) for p in new]):
            row: dict[str, Any] = {"grp": key} if keyed else {}
            row |= {"changed_at": at[key], "step": step[key], "pos": pos, "change": sign, "cause": "arrival", "batch_id": len(made) // 20}
            made.append(row | item_row(pair, ("older", "newer"), ("x", "price")) | {"score": float((7 * pair[0] + pair[1]) % 5)})
        inside -= set(out)
        inside |= set(new)
    return made


def by_definition(rows: Rows, before: Rows, query: QueryNode) -> dict[str, int]:
    """Steps with too many items, changes in the wrong order of time, items out of bounds."""
    inside: dict[Any, set[Any]] = defaultdict(set)
    time: dict[Any, int] = {}
    last: dict[Any, int] = {}
    found = dict.fromkeys((AT_MOST, IN_ORDER, IN_BOUNDS), 0)
    seen = {id(r) for r in before}
    everything = [*before, *rows]
    for i, r in enumerate(everything):
        key, item = r.get("grp"), (r["older_seq"], r["newer_seq"])
        (inside[key].discard if r["change"] == "-" else inside[key].add)(item)
        new = id(r) not in seen
        ends = not any(n.get("grp") == key and n["step"] == r["step"] for n in everything[i + 1 :])
        found[AT_MOST] += new and ends and len(inside[key]) > query.k
        found[IN_ORDER] += new and key in last and r["changed_at"] < last[key]
        low, high = query.min_score, query.max_score
        out = (low is not None and r["score"] < low) or (high is not None and r["score"] > high)
        found[IN_BOUNDS] += new and r["change"] == "+" and out
        if new:
            last[key] = r["changed_at"]
        time[key] = r["changed_at"]
    return {name: n for name, n in found.items() if n}


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_broken_is_found_where_the_definition_finds_it(seed: int, keyed: bool) -> None:
    rng = random.Random(seed)
    plan = plan_of(keyed=keyed, least=rng.choice([None, 1.0]), greatest=rng.choice([None, 3.0]), k=rng.choice([3, 5, 100]))
    query = plan.queries[0]
    rows = changes(rng, keyed, 60)
    cut = rng.randrange(len(rows) // 2)
    cut = next(
        i for i in range(cut, len(rows)) if i == 0 or (rows[i].get("grp"), rows[i]["step"]) != (rows[i - 1].get("grp"), rows[i - 1]["step"])
    )
    schema, keys = changes_schema(plan, query), stream_columns(plan, query)
    first, second = rows[:cut], rows[cut:]
    timeline = Timeline.of(plan, query)
    derived = timeline.intervals(results_schema(plan, query).empty_table(), to_table(first, schema))
    opened = derived.filter(derived["is_current"])
    shuffled = second if rng.random() < 0.5 else rng.sample(second, len(second))
    told = to_table(shuffled, schema)
    after = timeline.intervals(opened, told)
    found = {o.expectation: o.unexpected for o in broken(plan, query, opened, told, after, numbered(opened, told, keys))}
    assert found == by_definition(second, first, query)


def test_what_enters_a_list_of_queries_is_held_to_the_bounds_of_its_own() -> None:
    plan = plan_of(keyed=False)
    window = plan.window
    asked = (
        LogicalQuery("one", None, None, window, 1, (2.0, None), "min"),
        LogicalQuery("any", None, None, window, None, (None, 3.0), "min"),
    )  # type: ignore[arg-type]
    query = replace(plan.queries[0], asked=asked, members=("one", "any"))
    plan = replace(plan, queries=(query,))
    rows = [
        {"query": name, "changed_at": 5, "step": 1, "pos": pos, "change": "+", "cause": "arrival", "batch_id": 0, "score": score}
        | item_row((pos, pos + 1), ("older", "newer"), ("x", "price"))
        for name, pos, score in (("one", 0, 1.5), ("one", 1, 2.5), ("any", 0, 0.0), ("any", 1, 2.9), ("any", 2, 3.1), ("any", 3, 3.0))
    ]
    told = to_table(rows, changes_schema(plan, query))
    empty = results_schema(plan, query).empty_table()
    after = Timeline.of(plan, query).intervals(empty, told)
    number = numbered(empty, told, stream_columns(plan, query))
    found = {o.expectation: (o.unexpected, [e["found"] for e in o.examples]) for o in broken(plan, query, empty, told, after, number)}
    assert found == {AT_MOST: (1, [2]), IN_BOUNDS: (2, [1.5, 3.1])}
    once = {o.expectation: (o.unexpected, [e["found"] for e in o.examples]) for o in broken_by_reports(plan, query, told)}
    assert once == found


def test_rows_that_are_not_what_the_changes_make_are_missed() -> None:
    plan = plan_of(keyed=False, k=100)
    query = plan.queries[0]
    told = to_table(changes(random.Random(1), False, 20), changes_schema(plan, query))
    empty = results_schema(plan, query).empty_table()
    after = Timeline.of(plan, query).intervals(empty, told)
    number = numbered(empty, told, ())
    assert REPLAYS not in [o.expectation for o in broken(plan, query, empty, told, after, number)]
    for damaged in (after.slice(1), pa.concat_tables([after, after.slice(0, 1)])):
        assert REPLAYS in [o.expectation for o in broken(plan, query, empty, told, damaged, number)]


class Job:
    """A job whose second batch brings an item too many."""

    def __init__(self, directory: Path) -> None:
        self.sink = Sink(make_plan(str(directory), ("grp",)), DriverWriter(directory), "g")
        self.sink.ensure_all()
        self.changes = random_changes(self.sink.plan, seed=4, batches=4, steps=60)

    def narrowed(self) -> None:
        plan = self.sink.plan
        self.sink.plan = replace(plan, queries=(replace(plan.queries[0], k=1), plan.queries[1]))

    def gate(self) -> tuple[int, str]:
        err = io.StringIO()
        return Gate(self.sink.plan, Lines(err)).look(self.sink, None), err.getvalue()

    def broken(self) -> Rows:
        return [r for r in self.sink.writer.read("checks").to_pylist() if r["expectation"].startswith(BROKEN)]


def test_a_broken_result_is_recorded_written_and_not_published_until_it_is_made_anew(tmp_path: Path) -> None:
    job = Job(tmp_path)
    commit(job.sink, job.changes, 0)
    derive(job.sink, 0)
    assert job.gate() == (0, "") and job.broken() == []
    held = job.sink.writer.read("published").to_pylist()
    whole = job.sink.plan
    job.narrowed()
    commit(job.sink, job.changes, 1)
    derive(job.sink, 1)
    assert sum(r["to_step"] is None for r in job.sink.writer.read("near").to_pylist()) > 1
    for _ in range(2):
        code, told = job.gate()
        assert code == 1 and 'SKY-E503 table near violates skyband_result_at_most_k {"most": 1}' in told and "not published" in told
    (row,) = job.broken()
    assert (row["table_name"], row["severity"], row["batch_id"], row["first_batch_id"]) == ("near", "critical", 1, 1) and row[
        "unexpected"
    ] > 0
    # The broken rows stay in the table: so does what is said of it.
    job.sink.plan = whole
    commit(job.sink, job.changes, 2)
    derive(job.sink, 2)
    assert job.gate()[0] == 1 and len(job.broken()) == 1
    assert job.sink.writer.read("published").to_pylist() == held
    # Made anew, it is right.
    import shutil

    for name in ("near", "near_now", "published"):
        shutil.rmtree(tmp_path / name)
    again = Sink(whole, DriverWriter(tmp_path), "g")
    again.ensure_all()
    derive(again, 2)
    job.sink = again
    assert job.gate()[0] == 0 and len(again.writer.read("published")) == 6


def test_a_run_that_dies_between_finding_and_writing_has_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path)
    job.narrowed()
    commit(job.sink, job.changes, 0)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(job.sink.writer, "overwrite_partitions", killed)
        with pytest.raises(KeyboardInterrupt):
            derive(job.sink, 0)
    assert len(job.broken()) == 1
    derive(job.sink, 0)
    assert len(job.broken()) == 1 and job.gate()[0] == 1
