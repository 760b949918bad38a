"""A plan as plain data (``explain --format json``), without the source's path, its options and the sink."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, SpecErrors, printable, redacted
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import explain, tables_of
from skyband.framework.plan.explain_parts import of_stream
from skyband.framework.plan.graph import mermaid, tables_of_query
from skyband.framework.plan.model import OperatorNode, Plan, QueryNode, StreamNode
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.load import Validated, validated_file
from skyband.framework.spec.models.job import Job, Schedule
from skyband.operators.base import Window


def facts(plan: Plan, rate: float | None = None) -> dict[str, Any]:
    """Return the source, shared states, queries, streams of results and tables of a plan; ``text`` is the same for people. O(plan)."""
    return {
        "job": plan.job,
        "source": {"format": plan.source.shown, "columns": {f.name: f.type for f in plan.source.fields}},
        "id": list(plan.intake.id),
        "event_time": plan.intake.event_time,
        "partition_by": list(plan.intake.partition_by),
        "window": _window(plan.window),
        "states": [_state(plan, node, rate) for node in plan.operators]
        + [_state(s.plan, o, None, s, of_stream(plan, s, o)) for s in plan.streams for o in s.plan.operators],
        "queries": [_query(plan, q) for q in plan.queries] + [_query(s.plan, q, s) for s in plan.streams for q in s.plan.queries],
        "streams": [_stream(s) for s in plan.streams],
        "tables": tables_of(plan),
        "text": explain(plan, rate),
    }


def _stream(stream: StreamNode) -> dict[str, Any]:
    """Return a stream of a result. ``window``: null if entries stay as long as their items, and of members."""
    own = stream.plan
    return {
        "name": stream.name,
        "of": stream.of,
        "takes": stream.takes,
        "objects": list(stream.objects),
        "columns": {f.name: f.type for f in own.intake.fields},
        "window": _window(own.window) if stream.bounded else None,
        "queries": [q.name for q in own.queries],
    }


def _state(
    plan: Plan, node: OperatorNode, rate: float | None, stream: StreamNode | None = None, sized: OperatorNode | None = None
) -> dict[str, Any]:
    kind = query_type(plan.queries[next(i for i, q in enumerate(plan.queries) if q.name in node.queries)].type)
    size = [line.strip() for line in kind.size(plan, sized or node, rate)]
    return {
        "name": node.name,
        "operator": type(node.inner).__name__,
        "why": node.why,
        "k": node.k,
        "window": _own_window(node.window, stream),
        "stream": None if stream is None else stream.name,
        "queries": list(node.queries),
        "skyband": node.skyband,
        "size": size,
    }


def _query(plan: Plan, q: QueryNode, stream: StreamNode | None = None) -> dict[str, Any]:
    return {
        "name": q.name,
        "type": q.type,
        "state": plan.operators[q.operator].name,
        "k": q.k,
        "window": _own_window(q.window, stream),
        "stream": None if stream is None else stream.name,
        "every_seconds": None if q.every_micros is None else q.every_micros / 1e6,
        "members": list(q.members),
        "tables": tables_of_query(q),
    }


def _own_window(w: Window, stream: StreamNode | None) -> dict[str, Any] | None:
    return None if stream is not None and stream.renewed is not None else _window(w)


def _window(w: Window) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": w.count, "seconds": None if w.micros is None else w.micros / 1e6}
    if w.tumbling is not None:
        c = w.tumbling
        found["tumbling"] = {"seconds": c.micros / 1e6, "zone": c.zone, "offset_seconds": c.offset / 1e6}
        if c.months:
            found["tumbling"]["months"] = c.months
    if w.hopping:
        found["hopping"] = True
    return found if w.session is None else found | {"session_seconds": w.session / 1e6}


# Describe a spec for the Airflow loader as plain data, without Spark and without access to source or sink.

FORMAT: Final = 1
"""Version of the data of ``describe``; the loader accepts no other."""
_SECOND: Final = 1_000_000


def describe(path: str) -> dict[str, Any]:
    """What the DAG of the spec at ``path`` is made of.

    ``findings``: the mistakes as text, each with its place, or null. ``schedule``: null if the spec has none or is broken. ``text``: the
    spec as written and the files that it includes, values whose names are those of secrets as ``*``. Values of the environment are nowhere
    in it. Never raises for what the file holds.
    """
    spec = validated_file(path)
    found: dict[str, Any] = {"format": FORMAT, "file": path, "job": None, "findings": None, "schedule": None, "text": _text(spec)}
    job = spec.job
    if job is None:
        return found | {"findings": _rendered(spec.errors)}
    try:
        plan = compile_job(job)
    except SpecErrors as e:
        return found | {"findings": _rendered(e.errors)}
    except SkybandError as e:
        return found | {"findings": _rendered([e])}
    tables = {t: q.name for q in plan.every_query for t in tables_of_query(q)}
    facts = {"job": job.job, "tables": tables, "plan": redacted(explain(plan)), "graph": mermaid(plan)}
    return found | facts | {"schedule": None if job.schedule is None else _schedule(job, job.schedule)}


def _schedule(job: Job, schedule: Schedule) -> dict[str, Any]:
    """The section as plain data: durations in seconds, defaults filled in."""
    retries = schedule.retries
    return {
        "id": schedule.id or job.job,
        "description": schedule.description,
        "owner": schedule.owner,
        "tags": list(schedule.tags),
        "cron": schedule.cron,
        "assets": None if schedule.assets is None else list(schedule.assets),
        "retries": {"count": retries.count, "wait": retries.wait / _SECOND, "longest": retries.longest / _SECOND},
        "timeout": None if schedule.timeout is None else schedule.timeout / _SECOND,
        "maintain": schedule.maintain / _SECOND,
        "connection": schedule.connection,
        "paused": schedule.paused,
    }


def _rendered(errors: Iterable[SkybandError]) -> str:
    return "\n\n".join(e.render() for e in errors)


def _text(spec: Validated) -> str:
    if spec.source is None:
        return ""
    included = spec.document.included if spec.document is not None else ()
    shown = ["\n".join(text.shown(n) or "" for n in range(len(text.lines))) for text in (spec.source, *included)]
    names = [os.path.relpath(text.file, os.path.dirname(spec.source.file) or ".") for text in included]
    return printable("\n".join([shown[0], *(f"# {name}\n{text}" for name, text in zip(names, shown[1:], strict=True))]))
