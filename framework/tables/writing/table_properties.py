"""Delta properties, missing columns and partition values, for both writers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.tables.delta.data_files import bounded
from skyband.framework.tables.delta.ownership import PROPERTY
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.upkeep import CHECKPOINT_INTERVAL, MINUTES

FEED: Final = "delta.enableChangeDataFeed"


def properties(spec: TableSpec, owner: str) -> dict[str, str]:
    """Return the Delta properties of a table, with the id of the job that owns it, ``owner`` (``ownership``).

    Every reader supports them. Replaced files and the log expire soon, since every batch adds to them (``upkeep``). Floats get no
    statistics: JSON cannot hold an infinite bound, and the filters of delta-rs misread a file that lacks a bound.
    """
    return {
        PROPERTY: owner,
        **({FEED: "true"} if spec.feed else {}),
        # Other engines clean a log by age alone. Upkeep knows which versions must stay readable, and which files only the log names.
        "delta.enableExpiredLogCleanup": "false",
        "delta.enableDeletionVectors": "false",
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        "delta.dataSkippingStatsColumns": ",".join(f"`{n}`" for n in bounded(spec.schema, spec.partition_by)),
        "delta.logRetentionDuration": f"interval {MINUTES[spec.life]} minutes",
        "delta.deletedFileRetentionDuration": f"interval {MINUTES[spec.life]} minutes",
    }


def outdated(spec: TableSpec, owner: str, found: Mapping[str, str | None]) -> dict[str, str]:
    """Return the properties that a table lacks which an earlier version created, or which got a column or another spec since."""
    no_feed = {FEED: "false"} if not spec.feed and found.get(FEED) == "true" else {}
    return {name: value for name, value in (properties(spec, owner) | no_feed).items() if found.get(name) != value}


def partition_text(value: int | bool) -> str:
    """Return a partition value as the Delta protocol spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def missing_columns(spec: TableSpec, found: pa.Schema, partition_by: Sequence[str]) -> list[pa.Field]:
    """Return the columns of ``spec`` that a table lacks. SKY-E401 if a column has another type, or the partitioning differs."""
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
