"""The columns of a job's source during one run: looked at before the first batch, and of every file before its batch is committed."""

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
"""Files that are looked at before the first batch."""
_TOLD: Final = 20
"""DriftCheck of one batch that are told and kept."""


class DriftCheck:
    """Raises SkybandError SKY-E308 when it is made, if what lies there shows already that the source is not what it was.

    ``warn`` is told of what is accepted: harmless, or as ``source.on_drift`` says. What is accepted becomes what is compared with.
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
        elif self._accepted is not None and self.source.on_bad_file == "stop":  # else what Spark cannot read is set aside
            self._look(islice(self._unread(), _LOOKED), ahead=True)

    def before_commit(self, batch: int) -> list[str]:
        """What is not as it was with the columns of the files that ``batch`` has read. Raises SkybandError SKY-E308. O(its files)."""
        if not self.format.columns_by_position:  # Spark holds every header against the first one
            self._look((path for url in self.pieces.files(batch) if (path := local_path(url)) is not None), ahead=False)
        found, self._found = self._found, []
        return found[:_TOLD] + ([f"and {len(found) - _TOLD:,} more"] if len(found) > _TOLD else [])

    def committed(self) -> None:
        """What the batch has brought is what is compared with from now on, durably."""
        kept = None if self._accepted is None else [[name, type_] for name, type_ in self._accepted.items()]
        if self.job.header is None and kept != self.job.columns:
            self.job.columns = kept
            self.layout.save(self.job)

    def _recorded(self) -> Columns | None:
        if self.job.header is not None:
            return dict.fromkeys(self.job.header, "")
        return None if self.job.columns is None else {name: type_ for name, type_ in self.job.columns}

    def _unread(self) -> Iterable[str]:
        known = {local_path(t.url) for t in taken(self.layout.checkpoint / "sources" / "0")}
        return (path for path in files(self.source) if str(Path(path).absolute()) not in known)

    def _look(self, paths: Iterable[str], ahead: bool) -> None:
        """``ahead``: only what has to stop the run is of interest."""
        for path in paths:
            found = self.format.file_columns(self.source, path)
            if found is not None:
                self._compare(found, path, ahead)

    def _compare(self, found: Columns, where: str, ahead: bool) -> None:
        if self.format.columns_unnamed(found):
            hint = "write the file anew with the names of its columns"
            said = f"the columns of {where} have numbers for names: which is which cannot be told"
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
            if len(self._found) <= _TOLD:
                self.warn(f"{name}: {d.said}{'' if d.harmless else ', which the spec accepts (source.on_drift)'}")
        self._accepted = drift.updated(self._accepted, found)


def _hint(by_position: bool) -> str:
    if by_position:
        return "CSV files are read by the place of a column: give it the header of the others under the same name, then run again"
    return "mend the file under the same name and run again; source.on_drift: warn accepts it (what is missing is null)"
