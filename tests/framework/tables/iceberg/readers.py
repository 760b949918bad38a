"""Read exported tables with pyiceberg, as a reader that knows nothing of Delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.table import StaticTable

from skyband.framework.plan.model import Plan
from skyband.framework.storage.delta_read import open_table, read
from skyband.framework.tables.iceberg.exported import exported_tables


def opened(root: Path, table: str, **settings: str) -> StaticTable:
    """Open what the version hint points to."""
    directory = root / "_iceberg" / table / "metadata"
    number = (directory / "version-hint.text").read_text()
    return StaticTable.from_metadata(f"{directory}/v{number}.metadata.json", properties=settings)


def rows(root: Path, table: str, **settings: str) -> list[str]:
    return sorted(map(repr, opened(root, table, **settings).scan().to_arrow().to_pylist()))


def delta_rows(root: Path, table: str, version: int | None = None) -> list[str]:
    found = open_table(root, table)
    if version is not None:
        found.load_as_version(version)
    return sorted(map(repr, read(found).to_pylist()))


def published(root: Path) -> dict[str, int]:
    return {r["table_name"]: r["version"] for r in read(open_table(root, "published")).to_pylist()}


def check_all(plan: Plan, root: Path, tables: int) -> dict[str, int]:
    """All ``tables`` exported tables have the rows of the published version, or the newest one; return their numbers of rows."""
    versions, counts = published(root), {}
    for name in exported_tables(root):
        found = rows(root, name)
        assert found == delta_rows(root, name, versions.get(name)), name
        snapshot = opened(root, name).current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        if name in versions:
            assert snapshot.summary["skyband.delta-version"] == str(versions[name])
        assert snapshot.summary["total-records"] == str(len(found))
        counts[name] = len(found)
    assert len(counts) == tables, sorted(counts)
    return counts


def files(root: Path, table: str) -> dict[str, Any]:
    """The metadata files of a table, with their contents."""
    directory = root / "_iceberg" / table / "metadata"
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in directory.iterdir()} if directory.is_dir() else {}
