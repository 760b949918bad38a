"""A sample of keys and instants, by definition: results and steps recomputed from the source's rows and held against the tables."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skyband.framework.counts import counted
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.queries.protocol import Question
from skyband.framework.queries.registry import query_type
from skyband.framework.streaming.jars import packages
from skyband.framework.streaming.layout import JobFile, Layout
from skyband.framework.streaming.session import get_session
from skyband.framework.tables.schemas import identity_columns, stream_columns
from skyband.framework.verify.accepted import accepted, source_rows, with_deletions, without_late
from skyband.framework.verify.clocks import Clocks
from skyband.framework.verify.items import compare_head, compare_items
from skyband.framework.verify.objects import Accepted, Found, Objects, Work, objects
from skyband.framework.verify.replay import Stream, compare_causes, stream_of
from skyband.framework.verify.results import Results, ToldOnce
from skyband.framework.verify.steps import Told, steps_at
from skyband.framework.verify.stored import Key, Stored
from skyband.framework.verify.told import Difference, place

MEMBERS = 20
"""Queries of one list that are looked at."""


@dataclass(slots=True)
class Sample:
    """What was compared: accepted rows, keys (of so many), results, instants whose steps were compared too.

    ``skipped``: results whose window is too large for brute force.
    """

    rows: int = 0
    keys: int = 0
    of_keys: int = 0
    looked: int = 0
    skipped: int = 0
    steps: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class _Asked:
    """A query in the tables: its change stream (rows in order, by stream), its results, and what may be spent on it for a key."""

    query: QueryNode
    stream: Stream
    rows: dict[Key, list[int]]
    results: Results | ToldOnce
    work: int


def compare(stored: Stored, clocks: Clocks, layout: Layout, job: JobFile, keys: int, instants: int, seed: int) -> Sample:
    """Results of ``keys`` keys at ``instants`` instants a query and key, recomputed. Raises SkybandError SKY-E301 if the source is gone.

    Of these keys, besides: ids, instants and carried columns of every change, its cause, and the row of ``heads``.
    """
    plan = stored.plan
    spark = get_session(plan.job, packages=packages(plan), home=layout.home)
    return compare_rows(stored, clocks, source_rows(spark, plan, layout, job), keys, instants, seed)


def compare_rows(stored: Stored, clocks: Clocks, rows: pa.Table, keys: int, instants: int, seed: int) -> Sample:
    """``rows``: all rows of the source that the intake passes."""
    plan, until = stored.plan, stored.until
    rng = random.Random(seed)
    chosen = rng.sample(sorted(until, key=repr), min(keys, len(until)))
    rows = without_late(rows, stored.table("rejected"))
    taken = accepted(with_deletions(plan, rows), plan.intake, plan.window, {k: until[k] for k in chosen})
    found = Sample(rows=sum(len(t.time) for t in taken.values()), keys=len(chosen), of_keys=len(until))
    asked = [_asked(stored, q, len(chosen)) for q in plan.queries]
    for key in chosen:
        mine = taken[key]
        data = objects(plan, mine)
        clocks.complete(key, mine.time, mine.deleted)
        found.differences += compare_head(stored, mine)
        for each in asked if mine.time else ():
            for stream, of_stream in each.rows.items():
                if stream[len(stream) - len(key) :] == key:
                    found.differences += compare_items(stored, each.query, stream, mine, each.stream.rows.take(pa.array(of_stream)))
                    found.differences += compare_causes(each.stream, stream, of_stream, clocks)
            _compare(found, plan, each, mine, data, until[key], instants, rng)
    return found


def _asked(stored: Stored, query: QueryNode, keys: int) -> _Asked:
    stream = stream_of(stored, query)
    results = Results(stored, query) if query.item.lasting else ToldOnce(stream)
    return _Asked(query, stream, dict(stream.streams()), results, Work().left // max(keys, 1))


def _compare(found: Sample, plan: Plan, of: _Asked, mine: Accepted, data: Objects, until: int, instants: int, rng: random.Random) -> None:
    query, work = of.query, Work(of.work)
    kind = query_type(query.type)
    # Of a list of queries a few, at as many instants in all.
    asked: list[LogicalQuery | None] = [*rng.sample(query.asked, min(MEMBERS, len(query.asked)))] if query.asked else [None]
    for one in asked:
        stream = (one.name, *mine.key) if one is not None and query.members else mine.key
        rows = of.rows.get(stream, [])
        changed = {of.stream.at[i] for i in rows}
        # Where a result changes, and just before: there a mistake is most likely to show.
        times = [*mine.time, *sorted(changed | {t - 1 for t in changed})]
        for at in _instants(rng, times, until, -(-instants // len(asked)), query.every_micros):
            question = Question(plan, query, data, at, one, work)
            expected = kind.brute_force(question)
            if expected is None:
                found.skipped += 1
                continue
            found.looked += 1
            found.differences += _results(plan, query, stream, at, expected, of.results.at(stream, at))
            steps = None if query.item.moving or not query.item.lasting else steps_at(kind, question, mine, expected)
            if steps is not None:
                found.steps += 1
                found.differences += _steps(of.stream, stream, at, steps, [i for i in rows if of.stream.at[i] == at])


def _results(plan: Plan, query: QueryNode, stream: Key, at: int, expected: Found, got: Found) -> Iterator[Difference]:
    """The result of a table against that of the definition: items, their order, their scores."""
    sides = [[(rank, item, score.hex()) for rank, (item, score) in enumerate(side, 1)] for side in (expected, got)]
    if sides[0] == sides[1]:
        return
    names = identity_columns(plan, query)
    shown = []
    for side, other, rows in ((0, 1, expected), (1, 0, got)):
        alone = [i for i, row in enumerate(sides[side]) if row not in sides[other]]
        shown.append([{"rank": i + 1, **dict(zip(names, rows[i][0], strict=True)), **_score(query, rows[i][1])} for i in alone])
    where = place(f"query {query.name}", stream_columns(plan, query), stream, at)
    said = f"the result in table {query.name} ({counted(len(got), 'row')}) is not that of the definition ({counted(len(expected), 'row')})"
    yield Difference(where, said, shown[0], shown[1], at)


def _score(query: QueryNode, score: float) -> Mapping[str, Any]:
    if query.item.motion is not None:
        return {query.item.motion.value: score}
    return {"score": score} if query.item.scored else {}


def _steps(of: Stream, stream: Key, at: int, steps: Sequence[Sequence[Told]], rows: Sequence[int]) -> Iterator[Difference]:
    """The rows of the change stream at one instant against the steps of the definition."""
    query = of.query
    scores = of.rows["score"] if query.item.scored else None
    told: list[list[Told]] = []
    for n, i in enumerate(rows):
        if n == 0 or of.step[i] != of.step[rows[n - 1]]:
            told.append([])
        told[-1].append(Told(of.change[i], of.cause[i], of.items[i], 0.0 if scores is None else scores[i].as_py()))
    if len(told) == len(steps) and all(
        len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True)) for a, b in zip(steps, told, strict=True)
    ):
        return
    names = identity_columns(of.stored.plan, query)
    shown = [
        [
            {"change": x.change, **dict(zip(names, x.item, strict=True)), **_score(query, x.score), "cause": x.cause}
            for step in side
            for x in step
        ]
        for side in (steps, told)
    ]
    where = place(f"query {query.name}", of.names, stream, at)
    said = f"its changes at this instant ({counted(len(told), 'step')}) are not those of the definition ({counted(len(steps), 'step')})"
    yield Difference(where, said, shown[0], shown[1], at)


def _same(expected: Told, found: Told) -> bool:
    cause = expected.cause is None or expected.cause == found.cause
    return cause and (expected.change, expected.item, expected.score.hex()) == (found.change, found.item, found.score.hex())


def _instants(rng: random.Random, times: list[int], until: int, n: int, every: int | None) -> list[int]:
    """Instants of events and between them, none after ``until``; only those whose result has been emitted, for ``every``."""
    low, high = min(times), until
    picks = {rng.choice(times) for _ in range(3 * n // 4)} | {rng.randint(low, max(low, high)) for _ in range(n - 3 * n // 4)}
    return sorted(p for p in picks if p <= until and (not every or p // every * every <= until))
