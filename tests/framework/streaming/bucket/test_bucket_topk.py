"""A bucket with top-k and threshold queries, tables of them, and deletions: the definition's changes, whatever the cuts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.bucket.operations import DELETE, INSERT, UPDATE
from tests.framework.streaming.bucket.test_bucket import MINUTE, drive
from tests.oracles.topk import Event, Query, replay
from tests.seeds import cases

SPEC = """\
job: cuts
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: string, x: double, side: string}}
  id: [id]
  event_time: {{column: ts}}
  partition_by: [grp]
{deletes}
window: {window}
scoring:
  high: {{expression: x, direction: max}}
  plain: {{linear: {{x: 1, id: -0.5}}, direction: min}}
  near: {{expression: "abs(x - centre)", direction: min}}
queries:
  best: {{type: topk, scoring: high, k: 2, carry: [x]}}
  small: {{type: topk, scoring: high, k: 1, window: {small}, max_score: 4}}
  low: {{type: topk, scoring: plain, k: 2, where: "side <> 'u'"}}
  slow: {{type: topk, scoring: plain, k: 2, every: 7 minutes}}
  hot: {{type: threshold, scoring: high, at_least: 1, below: 5}}
  hot_slow: {{type: threshold, scoring: high, above: 1, every: 7 minutes, window: {small}}}
  many: {{type: topk, queries_from: {{format: csv, path: many.csv}}, k: 2, carry: [x]}}
  many_slow: {{type: topk, queries_from: {{format: csv, path: many.csv}}, k: 1, every: 7 minutes}}
  few: {{type: topk, queries_from: {{format: csv, path: few.csv, direction: min}}, k: 2}}
  centred: {{type: topk, queries_from: {{format: csv, path: centres.csv}}, scoring: near, where: "side <> 'u'"}}
  levels: {{type: threshold, queries_from: {{format: csv, path: levels.csv}}, scoring: high}}
  alerts: {{type: threshold, queries_from: {{format: csv, path: alerts.csv}}}}
