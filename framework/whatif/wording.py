"""The answer of ``skyband whatif`` for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from skyband.framework.base.counts import agree, counted, number_text
from skyband.framework.base.reasons import FILTERED
from skyband.framework.verify.differences import instant
from skyband.framework.whatif.compare import Because, ChangedRow, Difference, State
from skyband.framework.whatif.rows import ACCEPTED, LEFT_OUT
from skyband.framework.whatif.sides import Columns, Point
from skyband.framework.whatif.whatif import OfQuery, Supposed

_ROWS: Final = 3
"""The most rows of a difference that are named for people."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STAY: Final[Mapping[str, str]] = {
    "parse": "their text does not parse",
    "bad_file": "the files cannot be read",
    "duplicate_id": "their id is in the window",
    "no_target": "there is no live row to delete",
    "late": "they are late",
}


def document(found: Supposed) -> dict[str, Any]:
    """Return the answer for programs (docs/reference/commands.md)."""
    return {
        "job": found.plan.job,
        "change": found.change.said,
        "from": None if found.begin is None else _at(found.begin),
        "to": _at(found.end),
        "rows": found.rows,
        "rejected": found.rejected,
        "queries": [{"query": q.query.name, "differences": len(q.found), "unknown": q.unknown} for q in found.queries],
        "differences": [d for q in found.queries for d in _differences(q)],
        "cannot_know": found.cannot_know,
        "assumed": found.assumed,
    }


def _differences(q: OfQuery) -> Iterator[dict[str, Any]]:
    for d, because in q.found:
        assert q.columns is not None
        yield {
            "query": q.query.name, "key": dict(zip(q.columns.stream, d.key, strict=True)),
            "item": dict(zip(q.columns.name, d.name, strict=True)),
            "from": _at(d.since), "to": None if d.until is None else _at(d.until), "kind": d.kind,
            "before": state_of(q, d.before, d.since), "after": state_of(q, d.after, d.since),
            "by": [{"id": dict(r.id), "event_time": _at(r.at), "was": r.was, "would_be": r.would_be} for r in because.rows],
            "by_rows": because.total, "by_own_rows": because.own,
        }  # fmt: skip


def state_of(q: OfQuery, state: State | None, at: int) -> dict[str, Any] | None:
    """Return the columns of a state; of a varying value, as of ``at``."""
    if state is None:
        return None
    assert q.columns is not None
    values = list(state.values)
    made: dict[str, Any] = {} if state.rank is None else {"rank": state.rank}
    if values and isinstance(values[-1], Point):
        point, varying = values.pop(), q.query.item.time_varying
        assert varying is not None
        made[varying.value] = point.as_of(at) / 1e6 if varying.slope is not None else point.value
        made |= zip(q.columns.carried, point.carried, strict=True)
    return made | dict(zip(q.columns.values, values, strict=True))


def _at(micros: int) -> Any:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return instant(micros)


def lines(found: Supposed, limit: int) -> Iterator[str]:
    """Yield the answer for people: of each query at most ``limit`` differences."""
    yield f"{found.plan.job}, {' '.join(found.change.said)}: {_total(found)}"
    for of_reason in found.rejected:
        yield f"  {_rejected(of_reason)}"
    shown = found.rows if not found.rejected or found.change.without or found.change.settings else []
    for kind in shown:
        yield f"  {counted(kind['rows'], 'row')}: {_fate(kind['was'])}, would be {_fate(kind['would_be'])}"
    for q in found.queries:
        if q.unknown is not None:
            yield f"{q.query.name}: cannot be known: {q.unknown}"
            continue
        yield f"{q.query.name}: {counted(len(q.found), 'difference')}"
        for d, because in islice(q.found, limit):
            yield from (f"  {line}" for line in _difference(q, d, because, found))
        if len(q.found) > limit:
            yield f"  and {counted(len(q.found) - limit, 'more difference')} (--limit)"
    yield from (f"cannot be known: {text}" for text in found.cannot_know if not text.startswith("the results of "))
    yield from (f"assumed: {text}" for text in found.assumed)


