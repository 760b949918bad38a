"""What both back ends know of a Delta table: its properties, its columns, how a partition is spelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.tables.delta.data_files import bounded
from skyband.framework.tables.delta.ownership import PROPERTY
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.upkeep import CHECKPOINT_INTERVAL, MINUTES


def properties(spec: TableSpec, owner: str) -> dict[str, str]:
    """Delta table properties that every reader can live with, and the id of the job that ``owner``s the table (``ownership``).

    Replaced files and log go soon: they pile up batch by batch (``upkeep``). Floats get no statistics: an infinite score has no bound in
    JSON, and a file with one bound missing is misread by delta-rs' filters.
    """
    return {
        PROPERTY: owner,
        # Engines clean a log by its age alone: upkeep knows which versions must stay readable, and which files only the log names.
        "delta.enableExpiredLogCleanup": "false",
        "delta.enableDeletionVectors": "false",
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        "delta.dataSkippingStatsColumns": ",".join(f"`{n}`" for n in bounded(spec.schema, spec.partition_by)),
        "delta.logRetentionDuration": f"interval {MINUTES[spec.life]} minutes",
        "delta.deletedFileRetentionDuration": f"interval {MINUTES[spec.life]} minutes",
    }


def outdated(spec: TableSpec, owner: str, found: Mapping[str, str | None]) -> dict[str, str]:
    """The properties that a table made by an earlier version, or before a column was added, does not have yet."""
    return {name: value for name, value in properties(spec, owner).items() if found.get(name) != value}


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
