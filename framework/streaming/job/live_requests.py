"""Requests for live queries: files ``_skyband/queries/<number>.json`` that wait until the job takes them at a batch boundary.

A request is removed once the job file has it (``Live.taken``), or becomes ``<number>.refused.json`` with the reason. So a request whose
file is still there after a kill is known to be done by its number. Whatever else is in the directory is left alone, and decides nothing:
names that no request has, files that cannot be read, directories. Does not import Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar

from pydantic import ConfigDict

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.plan.live import MOST, MOST_TEXT, LiveQuery, Start, need_name, need_size
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, is_object, require_local
from skyband.framework.storage.records import STRICT, Record, Text
from skyband.framework.streaming.job.layout import Layout

_REFUSED: Final = ".refused.json"
_TRIES: Final = 1_000
_NAME: Final = re.compile(r"([1-9][0-9]{0,18})(\.refused)?\.json")
AHEAD: Final = 1_000_000
"""How far above the last number that the job has taken a request may be: a forged file cannot use up the numbers."""


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


_REQUEST: Final = Record[Request](Request, indent=None)
T = TypeVar("T", bound=Location)


def now() -> str:
    """Return the present instant as requests spell it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def put(layout: Layout, requests: list[Request], taken: int) -> list[int]:
    """Write requests, durably and in their order; return their numbers. ``taken``: see ``Live``. O(requests that wait).

    Raises SkybandError SKY-E203 if the directory cannot be written, SKY-E591 if the job would not read what is written.
    """
    with _named_errors(layout, "written"):
        directory = require_local(layout.requests, "adding a query to a job")
        directory.mkdir(exist_ok=True)
        numbers = []
        for request in requests:
            numbers.append(_put(layout, directory, request, taken))
        durable.sync_directory(directory)
    return numbers


def _put(layout: Layout, directory: Path, request: Request, taken: int) -> int:
    for _ in range(_TRIES):
        last = max([taken, *(r.number for r in _requests(layout, taken))])
        mine = next(n for n in count(last + 1) if not any(os.path.lexists(p) for p in (directory / f"{n}.json", _note(directory, n))))
        if mine > taken + AHEAD:
            hint = "let the job run, which takes the requests that wait; if no request has that number, remove the file"
            raise SkybandError("SKY-E591", f"{layout.requests} has request {last}, and the last that the job has taken is {taken}", hint)
        path = directory / f"{mine}.json"
        made, handle = durable.create_temporary(path)
        try:
            with open(handle, "wb") as out:
                out.write(_REQUEST.text(replace(request, number=mine)).encode())
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
    for request in _requests(layout, taken):
        if request.number <= taken or _read(_note(layout.requests, request.number)) is not None:
            (layout.requests / f"{request.number}.json").unlink(missing_ok=True)
        else:
            found.append(request)
        if len(found) == MOST:
            break
    return found


def any_waiting(layout: Layout) -> bool:
    """Return True if a request may wait. Cheap: for a look between batches."""
    with suppress(SkybandError):
        return any(not refused for _, refused in _files(layout))
    return False


def peek(layout: Layout, taken: int) -> list[Request]:
    """Return the requests that wait and those that were refused, in their order. Changes nothing."""
    noted = [r for number, refused in _files(layout) if refused and (r := _read(_note(layout.requests, number))) is not None]
    done = {r.number for r in noted}
    wait = [r for r in _requests(layout, taken) if r.number > taken and r.number not in done]
    return sorted([*noted, *wait], key=lambda r: r.number)


def refuse(layout: Layout, request: Request, error: SkybandError) -> None:
    """Note that the job could not do it, and why. Raises SkybandError SKY-E203 if that cannot be written."""
    why = replace(request, refused=f"{error.code} {error.message}"[:10_000], text="")
    with _named_errors(layout, "written"):
        _REQUEST.write(_note(layout.requests, request.number), why)
        (layout.requests / f"{request.number}.json").unlink(missing_ok=True)


def withdraw(layout: Layout, request: Request) -> None:
    """Remove a request, or the note that it was refused."""
    for path in (_note(layout.requests, request.number), layout.requests / f"{request.number}.json"):
        if _read(path) is not None:
            path.unlink(missing_ok=True)


def _requests(layout: Layout, taken: int) -> Iterator[Request]:
    """Yield the requests, refused ones without their notes, by number. A number that is no request's yields nothing."""
    for number, refused in _files(layout):
        if not refused and number <= taken + AHEAD and (request := _read(layout.requests / f"{number}.json")) is not None:
            yield request


def _files(layout: Layout) -> list[tuple[int, bool]]:
    """Return (number, whether it is the note of a refusal) of all files with the name of a request, by number.

    None on object storage, where queries are neither added nor removed while a job runs.
    """
    with _named_errors(layout, "read"):
        if is_object(layout.requests) or not layout.requests.is_dir() or layout.requests.is_symlink():
            return []
        found = (_NAME.fullmatch(path.name) for path in layout.requests.iterdir())
        return sorted((int(m[1]), m[2] is not None) for m in found if m is not None)


def _note(directory: T, number: int) -> T:
    """Return the file that says why request ``number`` was refused."""
    return directory / f"{number}{_REFUSED}"


def _read(path: Location) -> Request | None:
    """Return the request, or the note of a refusal, None if the file is none of the kind that its name says."""
    try:
        found = _REQUEST.read(path)
    except ValueError:
        return None
    if found is None or bool(found.refused) != path.name.endswith(_REFUSED):
        return None
    return replace(found, number=int(path.name.partition(".")[0]))


@contextmanager
def _named_errors(layout: Layout, what: str) -> Iterator[None]:
    """Raise errors of the operating system inside as SkybandError SKY-E203, or SKY-E306."""
    try:
        with raising_system_failures(layout.requests):
            yield
    except OSError as e:
        hint = "check the directory and its permissions; what is in the place of a request can be removed"
        why = (e.strerror or str(e)).lower()
        raise SkybandError("SKY-E203", f"{e.filename2 or e.filename or layout.requests} cannot be {what}: {why}", hint) from e
