"""``skyband whatif`` of every query type against the tables of two whole jobs, one of them over the changed rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.rehearsal.rehearsal import Rehearsal
from skyband.framework.rehearsal.rows import Rows
from skyband.framework.sources.preview import first_rows
from skyband.framework.tables.schemas import changes_name, stream_columns, trajectory_name
from skyband.framework.verify.stored import keys_of, micros
from skyband.framework.whatif.rows import change_of
from skyband.framework.whatif.whatif import Supposed, what_if
from skyband.framework.whatif.wording import state_of
from tests.framework.whatif import ran
from tests.framework.whatif.test_whatif import MINUTE, START, stamp
from tests.seeds import seeds

SPEC = """\
job: kinds
source:
  format: csv
  path: in
  options: {header: true}
  schema: {id: bigint, ts: timestamp, grp: string, who: string, said: string, x: double}
  id: [id]
  event_time: {column: ts, watermark: 0 minutes, max_ahead: none}
  partition_by: [grp]
window: {time: 20 minutes}
tokens:
  words: {column: said}
scoring:
  near: {expression: abs(a.x - b.x), direction: min}
  x: {expression: x, direction: max}
queries:
  best: {type: topk, scoring: x, k: 2, every: 5 minutes}
  carried: {type: topk, scoring: x, k: 2, window: {time: 7 minutes}, carry: [who]}
  pairs: {type: topk_pairs, scoring: near, k: 2, where: "a.who <> b.who"}
  close: {type: threshold_pairs, scoring: near, max_score: 1}
  sets: {type: topk_similar_sets, tokens: words, k: 2}
  loud: {type: topk_groups, group: who, score: sum(x), k: 2, carry: [count(), min(x)]}
  hourly: {type: topk_groups, group: who, score: sum(x), k: 2, window: {tumbling: 10 minutes}}
  loyal: {type: topk_loyalty, object: who, criteria: x > 2, k: 2}
  seen: {type: matches, scoring: near, k: 1, where: "a.who <> b.who"}
