"""``skyband whatif`` against the definition: results of tiny random streams, row by row and minute by minute, with and without a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband.framework.plan.model import Plan
from skyband.framework.spec.parsing.assemble import setting_of
from skyband.framework.storage.delta_read import open_table, read
from skyband.framework.whatif.compare import Difference
from skyband.framework.whatif.rows import change_of
from skyband.framework.whatif.whatif import Supposed, what_if
from skyband.jobs.spec import load_edited
from tests.framework.whatif import ran
from tests.seeds import seeds

START = 1_577_836_800_000_000
MINUTE = 60_000_000
SPEC = """\
job: small
source:
  format: csv
  path: in
  options: {header: true}
  schema: {id: bigint, ts: timestamp, grp: string, x: double, y: double}
  id: [id]
  event_time: {column: ts, watermark: 2 minutes, max_ahead: none}
  partition_by: [grp]
transform:
  - derive: {z: x + y}
  - where: y < 9
quality:
  max_rejected: 100%
  rows:
    - {name: sane, expect: x < 90}
window: {count: 6, time: 15 minutes}
scoring:
  z: {expression: z, direction: max}
queries:
  best: {type: topk, scoring: z, k: 2}
  high: {type: threshold, scoring: z, at_least: 7, window: {count: 4}}
  front: {type: skyline, dimensions: {x: max, y: min}}