sink: {{path: out}}
"""
WINDOWS = {"{count: 4}": "{count: 2}", "{time: 9 minutes}": "{time: 3 minutes}", "{count: 5, time: 6 minutes}": "{count: 3}"}

FEED = "op: {column: side, insert: [u, v], update: [w], delete: [d]}"
MODES = {
    "plain": "", "deletes": "deletes: side = 'd'", "replace": "  on_duplicate: replace", "keep_first": "  on_duplicate: keep_first",
    "deletes and replace": "  on_duplicate: replace\ndeletes: side = 'd'", "feed": f"  {FEED}",
    "feed that keeps the first": f"  {FEED}\n  on_duplicate: keep_first",
}  # fmt: skip
DOES = {mode: {"d": DELETE} if "deletes:" in text else {"w": UPDATE, "d": DELETE} if "op:" in text else {} for mode, text in MODES.items()}
"""What rows with a value of side do, where they do not insert."""
CASES = [
    *((window, mode) for window in WINDOWS for mode in ("plain", "deletes")),
    *zip([*WINDOWS, *WINDOWS], [m for m in MODES if m not in ("plain", "deletes")], strict=False),
]

# (name, weights of x and id, k, least and most x, only side u); e ranks the smallest first.
MANY = [
    ("a", (1.0, 0.0), 2, None, None, False),
    ("b", (-1.0, 0.5), 1, None, None, True),
    ("c", (0.0, 1.0), 3, 1.0, None, False),
    ("d", (2.0, -1.0), 2, 0.0, 2.0, True),
    ("e", (0.0, 0.5), 2, None, None, False),
    ("f", (1.0, 1.0), 2, 9.0, None, False),  # excludes everything
]
ALERTS = [(n, w, bounds) for (n, w, *_), bounds in zip(MANY, [(1, 3), (0, None), (2, None), (-1, 4), (None, 0), (30, None)], strict=True)]
TURNED = ("b", "e")
LEVELS = {"l1": 1.0, "l2": 2.0, "l5": 5.0}
CENTRES = {"one": (1.0, 1), "four": (4.0, 2)}


def cell(value: Any) -> str:
    return "" if value is None else str(value)


def write_tables(directory: Path) -> None:
    rows = [
        f"{n},{wx},{wi},{k},{cell(lo)},{cell(hi)},{'side = ' + chr(39) + 'u' + chr(39) if u else ''},{'min' if n in TURNED else ''}"
        for n, (wx, wi), k, lo, hi, u in MANY
    ]
    head = "name,weight_x,weight_id,k,min_x,max_x,where,direction\n"
    (directory / "many.csv").write_text(head + "\n".join(rows) + "\n")
    (directory / "few.csv").write_text(head + "\n".join(rows[:3]) + "\n")
    (directory / "centres.csv").write_text("name,centre,k\n" + "".join(f"{n},{c},{k}\n" for n, (c, k) in CENTRES.items()))
    (directory / "levels.csv").write_text("name,at_least\n" + "".join(f"{n},{v}\n" for n, v in LEVELS.items()))
    alerts = [f"{n},{w[0]},{w[1]},{cell(lo)},{cell(hi)}\n" for n, w, (lo, hi) in ALERTS]
    (directory / "alerts.csv").write_text("name,weight_x,weight_id,at_least,at_most\n" + "".join(alerts))


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Plan]:
    directory = Path(tmp_path_factory.mktemp("specs"))
    write_tables(directory)
    made = {}
    for window, small in WINDOWS.items():
        for mode, section in MODES.items():
            path = directory / "spec.yaml"
            path.write_text(SPEC.format(window=window, small=small, deletes=section))
            job, errors = validate_file(str(path), {})
            assert job is not None and not errors, [e.render() for e in errors]
            made[window, mode] = compile_job(job)
    return made


row = st.tuples(
    st.integers(0, 30), st.integers(0, 9), st.sampled_from("pq"), st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, 5.0]), st.sampled_from("uvwd")
)
streams = st.lists(row, min_size=1, max_size=25).map(lambda rows: sorted(rows, key=lambda r: (r[0], r[1])))


@pytest.mark.parametrize(("window", "mode"), CASES)
@settings(max_examples=cases(25))
@given(rows=streams, cuts=st.lists(st.integers(1, 9), max_size=6))
def test_cuts_and_restarts_leave_no_trace(
    plans: dict[tuple[str, str], Plan], window: str, mode: str, rows: list[Any], cuts: list[int]
) -> None:
    plan = plans[window, mode]
    batches, i = [], 0
    for n in [*cuts, len(rows)]:
        # Rows of one instant stay in one batch: without a watermark's delay the others would be late.
        while i + n < len(rows) and rows[i + n][0] == rows[i + n - 1][0]:
            n += 1
        batches.append(rows[i : i + n])
        i += n
    batches = [b for b in batches if b]
    whole = drive(plan, [rows], restore=False)
    assert drive(plan, batches, restore=False) == whole
    assert drive(plan, batches, restore=True) == whole


@pytest.mark.parametrize(("window", "mode"), CASES)
@settings(max_examples=cases(40))
@given(rows=streams)
def test_changes_and_rejected_rows_are_those_of_the_definition(
    plans: dict[tuple[str, str], Plan], window: str, mode: str, rows: list[Any]
) -> None:
    plan = plans[window, mode]
    got = drive(plan, [rows], restore=False)
    until = max(r[0] for r in rows) * MINUTE + 1000
    rejected = []
    expected: dict[str, list[Any]] = {q.name: [] for q in plan.queries}
    for grp in "pq":
        mine = [r for r in rows if r[2] == grp]
        mine.sort(key=lambda r: (r[0], r[1], DOES[mode].get(r[4], 0), r[4], (r[3] is not None, r[3])))
        objects, events, wrong = accepted(mine, plan, mode)
        rejected += wrong
        for query in plan.queries:
            for name, score, asked in questions(query):
                scored = [Event(r[0] * MINUTE, math.nan if target is not None else score(r), target) for r, target in events]
                for _, _, at, step, pos, sign, cause, seq, value in replay(0, 0, scored, asked, until):
                    r = objects[seq]
                    expected[query.name].append(
                        (name, grp, at, step, pos, "+" if sign > 0 else "-", cause, r[1], seq, r[0] * MINUTE, value)
                    )
    for query in plan.queries:
        found = [
            (r.get("query", ""), r["grp"], micros(r["changed_at"]), r["step"], r["pos"], r["change"], r["cause"], r["id"], r["seq"],
             micros(r["time"]), r["score"])
            for r in got.get(f"changes:{query.name}", [])
        ]  # fmt: skip
        assert sorted(found) == sorted(expected[query.name]), query.name
    assert sorted(r["reason"] for r in got.get("rejected", [])) == sorted(rejected)


def accepted(mine: list[Any], plan: Plan, mode: str) -> tuple[list[Any], list[tuple[Any, int | None]], list[str]]:
    """(objects by seq, events as (row, target of a deletion), reasons of rejected rows) of one key's rows in order."""
    objects: list[Any] = []
    gone: set[int] = set()
    events: list[tuple[Any, int | None]] = []
    rejected = []
    count, span = plan.window.count, plan.window.micros
    for r in mine:
        alive = [
            s for s, o in enumerate(objects)
            if o[1] == r[1] and s not in gone and not (count and s < len(objects) - count) and not (span and (r[0] - o[0]) * MINUTE >= span)
        ]  # fmt: skip
        does = DOES[mode].get(r[4], INSERT)
        if alive and does == INSERT and plan.intake.on_duplicate != "replace":
            if plan.intake.on_duplicate == "reject":
                rejected.append("duplicate_id")
            continue
        for s in alive:
            gone.add(s)
            events.append((r, s))
        if does != DELETE:
            events.append((r, None))
            objects.append(r)
        elif not alive:
            rejected.append("no_target")
    return objects, events, rejected


