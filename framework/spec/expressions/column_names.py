"""Names of columns as Spark looks them up: in any case."""

from __future__ import annotations

from collections.abc import Mapping


class Columns(dict[str, str | None]):
    """Name -> type (None if not known) of columns, in order; a name is found whatever its case, as Spark does."""

    def __init__(self, types: Mapping[str, str | None] | None = None) -> None:
        super().__init__()
        self._spelled: dict[str, str] = {}
        for name, type_ in (types or {}).items():
            self[name] = type_

    def __setitem__(self, name: str, type_: str | None) -> None:
        self._spelled.setdefault(name.lower(), name)
        super().__setitem__(name, type_)

    def setdefault(self, name: str, type_: str | None = None) -> str | None:
        """The type of ``name``, noted as ``type_`` if there is none of this name."""
        if name not in self:
            self[name] = type_
        return self[name]

    def spelled(self, name: str) -> str | None:
        """The column's name as it was noted, or None if there is none. O(1)."""
        return self._spelled.get(name.lower())