sink: {path: out}
"""
Row = dict[str, Any]


def stamp(minute: int) -> str:
    return f"2020-01-01T{minute // 60:02}:{minute % 60:02}:00Z"


def random_batches(seed: int, n: int = 36) -> list[list[Row]]:
    """Rows with late ones, repeated ids, filtered ones and such as break the rule, in three batches; the file order is that of arrival."""
    rng = np.random.default_rng(seed)
    minutes = np.sort(rng.integers(0, 50, n))
    jitter = np.where(rng.random(n) < 0.25, rng.integers(0, 14, n), 0)
    rows: list[Row] = [
        {
            "id": int(rng.integers(0, n)) if rng.random() < 0.3 else 100 + i,
            "minute": int(m),
            "grp": str(rng.choice(["p", "q"])),
            "x": "" if rng.random() < 0.05 else 95 if rng.random() < 0.08 else int(rng.integers(0, 6)),
            "y": 9 if rng.random() < 0.1 else int(rng.integers(0, 5)),
        }
        for i, m in enumerate(np.maximum(0, minutes - jitter))
    ]  # fmt: skip
    for row in rows:
        row["ts"] = stamp(row["minute"])
    if rng.random() < 0.5:
        rows[int(rng.integers(0, n))]["ts"] = "soon"
    return [rows[i * n // 3 : (i + 1) * n // 3] for i in range(3)]


class Oracle:
    """Results by the definition, from accepted rows only. ``rows``: those that pass the intake."""

    def __init__(self, rows: list[Row], k: int = 2, count: int = 6, minutes: int = 15) -> None:
        self.k, self.minutes, self.count = k, minutes, count
        self.of: dict[str, list[Row]] = {"p": [], "q": []}
        for row in sorted(rows, key=lambda r: (r["minute"], r["id"], r["grp"], r["x"] != "", r["x"], r["y"])):
            mine = self.of[row["grp"]]
            live = [r for r in mine[-count:] if r["minute"] > row["minute"] - minutes]
            if all(r["id"] != row["id"] for r in live):
                mine.append(row)

    @property
    def accepted(self) -> set[tuple[int, int, str]]:
        return {(r["id"], r["minute"], g) for g, rows in self.of.items() for r in rows}

    def alive(self, grp: str, at: int, count: int) -> list[tuple[int, Row]]:
        come = [(s, r) for s, r in enumerate(self.of[grp]) if r["minute"] <= at]
        return [(s, r) for s, r in come[-count:] if r["minute"] > at - self.minutes]

    def best(self, grp: str, at: int) -> list[tuple[Any, ...]]:
        return self._ranked(grp, at, self.count)[: self.k]

    def high(self, grp: str, at: int) -> list[tuple[Any, ...]]:
        return [r for r in self._ranked(grp, at, 4) if r[2] >= 7]

    def _ranked(self, grp: str, at: int, count: int) -> list[tuple[Any, ...]]:
        found = sorted((-(r["x"] + r["y"]), -s, r["id"], r["minute"]) for s, r in self.alive(grp, at, count) if r["x"] != "")
        return [(i, m, float(-score)) for score, _, i, m in found]

    def front(self, grp: str, at: int) -> list[tuple[Any, ...]]:
        here = [r for _, r in self.alive(grp, at, self.count) if r["x"] != ""]

        def beats(a: Row, b: Row) -> bool:
            return bool(a["x"] >= b["x"] and a["y"] <= b["y"] and (a["x"], a["y"]) != (b["x"], b["y"]))

        return [(r["id"], r["minute"], None) for r in here if not any(beats(o, r) for o in here)]


def passing(rows: list[Row], rules: bool = True) -> list[Row]:
    return [r for r in rows if r["ts"] != "soon" and r["y"] < 9 and not (rules and r["x"] != "" and r["x"] >= 90)]


def rejected(plan: Plan, reason: str) -> list[tuple[int, int]]:
    rows = read(open_table(plan.sink, "rejected"))
    found = []
    for why, text in zip(rows["reason"].to_pylist(), rows["text"].to_pylist(), strict=True):
        if why == reason:
            row = json.loads(text)
            found.append((row["id"], int(row["ts"][11:13]) * 60 + int(row["ts"][14:16])))
    return found


def less(rows: list[Row], gone: list[tuple[int, int]]) -> list[Row]:
    left, kept = list(gone), []
    for row in rows:
        if (row["id"], row["minute"]) in left:
            left.remove((row["id"], row["minute"]))
        else:
            kept.append(row)
    return kept


class Case:
    """A job that has run over random rows, with late rows among them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.spec = directory / "job.yaml"
        self.spec.write_text(SPEC)
        batches = random_batches(seed)
        self.plan = ran.make(self.spec, batches)
        self.rows = [r for batch in batches for r in batch]
        self.late = rejected(self.plan, "late")
        self.last = max(r["minute"] for r in less(passing(self.rows), self.late))

    def ask(self, with_: tuple[str, ...] = (), without: tuple[str, ...] = (), settings: tuple[str, ...] = (), **more: Any) -> Supposed:
        made = [setting_of(s) for s in settings]
        plan, edited = load_edited(str(self.spec), made)
        return what_if(plan, edited, change_of(plan, list(with_), list(without), [s.said for s in made]), **more)

    def expected(self, query: str, was: Oracle, now: Oracle, at: int) -> set[tuple[Any, ...]]:
        """What differs at a minute: (grp, id, minute of the row, state before, state after); ranks only of the top k."""
        found = set()
        for grp in "pq":
            sides = []
            for oracle in (was, now):
                result = getattr(oracle, query)(grp, at)
                sides.append({r[:2]: (n if query == "best" else None, r[2]) for n, r in enumerate(result, 1)})
            for item in sides[0].keys() | sides[1].keys():
                before, after = (s.get(item) for s in sides)
                if before != after:
                    found.add((grp, *item, before, after))
        return found

    def check(self, found: Supposed, was: Oracle, now: Oracle) -> int:
        assert found.known, [q.unknown for q in found.queries]
        begin = 0 if found.begin is None else (found.begin - START) // MINUTE
        last = (found.end - START) // MINUTE
        seen = 0
        for q in found.queries:
            for at in range(begin, last + 1):
                expected = self.expected(q.query.name, was, now, at)
                assert shown(q.query.name, [d for d, _ in q.found], at) == expected, (q.query.name, at)
                seen += len(expected)
        return seen


