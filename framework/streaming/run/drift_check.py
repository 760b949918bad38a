"""Check the columns of a job's source: of unread files before the first batch, and of every file before its batch is committed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Warn
from skyband.framework.plan.model import Plan
from skyband.framework.sources import drift
from skyband.framework.sources.files.preflight import files
from skyband.framework.sources.logs import local_path, taken
from skyband.framework.sources.protocol import Columns
from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.run.source_files import SourceFiles

_LOOKED: Final = 100
"""Number of files to check before the first batch."""
_REPORTED: Final = 20
"""Number of drifts of one batch to report and record."""


class DriftCheck:
    """Compares the columns of files with those of the job. The constructor raises SkybandError SKY-E308 if unread files show a drift.

    ``warn`` is called for accepted drifts: harmless ones, and those that ``source.on_drift`` accepts. Later files are compared with them.
    """

    def __init__(self, plan: Plan, layout: Layout, job: JobFile, pieces: SourceFiles, warn: Warn) -> None:
        self.source = plan.source
        self.format = source_format(plan.source.format)
        self.layout = layout
        self.job = job
        self.pieces = pieces
        self.warn = warn
        self._found: list[str] = []
        self._accepted = self._recorded()
        table = self.format.table_columns(self.source)
        if table is not None:
            self._compare(table, str(self.source.path), ahead=False)
        elif self._accepted is not None and self.source.on_bad_file == "stop":  # otherwise unreadable files are set aside
            self._look(islice(self._unread(), _LOOKED), ahead=True)

    def before_commit(self, batch: int) -> list[str]:
        """Return the drifts of the files that ``batch`` has read. Raises SkybandError SKY-E308. O(its files)."""
        if not self.format.columns_by_position:  # Spark compares every header with the first one
            self._look((path for url in self.pieces.files(batch) if (path := local_path(url)) is not None), ahead=False)
        found, self._found = self._found, []
        return found[:_REPORTED] + ([f"and {len(found) - _REPORTED:,} more"] if len(found) > _REPORTED else [])

    def committed(self) -> None:
        """Record the columns of the committed batch durably: later files are compared with them."""
        kept = None if self._accepted is None else [[name, type_] for name, type_ in self._accepted.items()]
        if self.job.header is None and kept != self.job.columns:
            self.job.columns = kept
            self.layout.save(self.job)

    def _recorded(self) -> Columns | None:
        if self.source.parts:
            # What the headers of several sources have in common says nothing of any one's files.
            return None
        if self.job.header is not None:
            return dict.fromkeys(self.job.header, "")
        return None if self.job.columns is None else {name: type_ for name, type_ in self.job.columns}

    def _unread(self) -> Iterable[str]:
        known = {local_path(t.url) for t in taken(self.layout.checkpoint / "sources" / "0")}
        return (path for path in files(self.source) if str(Path(path).absolute()) not in known)

    def _look(self, paths: Iterable[str], ahead: bool) -> None:
        """Compare the columns of files. ``ahead``: only look for drifts that have to stop the run."""
        for path in paths:
            found = self.format.file_columns(self.source, path)
            if found is not None:
                self._compare(found, path, ahead)

    def _compare(self, found: Columns, where: str, ahead: bool) -> None:
        if self.format.columns_unnamed(found):
            hint = "write the file again with the names of its columns"
            said = f"the columns of {where} have numbers for names, so they cannot be matched"
            raise SkybandError("SKY-E308", said, hint=hint)
        if self._accepted is None:
            self._accepted = dict(found)
            return
        drifts = drift.compare(self.source, self._accepted, found)
        grave = [d for d in drifts if not d.harmless]
        by_position = self.format.columns_by_position
        if grave and (by_position or self.source.on_drift == "stop"):
            raise SkybandError(
                "SKY-E308", f"{where}: {'; '.join(d.said for d in grave)}, compared with the job's first files", hint=_hint(by_position)
            )
        if ahead:
            return
        name = Path(where).name
        for d in drifts:
            self._found.append(f"{name}: {d.said}")
            if len(self._found) <= _REPORTED:
                self.warn(f"{name}: {d.said}{'' if d.harmless else ', which the spec accepts (source.on_drift)'}")
        self._accepted = drift.updated(self._accepted, found)


def _hint(by_position: bool) -> str:
    if by_position:
        return "CSV files are read by the position of columns: give the file the header of the others, keep its name, and run again"
    return "fix the file under the same name and run again; source.on_drift: warn accepts it (missing values are null)"
