"""Source files watched over: none of an unfinished batch may vanish or change unnoticed, and one that cannot be read is set aside."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.bad_files import named_in, plain, suspects
from skyband.framework.sources.files.ledger import Ledger, SetAside
from skyband.framework.sources.files.listing import PATTERN, listing, marked
from skyband.framework.sources.logs import (
    AGAIN,
    Taken,
    file_url,
    files_log_damage,
    forget_plan,
    last_batch,
    local_path,
    offset,
    taken,
    unusable,
)
from skyband.framework.sources.text.line_limit import too_large
from skyband.framework.storage.location import Location, without_scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Probe = Callable[["SparkSession", str], "str | None"]
"""Reads one file (a URL) in full with Spark: why it cannot be read, or None."""


class FileWatch:
    """The files of one job's source. ``home`` is the directory ``_skyband`` of its sink."""

    def __init__(self, source: SourceNode, home: Location, columns: Sequence[str] | None, probe: Probe) -> None:
        self.source = source
        self.checkpoint = home / "checkpoint"
        self.log = self.checkpoint / "sources" / str(source.number)
        self.columns = columns
        self.probe = probe
        self.ledger = Ledger.load(home, source.number)

    def at_start(self, committed: bool) -> list[str]:
        """Return warnings about files that changed after they were read.

        ``committed``: tables have rows of the unfinished batch already. Raises SkybandError SKY-E303 if the log of files is damaged,
        SKY-E301 if a file of the unfinished batch is gone, or has changed although ``committed``. O(files taken).
        """
        planned, done = (last_batch(self.checkpoint / log) for log in ("offsets", "commits"))
        damage = files_log_damage(self.log, self._offset(planned))
        if damage is not None:
            raise unusable(self.checkpoint, damage)
        upto = self._offset(done)
        files = [t for t in taken(self.log) if t.url not in self.ledger.aside]
        unfinished = [t for t in files if t.number > upto]
        again = not committed and any(self._is_pattern(t.url) for t in unfinished)
        if not again or self.source.on_bad_file == "stop":
            self._no_patterns([t.url for t in unfinished if _modified(t.url) is not None])
        if again:
            # The file was renamed as the hint says, or will be set aside: plan the batch again.
            forget_plan(self.checkpoint, planned if planned > done else None, upto, self.source.number)
            files, unfinished = [t for t in files if t.number <= upto], []
        patterns = self._patterns_aside(planned + (planned == done or committed), {local_path(t.url) for t in files})
        self._all_there(unfinished)
        if committed:
            self._unchanged(unfinished)
        changed = [t for t in files if t.number <= upto and self._changed(t)]
        if not changed:
            return patterns
        said = f"{_counted(changed)} changed after the rows were read, which stay as they were (first: {_name(changed[0].url)})"
        return [*patterns, said]

    def before_batch(self, batch: int) -> None:
        """See ``Watch.before_batch``. O(files; of packed ones, their bytes)."""
        local = {t.url: path for t in self._of(batch) if (path := local_path(t.url)) is not None}
        found = {url: why for url, path in local.items() if (why := too_large(self.source, path)) is not None}
        if not found:
            return
        if self.source.on_bad_file == "stop":
            url, why = next(iter(found.items()))
            hint = "fix it under the same name, raise source.max_line, or set source.on_bad_file: reject (then it goes to table rejected)"
            raise SkybandError("SKY-E301", f"the file {local[url]} cannot be read: {why}", hint=hint)
        # Like Spark's error about files, by which `set_aside` finds them.
        raise RuntimeError("".join(f"while reading file {url}. " for url in found))

    def before_commit(self, batch: int) -> list[str]:
        """The same of the files of ``batch``, which has just run and is not in the tables yet. O(its files)."""
        mine = self._of(batch)
        self._all_there(mine)
        self._no_patterns([t.url for t in mine])
        changed = {t.url: ms for t in mine if self._changed(t) and (ms := _modified(t.url)) is not None}
        if not changed:
            return []
        self.ledger.read_as |= changed
        self.ledger.save()
        first = next(iter(changed))
        return [f"{_counted(changed)} changed between being found and batch {batch}: their present content counts (first: {_name(first)})"]

    def files(self, batch: int) -> list[str]:
        """See ``Watch.files``. O(its files)."""
        return [t.url for t in self._of(batch)]

    def require_readable_names(self, paths: Iterable[str]) -> None:
        """Raise SkybandError SKY-E301 if Spark takes the name of one of these files for a pattern."""
        self._no_patterns([file_url(path) for path in paths])

    def require(self, urls: Iterable[str]) -> None:
        """Raise SkybandError SKY-E301 if one of these files of an unfinished batch is gone."""
        self._all_there([Taken(url, 0, -1) for url in urls])

    def _of(self, batch: int) -> list[Taken]:
        upto, after = self._offset(batch), self._offset(batch - 1)
        if upto <= after:
            return []
        return [t for t in taken(self.log, after) if t.number <= upto and t.url not in self.ledger.aside]

    def left_out(self) -> list[str]:
        """URLs of the files that batches not done yet do without."""
        done = last_batch(self.checkpoint / "commits")
        return [u for u, a in self.ledger.aside.items() if a.batch > done]

    def rejected(self, batch: int) -> list[tuple[str, str]]:
        """(name, JSON with what is known of it) of the files that ``batch`` does without, by URL."""
        aside = sorted((u, a) for u, a in self.ledger.aside.items() if a.batch == batch)
        return [(_name(u), json.dumps({"file": self._below(u), "bytes": a.bytes, "problem": a.said})) for u, a in aside]

    def set_aside(self, spark: SparkSession, said: str, batch: int) -> list[str]:
        """Set aside, durably, the files of ``batch`` for which Spark failed with ``said``; return warnings that name them.

        Spark names one file; others that look bad are tried too, one by one, so that mostly one new start is enough. Empty: it was
        no file's fault (or reading it works now). Raises SkybandError SKY-E301 if a file is gone or this user may not read it.
        """
        upto, after = self._offset(batch), self._offset(batch - 1)
        mine = {t.url: t for t in taken(self.log, after) if t.number <= upto and t.url not in self.ledger.aside}
        named = [u for u in mine if plain(u) in {plain(n) for n in named_in(said)}]
        if not named:
            return []
        self._all_there(list(mine.values()))
        local = {u: p for u in mine if (p := local_path(u)) is not None}
        for url in named:
            if url in local and not os.access(local[url], os.R_OK):
                raise SkybandError("SKY-E301", f"the file {local[url]} may not be read", hint="give the job's user the right to read it")
        tried = [*named, *(u for u in suspects(self.source, self.columns, local) if u not in named)]
        return self.leave_out({url: why for url in tried if (why := self._unreadable(spark, url, local.get(url))) is not None}, batch)

    def leave_out(self, found: Mapping[str, str], batch: int) -> list[str]:
        """Set aside, durably, files of ``batch``: URL -> why each cannot be read. Return warnings that name them."""
        for url, why in found.items():
            path = local_path(url)
            self.ledger.aside[url] = SetAside(batch, -1 if path is None else _size(path), why)
        if found:
            failpoint("aside.before")
            self.ledger.save()
            failpoint("aside.after")
        return [f"file {_name(u)} cannot be read and is set aside, see table `rejected`: {why}" for u, why in found.items()]

    def _unreadable(self, spark: SparkSession, url: str, path: str | None) -> str | None:
        """Return why a file cannot be read, by reading all of it unless it is too large; None if it can."""
        return (None if path is None else too_large(self.source, path)) or self.probe(spark, url)

    def _patterns_aside(self, batch: int, known: set[str | None]) -> list[str]:
        """Sets aside the files that Spark would take for patterns, in ``batch``: warnings that name them. ``known``: those taken. O(files).

        Raises SkybandError SKY-E301 if files are not to be set aside, or if a directory has such a name, which Spark finds all the same.
        """
        found = listing(self.source)
        paths = [f for f in found.files if marked(f) and f not in known] if found is not None else []
        if self.source.on_bad_file == "stop" or any(marked(os.path.dirname(f)) for f in paths):
            self._no_patterns([file_url(f) for f in paths])
        new = [f for f in paths if file_url(f) not in self.ledger.aside]
        for f in new:
            marks = " ".join(sorted(set(PATTERN) & set(os.path.basename(f))))
            said = f"Spark takes its name for a pattern: rename it, without {marks}"
            self.ledger.aside[file_url(f)] = SetAside(batch, _size(f), said)
        if new:
            self.ledger.save()
        return [f"file {os.path.basename(f)} is set aside, see table `rejected`: {self.ledger.aside[file_url(f)].said}" for f in new]

    def _offset(self, batch: int) -> int:
        return offset(self.checkpoint, batch, self.source.number)

    def _is_pattern(self, url: str) -> bool:
        return (path := local_path(url)) is not None and marked(path)

    def _no_patterns(self, urls: Sequence[str]) -> None:
        named = [u for u in urls if self._is_pattern(u)]
        if named:
            raise SkybandError(
                "SKY-E301",
                f"Spark takes the name of {_counted(named)} for a pattern and would read others twice, first: {local_path(named[0])}",
                hint=f"rename it, without any of {' '.join(PATTERN)}, and run again; or set source.on_bad_file: reject",
            )

    def _all_there(self, files: Sequence[Taken]) -> None:
        gone = [t for t in files if (path := local_path(t.url)) is not None and not os.path.exists(path)]
        if gone:
            raise SkybandError(
                "SKY-E301",
                f"{_counted(gone)} of an unfinished batch {'is' if len(gone) == 1 else 'are'} gone, first: {local_path(gone[0].url)}",
                hint="put every file back, unchanged, and run again: its rows are not in the tables yet. Keep source files until "
                "the batch that took them is done",
            )

    def _unchanged(self, files: Sequence[Taken]) -> None:
        changed = [t for t in files if self._changed(t)]
        if changed:
            first = changed[0]
            before = datetime.fromtimestamp(self._expected(first) / 1000, UTC).isoformat(timespec="milliseconds")
            raise SkybandError(
                "SKY-E301",
                f"{_counted(changed)} of an unfinished batch changed after a part of the batch was written, first: "
                f"{local_path(first.url)} (was of {before})",
                hint="put it back as it was, its time of modification too (cp -p), and run again: the batch has to be repeated with the "
                f"same rows. Or {AGAIN}",
            )

    def _expected(self, t: Taken) -> int:
        return self.ledger.read_as.get(t.url, t.modified_ms)

    def _changed(self, t: Taken) -> bool:
        now = _modified(t.url)
        return now is not None and now != self._expected(t)

    def _below(self, url: str) -> str:
        """The file's path below the source's directory, or its name."""
        path, root = local_path(url), os.path.abspath(without_scheme(str(self.source.path)))
        return os.path.relpath(path, root) if path is not None and path.startswith(root + os.sep) else _name(url)


def _modified(url: str) -> int | None:
    """When a local file was last modified, in ms as Spark counts; None if it is gone or elsewhere."""
    path = local_path(url)
    try:
        return None if path is None else os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return None


def _size(path: str) -> int:
    """Return the bytes of a file, -1 if it is gone or a link that leads nowhere."""
    try:
        return os.path.getsize(path)
    except OSError:
        return -1


def _name(url: str) -> str:
    """A file's name as column origin has it: the last part of its URL, as it is spelled there."""
    return url.rsplit("/", 1)[-1]


def _counted(files: Sized) -> str:
    return counted(len(files), "source file")
