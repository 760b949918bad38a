"""Generations of a job: a new one is built in ``_skyband/next``, a sink of its own, and swapped in when it is complete.

A swap moves directories, one after the other: each table of the old generation to ``_skyband/old``, the one of its name out of
``_skyband/next`` into its place, then what the generations keep in ``_skyband`` (checkpoint, ``job.json`` and so on) in the same way. What
has to be moved is written down first (``swap.json``): the next command that writes, holding the job's lock, goes on with the swap, from
wherever it ended. So there is the old generation whole, or the new one. Commands that show move nothing (``storage.sinks``).

The journal is data: it names one segment of a path each, of tables that a job file in the sink names or of parts of ``_skyband`` that are
known, and nothing is moved before all of it has been checked.

A checkpoint has absolute paths of itself in it, in Spark's log of the control source and in the description of the state: in these
``_skyband/next/_skyband/`` becomes ``_skyband/``, before the directories are moved.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from skyband.framework.base.errors import SkybandError, SpecErrors
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.base.table_names import JOB_RUNS, JOB_TABLES, every_table
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.log_pruning import pruned
from skyband.framework.sources.logs import AGAIN, local_path, source_numbers, taken
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location, is_object, require_local
from skyband.framework.storage.records import STRICT, TOLERANT, InvalidRecord, Name, Record
from skyband.framework.storage.sinks import HOME, SWAP_JOURNAL, entries_below, half_swapped, reject_links
from skyband.framework.streaming.job.checkpoint import CONTROL
from skyband.framework.streaming.job.consistency import check
from skyband.framework.streaming.job.layout import ADDED, NEXT, REQUESTS, RUNNING, Layout, check_sink_location, fitting_job
from skyband.framework.tables.delta.ownership import OWNER, Owner
from skyband.framework.tables.iceberg.exported import remove_exports

OLD: Final = "old"
"""Directory of ``_skyband`` with the generation of before the last swap, as a sink."""
BACK: Final = "back"
"""That directory while it is on its way back."""
GONE: Final = "gone"
"""Directory of ``_skyband`` for what an addition has taken the place of, until it is removed."""
STAYING: Final = frozenset(
    {"lock", "engine.lock", "logs", "replayed", "catalog.json", "alerts.json", "announced.json", OWNER, RUNNING, REQUESTS}
    | {NEXT, ADDED, OLD, BACK, GONE, SWAP_JOURNAL}
)
"""What in ``_skyband`` is the job's, whatever its generation."""
Moves = tuple[list[Name], list[Name]]
"""Names of tables, and of what is in ``_skyband``."""


