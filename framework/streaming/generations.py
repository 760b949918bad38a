"""Generations of a job: a new one is built in ``_skyband/next``, a sink of its own, and swapped in when it is complete.

A swap moves folders, one after the other: each table of the old generation to ``_skyband/old``, the one of its name out of
``_skyband/next`` into its place, then what the generations keep in ``_skyband`` (checkpoint, ``job.json`` and so on) in the same way. What
has to be moved is written down first (``swap.json``): whoever finds that file goes on with the swap, from wherever it ended. So there is
the old generation whole, or the new one.

A checkpoint has absolute paths of itself in it, in the engine's log of the control source and in the description of the state: in these
``_skyband/next/_skyband/`` becomes ``_skyband/``, before the folders are moved.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from skyband.framework import durable
from skyband.framework.errors import SkybandError, SpecErrors
from skyband.framework.failpoints import failpoint
from skyband.framework.machine import told
from skyband.framework.plan.model import Plan
from skyband.framework.sources.forgetting import forgotten
from skyband.framework.sources.logs import local_path, taken
from skyband.framework.spec.names import JOB_RUNS, JOB_TABLES, TRAJECTORY, query_tables
from skyband.framework.streaming.checkpoint import CONTROL
from skyband.framework.streaming.intact import check
from skyband.framework.streaming.layout import ADDED, NEXT, RUNNING, Layout, fitting_job

OLD: Final = "old"
"""Folder of ``_skyband`` with the generation of before the last swap, as a sink."""
BACK: Final = "back"
"""That folder while it is on its way back."""
GONE: Final = "gone"
"""Folder of ``_skyband`` for what an addition has taken the place of, until it is removed."""
JOURNAL: Final = "swap.json"
STAYING: Final = frozenset({"lock", "engine.lock", "logs", "replayed", RUNNING, NEXT, ADDED, OLD, BACK, GONE, JOURNAL})
"""What in ``_skyband`` is the job's, whatever its generation."""
_BUILT: Final = f"/_skyband/{NEXT}/_skyband/".encode()


def staged(plan: Plan, layout: Layout) -> Plan:
    """The plan of the generation that is built beside the present one: until it is swapped in, nobody is sent anything of it."""
    return replace(plan, sink=str(layout.next), kafka=None)


def job_of(home: Path) -> str | None:
    """The job whose generation ``home`` (``_skyband``) is of, None if that cannot be told."""
    name = _said(home).get("job")
    return name if isinstance(name, str) else None


def own_job(plan: Plan, layout: Layout) -> None:
    """Raises SkybandError SKY-E205 if the sink is another job's."""
    other = job_of(layout.home)
    if other is not None and other != plan.job:
        hint = "give the job a folder of its own in sink.path"
        raise SkybandError("SKY-E205", f"the sink {layout.root} is that of job {other!r}", hint=hint)


def generation_of(home: Path) -> str | None:
    """The name of the generation that ``home`` (``_skyband``) is of, None before its first run."""
    name = _said(home).get("generation")
    return name if isinstance(name, str) else None


def tables_in(root: Path, known: Iterable[str] = ()) -> list[str]:
    """Names of the tables of the generation below ``root``, by its own job file: not those that someone else has put there.

    ``known``: names of the job's tables for where that file is lost.
    """
    names = {*JOB_TABLES, *known}
    for query in _said(root / "_skyband").get("fingerprint", {}).get("queries", {}):
        names |= {*query_tables(query), query + TRAJECTORY}
    return sorted(n for n in names if (root / n / "_delta_log").is_dir())


def _said(home: Path) -> dict[str, Any]:
    """The job file as it is, of whatever version; empty if there is none that can be read."""
    try:
        said = json.loads((home / "job.json").read_text())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def bytes_in(folder: Path) -> int:
    """Bytes of all files below ``folder``, links aside; 0 if it is not there. A file that goes meanwhile counts, or not."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_size if path.is_file() and not path.is_symlink() else 0
    return size


def gone_files(layout: Layout) -> tuple[int, int]:
    """(source files that the present generation has read and that are gone, all that it has read): their rows cannot be read again."""
    try:
        known = [local_path(t.url) for t in taken(layout.checkpoint / "sources" / "0")]
        before = forgotten(layout.checkpoint)
    except SkybandError:
        # A checkpoint that cannot be read is a reason to start again, not one against it.
        return 0, 0
    return before + sum(path is not None and not os.path.exists(path) for path in known), before + len(known)


def goes_on(plan: Plan, built: Layout) -> bool:
    """Whether a rebuild that was interrupted can be gone on with: by the very plan ``plan`` (``staged``), and nothing of it is lost."""
    try:
        job = fitting_job(plan, built)
        if job is None or built.renewed(plan, job) != job:
            return False
        check(plan, built, job)
    except (SkybandError, SpecErrors):
        return False
    return True


def swap(layout: Layout, source: str = NEXT) -> None:
    """Puts the generation in ``_skyband/<source>`` into the place of the present one, which is then in ``_skyband/old``.

    For a moment when the job's lock is held and no query runs. What was in ``old`` is removed first. Raises SkybandError SKY-E202 if
    something that is no table has a new table's name; then nothing has changed.
    """
    new = layout.home / source
    tables = tables_in(new)
    out = [tables_in(layout.root, tables), _kept(layout.home)]
    _move(layout, {"from": source, "to": OLD, "out": out, "in": [tables, _kept(new / "_skyband")]})


def swap_in(layout: Layout, tables: Sequence[str], leaving: Sequence[str]) -> None:
    """Puts ``tables`` of ``_skyband/added`` beside the job's, with the job file and the states there; tables ``leaving`` are removed.

    As ``swap``, but the generation stays what it is: all that is not named is not touched.
    """
    home = layout.added / "_skyband"
    coming = [name for name in (layout.filling.name, layout.file.name) if (home / name).exists()]
    going = [p.name for p in (layout.filling, layout.rest, layout.file) if p.exists()]
    _move(layout, {"from": ADDED, "to": GONE, "out": [list(leaving), going], "in": [list(tables), coming]})


def _move(layout: Layout, journal: dict[str, Any]) -> None:
    """Writes down what is to be moved, and moves it."""
    leaving, _ = journal["out"]
    for name in journal["in"][0]:
        if ((layout.root / name).exists() and name not in leaving) or (layout.root / name).is_symlink():
            raise SkybandError("SKY-E202", f"{layout.root / name} is in the way of a table", hint="move it, then run this again")
    with told(layout.home):
        _remove(layout.home / journal["to"])
        durable.replace(layout.home / JOURNAL, json.dumps(journal))
        _carry_out(layout)


def settle(layout: Layout) -> bool:
    """Completes a swap that was interrupted; whether there was one. For a moment when the job's lock is held."""
    if not (layout.home / JOURNAL).exists():
        if (layout.home / BACK).exists() and not (layout.home / OLD).exists():
            (layout.home / BACK).rename(layout.home / OLD)
        return False
    with told(layout.home):
        _carry_out(layout)
    return True


