"""Random loyalty queries against the definition: over rows, over results of every query type, and behind edge filters.

A case has four parts. The operator over random reports, with deletions too; several edges that filter random reports, against the
unfiltered stream; and a job whose loyalty queries take the source's rows, and entries or members of the results of other queries. Of
these the reports are derived from the tables of the other queries as docs/semantics 15 says, and ``tests.oracles.loyalty`` answers.

Run it for as long as you like; it prints the seed, the spec and the rows of the first case that differs:

    python -m tests.framework.streaming.bucket.random_loyalty --minutes 60 --seed 1
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import yaml

from skyband.framework.plan.model import Plan
from tests.edge.test_loyalty import compared
from tests.framework.streaming.bucket.random_cases import check_until
from tests.framework.streaming.bucket.random_chains import Case, Specs, Tables, all_buckets, random_rows
from tests.framework.streaming.bucket.test_bucket import MINUTE
from tests.framework.verify import small
from tests.operators.loyalty_host import random_case as operator_case
from tests.operators.loyalty_host import with_deletions
from tests.operators.test_loyalty import check
from tests.oracles import groups
from tests.oracles import loyalty as oracle
from tests.oracles.loyalty import Report

Row = dict[str, Any]
_UNITS: Final = {"seconds": 1_000_000, "minutes": MINUTE}
_CONDITION: Final = re.compile(r"(\w+) (<>|>=) ('a'|\d+)")


def random_case(seed: int) -> Case:
    """Return a random job with loyalty over the source and over the results of its other queries."""
    rng = random.Random(seed)
    specs = Specs(rng)
    return Case(specs.loyal(), random_rows(rng, specs.deletes))


def _micros(text: str) -> int:
    number, unit = text.split()
    return int(number) * _UNITS[unit]


def _holds(condition: str, row: Row) -> bool | None:
    found = _CONDITION.fullmatch(condition)
    assert found is not None, condition
    value = row[found[1]]
    if value is None or value != value:
        return None
    return bool(value != "a") if found[2] == "<>" else bool(value >= int(found[3]))


def _instant(value: Any) -> int:
    return int(pa.scalar(value, pa.timestamp("us", "UTC")).value)


# ---------------------------------------------------------------- reports by definition


def of_source(plan: Plan, job: groups.Job, rows: list[Row]) -> dict[str, list[tuple[Row, int, int]]]:
    """Return by key (row, instant, when it is deleted) of the accepted rows."""
    found: dict[str, list[tuple[Row, int, int]]] = {}
    for key in sorted({r["grp"] for r in rows}):
        deleted: dict[int, int] = {}
        events = list(groups.objects(job, [r for r in rows if r["grp"] == key], groups.Tables()))
        for event in events:
            if not event.arrives:
                deleted[event.object.seq] = event.at
        found[key] = [(e.object.row, e.at, deleted.get(e.object.seq, oracle.FOREVER)) for e in events if e.arrives]
    return found


def of_entries(columns: dict[str, str], of: str, identity: tuple[str, ...], varying: tuple[str, ...], tables: Tables) -> Any:
    """Return by key (row, instant, when it is deleted) of the entries of a result: those of its changes and points, in order.

    ``columns``: the names of columns in the entries by those in the tables; ``varying``: columns that a point may change.
    """
    found: dict[str, list[list[Any]]] = defaultdict(list)
    events = [(_instant(r["changed_at"]), 0, r["step"], r["pos"], (), r) for r in tables.get(f"changes:{of}", [])]
    if varying:
        points = tables.get(f"trajectory:{of}", [])
        events += [(_instant(r["valid_from"]), 1, 0, 0, tuple(groups.ordered(r[c]) for c in identity), r) for r in points]
    alive: dict[tuple[Any, ...], list[Any]] = {}
    for at, phase, _, _, _, row in sorted(events, key=lambda e: e[:5]):
        name = (row["grp"], *(row[c] for c in identity))
        entry = {new: row.get(old) for old, new in columns.items()}
        entry |= {f"{of}_change": row.get("change", "+"), f"{of}_cause": row.get("cause")}
        if phase == 0 and row.get("change") == "-":
            alive.pop(name)[2] = at
            continue
        if phase:
            if name not in alive or all(_same(alive[name][0][columns[c]], row[c]) for c in varying):
                continue
            alive.pop(name)[2] = at
        made = [entry, at, oracle.FOREVER]
        found[row["grp"]].append(made)
        if "change" in row or phase:  # what is reported once never leaves
            assert name not in alive, name
            alive[name] = made
    return found


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a is not None and b is not None and a != a and b != b))


def reports_of(query: Row, entries: Iterable[tuple[Row, int, int]]) -> list[Report]:
    """Return the reports that rows are."""
    objects = [query["object"]] if isinstance(query["object"], str) else query["object"]
    found = []
    for row, at, deleted in entries:
        name = tuple(row[c] for c in objects)
        on = _holds(query["criteria"], row)
        if None not in name and on is not None and ("where" not in query or _holds(query["where"], row) is True):
            found.append(Report(at, _name(name), on, deleted))
    return found


def of_members(objects: tuple[str, ...], of: str, tables: Tables) -> dict[str, list[Report]]:
    """Return by key the reports on objects that go on and off with the steps of a result."""
    found: dict[str, list[Report]] = defaultdict(list)
    steps: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in tables.get(f"changes:{of}", []):
        steps[row["grp"], row["step"]].append(row)
    inside: Counter[Any] = Counter()
    for key, step in sorted(steps):
        before = inside.copy()
        for row in steps[key, step]:
            inside[key, tuple(row[c] for c in objects)] += 1 if row["change"] == "+" else -1
        for at, name in {(_instant(r["changed_at"]), tuple(r[c] for c in objects)) for r in steps[key, step]}:
            on = inside[key, name] > 0
            if None not in name and on != (before[key, name] > 0):
                found[key].append(Report(at, _name(name), on))
    return found


def _name(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a name that sorts as names do."""
    return tuple(v.encode() if isinstance(v, str) else v + 0.0 if isinstance(v, float) else v for v in values)


