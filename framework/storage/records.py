"""Read the small JSON files that Skyband keeps in a sink. Each must fit its model, whoever wrote it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from skyband.framework.base.counts import counted
from skyband.framework.plan.live import NO_LIVE, Live
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


@cache
def ledger_model() -> TypeAdapter[LedgerFile]:
    """The model of ``files.json``."""
    return TypeAdapter(LedgerFile)


@cache
def backlog_model() -> TypeAdapter[BacklogFile]:
    """The model of ``drop.json``."""
    return TypeAdapter(BacklogFile)


class InvalidRecord(ValueError):
    """A file does not fit its model; the message says why, without the file's name."""


def read_record(path: Location, model: TypeAdapter[T]) -> T | None:
    """Return what the file holds, None if there is no file. Raises Unfit."""
    try:
        return parse_record(read_regular_file(path), model)
    except FileNotFoundError:
        return None


def parse_record(text: bytes, model: TypeAdapter[T]) -> T:
    """Return the content ``text`` of a file. Raises InvalidRecord if it does not fit its model."""
    try:
        return model.validate_json(text)
    except ValidationError as e:
        raise InvalidRecord(_first(e)) from e


def read_regular_file(path: Location) -> bytes:
    """Return the bytes of a regular file. Raises FileNotFoundError, SkybandError SKY-E518 for a link, Unfit for all else in its place."""
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


_KEPT: Final = TypeAdapter(JobFileHeader)


def read_job_file_header(home: Location) -> JobFileHeader | None:
    """Return the header of the job file in ``home`` (``_skyband``), or None if it is missing or invalid."""
    try:
        return read_record(home / "job.json", _KEPT)
    except InvalidRecord:
        return None
