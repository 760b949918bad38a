"""Consistency check of a job's tables by their commits, the last row of ``runs`` and the checkpoint, so that no loss goes unnoticed.

``runs`` has a commit for every batch, which states the last batch with rows in each other table. A table that ends before that has lost
commits. A table that is past the checkpoint's last batch shows that the checkpoint is older. Derived tables are made from the changes: one
that is behind is updated as after every run, one that is missing or ahead is rebuilt.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import AGAIN, last_batch, unusable
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location, missing_files, require_local
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.delta.ownership import Owner, is_link, not_own
from skyband.framework.tables.schemas import batch_tables, derived_tables
from skyband.framework.tables.writing.published import PUBLISHED, broken_versions

Kind = Literal["derived", "checks", "truth", "stranger"]
"""What to do about a damaged table; ``stranger``: the table is not proven to be the job's."""
COMMITTED = "committed"
"""Column of ``runs``: JSON, table -> the last batch with rows in it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A table that lacks committed data: ``what`` says so in words. ``changed``: it can be read, but another writer has changed it."""

    table: str
    what: str
    kind: Kind
    changed: bool = False


@dataclass(slots=True)
class Found:
    """The contents of the tables. ``versions``: table -> its last batch (of derived tables: the batch up to which they are derived)."""

    planned: int
    done: int
    versions: dict[str, int] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    ahead: str | None = None

    @property
    def unfinished_committed(self) -> bool:
        """True if tables have rows of a batch that Spark has not marked done."""
        return self.planned > self.done and self.planned in self.versions.values()


def look(plan: Plan, layout: Layout, job: JobFile) -> Found:
    """Compare every table of the job with what was committed. O(data files). Safe beside a run: it reads in the order of writing."""
    done = last_batch(layout.checkpoint / "commits")
    # Without that of runs: the next one makes it where it is not.
    named = [t.name for t in batch_tables(plan)]
    derived = set(derived_tables(plan))
    found = Found(planned=-1, done=done)
    recorded, complete = _runs(layout, plan, job)
    # Before the tables: their versions only grow beside a run.
    owner = Owner(layout.root, (plan.job, job.generation))
    for name in sorted(named, key=lambda n: (n not in derived, n == "runs")):
        kind: Kind = "derived" if name in derived else "checks" if name in ("checks", PUBLISHED) else "truth"
        if is_link(layout.root / name):
            found.losses.append(Loss(name, "is a link", "stranger"))
            continue
        try:
            table = delta_read.open_table(layout.root, name)
            version = table.transaction_version(f"{plan.job}/{job.generation}/{name}")
            files_missing = _files_gone(layout.root / name, table)
        except (SkybandError, DeltaError, OSError, pa.ArrowException) as e:
            gone = not (layout.root / name / "_delta_log").is_dir()
            upto = f"; it had rows up to batch {recorded[name]}" if name in recorded else ""
            said = str(getattr(e, "message", e))[:200]
            found.losses.append(Loss(name, f"is gone{upto}" if gone else f"cannot be opened ({said}){upto}", kind))
            continue
        strange = owner.stranger(name, table)
        if strange is not None:
            found.losses.append(Loss(name, strange, "stranger"))
            continue
        if version is not None:
            found.versions[name] = int(version)
        # The batch that moves the state to other tasks has its row once it is done.
        must = done - (job.before is not None and job.before.moving is not None) if name == "runs" else recorded.get(name, -1)
        if found.versions.get(name, -1) < must:
            found.losses.append(Loss(name, f"has lost {_span(found.versions.get(name, -1) + 1, must)}", kind))
        elif (behind := owner.behind(name, table)) is not None:
            found.losses.append(Loss(name, behind, kind))
        elif (changed := owner.altered(name, table)) is not None:
            found.losses.append(Loss(name, changed, kind, changed=True))
        found.losses += [Loss(name, what, kind) for what in files_missing]
    if not any(x.table == PUBLISHED for x in found.losses):
        found.losses += [Loss(PUBLISHED, what, "checks") for what in broken_versions(layout.root)]
    found.planned = last_batch(layout.checkpoint / "offsets")
    late = [n for n, v in found.versions.items() if v > found.planned and n not in derived]
    if late:
        found.ahead = f"table {late[0]!r} has batch {found.versions[late[0]]}, the checkpoint ends with batch {found.planned}"
    last = max(complete, found.versions.get("runs", -1), done)
    found.losses += [
        Loss(n, f"is derived up to batch {found.versions[n]}, `runs` ends with batch {last}", "derived")
        for n in sorted(derived)
        if "runs" in found.versions and found.versions.get(n, -1) > last
    ]
    return found


