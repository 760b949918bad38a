"""Load a spec for a command (the plan, or all mistakes of the file) and what its job has left."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.plan.live import NO_LIVE, Live
from skyband.framework.spec.parsing.live_parts import LivePart, LiveParts
from skyband.framework.spec.parsing.positions import LIVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyband.framework.catalogs.registrar import Locations
    from skyband.framework.plan.model import EngineName, Plan
    from skyband.framework.spec.load import Validated
    from skyband.framework.spec.models.job import Job
    from skyband.framework.spec.parsing.assemble import Setting
    from skyband.framework.storage.records import JobFileHeader
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


def load_plan(path: str, env: Mapping[str, str] | None = None, rebuild: bool = False, locate: bool = True) -> Plan:
    """Return the compiled plan of the spec at ``path``. Raises SpecErrors with all of its mistakes.

    Only reads: it takes no lock and completes no interrupted swap of generations. Of source and sink it reads only the job file: the live
    queries in it are part of the plan, and a job that a former version made keeps its rules (``plan.former``), unless the caller makes a
    ``rebuild``. ``locate``: False for a caller that does not need the sources.
    """
    return SpecText(path, env, locate).plan(rebuild)


def load_edited(path: str, settings: Sequence[Setting], env: Mapping[str, str] | None = None) -> tuple[Plan, Plan]:
    """Return the plan of the spec at ``path``, as ``load_plan`` does, and that of the spec with ``settings``.

    Raises SpecErrors with all mistakes of either.
    """
    spec = SpecText(path, env)
    plan = spec.plan()
    return plan, spec.plan(settings=settings) if settings else plan


class SpecText:
    """The text of a spec as it was when it was read, which plans are made of: with whatever live queries there are."""

    def __init__(
        self, path: str, env: Mapping[str, str] | None = None, locate: bool = True, engine: EngineName | None = None
    ) -> None:  # fmt: skip
        """``locate``: whether plans need the sources, so that those in a catalog have to be found there (SKY-E681, SKY-E683).

        ``engine``: see ``validated_file``.
        """
        self.path, self.env, self._locate, self._engine = path, env, locate, engine
        self._locations: Locations | None = None
        self._raw: bytes | None = sys.stdin.buffer.read() if path == STDIN else None
        if self._raw is None:
            # What is wrong with the file is reported with all other mistakes.
            with suppress(OSError, ValueError):
                self._raw = Path(path).read_bytes()

    def validated(self, live: Live = NO_LIVE, more: LivePart | None = None, settings: Sequence[Setting] = ()) -> Validated:
        """Return the spec with ``settings``, the ``live`` queries and those of ``more``, as a document with its job and its mistakes."""
        from skyband.framework.spec.load import validated_file

        parts = [LivePart(f"{LIVE}{q.name}", q.text) for q in live.queries]
        both = LiveParts((*parts, *((more,) if more is not None else ())), live.removed)
        return validated_file(self.path, os.environ if self.env is None else self.env, self._raw, settings, both, self._engine)

    def plan(self, rebuild: bool = False, settings: Sequence[Setting] = ()) -> Plan:
        """Return the plan with ``settings`` and the live queries that the job has. Raises SpecErrors. ``rebuild``: see ``load_plan``."""
        found = self.validated(settings=settings)
        if found.job is None:
            raise SpecErrors(found.errors)
        live = self.live(found.job)
        return self.with_live(live.rebuilt() if rebuild else live, rebuild, found, settings)

    def live(self, job: Job) -> Live:
        """Return the live queries of the job in the sink of ``job``, the spec without them."""
        kept = _job_file_header(job.sink.path)
        return NO_LIVE if kept is None else kept.live.with_spec(job.queries)

    def current(self, plan: Plan) -> Plan:
        """Return ``plan``, or the one with the live queries that the job has by now."""
        kept = _job_file_header(plan.sink)
        if kept is None:
            return plan if plan.live == NO_LIVE else self.with_live(NO_LIVE)
        if kept.live.taken == plan.live.taken:
            return plan
        found = self.validated()
        return self.with_live(self.live(found.job), spec=found) if found.job is not None else plan

    def with_live(self, live: Live, rebuild: bool = False, spec: Validated | None = None, settings: Sequence[Setting] = ()) -> Plan:
        """Return the plan with the queries ``live``. Raises SpecErrors, or SkybandError SKY-E142 and SKY-E151.

        ``spec``: the spec without them, if it has been validated already.
        """
        from skyband.framework.plan.compile import compile_job

        found = self.validated(live, settings=settings) if spec is None or live.queries or live.removed else spec
        if found.job is None:
            raise SpecErrors(found.errors)
        plan = self._located(compile_job(found.job, live))
        return plan if rebuild else _as_made(plan, found.job)

    def _located(self, plan: Plan) -> Plan:
        """Return ``plan`` with the locations of sources that are named by a table in a catalog."""
        if not self._locate or all(part.table is None for _, part in plan.source.each):
            return plan
        if self._locations is None:
            from skyband.framework.catalogs.registrar import Locations

            self._locations = Locations(_session, os.environ if self.env is None else self.env)
        return self._locations.put_into(plan)


def _session(plan: Plan) -> SparkSession:
    from skyband.framework.storage.location import location
    from skyband.framework.streaming.spark.packages import packages
    from skyband.framework.streaming.spark.session import get_session

    return get_session(plan.job, packages=packages(plan), home=location(plan.sink) / "_skyband")


def _job_file_header(sink: str) -> JobFileHeader | None:
    """Return the header of the job file in ``sink``; None if it cannot be read: the command that needs it reports what is wrong."""
    from skyband.framework.storage.location import location
    from skyband.framework.storage.records import read_job_file_header

    try:
        return read_job_file_header(location(sink) / "_skyband")
    except (SkybandError, OSError):
        return None


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

    kept = _job_file_header(plan.sink)
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
