"""Writing Delta tables exactly once: one interface, two back ends.

Every commit carries a Delta ``txn`` (app id, version); a commit whose version is not above the table's last one for that app id is skipped.
Each operation is one Delta commit, so it is there whole or not at all. One process writes a job's tables at a time (the runner's lock).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.errors import SkybandError
from skyband.framework.tables.schemas import TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


class Writer(Protocol):
    """Tables below one folder, by name. Methods that write return False if the commit was there already. Raise SkybandError SKY-E4xx."""

    def ensure(self, spec: TableSpec) -> None:
        """Makes the table if it is not there; adds columns it lacks. SKY-E401 if what is there does not fit."""
        ...

    def append(self, table: str, data: pa.Table, app_id: str, version: int) -> bool:
        """Adds rows."""
        ...

    def overwrite(self, table: str, data: pa.Table, app_id: str, version: int) -> bool:
        """Replaces all rows."""
        ...

    def overwrite_partitions(
        self, table: str, data: pa.Table, column: str, values: Sequence[int | bool], app_id: str, version: int
    ) -> bool:
        """Removes the partitions whose ``column`` (the one partition column) is in ``values`` and adds ``data``, which may also have rows

        of other partitions: those are added to what is there.
        """
        ...

    def version(self, table: str, app_id: str) -> int | None:
        """The last version committed under ``app_id``, or None."""
        ...

    def read(self, table: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Rows of the table's newest state. ``where`` prunes files by partition values and statistics before it filters rows."""
        ...

    def maintain(self, spec: TableSpec) -> None:
        """Keeps the table readable after thousands of small commits: merges small files, drops files nobody needs. Off the hot path."""
        ...


def writer_for(path: str, spark: SparkSession | None = None) -> Writer:
    """The back end for tables below ``path``: the driver for a local folder, Spark for any other file system.

    ``SKYBAND_WRITER=driver|spark`` overrides. Raises SkybandError SKY-E401 if Spark is needed and there is no session.
    """
    local = path.removeprefix("file://")
    choice = os.environ.get("SKYBAND_WRITER") or ("driver" if "://" not in local else "spark")
    if choice == "spark":
        if spark is None:
            raise SkybandError("SKY-E401", f"tables at {path} can only be written with a Spark session")
        from skyband.framework.tables.spark_writer import SparkWriter

        return SparkWriter(path, spark)
    from skyband.framework.tables.driver_writer import DriverWriter

    return DriverWriter(Path(local).absolute())
