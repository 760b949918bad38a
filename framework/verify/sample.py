"""A sample of results, recomputed by brute force from the source's rows and held against the tables."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.registry import query_type
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.layout import JobFile, Layout
from skyband.framework.streaming.session import get_session
from skyband.framework.verify.accepted import accepted, source_rows, with_deletions, without_late
from skyband.framework.verify.objects import Accepted, Found, Objects, objects
from skyband.framework.verify.replay import Key, change_times, complete_until, result_at, table_rows

MEMBERS = 20
"""Queries of one list that are looked at."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A result of ``query`` at ``at`` (microseconds) that is not what the definition says; ``stream``: its member and key."""

    query: str
    stream: Key
    at: int
    expected: Found
    got: Found


@dataclass(slots=True)
class Sample:
    """What was compared: accepted rows, keys (of so many), results; ``skipped``: results whose window is too large for brute force."""

    rows: int = 0
    keys: int = 0
    of_keys: int = 0
    looked: int = 0
    skipped: int = 0
    differences: list[Difference] = field(default_factory=list)


def compare(plan: Plan, layout: Layout, job: JobFile, keys: int, instants: int, seed: int) -> Sample:
    """Results of ``keys`` keys at ``instants`` instants a query and key, recomputed. Raises SkybandError SKY-E301 if the source is gone."""
    until = complete_until(plan)
    rng = random.Random(seed)
    chosen = rng.sample(sorted(until, key=repr), min(keys, len(until)))
    spark = get_session(plan.job, packages=source_format(plan.source.format).jars, home=layout.home)
    rows = without_late(source_rows(spark, plan, layout, job), table_rows(plan, "rejected"))
    taken = accepted(with_deletions(plan, rows), plan.intake, plan.window, {k: until[k] for k in chosen})
    found = Sample(rows=sum(len(t.time) for t in taken.values()), keys=len(chosen), of_keys=len(until))
    for key in chosen:
        mine = taken[key]
        data = objects(plan, mine)
        for query in plan.queries if mine.time else ():
            _compare(found, plan, query, mine, data, until[key], instants, rng)
    return found


def _compare(
    found: Sample, plan: Plan, query: QueryNode, mine: Accepted, data: Objects, until: int, instants: int, rng: random.Random
) -> None:
    kind = query_type(query.type)
    # Of a list of queries a few, at as many instants in all.
    asked: list[LogicalQuery | None] = [*rng.sample(query.asked, min(MEMBERS, len(query.asked)))] if query.asked else [None]
    for one in asked:
        stream = (one.name, *mine.key) if one is not None and query.members else mine.key
        times = [*mine.time, *change_times(plan, query, stream)]
        for at in _instants(rng, times, until, -(-instants // len(asked)), query.every_micros):
            expected = kind.brute_force(Question(plan, query, data, at, one))
            if expected is None:
                found.skipped += 1
                continue
            found.looked += 1
            got = result_at(plan, query, stream, at)
            if expected != got:
                found.differences.append(Difference(query.name, stream, at, expected, got))


def _instants(rng: random.Random, times: list[int], until: int, n: int, every: int | None) -> list[int]:
    """Instants of events and between them, none after ``until``; only those whose result has been emitted, for ``every``."""
    low, high = min(times), until
    picks = {rng.choice(times) for _ in range(3 * n // 4)} | {rng.randint(low, max(low, high)) for _ in range(n - 3 * n // 4)}
    return sorted(p for p in picks if p <= until and (not every or p // every * every <= until))
