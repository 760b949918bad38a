"""Requests for live queries: files ``_skyband/queries/<number>.json`` that wait until the job takes them at a batch boundary.

A request is removed once the job file has it (``Live.taken``), or becomes ``<number>.refused.json`` with the reason. So a request whose
file is still there after a kill is known to be done by its number. Does not import Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict, TypeAdapter

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.location import Location
from skyband.framework.base.plain_json import number
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.plan.live import MOST, MOST_TEXT, LiveQuery, Start, need_name, need_size
from skyband.framework.storage import durable
from skyband.framework.storage.locations import is_object, require_local
from skyband.framework.storage.records import STRICT, InvalidRecord, Text, read_record
from skyband.framework.streaming.job.layout import Layout

_REFUSED: Final = ".refused.json"
_TRIES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Request:
    """``do`` something with query ``name``; ``text`` and ``start`` as ``LiveQuery`` has them. ``at``: when it was requested (ISO 8601).

    ``refused``: why the job could not do it, "" if it has not been refused. ``number``: that of its file.
    """

    do: Literal["add", "remove"]
    name: str
    at: str
    text: str = ""
    start: Start = "backfill"
    refused: Text = ""
    number: int = 0
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        """Check the sizes. Raises ValueError."""
        need_name(self.name)
        need_size(self.text, MOST_TEXT)
        if self.do == "add" and not self.refused:
            self.query  # noqa: B018 - raises

    @property
    def query(self) -> LiveQuery:
        """Return the live query that an ``add`` asks for."""
        return LiveQuery(self.name, self.text, self.start, self.at)


_MODEL: Final = TypeAdapter(Request)


def now() -> str:
    """Return the present instant as requests spell it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def put(layout: Layout, requests: list[Request], taken: int) -> list[int]:
    """Write requests, durably and in their order; return their numbers. ``taken``: see ``Live``. O(requests that wait)."""
    with raising_system_failures(layout.requests):
        _directory(layout).mkdir(exist_ok=True)
        numbers = []
        for request in requests:
            numbers.append(_put(layout, request, taken))
        durable.sync_directory(_directory(layout))
    return numbers


def _put(layout: Layout, request: Request, taken: int) -> int:
    for _ in range(_TRIES):
        mine = max([taken, *(n for n, _ in _files(layout))]) + 1
        path = _directory(layout) / f"{mine}.json"
        made, handle = durable.create_temporary(path)
        try:
            with open(handle, "wb") as out:
                out.write(json.dumps(asdict(replace(request, number=mine))).encode())
                out.flush()
                os.fsync(out.fileno())
            os.link(made, path)
        except FileExistsError:
            continue
        finally:
            os.unlink(made)
        # The job may have taken a request of this number, and removed its file, since ``taken`` was read.
        job = layout.load()
        taken = max(taken, job.live.taken if job is not None else 0)
        if mine > taken:
            return mine
    raise SkybandError("SKY-E591", f"too many requests at once in {layout.requests}", hint="try again")


def waiting(layout: Layout, taken: int) -> list[Request]:
    """Return the requests that wait, in their order; remove the files of those that the job has taken. O(files)."""
    found = []
    for mine, path in _files(layout):
        if path.name.endswith(_REFUSED):
            continue
        if mine <= taken or path.with_name(f"{mine}{_REFUSED}").exists():
            path.unlink(missing_ok=True)
        elif (request := _read(path)) is not None:
            found.append(request)
        if len(found) == MOST:
            break
    return found


def any_waiting(layout: Layout) -> bool:
    """Return True if a request may wait. Cheap: for a look between batches."""
    with suppress(OSError):
        return any(n.endswith(".json") and not n.endswith(_REFUSED) and not n.startswith(".") for n in _names(layout))
    return False


def peek(layout: Layout, taken: int) -> list[Request]:
    """Return the requests that wait and those that were refused, in their order. Changes nothing."""
    found = (_read(path, set_aside=False) for mine, path in _files(layout) if mine > taken or path.name.endswith(_REFUSED))
    return [request for request in found if request is not None]


def refuse(layout: Layout, request: Request, error: SkybandError) -> None:
    """Note that the job could not do it, and why."""
    why = replace(request, refused=f"{error.code} {error.message}"[:10_000], text="")
    with raising_system_failures(layout.requests):
        durable.replace(layout.requests / f"{request.number}{_REFUSED}", json.dumps(asdict(why)))
        (layout.requests / f"{request.number}.json").unlink(missing_ok=True)


def withdraw(layout: Layout, request: Request) -> None:
    """Remove a request, or the note that it was refused."""
    for end in (_REFUSED, ".json"):
        (layout.requests / f"{request.number}{end}").unlink(missing_ok=True)


def _files(layout: Layout) -> Iterator[tuple[int, Location]]:
    """Yield (number, path) of all requests, refused or not, by number."""
    named = ((number(n.removesuffix(".json").removesuffix(".refused")), n) for n in _names(layout) if n.endswith(".json"))
    yield from sorted((n, layout.requests / name) for n, name in named if n is not None)


def _names(layout: Layout) -> list[str]:
    """Return the names of the files of requests. None on object storage, where queries are neither added nor removed while a job runs."""
    if is_object(layout.requests) or not layout.requests.is_dir() or layout.requests.is_symlink():
        return []
    return [path.name for path in layout.requests.iterdir()]


def _directory(layout: Layout) -> Path:
    return require_local(layout.requests, "adding a query to a job")


def _read(path: Location, set_aside: bool = True) -> Request | None:
    """Return a request; one that is none is removed if ``set_aside``, as nothing could ever be done about it."""
    try:
        found = read_record(path, _MODEL)
    except (InvalidRecord, ValueError):
        if set_aside:
            path.unlink(missing_ok=True)
        return None
    return None if found is None else replace(found, number=number(path.name.split(".")[0]) or 0)
