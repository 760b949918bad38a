"""Records of fixed rows that were put back: one per file, in ``_skyband/replayed/``, written before the file appears.

With it, and with the rows of ``rejected`` whose origin is that file, ``rejected`` can be reconciled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import ConfigDict

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.reasons import LATE
from skyband.framework.base.units import format_instant
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.records import STRICT, Count, Record, Text, Whole
from skyband.framework.streaming.job.layout import Layout

DIRECTORY: Final = "replayed"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of putting back a file of fixed rows.

    ``name``: that of the file in the source, which holds ``placed`` of its ``rows``; ``left_out``: reason -> rows that are not in it;
    ``late_by``: how long before the watermark the latest and the earliest of the late ones are, in microseconds. ``after_batch``: the
    last batch at that time; ``frontier``: the watermark then, in microseconds.
    """

    name: Text
    mended: Text
    sha256: Text
    rows: Count
    placed: Count
    left_out: dict[str, Count]
    late_by: tuple[Whole, Whole] | None
    filtered: Count
    after_batch: Whole
    frontier: Whole | None
    replayed_at: Text
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


RECORD: Final = Record[Replay](
    Replay, hint="restore it from a backup, or remove it: `rejected` then no longer tells which rows were put back"
)


def records(layout: Layout) -> list[Replay]:
    """Return the record of every file that was put back, oldest first. Raise SkybandError SKY-E303 for a record that cannot be read."""
    found = [record for path in (layout.home / DIRECTORY).glob("*.json") if (record := RECORD.need(path)) is not None]
    return sorted(found, key=lambda r: (r.replayed_at, r.name))


def directory_of(plan: Plan) -> Path:
    """The directory of the source. Raises SkybandError SKY-E201 if nothing can be put there: it is no directory of files of this
    machine."""
    source = plan.source
    local = None if source.path is None else local_path(source.path)
    hint = "write the fixed rows in the source's format; `skyband rejected SPEC --export FILE` writes them as they were received"
    if local is None or source_format(source.format).backlog(source, None, Path()) is None:
        raise SkybandError("SKY-E201", f"a {source.format} source is no directory of files that rows can be put back into", hint=hint)
    if not Path(local).is_dir() or any("=" in p.name and p.is_dir() for p in Path(local).iterdir() if not p.name.startswith((".", "_"))):
        raise SkybandError("SKY-E201", f"{local} is no plain directory of files: rows cannot be put back into it", hint=hint)
    return Path(local)


def said(found: Replay) -> Iterator[str]:
    """Return the result in words."""
    yield f"{found.placed:,} of {counted(found.rows, 'row')} of {found.mended} put back, as {found.name}: the next batch takes them"
    if found.filtered:
        yield f"{found.filtered:,} of them the spec's filters will drop"
    for reason, n in found.left_out.items():
        if reason == LATE and found.late_by is not None and found.frontier is not None:
            least, most = (timedelta(microseconds=m) for m in found.late_by)
            at = format_instant(found.frontier)
            yield f"left out: {counted(n, 'row')} that came too late, by {least} to {most} (the watermark is at {at})"
        else:
            yield f"left out: {counted(n, 'row')} that would be rejected again, reason {reason}"