def check(
    plan: Plan, layout: Layout, job: JobFile, rebuild: bool = False, coming: Collection[str] = (), found: Found | None = None
) -> Found:
    """Return the contents of the tables: ``found``, if they were checked since the job's lock was taken.

    Raise SkybandError SKY-E304 if one has lost data, SKY-E303 if the checkpoint is older than the tables, SKY-E205 if one is not
    proven to be the job's.

    ``rebuild``: the derived tables (and ``checks``, if it is damaged) are removed instead, to be rebuilt; with them ``published``, which
    names versions of theirs. ``coming``: tables of the plan that are not there yet.
    """
    found = found or look(plan, layout, job)
    found.losses = [x for x in found.losses if x.table not in coming]
    strange = next((x for x in found.losses if x.kind == "stranger"), None)
    if strange is not None:
        raise not_own(layout.root / strange.table, strange.what)
    if found.ahead is not None:
        raise unusable(layout.checkpoint, f"it is older than the tables: {found.ahead}")
    missed = [x for x in found.losses if not rebuild or x.kind == "truth"]
    if missed:
        raise SkybandError("SKY-E304", losses_text(missed), hint=advice(layout, missed))
    if rebuild:
        # Removing is not fenced: a paused process could remove tables that another run has made since.
        root = require_local(layout.root, "--rebuild-results")
        checks = {x.table for x in found.losses if x.kind == "checks"}
        derived = derived_tables(plan)
        again = [*derived, *sorted(checks | ({PUBLISHED} if derived else set()))]
        Owner(layout.root).claim(again)
        for name in again:
            _remove(root / name)
    return found


def losses_text(losses: list[Loss]) -> str:
    """Return the losses in one sentence."""
    own = "is not proven to be the job's: its directory "
    return "; ".join(f"table {x.table!r} {own if x.kind == 'stranger' else ''}{x.what}" for x in losses)


def advice(layout: Layout, losses: list[Loss]) -> str:
    """Return what to do about the losses."""
    kinds = {x.kind for x in losses}
    if kinds == {"derived"}:
        return "skyband run SPEC --rebuild-results rebuilds the tables of results from the changes"
    if "truth" not in kinds:
        emptied = " and ".join(f"`{n}`" for n in sorted({x.table for x in losses if x.kind == "checks"}))
        return f"skyband run SPEC --rebuild-results rebuilds the tables of results from the changes, and empties {emptied}"
    truth = ", ".join(dict.fromkeys(x.table for x in losses if x.kind == "truth"))
    back = "RESTORE it to the version that held the job's rows only. Or restore" if all(x.changed for x in losses) else "Restore"
    return f"{truth}: cannot be made again from the other tables. {back} the whole sink {layout.root} from one backup, or {AGAIN}"


def _runs(layout: Layout, plan: Plan, job: JobFile) -> tuple[dict[str, int], int]:
    """(table -> last batch, as the last row of ``runs`` says, that row's batch); nothing of ``runs`` that older versions wrote."""
    try:
        table = delta_read.open_table(layout.root, "runs")
        last = delta_read.transaction(table, f"{plan.job}/{job.generation}/runs")
        if last is None or COMMITTED not in pa.schema(table.schema().to_arrow()).names:
            return {}, -1 if last is None else int(last)
        rows = delta_read.read(table, [COMMITTED], pc.field("batch_id") == int(last))
    except (SkybandError, OSError, pa.ArrowException):
        # `runs` itself is looked at like every table.
        return {}, -1
    text: Any = rows[COMMITTED][0].as_py() if rows.num_rows else None
    try:
        return {name: whole(batch) for name, batch in mapping(text or "{}").items()}, int(last)
    except (ValueError, TypeError) as e:
        hint = f"restore the whole sink {layout.root} from one backup, or {AGAIN}"
        raise SkybandError(
            "SKY-E400", f"table 'runs' at {layout.root} cannot be read: column {COMMITTED} of its last row: {e}", hint
        ) from e


def _span(first: int, last: int) -> str:
    return f"batch {last}" if first == last else f"batches {first} to {last}"


def _files_gone(root: Location, table: DeltaTable) -> list[str]:
    paths = [unquote(p) for p in pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()]
    gone = missing_files(root, [p for p in paths if "://" not in p])
    return [f"has lost {len(gone)} of its {counted(len(paths), 'data file')} (first: {gone[0]})"] if gone else []


def _remove(directory: Path) -> None:
    if directory.is_symlink():
        raise SkybandError("SKY-E202", f"{directory} is a link: it is not removed", hint="remove it yourself, then run again")
    if directory.exists():
        shutil.rmtree(directory)
