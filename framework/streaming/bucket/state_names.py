"""The names of buckets' states, and of their values. Imports next to nothing, as commands that only look at a state need it."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.plain_json import number as plain_number

CHUNK: Final = "chunk"
"""Beginning of the names of state values with rows."""
SEEN: Final = "seen"
"""Beginning of the names of state values with the hashes of rows' ids."""
JOURNAL: Final = "journal"
"""Beginning of the names of state values with entries of the journal."""
STREAM: Final = "stream/"
"""Beginning of the names of state values of streams of results; the name of the stream and the name of its value follow."""
_SHARD: Final = "shard-"
_ONCE: Final = (f"{CHUNK}/", f"{SEEN}/", f"{JOURNAL}/")


def state_name(number: int) -> str:
    """Return the name of the state of a bucket, or of a shard, whose number is negative (``rows.shards.slots``)."""
    return str(number) if number >= 0 else f"{_SHARD}{-1 - number}"


def state_number(name: str) -> int | None:
    """Return the number of the bucket or shard whose state has this name; None if it is no such name."""
    found = plain_number(name.removeprefix(_SHARD))
    return found if found is None or not name.startswith(_SHARD) else -1 - found


def written_once(name: str) -> bool:
    """Return whether a state value is written once, by its name."""
    return (name.split("/", 2)[2] if name.startswith(STREAM) else name).startswith(_ONCE)
