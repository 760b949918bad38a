"""Describe a spec for the Airflow loader as plain data, without Spark and without access to source or sink."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, SpecErrors, printable, redacted
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.explain import explain
from skyband.framework.plan.graph import mermaid, tables_of_query
from skyband.framework.spec.load import Validated, validated_file
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.schedule import Schedule

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
