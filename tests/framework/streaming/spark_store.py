"""Spark's state of a bucket, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class Store:
    """Spark's state of one bucket, as far as the processor uses it; ``commit`` is the end of a batch."""

    def __init__(self) -> None:
        self.committed: dict[Any, Any] = {}
        self.now: dict[Any, Any] = {}
        self.read = 0
        """How many values were asked for."""
        self._statefulProcessorApiClient = SimpleNamespace()

    def commit(self, whole: bool = True) -> None:
        self.committed = dict(self.now) if whole else self.committed
        self.now = dict(self.committed)

    # The handle.
    def getValueState(self, *_: str) -> Store:
        return self

    getMapState = getValueState

    def listTimers(self) -> list[int]:
        return []

    def registerTimer(self, at: int) -> None:
        pass

    # The token.
    def get(self) -> Any:
        return self.now.get("mark")

    def update(self, value: Any) -> None:
        self.now["mark"] = value

    # The values.
    def getValue(self, key: Any) -> Any:
        self.read += 1
        return self.now.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.now[key] = value

    def containsKey(self, key: Any) -> bool:
        return key in self.now

    def removeKey(self, key: Any) -> None:
        del self.now[key]

    def keys(self) -> Iterator[Any]:
        return iter([k for k in self.now if k != "mark"])

    def values(self) -> dict[str, bytes]:
        return {k[0]: v[0][8:] for k, v in self.now.items() if k != "mark"}
