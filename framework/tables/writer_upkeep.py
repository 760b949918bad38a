"""What both back ends know of a Delta table: its properties, its columns, how a partition is spelled, and how it stays readable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from skyband.framework.errors import SkybandError
from skyband.framework.tables.schemas import TableSpec

_COMPACT_FILES = 64
_STALE_FILES = 200
_TARGET_BYTES = 64 << 20
CHECKPOINT_INTERVAL = 25
"""Commits between two Delta checkpoints, so that opening a table never reads a long log."""


def properties(spec: TableSpec) -> dict[str, str]:
    """Delta table properties that every reader can live with.

    Files of rewritten tables may go after an hour: they pile up batch by batch. Floats get no statistics: an infinite score has no bound in
    JSON, and a file with one bound missing is misread by delta-rs' filters.
    """
    life = spec.life
    # Delta refuses booleans and binary here.
    plain = (pa.types.is_floating, pa.types.is_boolean, pa.types.is_binary)
    bounded = [f.name for f in spec.schema if not any(kind(f.type) for kind in plain) and f.name not in spec.partition_by]
    return {
        "delta.enableDeletionVectors": "false",
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        "delta.dataSkippingStatsColumns": ",".join(f"`{n}`" for n in bounded),
        "delta.logRetentionDuration": "interval 7 days" if life == "append" else "interval 1 day",
        "delta.deletedFileRetentionDuration": "interval 7 days" if life == "append" else "interval 1 hour",
    }


def partition_text(value: int | bool) -> str:
    """A partition value as the Delta protocol spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def missing_columns(spec: TableSpec, found: pa.Schema, partition_by: Sequence[str]) -> list[pa.Field]:
    """Columns of ``spec`` that a table lacks. SKY-E401 if a column has another type, or the partitioning differs."""
    hint = "the tables belong to another version of the spec: use a new sink path"
    if list(partition_by) != list(spec.partition_by):
        raise SkybandError(
            "SKY-E401", f"table {spec.name!r} is partitioned by {list(partition_by)}, not {list(spec.partition_by)}", hint=hint
        )
    kinds = {f.name: f.type for f in found}
    for f in spec.schema:
        if f.name in kinds and kinds[f.name] != f.type:
            raise SkybandError("SKY-E401", f"column {f.name!r} of table {spec.name!r} is {kinds[f.name]}, not {f.type}", hint=hint)
    return [f for f in spec.schema if f.name not in kinds]


def maintain(table: DeltaTable, spec: TableSpec, root: Path) -> None:
    """Merges small files of a table that grows; drops files no longer part of the table once their time is up."""
    alive = len(table.file_uris())
    if alive > _COMPACT_FILES and spec.partition_by != ("bucket",):
        table.optimize.compact(target_size=_TARGET_BYTES)
    if sum(1 for _ in root.rglob("*.parquet")) > 2 * alive + _STALE_FILES:
        hours = 1 if spec.life == "rewritten" else 168
        table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
