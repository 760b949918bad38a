"""Where the states of a job's buckets are after a batch, if they are in files of the sink: column ``state`` of table ``runs``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.sources.logs import AGAIN
from skyband.framework.storage.location import Location
from skyband.framework.streaming.bucket.state_names import state_name, state_number


class BucketState(NamedTuple):
    """Says where the state of a bucket is: the token of its files (``bucket.state_files``), and when it has to run next.

    ``wakes_ms``: the least watermark, in ms, at which something in it is due; None if nothing waits.
    """

    token: str
    wakes_ms: int | None


States = Mapping[int, BucketState]
"""Holds the states of all buckets that have had a row, and of their shards, by number."""
NO_STATES: Final[States] = {}


@dataclass(frozen=True, slots=True)
class NewStates:
    """Names states that were made apart from a run: those after ``batch``, instead of the ones in its row of ``runs``.

    ``text``: as in column ``state``. What follows that batch begins from them, and names them or others in rows of its own.
    """

    batch: int
    text: str
    __pydantic_config__: ClassVar[Any] = {"strict": True, "extra": "forbid"}


def message(bucket: int, state: BucketState) -> bytes:
    """Return the message that a bucket has this state now (``messages.STATE``)."""
    return text_of({bucket: state}).encode()


def text_of(states: States) -> str:
    """Return the value of column ``state``."""
    return json.dumps({state_name(bucket): list(states[bucket]) for bucket in sorted(states)}, separators=(",", ":"))


def parsed(text: str | bytes) -> dict[int, BucketState]:
    """Return the states of a ``text_of``. Raises ValueError for any other text."""
    found = {}
    for name, said in mapping(text).items():
        bucket = state_number(name)
        if bucket is None or not isinstance(said, list) or len(said) != 2 or not isinstance(said[0], str):
            raise ValueError(f"{name[:80]!r} is no bucket with its state")
        found[bucket] = BucketState(said[0], None if said[1] is None else whole(said[1]))
    if text_of(found) != (text if isinstance(text, str) else text.decode()):
        # Such as a bucket that is named twice.
        raise ValueError("it is spelled otherwise than Skyband spells it")
    return found


def last_states(root: Location, new: NewStates | None = None) -> States:
    """Return the states after the last batch of the job whose tables are below ``root``; none before the first. ``new``: see ``states_of``.

    Raises SkybandError as ``states_of``, and SKY-E400 if ``runs`` cannot be read.
    """
    # Importing it starts threads, and Python workers are forked from a process that imports this module.
    import pyarrow.compute as pc

    from skyband.framework.storage import delta_read

    table = delta_read.open_table(root, "runs")
    last = pc.max(delta_read.read(table, ["batch_id"])["batch_id"]).as_py()
    if last is None:
        return NO_STATES
    row: dict[str, Any] = delta_read.read(table, ["batch_id", "state"], pc.field("batch_id") == last).to_pylist()[0]
    return states_of(row, new) or NO_STATES


def states_of(row: Mapping[str, Any], new: NewStates | None = None) -> States | None:
    """Return the states after the batch of a row of ``runs``: those that it names, or that ``new`` names instead. None: Spark kept them.

    Raises SkybandError SKY-E304 for a text that Skyband has not written.
    """
    if new is not None and new.batch == row["batch_id"]:
        return parsed(new.text)
    text = row.get("state")
    if text is None:
        return None
    try:
        return parsed(text)
    except ValueError as e:
        said = f"table runs has states of batch {row['batch_id']} that Skyband has not written: {e}"
        raise SkybandError("SKY-E304", said, hint=f"restore the whole sink from one backup, or {AGAIN}") from e
