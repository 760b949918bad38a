"""The small JSON files that Skyband keeps in a sink: one way to read and to write them. Each must fit its model, whoever wrote it."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.live import NO_LIVE, Live
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.sinks import unsupported_entry

STRICT: Final = ConfigDict(strict=True, extra="forbid")
"""For models that list all fields: a file of a later version is rejected."""
TOLERANT: Final = ConfigDict(strict=True, extra="ignore")
"""For models that list only the needed fields, of files of any version."""
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Text = Annotated[str, StringConstraints(max_length=10_000)]
Name = Annotated[str, StringConstraints(pattern=r"^[^./\x00][^/\x00]{0,254}$")]
"""One segment of a path: no separator and no leading dot."""
MAX_BYTES: Final = 256 << 20
"""Maximum size of a file in bytes, enough for the plan of a backlog of a million files."""

T = TypeVar("T")


@with_config(STRICT)
class SetAsideFile(TypedDict):
    """``sources.files.ledger.SetAside`` in its file."""

    batch: Whole
    bytes: Count
    said: str


@with_config(STRICT)
class LedgerFile(TypedDict):
    """``files.json``: see ``sources.files.ledger``."""

    aside: dict[str, SetAsideFile]
    read_as: dict[str, Whole]


@with_config(STRICT)
class BacklogFile(TypedDict):
    """``drop.json``: see ``sources.watermark_caps``."""

    caps: dict[str, Whole | None]
    others: Whole | None
    greatest: Whole | None
    released: Whole | None


class InvalidRecord(ValueError):
    """A file does not fit its model; the message says why, without the file's name."""


@dataclass(frozen=True)
class Record(Generic[T]):
    """A kind of file: what it holds, as a type that pydantic knows, and the error about one that cannot be read.

    ``damaged``: its message, with ``{path}`` and ``{why}``; ``hint``, with ``{path}``; ``code``. ``sort``: whether the keys of objects are
    sorted.
    """

    model: Any
    damaged: str = "{path} cannot be read: {why}"
    hint: str | None = None
    code: str = "SKY-E303"
    indent: int | None = 1
    sort: bool = False

    def parse(self, text: bytes) -> T:
        """Return the content ``text`` of a file. Raises InvalidRecord if it does not fit the model."""
        try:
            found: T = _adapter(self.model).validate_json(text)
        except ValidationError as e:
            raise InvalidRecord(_first(e)) from e
        return found

    def read(self, path: Location) -> T | None:
        """Return what the file holds, None if there is no file. Raises InvalidRecord, and SkybandError SKY-E518 for a link."""
        try:
            return self.parse(read_regular_file(path))
        except FileNotFoundError:
            return None

    def known(self, path: Location) -> T | None:
        """Return what the file holds, None if there is no file, or none that can be read. Raises SkybandError SKY-E518 for a link."""
        try:
            return self.read(path)
        except InvalidRecord:
            return None

    def need(self, path: Location) -> T | None:
        """Return what the file holds, None if there is no file. Raises the kind's SkybandError if it cannot be read."""
        try:
            return self.read(path)
        except InvalidRecord as e:
            raise self.error(path, e) from e

    def error(self, path: Location, why: object) -> SkybandError:
        """Return the error about a file that cannot be used."""
        hint = None if self.hint is None else self.hint.format(path=path)
        return SkybandError(self.code, self.damaged.format(path=path, why=why), hint=hint)

    def write(self, path: Location, value: T) -> None:
        """Replace the file by ``value`` in one step; it is on disk when this returns. Its directory must exist. Raises OSError."""
        durable.replace(path, self.text(value))

    def text(self, value: T) -> str:
        """Return ``value`` as its file has it."""
        plain: Any = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        return json.dumps(plain, indent=self.indent, sort_keys=self.sort)


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def read_regular_file(path: Location) -> bytes:
    """Return the bytes of a regular file.

    Raises FileNotFoundError, SkybandError SKY-E518 for a link, InvalidRecord for all else in its place.
    """
    if is_object(path):
        return path.read_bytes()
    try:
        # Non-blocking, since a pipe would never answer.
        with os.fdopen(os.open(str(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InvalidRecord("it is a directory" if stat.S_ISDIR(found.st_mode) else "it is not a regular file")
            if found.st_size > MAX_BYTES:
                raise InvalidRecord(f"it has {counted(found.st_size, 'byte')}")
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as e:
        if path.is_symlink():
            raise unsupported_entry(path) from e
        raise InvalidRecord((e.strerror or str(e)).lower()) from e


def _first(e: ValidationError) -> str:
    """Return the first error of a validation, without the invalid value."""
    found: Any = e.errors(include_url=False, include_input=False, include_context=False)[0]
    at = ".".join(str(part) for part in found["loc"])
    return (f"{at}: {found['msg']}" if at else str(found["msg"]))[:200]


# The few fields of a job file that are read without the rest, also from files of other versions.


@dataclass(frozen=True, slots=True)
class _Shape:
    tokens: dict[str, Any] = field(default_factory=dict)
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


@dataclass(frozen=True, slots=True)
class JobFileHeader:
    """The header of a job file. ``header``: the columns of CSV files in the first run; ``escape``: the escape character for quotes.

    A job file from before RFC 4180 became the default does not state ``escape``: a backslash. ``fingerprint``: of it the sets of tokens.
    ``live``: the job's live queries.
    """

    generation: Name
    header: list[str] | None = None
    escape: str = "\\"
    fingerprint: _Shape = field(default_factory=_Shape)
    live: Live = NO_LIVE
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


_HEADER: Final = Record[JobFileHeader](JobFileHeader)


def read_job_file_header(home: Location) -> JobFileHeader | None:
    """Return the header of the job file in ``home`` (``_skyband``), or None if it is missing or invalid."""
    return _HEADER.known(home / "job.json")
