"""What a job has registered, and where: ``<sink>/_skyband/catalog.json``.

It says what need not be done again, and where entries may have to be dropped. It proves nothing: only what the catalog itself says of an
entry decides whether it is the job's.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from skyband.framework.catalogs.names import InvalidName, schema_of
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location
from skyband.framework.storage.records import STRICT, InvalidRecord, read_record

FILE: Final = "catalog.json"
_Part: Final = r"[A-Za-z0-9_-]{1,255}"
_Place = Annotated[str, Field(pattern=rf"^{_Part}\.{_Part}$")]
_Table = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,255}$")]
_Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


@dataclass(frozen=True, slots=True)
class _File:
    places: Annotated[dict[_Place, Annotated[dict[_Table, _Digest], Field(max_length=100_000)]], Field(max_length=100)]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_FILE: Final = TypeAdapter(_File)


class Record:
    """Full name of a schema -> the tables registered there, with the digests of what was; "" for one that is about to be."""

    def __init__(self, home: Location) -> None:
        self._path = home / FILE
        self.damage: str | None = None
        """Why the file is ignored, in words."""
        self.places: dict[str, dict[str, str]] = {}
        try:
            found = read_record(self._path, _FILE)
            _check([] if found is None else list(found.places))
        except InvalidRecord as e:
            self.damage = f"{self._path} is not what a run has written, so it is ignored: {e}"
        else:
            self.places = {} if found is None else {place: dict(kept) for place, kept in found.places.items()}
        self._written = _copy(self.places)

    @staticmethod
    def exists(home: Location) -> bool:
        """Return True if there is a file."""
        return (home / FILE).exists()

    def save(self) -> None:
        """Write the file if it has changed. Raises OSError."""
        places = {place: kept for place, kept in self.places.items() if kept}
        if places == self._written and self.damage is None:
            return
        if places:
            durable.replace(self._path, _FILE.dump_json(_File(places), indent=1))
        else:
            self._path.unlink(missing_ok=True)
        self._written, self.damage = _copy(places), None


def _check(places: list[str]) -> None:
    """Raise InvalidRecord for a place that is not the full name of a schema as ``Schema`` spells it."""
    for place in places:
        try:
            same = str(schema_of(place)) == place
        except InvalidName as e:
            raise InvalidRecord(str(e)) from e
        if not same:
            raise InvalidRecord(f"{place!r} is not spelled as a run spells it")


def _copy(places: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {place: dict(kept) for place, kept in places.items()}
