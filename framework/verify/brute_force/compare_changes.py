"""Compare the rows of one key in the tables with its source: items, results, steps, scores and values, by the definition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.framework.base.counts import counted
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.tables.schemas import changes_name, identity_columns, stream_columns, trajectory_name
from skyband.framework.verify.brute_force.history import ChangeRow
from skyband.framework.verify.brute_force.objects import Accepted, Found
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.replay import Stream, Trajectories
from skyband.framework.verify.stored import Key, Stored, exact, keys_of, micros, row_of


def compare_result(plan: Plan, query: QueryNode, stream: Key, at: int, expected: Found, got: Found) -> Iterator[Difference]:
    """Compare the result of a table with that by the definition: items, their order, their scores."""
    sides = [[(rank, item, score.hex()) for rank, (item, score) in enumerate(side, 1)] for side in (expected, got)]
    if sides[0] == sides[1]:
        return
    names = identity_columns(plan, query)
    shown = []
    for side, other, rows in ((0, 1, expected), (1, 0, got)):
        others = set(sides[other])
        unmatched = [i for i, row in enumerate(sides[side]) if row not in others]
        shown.append([{"rank": i + 1, **dict(zip(names, rows[i][0], strict=True)), **_score(query, rows[i][1])} for i in unmatched])
    where = place(f"query {query.name}", stream_columns(plan, query), stream, at)
    said = f"the result in table {query.name} ({counted(len(got), 'row')}) differs from the definition ({counted(len(expected), 'row')})"
    yield Difference(where, said, shown[0], shown[1], at)


def _score(query: QueryNode, score: float, slope: int | None = None) -> Mapping[str, Any]:
    varying = query.item.time_varying
    if varying is not None:
        return {varying.value: score, **({} if slope is None or varying.slope is None else {varying.slope: slope})}
    return {"score": score} if query.item.scored else {}


def compare_steps(of: Stream, stream: Key, at: int, steps: Sequence[Sequence[ChangeRow]], rows: Sequence[int]) -> Iterator[Difference]:
    """Compare the rows of the change stream at one instant with the steps by the definition."""
    query = of.query
    found: list[list[ChangeRow]] = []
    for n, i in enumerate(rows):
        if n == 0 or of.step[i] != of.step[rows[n - 1]]:
            found.append([])
        found[-1].append(ChangeRow(of.change[i], of.cause[i], of.items[i], *of.shown[i]))
    unlike = _unlike(steps, found)
    if unlike is None:
        return
    names, carried_names = identity_columns(of.stored.plan, query), [c.name for c in query.item.carried]
    shown = [
        [
            {
                "change": x.change,
                **dict(zip(names, x.item, strict=True)),
                **_score(query, x.score, x.slope),
                **dict(zip(carried_names, x.carried, strict=True)),
                "cause": x.cause,
            }
            for step in side
            for x in step
        ]
        for side in (steps, found)
    ]
    where = place(f"query {query.name}", of.names, stream, at)
    said = (
        f"its changes at this instant ({counted(len(found), 'step')}) differ from the definition ({counted(len(steps), 'step')}): {unlike}"
    )
    yield Difference(where, said, shown[0], shown[1], at)


def _unlike(steps: Sequence[Sequence[ChangeRow]], found: Sequence[Sequence[ChangeRow]]) -> str | None:
    """Return in what the steps of both sides differ; None if in nothing."""
    names = [[[(x.change, x.item) for x in step] for step in side] for side in (steps, found)]
    if names[0] != names[1]:
        flat = [sorted((x for step in side for x in step), key=repr) for side in names]
        return "other items" if flat[0] != flat[1] else "another order"
    pairs = [(x, y) for a, b in zip(steps, found, strict=True) for x, y in zip(a, b, strict=True)]
    parts = {
        "causes": all(x.cause is None or x.cause == y.cause for x, y in pairs),
        "scores": all(
            (x.score == y.score and math.copysign(1, x.score) == math.copysign(1, y.score)) or (x.score != x.score and y.score != y.score)
            for x, y in pairs
            if y.score is not None
        )
        and all(y.score is not None for _, y in pairs),
        "slopes": all(x.slope == y.slope for x, y in pairs),
        "carried columns": all(x.carried == y.carried for x, y in pairs),
    }
    unlike = [name for name, same in parts.items() if not same]
    return " and ".join(unlike) or None


def compare_scores(of: Stream, question: Question, kind: QueryType, rows: Sequence[int]) -> tuple[int, list[Difference]]:
    """Recompute the scores of ``rows``, changes of a stream whose items are known; return how many, and those that differ."""
    if not of.query.item.scored or not rows:
        return 0, []
    expected = kind.scores(question, [of.items[i] for i in rows])
    if expected is None:
        return 0, []
    differing, nullable = [], any(v.nullable for v in of.query.item.values)
    for i, score in zip(rows, expected, strict=True):
        found = of.rows["score"][i].as_py()
        if nullable and found is None and math.isnan(score):
            continue
        if found is None or math.isnan(score) or score.hex() != found.hex():
            where = place(f"table {changes_name(of.query.name)}", of.names, of.keys[i], of.at[i], of.step[i])
            shown = row_of(of.rows, i)
            said = "the query does not admit the item" if math.isnan(score) else "differs from the score by the definition"
            differing.append(Difference(where, said, [] if math.isnan(score) else [{**shown, "score": score}], [shown], of.at[i]))
    return len(rows), differing


def compare_further_values(of: Stream, question: Question, kind: QueryType, rows: Sequence[int]) -> Iterator[Difference]:
    """Recompute the values besides the score of ``rows``, changes of a stream whose items are known; yield those that differ."""
    for name, expected in kind.further_values(question, [of.items[i] for i in rows]).items() if rows else ():
        column = of.rows[name]
        for i, value in zip(rows, expected, strict=True):
            found = column[i].as_py()
            if (math.nan if found is None else found).hex() != value.hex():
                where = place(f"table {changes_name(of.query.name)}", of.names, of.keys[i], of.at[i], of.step[i])
                shown = row_of(of.rows, i)
                said = f"{name} differs from the value by the definition"
                yield Difference(where, said, [{**shown, name: None if math.isnan(value) else value}], [shown], of.at[i])


def compare_values(question: Question, kind: QueryType, lines: Trajectories, stream: Key) -> Iterator[Difference]:
    """Compare the trajectories of all items at an instant with the definition, for a query that writes those of all items."""
    computed = kind.time_varying_values(question)
    query, varying = question.query, lines.varying
    if computed is None or varying.slope is None or not varying.all_items:
        return
    for item, (value, slope) in computed.values.items():
        got = lines.values(stream, item, question.at)
        nothing = (value, slope) == (0.0, 0) and math.isnan(got[varying.value])
        if not nothing and (got[varying.value], got[varying.slope]) != (value, slope):
            where = place(f"table {trajectory_name(query.name)}", stream_columns(question.plan, query), stream, question.at)
            name = dict(zip(identity_columns(question.plan, query), item, strict=True))
            expected = {**name, varying.value: value, varying.slope: slope}
            yield Difference(where, "differs from the definition", [expected], [{**name, **got}], question.at)


def compare_carried(question: Question, kind: QueryType, lines: Trajectories, stream: Key, result: Found) -> Iterator[Difference]:
    """Compare what the trajectories of the items of a result carry at an instant with the definition, where they do."""
    query, names = question.query, [c.name for c in question.query.item.carried]
    for item, _ in result if names else ():
        expected, got = kind.carried(question, item), lines.carried(stream, item, question.at)
        if expected != got:
            where = place(f"table {trajectory_name(query.name)}", stream_columns(question.plan, query), stream, question.at)
            name = dict(zip(identity_columns(question.plan, query), item, strict=True))
            found = [] if got is None else [name | dict(zip(names, got, strict=True))]
            yield Difference(where, "differs from the definition", [name | dict(zip(names, expected, strict=True))], found, question.at)


def compare_items(stored: Stored, query: QueryNode, stream: Key, mine: Accepted, rows: pa.Table) -> Iterator[Difference]:
    """Compare ``rows``, the changes of ``stream``, with the objects of its key, ``mine``."""
    plan, names = stored.plan, stream_columns(stored.plan, query)
    for n, part in enumerate(query.item.parts):
        if not part.is_row:
            continue
        seq = rows[part.prefix + "seq"].to_numpy()
        known = (seq >= 0) & (seq < len(mine.time))
        if not known.all():
            i = int(np.argmin(known))
            yield Difference(_where(query, names, stream, rows, i), f"no object has seq {seq[i]:,}", None, [row_of(rows, i)])
            continue
        for c in query.item.columns(plan.intake.id, query.carry, plan.intake.partition_by):
            if c.part != n or c.what not in ("id", "time", "carry"):
                continue
            column = mine.rows[plan.intake.event_time if c.what == "time" else c.source]
            source = column.take(pa.array(seq)).cast(rows.schema.field(c.name).type)
            pairs = zip(exact(pa.table({c.name: source}), [c.name]), exact(rows, [c.name]), strict=True)
            for i in (i for i, (a, b) in enumerate(pairs) if a != b):
                shown, said = row_of(rows, i), f"differs from its object: {c.name}"
                yield Difference(_where(query, names, stream, rows, i), said, [{**shown, c.name: source[i].as_py()}], [shown])


def _where(query: QueryNode, names: tuple[str, ...], stream: Key, rows: pa.Table, i: int) -> str:
    return place(f"table {changes_name(query.name)}", names, stream, micros(rows.slice(i, 1), "changed_at")[0], rows["step"][i].as_py())


def compare_head(stored: Stored, mine: Accepted) -> Iterator[Difference]:
    """Compare the row of ``heads`` with the objects of its key, ``mine``."""
    table, names = stored.table("heads"), stored.plan.intake.partition_by
    places = [i for i, k in enumerate(keys_of(table, names)) if k == mine.key]
    if not places or not mine.time or not stored.settled:
        return
    i = places[0]
    expected = {"last_seq": len(mine.time) - 1, "last_time": mine.time[-1]}
    if table["last_seq"][i].as_py() != expected["last_seq"] or micros(table.slice(i, 1), "last_time")[0] != expected["last_time"]:
        last = pa.scalar(mine.time[-1], pa.timestamp("us", "UTC")).as_py()
        shown = {**row_of(table, i), "last_seq": expected["last_seq"], "last_time": last}
        said = "last_seq and last_time are not those of the key's last object"
        yield Difference(place("table heads", names, mine.key), said, [shown], [row_of(table, i)])