def shown(query: str, found: list[Difference], minute: int) -> set[tuple[Any, ...]]:
    at = START + minute * MINUTE
    here = [d for d in found if d.since <= at and (d.until is None or at < d.until)]
    made = set()
    for d in here:
        states = [None if s is None else (s.rank, s.values[0] if query != "front" else None) for s in (d.before, d.after)]
        made.add((d.key[0], d.name[0], int((d.name[1].timestamp() * 1_000_000 - START) // MINUTE), *states))
    assert len(made) == len(here)
    return made


@pytest.fixture(scope="module", params=seeds(0, 5))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("whatif"), request.param)


def as_is(case: Case, rules: bool = True) -> list[Row]:
    return less(passing(case.rows, rules), case.late)


def late_rows(case: Case) -> tuple[dict[str, Any], Oracle]:
    """The change that puts late rows back; without late rows, one of all that was rejected."""
    if case.late:
        return {"with_": ("rejected:late",)}, Oracle(passing(case.rows))
    return {"with_": ("rejected",)}, Oracle(passing(case.rows, rules=False))


def no_filter(case: Case) -> tuple[dict[str, Any], Oracle]:
    """The rows that the filter drops, and that break no rule, are there too."""
    more = [r for r in case.rows if r["y"] == 9 and r["ts"] != "soon" and not (r["x"] != "" and r["x"] >= 90)]
    return {"settings": ("transform.1.where=y < 100",)}, Oracle(as_is(case) + more)


class Stages:
    """Stands for what reports the stages, and keeps them."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Callable[[], tuple[int, int]] | None]] = []

    def doing(self, text: str, done: Callable[[], tuple[int, int]] | None = None) -> None:
        if done is not None:
            assert done()[0] == 0 < done()[1]
        self.begun.append((text, done))


def test_the_stages_that_take_long_say_how_far_they_are(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.framework.whatif.whatif._ROWS", 3)
    plain, stages = case.ask(("rejected",)), Stages()
    assert case.ask(("rejected",), progress=stages) == plain
    texts = ["reading the source", "running the job as it is", "running the job with the change", "comparing the results"]
    assert [text for text, _ in stages.begun] == texts
    was, now = (done() for _, done in stages.begun if done is not None)
    assert was[0] == was[1] and now[0] == now[1] and was[1] <= now[1]


CHANGES: dict[str, Callable[[Case], tuple[dict[str, Any], Oracle]]] = {
    "all rejected rows": lambda c: ({"with_": ("rejected",)}, Oracle(passing(c.rows, rules=False))),
    "late rows": late_rows,
    "without one id": lambda c: ({"without": (str(first(c)),)}, Oracle([r for r in as_is(c) if r["id"] != first(c)])),
    "without matching rows": lambda c: ({"without": ("grp=p,y=2",)}, Oracle([r for r in as_is(c) if (r["grp"], r["y"]) != ("p", 2)])),
    "another k": lambda c: ({"settings": ("queries.best.k=4",)}, Oracle(as_is(c), k=4)),
    "another window": lambda c: ({"settings": ("window={count: 6, time: 5 minutes}",)}, Oracle(as_is(c), minutes=5)),
    "no filter": no_filter,
    "a stricter filter": lambda c: ({"settings": ("transform.1.where=y < 3",)}, Oracle([r for r in as_is(c) if r["y"] < 3])),
    "another rule": lambda c: ({"settings": ("quality.rows.0.expect=x < 4",)}, Oracle([r for r in as_is(c) if r["x"] == "" or r["x"] < 4])),
    "no rule": lambda c: ({"settings": ("quality.rows=[]",)}, Oracle(as_is(c, rules=False))),
    "rejected, one id and k": lambda c: (
        {"with_": ("rejected",), "without": (str(first(c)),), "settings": ("queries.best.k=3",)},
        Oracle([r for r in passing(c.rows, rules=False) if r["id"] != first(c)], k=3),
    ),
}


def first(case: Case) -> int:
    return int(as_is(case)[5]["id"])


@pytest.mark.parametrize("change", CHANGES)
def test_differences_are_those_of_the_definition_at_every_minute(case: Case, change: str) -> None:
    arguments, now = CHANGES[change](case)
    before = ran.content(Path(case.plan.sink))
    found = case.ask(**arguments)
    was = Oracle(as_is(case))
    case.check(found, was, now)
    assert sum(k["rows"] for k in found.rows) == len(was.accepted ^ now.accepted)
    assert ran.content(Path(case.plan.sink)) == before
