"""What a command needs of a job that has run: its job file, its tables, its last complete batch."""

from __future__ import annotations

from typing import Any, NamedTuple

from skyband.framework.plan.model import Plan
from skyband.framework.storage.sinks import require_readable
from skyband.framework.streaming.job.layout import JobFile, Layout, not_run
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink


class Ran(NamedTuple):
    """``last``: the row of ``runs`` of the last complete batch."""

    layout: Layout
    job: JobFile
    sink: Sink
    last: dict[str, Any]


def ran(plan: Plan) -> Ran:
    """What the job has left. Raises SkybandError SKY-E402 if no batch is complete yet; as ``require_readable``."""
    require_readable(plan.sink)
    layout = Layout(plan.sink)
    job = layout.known()
    sink = Sink(plan, DriverWriter(layout.root), job.generation)
    last = sink.last_run()
    if last is None:
        raise not_run()
    return Ran(layout, job, sink, last)
