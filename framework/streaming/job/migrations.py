"""Bring a job file of an earlier version into the present form, one version after the other. Does not import Spark.

A job file states its version; one that states none is of the first. What a run has to do before it can go on with a job of an earlier
version stays in the job file as ``Before``, and ``rebuild.takeover`` does it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.plain_json import mapping
from skyband.framework.storage.records import STRICT, TOLERANT, Count, Name, Record

VERSION: Final = 2
"""The version of job files that this version of Skyband writes."""


@dataclass(slots=True)
class Filling:
    """States of ``buckets`` in files of ``_skyband/filling``, which the batch with the row ``wake-<token>`` was to load."""

    token: Name
    buckets: list[Count]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


@dataclass(slots=True)
class Before:
    """Describes a job of version 1. ``state``: what keeps its state, files of the sink or Spark in the checkpoint.

    ``moving``: the number of tasks to which Spark was moving its state. ``resharding``: whether the state of shards had still to be made.
    """

    state: Literal["spark", "files"] = "spark"
    filling: Filling | None = None
    moving: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    resharding: bool = False
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


_BEFORE: Final = Record[Before](Before)
_SHARDS: Final = Record[list[int]](
    Annotated[list[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]], Field(min_length=2, max_length=2)]
)
"""[Shards of every bucket, tasks among which they were spread]."""
Fields = dict[str, Any]
"""Holds a job file as JSON."""


def _to_2(text: bytes) -> Fields:
    """States of buckets are files of the sink alone, no batch is made to load others, and shards are spread among no tasks of their own."""
    before = asdict(_BEFORE.parse(text))
    fields: Fields = {name: value for name, value in mapping(text.decode()).items() if name not in before}
    # Before RFC 4180 became the default, job files did not say it.
    fields.setdefault("escape", "\\")
    fields["shards"] = 1 if fields.get("shards") is None else _SHARDS.parse(json.dumps(fields["shards"]).encode())[0]
    nothing = before == asdict(Before(state="files"))
    return fields | {"version": 2, "before": None if nothing else before}


MIGRATIONS: Final[tuple[Callable[[bytes], Fields], ...]] = (_to_2,)
"""Makes each version of the one before it: the first makes version 2. Each raises InvalidRecord."""


def migrated(text: bytes, version: int) -> bytes:
    """Return a job file of ``version`` in the present form. Raises InvalidRecord if a field does not fit the version."""
    for migrate in MIGRATIONS[version - 1 :]:
        text = json.dumps(migrate(text)).encode()
    return text
