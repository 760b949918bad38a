"""Write the history of an item in a query's results, in the order of time: the output of ``skyband why``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import LogicalQuery, Plan, QueryNode
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.schemas import stream_columns
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.differences import instant
from skyband.framework.verify.progress import Done, Progress
from skyband.framework.verify.replay.replay import stream_of
from skyband.framework.verify.stored import Key, Stored
from skyband.framework.why.answer import Answers
from skyband.framework.why.chain import Chain
from skyband.framework.why.item import Item
from skyband.framework.why.source import taken_rows
from skyband.framework.why.stays import Stay, stays
from skyband.framework.why.stream_answers import StreamAnswers
from skyband.framework.why.wording import MOST, Moment, in_order, of_rejected, of_stay, of_verdict

Doing = Callable[[str, Done | None], None]
"""Begins a stage, as ``Progress.doing``."""
_COMPUTING: Final = "computing results by their definition"


def _silent(text: str, done: Done | None) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class History:
    """The history of an item: its ``lines``, and of every change of a query over a result what caused it (``because``), for JSON."""

    lines: list[str]
    because: list[dict[str, Any]]


def history(
    plan: Plan, query: QueryNode, item: Item, at: int | None, layout: Layout, job: JobFile, member: str | None,
    progress: Progress | None = None,
) -> History:  # fmt: skip
    """Return the history. ``at``: only the state at that instant (microseconds). ``member``: the query in a table of queries.

    ``progress``: reports the stages. Raises SkybandError as ``Stored``; SKY-E201 for an instant that is not complete yet.
    """

    doing = _silent if progress is None else progress.doing
    doing("reading the tables", None)
    whole = Stored(plan)
    stored = whole.part(plan.of(query.name))
    node = next((s for s in plan.streams if s.plan is stored.plan), None)
    doing("reading the rows of the source", None)
    source, missing = _source(plan, layout, job)
    doing(_COMPUTING, None)
    chain = Chain(whole, source) if node is not None else None
    found = [s for s in stays(stored.plan, stream_of(stored, query), item) if member is None or s.stream[0] == member]
    moments = [*_from_tables(stored, query, found, chain)]
    if _in_source(plan, stored.plan, item):
        moments += of_rejected(plan, stored.table("rejected"), item)
    unknown: list[str] = []
    if node is not None:
        moments += definition(StreamAnswers(stored, query, StreamRows(stored, node)), item, at, member, doing)
        unknown += [f"the source's rows are not named: {missing}"] if missing is not None else []
    elif source is not None:
        moments += definition(Answers(plan, query, source, stored.table("rejected"), stored.until), item, at, member, doing)
    else:
        unknown.append(f"its scores cannot be recomputed: {missing}")
    return History([*in_order(moments), *unknown], list(_because(stored, query, found, chain)))


def _source(plan: Plan, layout: Layout, job: JobFile) -> tuple[pa.Table | None, str | None]:
    """Return the rows of the source, or why they cannot be read."""
    try:
        return taken_rows(plan, layout, job), None
    except SkybandError as e:
        if e.code != "SKY-E301":
            raise
        return None, e.message


def _in_source(job: Plan, plan: Plan, item: Item) -> bool:
    """Return True if the columns that name an item of a query of ``plan`` are columns of the job's source, whose rows may be rejected."""
    types = {f.name: f.type for f in job.intake.fields}
    return all(types.get(c) == plan.intake.field(c).type for c in item.names[0])


def _because(stored: Stored, query: QueryNode, found: Sequence[Stay], chain: Chain | None) -> Iterator[dict[str, Any]]:
    stream = stream_of(stored, query)
    for stay in found[:MOST] if chain is not None else ():
        for i in (stay.enters, stay.leaves):
            if chain is not None and i is not None:
                causes = [c.plain() for c in chain.causes(query.name, i)]
                yield {"at": instant(stream.at[i]), "change": stream.change[i], "cause": stream.cause[i], "because": causes}


def _from_tables(stored: Stored, query: QueryNode, found: Sequence[Stay], chain: Chain | None) -> Iterator[Moment]:
    stream = stream_of(stored, query)
    if not found:
        yield Moment(None, ("never in the result" if query.item.lasting else "never reported",))
    for stay in islice(found, MOST):
        yield from of_stay(stream, stay, chain)
    if len(found) > MOST:
        yield Moment(stream.at[found[MOST].enters], (f"and {counted(len(found) - MOST, 'more time')}",))


def definition(answers: Answers, item: Item, at: int | None, member: str | None, doing: Doing = _silent) -> Iterator[Moment]:
    """Yield the states of the item by the source: at ``at``, or at its arrival and at the end. ``doing`` reports how many are known."""
    plan, query = answers.plan, answers.query
    waiting = answers.waiting(item) if at is None else []
    if waiting:
        many = f"{counted(len(waiting), 'row')} of this name {agree(len(waiting), 'waits', 'wait')}"
        yield Moment(min(waiting), (f"{instant(min(waiting))}  {many}: results are not complete up to here yet",))
    logical = _logical(query, member)
    found = answers.rows(item)
    if not found:
        yield Moment(None, (answers.absent,))
    asked: list[tuple[Key, list[Any], int]] = []
    for key, seqs in found:
        if at is not None and at > answers.until[key]:
            yield Moment(at, (f"results are complete up to {instant(answers.until[key])} only{_of(query, plan, key)}",))
            continue
        for parts, instants in islice(_items(answers, item, key, seqs), MOST):
            asked += [(key, parts, when) for when in ([at] if at is not None else instants)]
    known = 0
    if asked:
        doing(_COMPUTING, lambda: (known, len(asked)))
    for key, parts, when in asked:
        yield of_verdict(plan, query, answers.verdict(key, parts, when, logical))
        known += 1


def _items(answers: Answers, item: Item, key: Key, seqs: list[int]) -> Iterator[tuple[list[Any], list[int]]]:
    """Yield (identity, instants to explain) of the items meant within a key, the newest first."""
    query = answers.query
    if not query.item.rows:
        of_key = dict(zip(answers.plan.intake.partition_by, key, strict=True))
        parts = [v for c, v in _native(answers, item, key, seqs).items() if c not in of_key]
        yield parts, [answers.until[key]]
        return
    if len(item.names) == 1:
        for seq in reversed(seqs):
            yield [seq], sorted(set(answers.instants(key, seq)))
        return
    names = answers.names(key, item)
    first, second = ([s for s in seqs if names[s] == n] for n in (0, 1))
    for b in reversed(second):
        for a in reversed(first):
            # The pair exists from the arrival of its newer row.
            yield sorted((a, b)), sorted(set(answers.instants(key, max(a, b))))


def _native(answers: Answers, item: Item, key: Key, seqs: list[int]) -> dict[str, Any]:
    """Return the values that name an object, as its rows have them."""
    rows = answers.accepted(key)[0].rows.slice(seqs[0], 1)
    return {c: rows[c][0].as_py() for c in answers.query.item.parts[0].columns}


def _logical(query: QueryNode, member: str | None) -> LogicalQuery | None:
    if not query.asked:
        return None
    return next(a for a in query.asked if member is None or a.name == member)


def _of(query: QueryNode, plan: Plan, key: Key) -> str:
    names = [n for n in stream_columns(plan, query) if n in plan.intake.partition_by]
    return "".join(f" for {n} {v}" for n, v in zip(names, key, strict=True))
