"""The few fields of a job file that are read without the rest, also from files of other versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pydantic import ConfigDict, TypeAdapter

from skyband.framework.plan.live import NO_LIVE, Live
from skyband.framework.storage.location import Location
from skyband.framework.storage.records import TOLERANT, InvalidRecord, Name, read_record


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
