"""What the batches of a job read in this process: files of a directory, or files that a table gets. Each keeps Spark's own positions."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, Final, Protocol

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import number
from skyband.framework.sources.delta.added_files import MOST_BYTES, Added, AddedFiles, Position
from skyband.framework.sources.files.backlog import batch_bytes
from skyband.framework.sources.files.listing import listing, marked
from skyband.framework.sources.files.watch import FileWatch
from skyband.framework.sources.logs import Taken, file_url, last_batch, local_path, offset, offset_line, position_line, taken, unusable
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.location import Location
from skyband.framework.streaming.job.arrow_files import readable
from skyband.framework.streaming.local.logs import Logs
from skyband.framework.streaming.rows.arrow_intake import Readable
from skyband.framework.streaming.run.context import OpenedJob, OpenedSource

_NO_FILE: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
"""What the system says of a file that is gone by now, or of a link that leads nowhere."""
_RIGHTS: Final = "give the user of the job the right to read it, then run again: nothing that was committed is lost"


class Source(Protocol):
    """The source of a job, whose files batches take in an order. ``found`` is a list of what no batch has taken, of the source's own kind.

    ``reader`` reads the files, by their URLs.
    """

    reader: Readable

    def unread(self) -> list[Any]:
        """Return what no batch has taken. Raises SkybandError if the source cannot be looked at."""

    def take(self, found: list[Any], planned: int) -> str | None:
        """Remove from ``found`` what the batch after ``planned`` takes.

        Return the text of its offset, or None if there is nothing behind that of ``planned``.
        """

    def same(self, planned: int) -> str:
        """Return the text of the offset of a batch that takes nothing behind ``planned``."""

    def urls(self, batch: int) -> Sequence[str]:
        """Return the URLs of the files of a planned batch, in its order."""

    def origin(self, url: str) -> str:
        """Return the origin of the rows of a file."""


def source_of(opened: OpenedJob, source: OpenedSource, logs: Logs) -> Source:
    """Return the source of the job. Raises SkybandError SKY-E137 for a table that only Spark reads."""
    added = source_format(opened.plan.source.format).added_files(opened.plan.source)
    return FileSource(opened, source, logs) if added is None else TableSource(added, opened, logs.checkpoint)


class FileLog:
    """The log of the files that batches have taken of source ``source`` in the checkpoint of ``logs``. ``known``: their paths."""

    def __init__(self, logs: Logs, source: int) -> None:
        self._logs, self._source = logs, source
        log = logs.checkpoint / "sources" / str(source)
        numbers = (number(p.name.partition(".")[0]) for p in log.glob("[0-9]*"))
        self.known = {local_path(t.url) for t in taken(log)}
        # The last entry may name no file any more (``log_pruning``).
        self.last = max((n for n in numbers if n is not None), default=-1)

    def take(self, files: Sequence[Taken], planned: int) -> bool:
        """Write that the batch after ``planned`` takes ``files``, unless a run that ended has written others. Return whether it did."""
        # Numbers above those of the last batch: a run ended between both logs.
        if not files or self.last > offset(self._logs.checkpoint, planned, self._source):
            return False
        self.last = self._logs.take(self._source, files, self.last)
        self.known |= {local_path(t.url) for t in files}
        return True

    def has_more(self, planned: int) -> bool:
        """Return whether the log has entries that batch ``planned`` does not take."""
        return self.last > offset(self._logs.checkpoint, planned, self._source)


class FileSource:
    """See ``Source``: files of a directory, in the order of their times of modification."""

    def __init__(self, opened: OpenedJob, source: OpenedSource, logs: Logs) -> None:
        self._opened, self._files, self._log = opened, source.files, FileLog(logs, 0)
        self.reader: Readable = readable(opened.plan, opened.job)

    def unread(self) -> list[Taken]:
        """See ``Source.unread``."""
        found = listing(self._opened.plan.source, _not_listed)
        watch = self._files.watch
        assert isinstance(watch, FileWatch)
        aside = {local_path(u) for u in watch.ledger.aside}
        paths = [] if found is None else [p for p in found.files if p not in self._log.known and p not in aside]
        odd = {p for p in paths if marked(p)}
        if odd and self._opened.plan.source.on_bad_file == "stop":
            watch.require_readable_names(sorted(odd))
        # The start of the next run sets them aside, as Spark would read others by such a name.
        return stamped([p for p in paths if p not in odd])

    def take(self, found: list[Taken], planned: int) -> str | None:
        """See ``Source.take``."""
        files = self._cut(found)
        if self._log.take(files, planned):
            del found[: len(files)]
        return position_line(self._log.last) if self._log.has_more(planned) else None

    def same(self, planned: int) -> str:
        """See ``Source.same``."""
        return position_line(self._log.last)

    def urls(self, batch: int) -> Sequence[str]:
        """See ``Source.urls``."""
        return self._files.files(batch)

    def origin(self, url: str) -> str:
        """See ``Source.origin``: its name."""
        return url.rsplit("/", 1)[-1]

    def _cut(self, files: list[Taken]) -> list[Taken]:
        """Return the first of ``files``, as many as a batch takes, at least one. Those among them that are gone by now are removed."""
        source, at = self._opened.plan.source, 0
        most, left = source.max_files_per_batch, batch_bytes(source)
        while at < (len(files) if most is None else min(most, len(files))):
            try:
                left -= os.path.getsize(str(local_path(files[at].url)))
            except OSError:
                del files[at]
                continue
            if most is None and at and left < 0:
                break
            at += 1
        return files[:at]


class TableSource:
    """See ``Source``: files that a table gets, commit after commit."""

    def __init__(self, added: AddedFiles, opened: OpenedJob, checkpoint: Location) -> None:
        self._added, self._source, self._checkpoint = added, opened.plan.source, checkpoint
        self.reader: Readable = added.reader

    def unread(self) -> list[Added]:
        """See ``Source.unread``."""
        return self._added.after(self._position(last_batch(self._checkpoint / "offsets")))

    def take(self, found: list[Added], planned: int) -> str | None:
        """See ``Source.take``."""
        most = self._source.max_files_per_batch
        end = self._added.next(self._position(planned), found, most, MOST_BYTES if most else batch_bytes(self._source))
        return None if end is None else end.line()

    def same(self, planned: int) -> str:
        """See ``Source.same``."""
        position = self._position(planned)
        return "-" if position is None else position.line()

    def urls(self, batch: int) -> Sequence[str]:
        """See ``Source.urls``."""
        start, end = self._position(batch - 1), self._position(batch)
        return [] if end is None or start == end else self._added.between(start, end)

    def origin(self, url: str) -> str:
        """See ``Source.origin``: the table."""
        return self._added.origin

    def _position(self, batch: int) -> Position | None:
        line = offset_line(self._checkpoint, batch)
        try:
            return Position.of(line)
        except ValueError as e:
            raise unusable(self._checkpoint, f"offsets/{batch} has no position of a Delta table") from e


def stamped(paths: Sequence[str]) -> list[Taken]:
    """Return the files in the order of their times of modification; one that is gone by now is left out."""
    found = []
    for path in paths:
        try:
            found.append(Taken(file_url(path), os.stat(path).st_mtime_ns // 1_000_000, -1))
        except OSError as e:
            if e.errno not in _NO_FILE:
                raise SkybandError("SKY-E301", f"the file {path} cannot be read: {e.strerror}", hint=_RIGHTS) from e
    return sorted(found, key=lambda t: (t.modified_ms, t.url))


def _not_listed(e: OSError) -> None:
    """Raise SkybandError SKY-E301 for a directory of the source that is there and cannot be listed."""
    if e.errno not in _NO_FILE:
        raise SkybandError("SKY-E301", f"the directory {e.filename} cannot be read: {e.strerror}", hint=_RIGHTS) from e
