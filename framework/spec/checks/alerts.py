"""Check the alerts of a spec: their queries, bounds and messages."""

from __future__ import annotations

from skyband.framework.alerts.template import FIXED, mistakes
from skyband.framework.base.errors import did_you_mean
from skyband.framework.base.table_names import query_tables
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.checks.table_columns import table_columns
from skyband.framework.spec.models.job import Alert
from skyband.framework.spec.parsing.document import Path

_BATCH = "batch_id"


def check_alerts(s: Scope) -> None:
    """Report all errors of the alerts."""
    for name, alert in s.job.alerts.items():
        at: Path = ("alerts", name)
        if not s.doc.bad(at):
            _queries(s, alert, at)
            _bounds(s, alert, at)
            _message(s, alert, at)


def _queries(s: Scope, alert: Alert, at: Path) -> None:
    doc = s.doc
    for i, name in enumerate(alert.queries):
        where = doc.where_value((*at, "queries", i))
        if s.has_mistakes(name):
            continue
        if name not in s.job.queries:
            doc.add("SKY-E128", f"there is no query '{name}'", where, did_you_mean(name, s.job.queries) or "list queries of this spec")
        elif name in alert.queries[:i]:
            doc.add("SKY-E102", f"'{name}' is listed twice in queries", where)


def _bounds(s: Scope, alert: Alert, at: Path) -> None:
    doc = s.doc
    if doc.bad((*at, "when")):
        return
    if "value" not in alert.when:
        for name in ("above", "below"):
            if getattr(alert, name) is not None:
                hint = "add value: when: [enter, leave, value]"
                doc.add("SKY-E663", f"'{name}' is only for alerts on values", doc.where_key((*at, name)), hint)
        return
    if alert.above is None and alert.below is None and not (doc.bad((*at, "above")) or doc.bad((*at, "below"))):
        hint = "add 'above', 'below' or both"
        doc.add("SKY-E663", "an alert on values needs a bound that they pass", doc.where_value((*at, "when")), hint)
    for name in alert.queries or tuple(s.job.queries):
        query = s.job.queries.get(name)
        if query is not None and not s.doc.bad_below(("queries", name)) and not _has_values(query):
            place = (*at, "queries", alert.queries.index(name)) if name in alert.queries else (*at, "when")
            doc.add("SKY-E663", f"items of query '{name}' have no value", doc.where_value(place), "list queries with a score")


def _has_values(query: QueryModel) -> bool:
    shape = query_type(query.type).item(query)
    return shape.time_varying is not None or shape.scored


def _message(s: Scope, alert: Alert, at: Path) -> None:
    doc, path = s.doc, (*at, "message")
    for field in ("message", "channel"):
        place = doc.places.get((*at, field))
        if place is not None and place.variables and not doc.bad((*at, field)):
            hint = "write the text itself: values from the environment are never sent"
            doc.add("SKY-E119", f"'{field}' of an alert cannot come from the environment", doc.where_value((*at, field)), hint)
            return
    if alert.message is None or doc.bad(path):
        return
    names = _names(s, alert)
    if names is not None:
        for m in mistakes(alert.message, names):
            doc.add("SKY-E662", m.message, doc.where_inside(path, m.start, m.end), m.hint)


def _names(s: Scope, alert: Alert) -> set[str] | None:
    """Return the names that the message may use: the fixed ones, and columns that the changes of all its queries have. None: unknown."""
    common: set[str] | None = None
    if not s.job.queries:
        return None
    for name in alert.queries or tuple(s.job.queries):
        if name not in s.job.queries:
            return None
        columns = table_columns(s, query_tables(name)[1])
        if columns is None:
            return None
        common = set(columns) if common is None else common & set(columns)
    return {*FIXED, *(common or ())} - {_BATCH}