sink: {path: out}
"""
Row = dict[str, Any]


def random_rows(seed: int, n: int = 50) -> list[Row]:
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, 90, n))
    return [
        {"id": i, "ts": stamp(int(m)), "minute": int(m), "grp": str(rng.choice(["p", "q"])), "who": str(rng.choice(list("abcd"))),
         "said": " ".join(rng.choice(list("stuvw"), 3)), "x": int(rng.integers(0, 6))}
        for i, m in enumerate(minutes)
    ]  # fmt: skip


class Whole:
    """A job over some rows, run at once: what is in a result, or has been reported, at an instant, by its table of intervals."""

    def __init__(self, plan: Plan, directory: Path, rows: list[Row], frontier: int) -> None:
        self.plan = plan
        path = directory / "rows.csv"
        ran.write(path, rows, [str(f.source_name) for f in plan.source.fields])
        found = first_rows(plan.source, 10_000, [str(path)])
        job = Rehearsal(plan)
        job.take(Rows(plan.intake).table(found.rows, found.reasons, found.texts))
        job.finish()
        self.tables = job.tables()
        self._names: dict[str, list[tuple[Any, ...]]] = {}
        self._spans: dict[str, list[tuple[Any, int | None, int | None]]] = {}

    def names(self, query: QueryNode, table: str) -> list[tuple[Any, ...]]:
        if table in self._names:
            return self._names[table]
        items = query.item.columns(self.plan.intake.id, (), self.plan.intake.partition_by)
        named = [*stream_columns(self.plan, query), *(c.name for c in items if c.what in ("id", "time", "object"))]
        rows = self.tables[table]
        self._names[table] = keys_of(rows.sort_by("valid_from") if table.endswith("_trajectory") else rows, named)
        return self._names[table]

    def moved(self, query: QueryNode, instant: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """The value of items whose value varies, with what they carry, by key and name."""
        varying, found = query.item.time_varying, dict[tuple[Any, ...], tuple[Any, ...]]()
        if varying is None:
            return found
        points = self.tables[trajectory_name(query.name)].sort_by("valid_from")
        slopes = [0] * points.num_rows if varying.slope is None else points[varying.slope].to_pylist()
        names = self.names(query, trajectory_name(query.name))
        carried = keys_of(points, [c.name for c in query.item.carried])
        for n, t, v, s, c in zip(names, micros(points, "valid_from"), points[varying.value].to_pylist(), slopes, carried, strict=True):
            if t is not None and t <= instant:
                found[n] = (v + s * (instant - t) / 1e6, *c)
        return found

    def at(self, query: QueryNode, instant: int) -> Counter[tuple[Any, ...]]:
        """The items of the result by key, or the items reported at the instant, with all values as of then."""
        lasting = query.item.lasting
        table = query.name if lasting else changes_name(query.name)
        if table not in self._spans:
            rows = self.tables[table]
            scores = rows["score"].to_pylist() if "score" in rows.column_names else [None] * rows.num_rows
            since = micros(rows, "valid_from" if lasting else "changed_at")
            until = micros(rows, "valid_to") if lasting else [None if t is None else t + 1 for t in since]
            self._spans[table] = list(zip(scores, since, until, strict=True))
        moved = self.moved(query, instant)
        return Counter(
            (*n, moved.get(n, (s,)))
            for n, (s, a, b) in zip(self.names(query, table), self._spans[table], strict=True)
            if a is not None and a <= instant and (b is None or instant < b)
        )


def shown(found: Supposed, name: str, instant: int) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    """The items that are in the result, or reported, only as it was, and only with the change; of another score both."""
    q = next(q for q in found.queries if q.query.name == name)
    assert q.columns is not None
    only: tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]] = (Counter(), Counter())
    for d, _ in q.found:
        if not (d.since == instant if not d.lasting else d.since <= instant and (d.until is None or instant < d.until)):
            continue
        varying = q.query.item.time_varying
        columns = ["score"] if varying is None else [varying.value, *(c.name for c in q.query.item.carried)]
        values = [tuple((state_of(q, s, instant) or {}).get(c) for c in columns) for s in (d.before, d.after)]
        if d.before is not None and d.after is not None and values[0] == values[1]:
            continue  # of other rank, or another varying value
        for side, state in enumerate((d.before, d.after)):
            if state is not None:
                only[side][(*d.key, *d.name, values[side])] += 1
    return only


def check_ranks(found: Supposed, name: str, instant: int, wholes: tuple[Whole, Whole]) -> None:
    """The rank of a group is by its score as of the instant, among the groups of its key."""
    q = next(q for q in found.queries if q.query.name == name)
    for n, whole in enumerate(wholes):
        present = list(whole.at(q.query, instant))
        for d, _ in q.found:
            state = (d.before, d.after)[n]
            if state is not None and d.since <= instant and (d.until is None or instant < d.until):
                mine = next(p for p in present if p[:-1] == (*d.key, *d.name))
                others = [p[-1][0] for p in present if p[0] == mine[0] and p is not mine]
                assert mine[-1][0] in others or state.rank == 1 + sum(o > mine[-1][0] for o in others)


@pytest.mark.parametrize("seed", seeds(0, 4))
def test_differences_are_those_of_the_tables_of_two_jobs(tmp_path: Path, seed: int) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(SPEC)
    rows = random_rows(seed)
    plan = ran.make(spec, [rows[:20], rows[20:]])
    gone = {rows[7]["id"], rows[23]["id"]}
    change = change_of(plan, [], [str(i) for i in gone], [])
    found = what_if(plan, plan, change)
    assert found.known, [q.unknown for q in found.queries]
    was, now = (Whole(plan, tmp_path, some, found.end + 1) for some in (rows, [r for r in rows if r["id"] not in gone]))
    last = (found.end - START) // MINUTE
    seen: Counter[str] = Counter()
    for query in plan.queries:
        for instant in range(START, START + last * MINUTE + 1, MINUTE // 2):
            a, b = was.at(query, instant), now.at(query, instant)
            assert shown(found, query.name, instant) == (a - b, b - a), (query.name, (instant - START) / MINUTE)
            if query.name == "loud":
                check_ranks(found, query.name, instant, (was, now))
            seen[query.name] += (a - b).total() + (b - a).total()
    assert len(seen) == len(plan.queries) and sum(seen.values()) > 50


@pytest.mark.parametrize("how", ["reject", "replace", "keep_first"])
def test_repeated_ids_are_judged_again_with_other_rows(tmp_path: Path, how: str) -> None:
    spec = tmp_path / "job.yaml"
    kept = [line for line in SPEC.splitlines() if not line.startswith(("  pairs", "  close", "  sets", "  hourly", "  loyal", "  seen"))]
    spec.write_text("\n".join(kept).replace("  id: [id]", f"  id: [id]\n  on_duplicate: {how}") + "\n")
    rows = [{**row, "id": row["id"] % 12} for row in random_rows(9)]
    plan = ran.make(spec, [rows[:20], rows[20:]])
    found = what_if(plan, plan, change_of(plan, [], ["who=a"], []))
    assert found.known and {(k["was"], k["would_be"]) for k in found.rows} >= {("accepted", "left out")}
    if how != "replace":
        # The first row of an id is left out, so that the next one of it is none that repeats it.
        assert ("duplicate_id", "accepted") in {(k["was"], k["would_be"]) for k in found.rows}
    was, now = (Whole(plan, tmp_path, some, found.end + 1) for some in (rows, [r for r in rows if r["who"] != "a"]))
    for query in plan.queries:
        seen = 0
        for instant in range(START, found.end, MINUTE // 2):
            a, b = was.at(query, instant), now.at(query, instant)
            assert shown(found, query.name, instant) == (a - b, b - a), (query.name, (instant - START) / MINUTE)
            seen += (a - b).total() + (b - a).total()
        assert seen > 10


def test_a_query_over_a_result_cannot_be_known(tmp_path: Path) -> None:
    over = "  stays: {type: topk_loyalty, of: loud, k: 1}\n"
    (tmp_path / "job.yaml").write_text(SPEC.replace("sink:", f"{over}sink:"))
    plan = ran.make(tmp_path / "job.yaml", [random_rows(1)])
    change = change_of(plan, [], ["who=a"], [])
    found = what_if(plan, plan, change)
    unknown = {q.query.name: q.unknown for q in found.queries if q.unknown is not None}
    assert list(unknown) == ["stays"] and "result of another query" in unknown["stays"] and not found.known and found.count
    assert any(text.startswith("the results of stays") for text in found.cannot_know)
    assert what_if(plan, plan, change, query="loud").known and not what_if(plan, plan, change, query="stays").known