def _total(found: Supposed) -> str:
    since = "up to" if found.begin is None else f"from {instant(found.begin)} to"
    range_ = f"{since} {instant(found.end)}"
    if any(q.unknown is not None for q in found.queries):
        return f"the answer for {range_} is not complete"
    return f"no result would have been other, {range_}" if not found.count else f"{counted(found.count, 'difference')} {range_}"


def _rejected(found: Mapping[str, Any]) -> str:
    many, accepted = found["rows"], found["accepted"]
    parts = [f"{accepted:,} would be accepted"]
    for reason, n in found["rejected"].items():
        why = _STAY.get(reason) if reason == found["reason"] else None
        parts.append(f"{n:,} would be rejected as {reason}" if reason != found["reason"] else f"{n:,} {agree(n, 'stays', 'stay')} rejected")
        parts[-1] += f" ({why})" if why else ""
    if found["later"]:
        parts.append(f"{found['later']:,} {agree(found['later'], 'is', 'are')} later than the range")
    if found["not_found"]:
        parts.append(f"{found['not_found']:,} not found in the source")
    return f"{found['reason']}: of {counted(many, 'row')} {', '.join(parts)}"


def _difference(q: OfQuery, d: Difference, because: Because, found: Supposed) -> Iterator[str]:
    assert q.columns is not None
    item = ", ".join(f"{c} {_shown(v)}" for c, v in _named(q.columns, d))
    yield f"{_when(d)}  {item}: {_said(q, d)}"
    if because.rows:
        more = f" and {counted(because.total - _ROWS, 'more row')}" if because.total > _ROWS else ""
        what = "by" if because.own else "because of"
        yield f"    {what} {'; '.join(map(_row, because.rows[-_ROWS:]))}{more}"
    elif found.change.settings:
        yield "    by the edited spec"


def _named(columns: Columns, d: Difference) -> Iterator[tuple[str, Any]]:
    """Yield key and item without the event times of rows."""
    yield from zip(columns.stream, d.key, strict=True)
    for c, v in zip(columns.name, d.name, strict=True):
        if not (c == "time" or c.endswith("_time")) or not isinstance(v, datetime):
            yield c, v


def _when(d: Difference) -> str:
    if not d.lasting:
        return instant(d.since)
    return f"{instant(d.since)} to {'the end' if d.until is None else instant(d.until)}"


def _said(q: OfQuery, d: Difference) -> str:
    before, after = state_of(q, d.before, d.since), state_of(q, d.after, d.since)
    if before is None:
        return f"would {'be in the result' if d.lasting else 'be reported'}{_values(after)}"
    if after is None:
        return f"would not be {'in the result' if d.lasting else 'reported'}; was{_values(before) or ' so'}"
    other = [(c, before.get(c), after.get(c)) for c in dict.fromkeys([*before, *after]) if before.get(c) != after.get(c)]
    return "; ".join(f"{c} {_shown(b)} instead of {_shown(a)}" for c, a, b in other) or "its value moves otherwise"


def _values(state: Mapping[str, Any] | None) -> str:
    shown = [f"{c} {_shown(v)}" for c, v in (state or {}).items()]
    return f", {', '.join(shown)}" if shown else ""


def _row(row: ChangedRow) -> str:
    fate = f"would be {_fate(row.would_be)}" if row.was == ACCEPTED else f"was {_fate(row.was)}"
    fate = LEFT_OUT if row.would_be == LEFT_OUT else fate
    return f"row {', '.join(f'{c} {_shown(v)}' for c, v in row.id.items())} of {instant(row.at)} ({fate})"


def _fate(fate: str) -> str:
    return fate if fate in (ACCEPTED, FILTERED, LEFT_OUT) else f"rejected as {fate}"


def _shown(value: Any) -> str:
    if isinstance(value, float | Decimal):
        return number_text(value)
    if isinstance(value, datetime):
        return instant((value - _EPOCH) // timedelta(microseconds=1))
    return "null" if value is None else str(value)