# ---------------------------------------------------------------- one case


def loyal_jobs(case: Case, other: Plan | None = None) -> tuple[list[str], Counter[str]]:
    """Return what differs from the definition in a job's loyalty queries, and how many queries over what there were.

    ``other``: a plan to run instead of that of the case's spec.
    """
    plan, spec = other or case.plan(), yaml.safe_load(case.spec)
    source = small._rows(plan, case.rows)
    rows = source.set_column(source.schema.get_field_index("ts"), "ts", source["ts"].cast(pa.int64())).to_pylist()
    end = (max(r["ts"] for r in rows) // MINUTE + 100) * MINUTE
    tables = all_buckets(plan, [case.rows], False, end)
    window = spec["window"]
    job = groups.Job(
        groups.Window(window.get("count"), _micros(window["time"]) if "time" in window else None), ("side",),
        does=(lambda r: 2 * (r["side"] == "d")) if "deletes" in spec else (lambda r: 0),
    )  # fmt: skip
    nodes = {q.name: node for node in plan.streams for q in node.plan.queries}
    items = {q.name: q.item for q in plan.every_query}
    found, counted = list[str](), Counter[str]()
    kept = [{c: v for c, v in r.items() if c in ("id", "ts", "grp", "x", "y", "side")} for r in rows]
    for name, query in spec["queries"].items():
        if "loyalty" not in query["type"]:
            continue
        of = query.get("of") or query.get("from")
        counted[f"{'of' if 'of' in query else 'from'} {spec['queries'][of]['type']}" if of else "rows"] += 1
        if of is None:
            reports = {key: reports_of(query, mine) for key, mine in of_source(plan, job, kept).items()}
        else:
            node, item = nodes[name], items[of]
            columns = dict(node.columns)
            if "of" in query:
                objects = [query["object"]] if isinstance(query["object"], str) else query["object"]
                origin = {new: old for old, new in columns.items()} | {f"{of}_cause": "cause", f"{of}_change": "change"}
                reports = of_members(tuple(origin.get(c, c) for c in objects), of, tables)
            else:
                columns |= {"grp": "grp"}
                grouped = "groups" in spec["queries"][of]["type"]
                varying = ("score", *(c.name for c in item.carried)) if grouped else ()
                identity = tuple(c for c in item.identity(plan.intake.partition_by) if c != "grp")
                reports = {k: reports_of(query, mine) for k, mine in of_entries(columns, of, identity, varying, tables).items()}
        found += [f"{name}: {d}" for d in _compared(name, query, window, reports, tables, end)]
    return found, counted


def _compared(name: str, query: Row, window: Row, reports: dict[str, list[Report]], tables: Tables, end: int) -> list[str]:
    span = _micros(query.get("window", window)["time"])
    stale = _micros(query["stale_after"]) if "stale_after" in query else None
    least = _micros(query["at_least"]) if "at_least" in query else None
    least = span * int(query["share"].rstrip("%")) // 100 if "share" in query else least
    every = _micros(query["every"]) if "every" in query else None
    definition = oracle.Query(query.get("k"), least, every, query.get("trace") == "all")
    objects = [query["object"]] if isinstance(query["object"], str) else query["object"]
    expected: dict[str, list[Any]] = {"changes": [], "trajectory": []}
    for key, mine in reports.items():
        spans = oracle.spans(mine, stale)
        at = oracle.instants(spans, span, [definition], end)
        for c in oracle.changes(mine, stale, span, definition, at):
            expected["changes"].append((key, c.at, c.step, c.pos, "-+"[c.sign > 0], c.cause, c.object, c.loyalty / 1e6, c.slope))
        for p in oracle.points(mine, stale, span, definition, at):
            expected["trajectory"].append((key, p.at, p.object, p.loyalty / 1e6, p.slope))

    def item(row: Row) -> Any:
        return _name(tuple(row[c] for c in objects))

    changed, traced = tables.get(f"changes:{name}", []), tables.get(f"trajectory:{name}", [])
    got = {
        "changes": [
            (r["grp"], _instant(r["changed_at"]), r["step"], r["pos"], r["change"], r["cause"], item(r), r["loyalty_seconds"], r["slope"])
            for r in changed
        ],
        "trajectory": [(r["grp"], _instant(r["valid_from"]), item(r), r["loyalty_seconds"], r["slope"]) for r in traced],
    }
    found = []
    for kind in got:
        a, b = Counter(got[kind]), Counter(expected[kind])
        if a != b:
            only, missing = list((a - b).elements())[:2], list((b - a).elements())[:2]
            found.append(f"{kind}: {a.total()} rows for {b.total()}; not expected {only}; expected {missing}")
    return found


def differences(seed: int) -> tuple[list[str], Counter[str]]:
    """Return what differs in the parts of a case, and what it was about."""
    case = random_case(seed)
    found, counted = loyal_jobs(case)
    parts = (
        ("operator", lambda: check(operator_case(seed), seed)),
        ("deletions", lambda: check(with_deletions(operator_case(seed), seed), seed)),
        ("edges", lambda: compared(seed)),
    )
    for part, run in parts:
        counted[part] += 1
        try:
            run()
        except AssertionError as e:
            found.append(f"{part}: {str(e)[:2000]}")
    return [f"{case.spec}\n{case.rows}", *found] if found else [], counted


if __name__ == "__main__":
    sys.exit(check_until(differences, __doc__))
