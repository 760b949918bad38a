"""Table ``published``: which version of each table of results passed the checks.

A published version stays readable until the next one is published, and for ``GRACE`` after that, whatever upkeep does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.storage import delta_read
from skyband.framework.storage.location import Location, missing_files
from skyband.framework.storage.settings import store_options
from skyband.framework.tables.delta.expected_columns import need_columns
from skyband.framework.tables.schemas import fixed_schema, result_tables
from skyband.framework.tables.writing.writer import Writer

PUBLISHED: Final = "published"
GRACE: Final = timedelta(minutes=30)
"""How long a published version stays readable after the next one is published.

Replaced files of a table of results, and the earlier versions of this table, stay longer (``upkeep.MINUTES``).
"""


def publish(plan: Plan, writer: Writer, app_id: str, batch_id: int) -> bool:
    """Publish the newest versions, which hold the results up to ``batch_id``; return False if that batch is published already."""
    last = writer.version(PUBLISHED, app_id)
    if last is not None and last >= batch_id:
        return False
    now = datetime.now(UTC)
    rows = [{"table_name": t, "version": writer.opened(t).version(), "published_at": now} for t in result_tables(plan)]
    return writer.overwrite(PUBLISHED, pa.Table.from_pylist(rows, fixed_schema("published")), app_id, batch_id)


def withdraw(writer: Writer, tables: Collection[str], app_id: str, number: int) -> None:
    """Publish no version of ``tables``, which are about to go or to be others, any more. Done once for a ``number`` of ``app_id``."""
    rows = writer.read(PUBLISHED)
    kept = rows.filter(pc.invert(pc.is_in(rows["table_name"], pa.array(tables, pa.string()))))
    if kept.num_rows < rows.num_rows:
        writer.overwrite(PUBLISHED, kept.select(fixed_schema(PUBLISHED).names).cast(fixed_schema(PUBLISHED)), app_id, number)


def readable_versions(root: Location, table: str) -> list[int]:
    """Return the versions of ``table`` that must stay readable: the published one, and the one that was published ``GRACE`` ago.

    Versions published in between stay readable anyway: their files were replaced later, so they have not been removed yet.
    """
    try:
        now = delta_read.open_table(root, PUBLISHED)
        earlier = delta_read.open_table(root, PUBLISHED)
    except SkybandError:
        return []
    try:
        earlier.load_as_version(datetime.now(UTC) - GRACE)
    except DeltaError:
        # The instant is before the first commit that the log still has.
        earlier = now
    found = {v for t in (now, earlier) for name, v in _versions(t) if name == table}
    return sorted(v for v in found if unreadable(root, table, v) is None)


def broken_versions(root: Location) -> Iterator[str]:
    """Yield what is wrong with the published versions, in words. Raises SkybandError SKY-E400 if the table itself is unreadable."""
    for name, version in _versions(delta_read.open_table(root, PUBLISHED)):
        why = unreadable(root, name, version)
        if why is not None:
            yield f"names version {version} of {name!r}, which {why}"


def unreadable(root: Location, table: str, version: int) -> str | None:
    """Return why a version of a table cannot be read, None if it can. O(its files)."""
    try:
        path = str(root / table)
        opened = DeltaTable(path, version=version, storage_options=store_options(path))
        paths = [unquote(p) for p in pa.table(opened.get_add_actions(flatten=True))["path"].to_pylist()]
    except (DeltaError, OSError, ValueError, OverflowError) as e:
        return f"cannot be opened ({str(e)[:200]})"
    gone = missing_files(root / table, [p for p in paths if "://" not in p])
    return f"has lost {len(gone)} of its {counted(len(paths), 'data file')}" if gone else None


def _versions(published: DeltaTable) -> list[tuple[str, int]]:
    need_columns(published, PUBLISHED, fixed_schema("published"), ["table_name", "version"])
    rows = delta_read.read(published, ["table_name", "version"])
    return list(zip(rows["table_name"].to_pylist(), rows["version"].to_pylist(), strict=True))
