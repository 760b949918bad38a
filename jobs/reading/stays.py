"""The part of ``skyband query`` about durable items and records: its options, and their answers from the tables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.jobs.arguments import listed, parse_instant, text, texts

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.framework.plan.model import Plan
    from skyband.framework.tables.results.stays import Durable, Interval

_OPTIONS = {"durable": "--durable", "records": "--records", "start": "--from", "end": "--to", "by": "--by", "after": "--after"}
_OTHERS = {"at": "--at", "k": "--k", "window": "--window"}


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Add the options of durable items and records."""
    p.add_argument("--durable", metavar="SHARE", help="the items in the result for at least this share (80%%) of the time --from to --to")
    said = "the rows in the result when they arrived, or with --after when they were that old"
    p.add_argument("--records", action="store_true", help=said)
    p.add_argument("--from", dest="start", metavar="T", help="first instant, or a time before --to ('30 days') (default: first result)")
    p.add_argument("--to", dest="end", metavar="T", help="end of the interval, which is not in it (default: the end of what is complete)")
    said = "with --durable: compare items by this column, such as a user; repeat for several"
    p.add_argument("--by", action="append", default=[], metavar="COLUMN", help=said)
    p.add_argument("--after", metavar="D", help="with --records: the age of the rows, such as '30 minutes'")


def requested(args: argparse.Namespace) -> bool:
    """Return True if the options ask for durable items or records. SkybandError SKY-E201 for options that do not go together."""
    given = [o for name, o in _OPTIONS.items() if getattr(args, name) not in (None, False, [])]
    if not given:
        return False
    if args.durable is not None and args.records:
        raise SkybandError("SKY-E201", "--durable cannot be combined with --records", hint="use one of them")
    if args.durable is None and not args.records:
        raise SkybandError("SKY-E201", f"{given[0]} needs --durable or --records", hint="such as --durable 80%; --at takes one instant")
    wrong = [o for name, o in _OTHERS.items() if getattr(args, name) is not None]
    wrong += ["--by"] if args.records and args.by else ["--after"] if args.durable is not None and args.after is not None else []
    if wrong:
        what = "--records" if args.records else "--durable"
        raise SkybandError("SKY-E201", f"{what} cannot be combined with {wrong[0]}", hint=f"leave out {wrong[0]}")
    return True


def answer(plan: Plan, args: argparse.Namespace, key: Mapping[str, str]) -> Durable:
    """Return the answer to the options. Raises SkybandError."""
    if args.records:
        return read_records(plan, args.query, args.after, args.start, args.end, key)
    return read_durable(plan, args.query, args.durable, args.start, args.end, args.by, key)


def heading(args: argparse.Namespace, found: Durable, rows: pa.Table) -> str:
    """Return the line above the table."""
    from skyband.framework.tables.render import instant_text

    cut = f"{rows.num_rows:,} of " if rows.num_rows < found.rows.num_rows else ""
    interval = f"{instant_text(found.start)} to {instant_text(found.end)} UTC"
    if args.records:
        when = "on arrival" if args.after is None else f"{args.after} after arrival"
        return f"{args.query}: {cut}{counted(found.rows.num_rows, 'row')} in the result {when}, arrived {interval}"
    what = "item" if not args.by else "value"
    return f"{args.query}: {cut}{counted(found.rows.num_rows, what)} in the result for {args.durable} of {interval}"


def read_durable(
    plan: Plan,
    query: str,
    share: str,
    start: datetime | timedelta | str | None = None,
    end: datetime | str | None = None,
    by: Sequence[str] = (),
    key: Mapping[str, str] | None = None,
) -> Durable:
    """Return the items in the result of ``query`` for at least ``share`` of the interval (see ``stays.durable``). Raises SkybandError."""
    least = _share(share)
    columns = [text("by", c) for c in ([by] if isinstance(by, str) else listed("by", by))]
    from skyband.framework.tables.results.stays import durable

    return _read(plan, lambda reader, interval, chosen: durable(reader, query, least, interval, columns, chosen), query, start, end, key)


def read_records(
    plan: Plan,
    query: str,
    after: timedelta | str | None = None,
    start: datetime | timedelta | str | None = None,
    end: datetime | str | None = None,
    key: Mapping[str, str] | None = None,
) -> Durable:
    """Return the rows in the result of ``query`` at the age of ``after`` (None: when they arrived). Raises SkybandError."""
    age = None if after is None else _duration("after", after)
    from skyband.framework.tables.results.stays import records

    return _read(plan, lambda reader, interval, chosen: records(reader, query, age, interval, chosen), query, start, end, key)


def _read(
    plan: Plan, ask: Any, query: str, start: datetime | timedelta | str | None, end: datetime | str | None, key: Mapping[str, str] | None
) -> Durable:
    text("query", query)
    chosen = None if key is None else texts("key", key)
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.tables.results.reader import Reader

    interval = _interval(start, end)
    require_readable(plan.sink)
    with tables_of(plan):
        found: Durable = ask(Reader(plan), interval, chosen)
    return found


def _interval(start: datetime | timedelta | str | None, end: datetime | str | None) -> Interval:
    from skyband.framework.tables.results.stays import Interval

    until = None if end is None else parse_instant(end, "to")
    if start is None:
        return Interval(None, until)
    if isinstance(start, timedelta):
        return Interval(_duration("from", start), until)
    from skyband.framework.base.units import parse_duration

    try:
        return Interval(parse_duration(start), until) if isinstance(start, str) else Interval(parse_instant(start, "from"), until)
    except ValueError:
        return Interval(parse_instant(start, "from"), until)


def _duration(name: str, value: timedelta | str) -> int:
    """Return a duration in microseconds. SkybandError SKY-E201 unless it is one."""
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        if micros < 0:
            raise SkybandError("SKY-E201", f"{name} takes a duration that is not negative, not {value}")
        return micros
    from skyband.framework.base.units import DURATION_HINT, parse_duration

    try:
        return parse_duration(text(name, value))
    except ValueError as e:
        raise SkybandError("SKY-E201", f"{name} takes a duration, not {value!r} ({e})", hint=DURATION_HINT) from None


def _share(value: str) -> Fraction:
    from skyband.framework.base.units import parse_share

    try:
        return parse_share(text("share", value))
    except ValueError as e:
        raise SkybandError("SKY-E201", f"durable: {e}") from None
