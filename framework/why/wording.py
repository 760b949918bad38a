"""Format the history of an item: moments, each with its lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.counts import counted, number_text
from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.spec_tests.tables import plain_value
from skyband.framework.tables.render import cell_text
from skyband.framework.verify.differences import instant
from skyband.framework.verify.replay.replay import Stream
from skyband.framework.why.answer import MadeOf, Verdict
from skyband.framework.why.chain import Chain
from skyband.framework.why.item import Item
from skyband.framework.why.stays import Stay

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST = 20
"""The most stays, rejected rows and verdicts that are shown."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The text about an instant (microseconds; None: about no instant): the first of ``lines``, then details."""

    at: int | None
    lines: tuple[str, ...]


def in_order(moments: Iterable[Moment]) -> Iterator[str]:
    """Yield the lines of ``moments`` in the order of time, those about no instant first. O(n log n)."""
    for moment in sorted(moments, key=lambda m: (m.at is not None, m.at or 0)):
        yield from moment.lines


def of_stay(stream: Stream, stay: Stay, chain: Chain | None = None) -> Iterator[Moment]:
    """Yield when an item entered, its ranks, when it left, and what replaced it. ``chain``: names what caused that in other results."""
    plan, query = stream.stored.plan, stream.query
    row = stream.rows.slice(stay.enters, 1).to_pylist()[0]
    key = "".join(f" of {n} {cell_text(v)}" for n, v in zip(stream.names, stay.stream, strict=True))
    values = _values(query, row)
    names = _named(plan, query, row)
    entered = stream.at[stay.enters]
    if not query.item.lasting:
        yield Moment(entered, (f"{instant(entered)}  reported{key}: {names}; {values}", *_causes(chain, stream, stay.enters)))
        return
    at_rank = f" at rank {stay.first:,}" if stay.first is not None else ""
    lines = [f"{instant(entered)}  entered{at_rank} ({stream.cause[stay.enters]}){key}: {names}" + (f"; {values}" if values else "")]
    lines += _causes(chain, stream, stay.enters)
    if stay.best is not None and stay.last is not None:
        until = "before it left" if stay.leaves is not None else "now"
        lines.append(f"    best rank {stay.best:,}, {until} {stay.last:,}")
    if stay.leaves is None:
        yield Moment(entered, (*lines, "    still in the result"))
        return
    yield Moment(entered, tuple(lines))
    left = stream.at[stay.leaves]
    lines = [f"{instant(left)}  left ({stream.cause[stay.leaves]})"]
    for i in stay.instead[:MOST] if stream.cause[stay.leaves] in ("displaced", "crossing") else ():
        other = stream.rows.slice(i, 1).to_pylist()[0]
        values = _values(query, other)
        lines.append(f"    replaced by: {_named(plan, query, other)}" + (f"; {values}" if values else ""))
    yield Moment(left, (*lines, *_causes(chain, stream, stay.leaves)))


def _causes(chain: Chain | None, stream: Stream, i: int) -> Iterator[str]:
    """Yield what caused row ``i`` of the changes in the result that the query takes."""
    if chain is None:
        return
    for cause in chain.causes(stream.query.name, i):
        yield from cause.lines(stream.at[i], "    ")
    replaced = chain.replaced(stream.query.name, i)
    if replaced is not None:
        yield f"    {replaced}"


def of_verdict(plan: Plan, query: QueryNode, verdict: Verdict) -> Moment:
    """Return the moment of a verdict."""
    lines = [f"{instant(verdict.at)}  {verdict.said}", *(_makeup(verdict.rows) if verdict.rows is not None else ())]
    for b in verdict.beside:
        rank = f"rank {b.rank}: " if b.rank is not None else "beaten by "
        names = ", ".join(f"{n} {cell_text(v)}" for n, v in b.named.items())
        lines.append(f"    {rank}{names}" + (f"; {number_text(b.score)}" if b.score is not None else ""))
    return Moment(verdict.at, tuple(lines))


def _makeup(found: MadeOf) -> Iterator[str]:
    """Yield how many rows make up an item, its aggregates, and its newest rows."""
    makeup = found.makeup
    if not makeup.rows:
        return
    values = _listed(makeup.values)
    yield f"    {counted(makeup.rows, 'row')} in the window since {instant(makeup.since)}: {values}"
    for time, row in found.newest:
        yield f"    row of {instant(time)}: {_listed(row.items())}"
    if makeup.rows > len(found.newest):
        yield f"    and {counted(makeup.rows - len(found.newest), 'older row')}"


def _listed(values: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {'null' if value is None else cell_text(value)}" for name, value in values)


def _values(query: QueryNode, row: Mapping[str, Any]) -> str:
    """Return the values of an item and what it carries besides."""
    names = [*(v.name for v in query.item.values), *(c.name for c in query.item.carried)]
    return ", ".join(f"{name} {cell_text(row[name])}" for name in names)


def of_rejected(plan: Plan, rejected: pa.Table, item: Item) -> Iterator[Moment]:
    """Of their event times, the rows of table ``rejected`` that have a name of the item. O(rejected rows)."""
    types = {c: arrow_type(plan.intake.field(c).type) for c in item.names[0]}
    for row in rejected.to_pylist():
        try:
            parsed: Any = json.loads(row["text"] or "")
        except ValueError:
            continue
        if isinstance(parsed, dict) and any(_same(parsed, name, types) for name in item.names):
            when = row["event_time"]
            at = f" of {cell_text(when)}" if when is not None else ""
            micros = None if when is None else (when - _EPOCH) // timedelta(microseconds=1)
            yield Moment(micros, (f"a row{at} was rejected, reason {row['reason']} (batch {row['batch_id']:,})",))


def _same(parsed: Mapping[str, Any], name: Mapping[str, Any], types: Mapping[str, pa.DataType]) -> bool:
    try:
        return all(c in parsed and plain_value(_read(parsed[c], types[c]), types[c]) == v for c, v in name.items())
    except ValueError:
        return False


def _read(value: Any, type_: pa.DataType) -> Any:
    """A value of JSON as a row of ``rejected`` has it: numbers that are none as text."""
    return float(value) if isinstance(value, str) and pa.types.is_floating(type_) else value


def _named(plan: Plan, query: QueryNode, row: Mapping[str, Any]) -> str:
    columns = query.item.columns(plan.intake.id, (), plan.intake.partition_by)
    return ", ".join(f"{c.name} {cell_text(row[c.name])}" for c in columns if c.what in ("id", "object"))