Score = Callable[[Any], float]


def questions(query: QueryNode) -> list[tuple[str, Score, Query]]:
    """(name, score of a row, what is asked) for every query of an entry of the spec, written from the spec."""

    def asked(k: int | None, largest: bool, accept: Callable[[float], bool] = lambda s: True) -> Query:
        return Query(k, query.window.count, query.window.micros, largest, query.every_micros, accept)

    def x(r: Any) -> float:
        return math.nan if r[3] is None else float(r[3])

    def weighted(w: tuple[float, float]) -> Score:
        return lambda r: w[0] * x(r) + w[1] * r[1]

    def boxed(w: tuple[float, float], lo: float | None, hi: float | None, only_u: bool) -> Score:
        def score(r: Any) -> float:
            out = r[3] is None or (lo is not None and r[3] < lo) or (hi is not None and r[3] > hi) or (only_u and r[4] != "u")
            return math.nan if out else weighted(w)(r)

        return score

    not_u: Callable[[Score], Score] = lambda f: lambda r: math.nan if r[4] == "u" else f(r)  # noqa: E731
    name = query.name
    if name in ("many", "many_slow", "few"):
        # A row's own k is stronger than the entry's; ``few`` has the first three, the smallest first.
        return [
            (n, boxed(w, lo, hi, u), asked(k, name != "few" and n not in TURNED))
            for n, w, k, lo, hi, u in (MANY[:3] if name == "few" else MANY)
        ]
    if name == "alerts":
        return [(n, weighted(w), asked(None, True, between(lo, hi))) for n, w, (lo, hi) in ALERTS]
    if name == "levels":
        return [(n, x, asked(None, True, between(v, None))) for n, v in LEVELS.items()]
    if name == "centred":
        return [(n, not_u(lambda r, c=c: abs(x(r) - c)), asked(k, False)) for n, (c, k) in CENTRES.items()]  # type: ignore[misc]
    single: dict[str, tuple[Score, Query]] = {
        "best": (x, asked(2, True)),
        "small": (x, asked(1, True, between(None, 4))),
        "low": (not_u(weighted((1, -0.5))), asked(2, False)),
        "slow": (weighted((1, -0.5)), asked(2, False)),
        "hot": (x, asked(None, True, lambda s: 1 <= s < 5)),
        "hot_slow": (x, asked(None, True, lambda s: s > 1)),
    }
    return [("", *single[name])]


def between(low: float | None, high: float | None) -> Callable[[float], bool]:
    return lambda s: (low is None or s >= low) and (high is None or s <= high)


def micros(at: Any) -> int:
    return pa.scalar(at, pa.timestamp("us", "UTC")).cast(pa.int64()).as_py()  # type: ignore[no-any-return]


def test_tables_get_the_operator_that_costs_least(plans: dict[tuple[str, str], Plan]) -> None:
    found = {o.name: type(o.operator).__name__ for o in plans["{count: 4}", "plain"].operators}
    assert (found["many"], found["few"], found["centred"], found["levels"], found["alerts"]) == (
        "ManyTopK", "SideBySide", "SideBySide", "Threshold", "ManyThreshold",
    )  # fmt: skip
