"""The states of a job's buckets, as its last rows of ``runs`` name them: whether they are whole, and what no row names any more."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Warn
from skyband.framework.streaming.bucket.bucket_states import NO_STATES, States, states_of
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.writing.sink import KEPT_RUNS, Sink

COLLECT: Final = 100
"""The batches after which files of former states are removed, besides at the end of a run."""


def require_states(layout: Layout, sink: Sink, job: JobFile) -> None:
    """Raise SkybandError SKY-E303 if a part is gone of the states from which the next batch begins."""
    for states in _states_after(2, sink, job):
        # A batch that was not marked done is repeated from the state of the one before.
        StateFiles(layout.state).require({bucket: state.token for bucket, state in (states or NO_STATES).items()})


def _states_after(batches: int, sink: Sink, job: JobFile) -> list[States | None]:
    """Return the states after each of the last ``batches``, of those from which a batch may begin.

    None may begin from those before states that were made apart: these follow a batch that is done, and need not have the same buckets.
    """
    since = -1 if job.new_states is None else job.new_states.batch
    return [states_of(row, job.new_states) for row in sink.last_runs(batches) if int(row["batch_id"]) >= since]


def collect_states(layout: Layout, sink: Sink, job: JobFile, now: States | None, warn: Warn) -> None:
    """Remove the files of states that none of the last rows of ``runs`` names, nor ``now``. Only for a moment when no batch runs.

    ``now``: the states from which the next batch begins. A batch that was repeated has made its own, and its row names the former ones.
    """
    kept = [
        {bucket: s.token for bucket, s in states.items()} for states in (now, *_states_after(KEPT_RUNS, sink, job)) if states is not None
    ]
    try:
        StateFiles(layout.state).collect(kept)
    except SkybandError as e:
        # Of an earlier batch: the run does not need it.
        warn(f"files of former states stay: {e.message}")
