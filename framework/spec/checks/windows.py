"""Checks of the windows of queries: bounds that fit into the job's window, tumbling windows, sessions."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import one_of
from skyband.framework.base.units import format_duration
from skyband.framework.base.zones import is_zone, zone_hint
from skyband.framework.plan.drafts import job_window, own_window
from skyband.framework.queries.models import QueryModel, QueryWindow
from skyband.framework.queries.registry import QUERY_TYPES, query_type
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Calendar
from skyband.operators.calendar import longest

_KINDS: Final = {"tumbling": "tumbling windows", "session": "sessions"}
_ENLARGE: Final = "enlarge the job's window, or use a smaller one here"


def check_window(s: Scope, path: Path, query: QueryModel) -> None:
    """Report all errors of the window of the query at ``path``."""
    doc, at = s.doc, (*path, "window")
    # Queries over results have the job's window by default, which nobody wrote there.
    if query.window is None or at not in doc.places or doc.bad_below(at):
        return
    own = query.window
    if not _fields_fit(s, at, own) or not _supported(s, at, query, own) or doc.bad_below(("window",)):
        return
    job = job_window(s.job.window)
    for kind, _, largest in own_window(own).misfits(job):
        where = doc.where_value((*at, kind))
        if largest is None:
            hint = f"add {kind} to the job's window, or use {'time' if kind == 'count' else 'count'}"
            doc.add("SKY-E141", f"the job's window has no {kind}", where, hint)
        else:
            big = f"{counted(largest, 'row')}" if kind == "count" else format_duration(largest)
            doc.add("SKY-E140", f"larger than the job's window ({big})", where, _ENLARGE)
    for field, micros in (("tumbling", own.tumbling), ("session", own.session)):
        if micros is None:
            continue
        where = doc.where_value((*at, field))
        if job.micros is None:
            doc.add("SKY-E141", f"{_KINDS[field]} need a job's window with a time", where, "add time to the job's window")
            continue
        most = longest(Calendar(micros, own.zone or "UTC")) if field == "tumbling" else micros
        if most > job.micros:
            clocks = f": where clocks are set back, a window has {format_duration(most)}" if most > micros else ""
            doc.add("SKY-E140", f"larger than the job's window ({format_duration(job.micros)}){clocks}", where, _ENLARGE)


def _fields_fit(s: Scope, at: Path, own: QueryWindow) -> bool:
    """Report fields that do not go together, and an unknown zone; return True if there are none."""
    doc = s.doc
    kinds = [k for k in ("tumbling", "session") if getattr(own, k) is not None]
    sliding = [k for k in ("count", "time") if getattr(own, k) is not None]
    if not kinds and not sliding:
        doc.add("SKY-E111", "a window needs 'count', 'time' or both", doc.where_key(at), "or 'tumbling', or 'session'")
        return False
    if kinds and len(kinds) + len(sliding) > 1:
        named = [*kinds, *sliding]
        hint = f"keep {one_of(named)}; the job's window bounds it as well"
        doc.add("SKY-E117", f"'{named[0]}' and '{named[1]}' are windows of two kinds", doc.where_key((*at, named[1])), hint)
        return False
    stray = [k for k in ("zone", "offset") if own.tumbling is None and getattr(own, k) is not None]
    if stray:
        doc.add("SKY-E117", f"'{stray[0]}' is of tumbling windows", doc.where_key((*at, stray[0])), "add 'tumbling', or leave it out")
        return False
    if own.zone is not None and not is_zone(own.zone):
        doc.add("SKY-E113", f"unknown time zone {doc.shown((*at, 'zone'))}", doc.where_value((*at, "zone")), zone_hint(own.zone))
        return False
    if own.tumbling is not None and own.offset is not None and own.offset >= own.tumbling:
        message = f"'offset' moves windows by less than their length ({format_duration(own.tumbling)})"
        doc.add("SKY-E114", message, doc.where_value((*at, "offset")))
        return False
    return True


def _supported(s: Scope, at: Path, query: QueryModel, own: QueryWindow) -> bool:
    """Report a kind of window that the query type does not support; return True if it does."""
    for kind, name in _KINDS.items():
        if getattr(own, kind) is not None and kind not in query_type(query.type).windows:
            can = sorted((n for n, t in QUERY_TYPES.all().items() if kind in t.windows), key=len)
            hint = f"use count or time; {' and '.join(can)} take {name}"
            s.doc.add("SKY-E142", f"{query.type} takes no {name}", s.doc.where_key((*at, kind)), hint)
            return False
    return True