@dataclass(frozen=True, slots=True)
class Journal:
    """A swap: ``leaving`` goes from the sink to ``away``, ``coming`` takes its place from ``source``; both are directories of ``_skyband``.

    Its names in the file are those of ``swap.json``.
    """

    source: Annotated[Literal["next", "added", "back"], Field(alias="from")]
    leaving: Annotated[Moves, Field(alias="out")]
    coming: Annotated[Moves, Field(alias="in")]
    away: Annotated[Literal["old", "gone"], Field(alias="to")] = "old"
    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def plain(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {"from": self.source, "out": self.leaving, "in": self.coming, "to": self.away}


@dataclass(frozen=True, slots=True)
class _Shape:
    queries: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


@dataclass(frozen=True, slots=True)
class _JobFields:
    """What is needed of a job file of whatever version."""

    job: str | None = None
    generation: str | None = None
    fingerprint: _Shape = field(default_factory=_Shape)
    __pydantic_config__: ClassVar[ConfigDict] = TOLERANT


_JOURNAL: Final = Record[Any](
    Journal,
    "{path} is no journal of a swap: {why}",
    f"if something else has put it there, remove {{path}}; if not, restore the whole sink from one backup, or {AGAIN}",
    indent=None,
)
_JOB_FIELDS: Final = Record[_JobFields](_JobFields)
_BUILT: Final = f"/_skyband/{NEXT}/_skyband/".encode()


def staged(plan: Plan, layout: Layout) -> Plan:
    """The plan of the generation that is built beside the present one: until it is swapped in, nobody is sent anything of it."""
    return replace(plan.unshared, sink=str(layout.next))


def job_of(home: Location) -> str | None:
    """Return the job to which the generation ``home`` (``_skyband``) belongs, None if that is unknown."""
    return _said(home).job


def own_sink(plan: Plan, layout: Layout, named: bool = True) -> None:
    """Check that the job may write into the sink. Raises SkybandError SKY-E518 for a link in it, SKY-E205 if it is not the job's.

    ``named``: see ``check_sink_location``.
    """
    reject_links(layout.root)
    check_sink_location(plan, layout, named)
    own_job(plan, layout)


def own_job(plan: Plan, layout: Layout) -> None:
    """Raises SkybandError SKY-E205 if the sink is another job's."""
    # A swap that was interrupted may have left no job file in its place.
    homes = [layout.home] if is_object(layout.home) else [layout.home, *(layout.home / part / HOME for part in (OLD, BACK, NEXT))]
    other = next((job for home in homes if (job := job_of(home)) is not None), None)
    if other is not None and other != plan.job:
        hint = "give the job a directory of its own in sink.path"
        raise SkybandError("SKY-E205", f"the sink {layout.root} is that of job {other!r}", hint=hint)


def generation_of(home: Location) -> str | None:
    """Return the name of the generation that ``home`` (``_skyband``) is of, None before its first run."""
    return _said(home).generation


def tables_in(root: Location, known: Iterable[str] = ()) -> list[str]:
    """Return the tables of the generation below ``root``, by its own job file: not those that someone else has put there.

    ``known``: names of the job's tables for where that file is lost.
    """
    return sorted(n for n in _named(root / HOME) | set(known) if (root / n / "_delta_log").is_dir())


def _named(home: Location) -> set[str]:
    """The names that tables of the generation of ``home`` may have, by its job file."""
    shape = _said(home).fingerprint
    names = {*JOB_TABLES, *(t for name in (*shape.queries, *shape.states) for t in every_table(name))}
    return {n for n in names if n.isidentifier() and n != HOME}


def _said(home: Location) -> _JobFields:
    """What the job file says, of whatever version; nothing if there is none that can be read."""
    return _JOB_FIELDS.known(home / "job.json") or _JobFields()


def bytes_in(directory: Location) -> int:
    """Return the bytes of all files below ``directory``, without links; 0 if it does not exist. Files removed meanwhile may count."""
    if is_object(directory):
        return sum(path.stat().st_size for path in directory.rglob("*"))
    size = 0
    for entry in entries_below(directory):
        with suppress(OSError):
            size += entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    return size


def gone_files(layout: Layout) -> tuple[int, int]:
    """(source files that the present generation has read and that are gone, all that it has read): their rows cannot be read again."""
    try:
        logs = [number for number in source_numbers(layout.checkpoint) if number != CONTROL]
        known = [local_path(t.url) for number in logs for t in taken(layout.checkpoint / "sources" / str(number))]
        before = sum(pruned(layout.checkpoint, number) for number in logs)
    except SkybandError:
        # A checkpoint that cannot be read is a reason to start again, not one against it.
        return 0, 0
    return before + sum(path is not None and not os.path.exists(path) for path in known), before + len(known)


def goes_on(plan: Plan, built: Layout) -> bool:
    """Return True if an interrupted rebuild can be continued: it has the same plan (``staged``) and is complete."""
    try:
        job = fitting_job(plan, built)
        if job is None or built.renewed(plan, job) != job:
            return False
        check(plan, built, job)
    except (SkybandError, SpecErrors):
        return False
    return True


def swap(layout: Layout, source: Literal["next", "back"] = NEXT) -> None:
    """Replace the present generation by the one in ``_skyband/<source>``, and move the present one to ``_skyband/old``.

    For a moment when the job's lock is held and no query runs. What was in ``old`` is removed first. Raises SkybandError SKY-E202 if
    something that is no table has a new table's name; then nothing has changed.
    """
    new = layout.home / source
    tables = tables_in(new)
    leaving = tables_in(layout.root, tables), _kept(layout.home)
    _move(layout, Journal(source, leaving, (tables, _kept(new / HOME))))


def swap_in(layout: Layout, tables: Sequence[str], leaving: Sequence[str]) -> None:
    """Puts ``tables`` of ``_skyband/added`` beside the job's, with the job file there; tables ``leaving`` are removed.

    As ``swap``, but the generation stays what it is: all that is not named is not touched.
    """
    # Tables of these names have other Delta ids from now on.
    Owner(layout.root).claim(leaving)
    going = [p.name for p in (layout.rest, layout.file) if p.exists()]
    _move(layout, Journal(ADDED, (list(leaving), going), (list(tables), [layout.file.name]), GONE))


def _move(layout: Layout, journal: Journal) -> None:
    """Write the journal, then move the directories."""
    home = _home(layout)
    owner = Owner(layout.root)
    for name in journal.leaving[0]:
        owner.need_own(name)
    for name in journal.coming[0]:
        if ((layout.root / name).exists() and name not in journal.leaving[0]) or (layout.root / name).is_symlink():
            raise SkybandError("SKY-E202", f"{layout.root / name} is in the way of a table", hint="move it, then run this again")
    with raising_system_failures(layout.home):
        _remove(home / journal.away)
        _JOURNAL.write(home / SWAP_JOURNAL, journal.plain())
        _carry_out(layout, journal)


def settle(layout: Layout) -> bool:
    """Complete an interrupted swap; return whether there was one. The caller holds the job's lock.

    Raises SkybandError SKY-E303 for a journal that no swap has written, SKY-E205 if it moves a table that is not the job's; in both cases
    nothing has been moved.
    """
    if not half_swapped(layout.root):
        home = _home(layout)
        if (home / BACK).exists() and not (home / OLD).exists():
            (home / BACK).rename(home / OLD)
        return False
    journal = _checked(layout)
    with raising_system_failures(layout.home):
        _carry_out(layout, journal)
    return True


def _checked(layout: Layout) -> Journal:
    """The journal in the sink, if a swap can have written it."""
    file = layout.home / SWAP_JOURNAL
    try:
        journal: Journal | None = _JOURNAL.read(file)
        if journal is None:
            raise InvalidRecord("it has gone")
        if (journal.source == ADDED) != (journal.away == GONE):
            raise InvalidRecord(f"no swap moves from {journal.source!r} to {journal.away!r}")
        new, old = layout.home / journal.source, layout.home / journal.away
        tables = _named(layout.home) | _named(new / HOME) | _named(old / HOME)
        for (here, there, away), leaving, coming in zip(_places(layout, journal), journal.leaving, journal.coming, strict=True):
            invalid = [n for n in (*leaving, *coming) if (n not in tables if here == layout.root else n in STAYING)]
            if invalid:
                raise InvalidRecord(f"{invalid[0]!r} is not a name that a swap moves")
            lost = [n for n in coming if not os.path.lexists(there / n) and not (os.path.lexists(here / n) and _left(n, leaving, away))]
            lost += [n for n in leaving if n not in coming and not os.path.lexists(here / n) and not os.path.lexists(away / n)]
            if lost:
                raise InvalidRecord(f"{lost[0]!r} is not there")
    except InvalidRecord as e:
        raise _JOURNAL.error(file, e) from e
    # The notes that prove it are moved after the last table.
    owner = Owner(layout.root)
    for name in journal.leaving[0]:
        if not os.path.lexists(_home(layout) / journal.away / name):
            owner.need_own(name)
    return journal


def _left(name: str, leaving: Sequence[str], away: Path) -> bool:
    """Whether what had the name before has been moved away, if anything had."""
    return name not in leaving or os.path.lexists(away / name)


def undo(layout: Layout) -> None:
    """Exchange the present generation and the one before the last swap; doing it twice restores the first state.

    As ``swap``. Raises SkybandError SKY-E402 if there is none.
    """
    if generation_of(layout.home / OLD / "_skyband") is None:
        raise SkybandError("SKY-E402", "there is no earlier generation to go back to", hint="rebuild keeps one, until it is dropped")
    with raising_system_failures(layout.home):
        (_home(layout) / OLD).rename(_home(layout) / BACK)
    swap(layout, BACK)


def drop(layout: Layout, name: str) -> int:
    """Remove the generation in ``_skyband/<name>``; return its size in bytes, 0 if there was none."""
    directory = _home(layout) / name
    size = bytes_in(directory)
    _remove(directory)
    return size


def clear(layout: Layout, tables: Sequence[str]) -> None:
    """Remove all generations with ``tables``, those of the present one, and the table of runs. The caller holds the job's lock.

    What else is in the sink stays, as do the two lock files. Killed, it is done again: the job file goes last.
    """
    owner = Owner(layout.root)
    owner.claim(tables)
    # Only the id of the job, which goes below, proves which files are the job's.
    remove_exports(layout.root)
    for name in [*tables, *([] if owner.stranger(JOB_RUNS) else [JOB_RUNS])]:
        _remove(_home(layout).parent / name)
    for path in sorted(_home(layout).iterdir(), key=lambda p: (p == layout.file, p)):
        failpoint("reset.step")
        if path.name not in ("lock", "engine.lock"):
            _remove(path)


def _remove(path: Path) -> None:
    """Removes a file, a link or a whole directory, if it is there. Raises SkybandError SKY-E203 if that is not allowed."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be removed: {e.strerror}", hint="see its rights, then run this again") from e


def _kept(home: Location) -> list[str]:
    """What of a directory ``_skyband`` belongs to a generation. The job file is the last: it says that there is one."""
    found = [path.name for path in home.iterdir()] if home.is_dir() else []
    names = [n for n in found if n not in STAYING and not n.startswith(".") and n.isprintable()]
    return sorted(names, key=lambda n: (n == "job.json", n))


def _places(layout: Layout, journal: Journal) -> tuple[tuple[Path, Path, Path], ...]:
    """(where it is, where what comes is, where what leaves goes) of tables, and of what is in ``_skyband``."""
    home = _home(layout)
    new, old = home / journal.source, home / journal.away
    return (home.parent, new, old), (home, new / HOME, old / HOME)


def _home(layout: Layout) -> Path:
    """Return the directory ``_skyband``, of a sink in which generations can be moved. Raises SkybandError SKY-E632 on object storage."""
    return require_local(layout.home, "moving generations of a job")


def _carry_out(layout: Layout, journal: Journal) -> None:
    """Do all remaining steps of the journal."""
    home = _home(layout)
    new, old = home / journal.source, home / journal.away
    if journal.source == NEXT:
        _relocate(new / HOME / "checkpoint")
    for (here, there, away), leaving, coming in zip(_places(layout, journal), journal.leaving, journal.coming, strict=True):
        away.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys([*leaving, *coming]):
            failpoint("swap.step")
            # Nothing else recreates these directories, so their existence shows which steps are done.
            if name in leaving and not (away / name).exists():
                (here / name).rename(away / name)
                failpoint("swap.between")
            if name in coming and (there / name).exists():
                (there / name).rename(here / name)
    for directory in (home.parent, home, old):
        durable.sync_directory(directory)
    failpoint("swap.moved")
    shutil.rmtree(new, ignore_errors=True)
    (home / SWAP_JOURNAL).unlink()
    shutil.rmtree(home / GONE, ignore_errors=True)


def _relocate(checkpoint: Location) -> None:
    """Rewrite the paths in a checkpoint to its future directory. Doing it twice changes nothing."""
    for path in _with_paths(checkpoint):
        said = path.read_bytes()
        if _BUILT in said:
            # Spark would compare the file with the checksum of its former content.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            durable.replace(path, said.replace(_BUILT, b"/_skyband/"))


def _with_paths(checkpoint: Location) -> Iterator[Location]:
    """Return the files of a checkpoint that may contain its own path."""
    for directory in (checkpoint / "sources" / str(CONTROL), *checkpoint.glob("state/*/_metadata")):
        yield from (p for p in directory.rglob("*") if p.is_file() and not p.name.startswith("."))
