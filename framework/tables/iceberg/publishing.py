"""After results are published: export them for Iceberg readers if the job wants that. A failed export is a warning, never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import one_line
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location, location
from skyband.framework.tables.delta.ownership import Owner
from skyband.framework.tables.iceberg.exported import HOME, Exports, exported_tables, remove_exports
from skyband.framework.tables.schemas import batch_tables
from skyband.framework.tables.writing.published import PUBLISHED


def export_published(plan: Plan, lines: Lines) -> None:
    """Make the published versions, and the newest ones of the other tables, what Iceberg readers see. Tables that are that already stay.

    Without ``sink.iceberg`` it removes an export of the job, which readers would take for current. Reports tables that cannot be exported
    as one warning; the next call tries again.
    """
    root = location(plan.sink)
    if not plan.iceberg and not (root / HOME).is_dir():
        return
    failures: list[tuple[str, BaseException]] = []
    try:
        failures = _exported(plan, root) if plan.iceberg else _removed(root, exported_tables(root))
    except Exception as e:
        failures = [("", e)]
    if failures:
        name, error = failures[0]
        more = "" if len(failures) == 1 else f", and {counted(len(failures) - 1, 'more table')}"
        which = f"table {name!r}{more}" if name else "the results"
        said = error.message if isinstance(error, SkybandError) else one_line(error)[:300]
        what = "be exported for Iceberg readers, who see the export before" if plan.iceberg else "be withdrawn from Iceberg readers"
        text = f"{which} could not {what}: {said}; the next run tries again"
        lines.tell("warning", "warning", f"WARNING: {text}")


def _exported(plan: Plan, root: Location) -> list[tuple[str, BaseException]]:
    """Export all tables; return those that could not be, with the error."""
    # Needs an optional library.
    from skyband.framework.tables.iceberg.export import TableExport

    owner = Owner(root).made_id()
    failures: list[tuple[str, BaseException]] = []
    targets = dict(_targets(plan, root))
    for name, version in targets.items():
        try:
            TableExport(root, name, version, plan.job, owner).run()
        except BaseException as e:
            # A panic of delta-rs is not an ``Exception``.
            if not isinstance(e, Exception) and type(e).__name__ != "PanicException":
                raise
            failures.append((name, e))
    others = [t for t in exported_tables(root) if t not in targets]
    return failures + _removed(root, others, lambda name: _is_stale(root, name, owner))


def _removed(root: Location, names: Iterable[str], wanted: Callable[[str], bool] = lambda _: True) -> list[tuple[str, BaseException]]:
    """Remove the exports of the tables ``names`` that are ``wanted``; return those that could not be, with the error."""
    failures: list[tuple[str, BaseException]] = []
    for name in names:
        try:
            if wanted(name):
                remove_exports(root, [name])
        except Exception as e:
            failures.append((name, e))
    return failures


def _is_stale(root: Location, name: str, owner: str) -> bool:
    """Return True if the exported table is gone: the plan has it no more, or it was made again, so that its files are elsewhere."""
    newest = Exports(root, name, owner).newest()
    if not newest or not delta_read.exists(root, name):
        return True
    return str(delta_read.open_table(root, name).metadata().id) != newest[0].delta_id


def _targets(plan: Plan, root: Location) -> Iterator[tuple[str, int | None]]:
    """Yield the tables to export, with the published version, or None for the newest one of tables of which none is published."""
    rows = delta_read.read(delta_read.open_table(root, PUBLISHED), ["table_name", "version"]).to_pylist()
    versions = {r["table_name"]: int(r["version"]) for r in rows}
    for spec in batch_tables(plan):
        if spec.name in versions or not (spec.published or spec.name == PUBLISHED):
            yield spec.name, versions.get(spec.name)
