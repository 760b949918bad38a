"""Load a spec for a command (the plan, or all mistakes of the file) and what its job has left."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skyband.framework.base.errors import SkybandError, SpecErrors

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.spec.load import Validated
    from skyband.framework.spec.models.job import Job
    from skyband.framework.spec.parsing.settings import Setting
    from skyband.framework.streaming.job.layout import JobFile, Layout
    from skyband.framework.tables.writing.sink import Sink

STDIN: Final = "-"
"""The name of a spec on standard input. Its relative paths start at the working directory."""


def read_spec(path: str, env: Mapping[str, str] | None = None) -> tuple[Job | None, list[SkybandError]]:
    """Return the job of the spec at ``path``, and its mistakes in the order of the file. The job is None if there are any.

    ``env``: values of ``${NAME}`` (default: the process's environment).
    """
    found = validated(path, env)
    return found.job, found.errors


def validated(path: str, env: Mapping[str, str] | None = None) -> Validated:
    """Read a spec like ``read_spec``, and return its document too."""
    from skyband.framework.spec.load import validated_file

    return validated_file(path, os.environ if env is None else env, sys.stdin.buffer.read() if path == STDIN else None)


def load_plan(path: str, env: Mapping[str, str] | None = None, rebuild: bool = False) -> Plan:
    """Return the compiled plan of the spec at ``path``. Raises SpecErrors with all of its mistakes.

    Only reads: it takes no lock and completes no interrupted swap of generations. Of source and sink it reads only the job file: a job
    that a former version made keeps its rules (``plan.former``), unless the caller makes a ``rebuild``.
    """
    return _plan_of(validated(path, env), rebuild)


def load_edited(path: str, settings: Sequence[Setting], env: Mapping[str, str] | None = None) -> tuple[Plan, Plan]:
    """Return the plan of the spec at ``path``, as ``load_plan`` does, and that of the spec with ``settings``.

    Raises SpecErrors with all mistakes of either.
    """
    from skyband.framework.spec.load import validated_file

    raw = sys.stdin.buffer.read() if path == STDIN else None
    env = os.environ if env is None else env
    found = validated_file(path, env, raw)
    plan = _plan_of(found)
    if not settings:
        return plan, plan
    return plan, _plan_of(validated_file(path, env, raw, settings))


def _plan_of(found: Validated, rebuild: bool = False) -> Plan:
    from skyband.framework.plan.compile import compile_job

    if found.errors or found.job is None:
        raise SpecErrors(found.errors)
    plan = compile_job(found.job)
    return plan if rebuild else _as_made(plan, found.job)


def _as_made(plan: Plan, job: Job) -> Plan:
    """Return ``plan`` with the defaults of the version that made the job, unless the spec overrides them.

    CSV files of new jobs escape a quote by doubling it (RFC 4180); the former default was Spark's backslash. For tokens see
    ``plan.former``.
    """
    from skyband.framework.sources.registry import source_format

    format_, given = source_format(plan.source.format), [name.lower() for name in job.source.options]
    if format_.options_of_job(plan.source, given, "\\") == plan.source and not plan.intake.tokens:
        return plan
    from skyband.framework.plan.former import as_made
    from skyband.framework.storage.job_file_header import read_job_file_header
    from skyband.framework.storage.locations import location

    try:
        kept = read_job_file_header(location(plan.sink) / "_skyband")
    except SkybandError:
        return plan  # the command that needs the sink reports what is wrong with it
    if kept is None:
        return plan
    plan = replace(plan, source=format_.options_of_job(plan.source, given, kept.escape))
    return as_made(plan, {"tokens": kept.fingerprint.tokens})


class LastRun(NamedTuple):
    """What the last run of a job has left. ``batch``: the row of ``runs`` of its last complete batch."""

    layout: Layout
    job: JobFile
    sink: Sink
    batch: dict[str, Any]


def last_run(plan: Plan) -> LastRun:
    """Return what the job has left. Raises SkybandError SKY-E402 if no batch is complete yet, and those of ``require_readable``."""
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.layout import Layout, not_run
    from skyband.framework.tables.writing.driver_writer import DriverWriter
    from skyband.framework.tables.writing.sink import Sink

    require_readable(plan.sink)
    layout = Layout(plan.sink)
    job = layout.known()
    sink = Sink(plan, DriverWriter(layout.root), job.generation)
    batch = sink.last_run()
    if batch is None:
        raise not_run()
    return LastRun(layout, job, sink, batch)
