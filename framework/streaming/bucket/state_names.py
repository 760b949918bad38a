"""The names of a bucket's state values that are written once. Imports nothing, as commands that only look at a state need it."""

from __future__ import annotations

from typing import Final

CHUNK: Final = "chunk"
"""Beginning of the names of state values with rows."""
SEEN: Final = "seen"
"""Beginning of the names of state values with the hashes of rows' ids."""
JOURNAL: Final = "journal"
"""Beginning of the names of state values with entries of the journal."""
STREAM: Final = "stream/"
"""Beginning of the names of state values of streams of results; the name of the stream and the name of its value follow."""
_ONCE: Final = (f"{CHUNK}/", f"{SEEN}/", f"{JOURNAL}/")


def written_once(name: str) -> bool:
    """Return whether a state value is written once, by its name."""
    return (name.split("/", 2)[2] if name.startswith(STREAM) else name).startswith(_ONCE)