def undo(layout: Layout) -> None:
    """Puts the generation of before the last swap back, and the present one into its place: once more is as before.

    As ``swap``. Raises SkybandError SKY-E402 if there is none.
    """
    if generation_of(layout.home / OLD / "_skyband") is None:
        raise SkybandError("SKY-E402", "there is no earlier generation to go back to", hint="rebuild keeps one, until it is dropped")
    with told(layout.home):
        (layout.home / OLD).rename(layout.home / BACK)
    swap(layout, BACK)


def drop(layout: Layout, name: str) -> int:
    """Removes the generation in ``_skyband/<name>``; the bytes that it had, 0 if there was none."""
    folder = layout.home / name
    size = bytes_in(folder)
    _remove(folder)
    return size


def clear(layout: Layout, tables: Sequence[str]) -> None:
    """Removes all generations with ``tables``, those of the present one, and the table of runs. For who holds the job's lock.

    What else is in the sink stays, as do the two lock files. Killed, it is done again: the job file goes last.
    """
    for name in [*tables, JOB_RUNS]:
        _remove(layout.root / name)
    for path in sorted(layout.home.iterdir(), key=lambda p: (p == layout.file, p)):
        failpoint("reset.step")
        if path.name not in ("lock", "engine.lock"):
            _remove(path)


def _remove(path: Path) -> None:
    """Removes a file, a link or a whole folder, if it is there. Raises SkybandError SKY-E203 if that is not allowed."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be removed: {e.strerror}", hint="see its rights, then run this again") from e


def _kept(home: Path) -> list[str]:
    """What of a folder ``_skyband`` belongs to a generation. The job file is the last: it says that there is one."""
    names = [p.name for p in home.iterdir() if p.name not in STAYING and not p.name.startswith(".")] if home.is_dir() else []
    return sorted(names, key=lambda n: (n == "job.json", n))


def _carry_out(layout: Layout) -> None:
    """All steps of the journal that have not been done yet."""
    journal = json.loads((layout.home / JOURNAL).read_text())
    new, old = layout.home / journal["from"], layout.home / journal.get("to", OLD)
    places = ((layout.root, new, old), (layout.home, new / "_skyband", old / "_skyband"))
    if journal["from"] == NEXT:
        _relocate(new / "_skyband" / "checkpoint")
    for (here, there, away), leaving, coming in zip(places, journal["out"], journal["in"], strict=True):
        away.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys([*leaving, *coming]):
            failpoint("swap.step")
            # Nothing else ever makes the one, or the other again: what is done can be told from what is there.
            if name in leaving and not (away / name).exists():
                (here / name).rename(away / name)
                failpoint("swap.between")
            if name in coming and (there / name).exists():
                (there / name).rename(here / name)
    for folder in (layout.root, layout.home, old):
        durable.sync(folder)
    failpoint("swap.moved")
    shutil.rmtree(new, ignore_errors=True)
    (layout.home / JOURNAL).unlink()
    shutil.rmtree(layout.home / GONE, ignore_errors=True)


def _relocate(checkpoint: Path) -> None:
    """Makes the paths in a checkpoint those of where it will be. Done twice it changes nothing."""
    for path in _with_paths(checkpoint):
        said = path.read_bytes()
        if _BUILT in said:
            # The engine would hold the file against the sum of its former content.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            durable.replace(path, said.replace(_BUILT, b"/_skyband/"))


def _with_paths(checkpoint: Path) -> Iterator[Path]:
    """The files of a checkpoint that may have paths of itself in them."""
    for folder in (checkpoint / "sources" / str(CONTROL), *checkpoint.glob("state/*/_metadata")):
        yield from (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
