"""A bucket's state in Spark's state store: binary values by name, in pieces of 1 MB of a map. Does not import Spark."""

from __future__ import annotations

from typing import Any

_PIECE = 1 << 20


class StateValues:
    """Values of one bucket, in the map that Spark gives for it: keys (name, piece), values (bytes,)."""

    def __init__(self, pieces: Any) -> None:
        self._pieces = pieces

    def read(self, name: str) -> bytes | None:
        """Return the value; None if there is none. Slow: Spark encodes every byte as text."""
        first = self._pieces.getValue((name, 0))
        if first is None:
            return None
        data = bytes(first[0])
        size = int.from_bytes(data[:8], "little")
        parts, held, piece = [data[8:]], len(data) - 8, 1
        while held < size:
            part = bytes(self._pieces.getValue((name, piece))[0])
            parts.append(part)
            held += len(part)
            piece += 1
        return b"".join(parts)

    def write(self, name: str, value: bytes, before: int | None = None) -> None:
        """Puts the value in the place of the one of that name. ``before``: that one's length in bytes, None if it is not known."""
        kept = _pieces(len(value))
        if before is None or _pieces(before) > kept:
            self.drop(name, kept)
        self._pieces.updateValue((name, 0), (len(value).to_bytes(8, "little") + value[:_PIECE],))
        for piece in range(1, kept):
            self._pieces.updateValue((name, piece), (value[piece * _PIECE : (piece + 1) * _PIECE],))

    def drop(self, name: str, keep: int = 0) -> None:
        """Remove the pieces of a value from number ``keep`` on."""
        piece = keep
        while self._pieces.containsKey((name, piece)):
            self._pieces.removeKey((name, piece))
            piece += 1

    def names(self) -> set[str]:
        """Of all values."""
        return {str(key[0]) for key in self._pieces.keys()}  # noqa: SIM118 - Spark's map, not a dict


def _pieces(length: int) -> int:
    return -(-max(length, 1) // _PIECE)
