"""Make states of buckets apart from a run, in files of the sink like those of batches. The job file names them until a batch has.

Nothing of the job changes before the job file names them: they are new files, which a run removes if no job file ever did.
"""

from __future__ import annotations

from collections.abc import Mapping

from skyband.framework.sources.logs import last_batch
from skyband.framework.streaming.bucket.bucket_states import BucketState, NewStates, States, last_states, text_of
from skyband.framework.streaming.bucket.state_files import BucketFiles, StateFiles
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.shards import Shards

AT_ONCE = 0
"""A watermark at which a bucket runs in the next batch, whatever that brings."""


def states_now(layout: Layout, job: JobFile) -> States:
    """Return the states of the job's buckets, without shards, from which its next batch begins."""
    return {bucket: state for bucket, state in last_states(layout.root, job.new_states).items() if bucket >= 0}


def read(layout: Layout, bucket: int, state: BucketState) -> dict[str, bytes]:
    """Return the values of the state of ``bucket``. Raises SkybandError SKY-E303. O(bytes)."""
    values = StateFiles(layout.state).read(bucket, state.token)[1]
    # Version 1 marked states that were loaded from files of their own.
    values.pop("filled", None)
    return values


def written(files: StateFiles, number: int, values: Mapping[str, bytes], wakes_ms: int | None = AT_ONCE) -> BucketState:
    """Write the state of a bucket or shard; all is on the disk then. O(bytes)."""
    made = BucketFiles(files.of(number))
    for name, value in values.items():
        made.put(name, value)
    return BucketState(made.save(), wakes_ms)


def of_shards(files: StateFiles, bucket: int, values: Mapping[str, bytes], shards: Shards | None) -> dict[int, BucketState]:
    """Write the states of the shards of ``bucket``, made of the ``values`` of its own; none without shards. O(bytes of all)."""
    if shards is None:
        return {}
    # It loads the operators' compiler.
    from skyband.framework.streaming.bucket.search_host import shard_state

    return {(n := shards.number(bucket, i)): written(files, n, shard_state(values), None) for i in range(shards.of)}


def as_new(layout: Layout, states: States) -> NewStates:
    """Return what a job file says of ``states`` that take the place of those after the last batch that is done."""
    return NewStates(last_batch(layout.checkpoint / "commits"), text_of(states))
