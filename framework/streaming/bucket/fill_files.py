"""Whole states of buckets in files: what a backfill is made from, and what it leaves for the job's next batch to take up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location
from skyband.framework.streaming.rows import blocks

FILLED: Final = "filled"
"""Name of the state value that says which filling a bucket has taken up last."""


def write_state(directory: Location, bucket: int, values: Mapping[str, bytes]) -> None:
    """Write the values of a bucket's state, by name, to a file of ``directory`` (which is made); they are on the disk when this returns."""
    directory.mkdir(parents=True, exist_ok=True)
    table = pa.table({"name": pa.array(values, pa.string()), "value": pa.array(values.values(), pa.large_binary())})
    durable.replace(directory / str(bucket), blocks.table_bytes(table))


def read_state(directory: Location, bucket: int) -> dict[str, bytes]:
    """Return what ``write_state`` wrote. Raises SkybandError SKY-E303 if it cannot be read."""
    try:
        table = blocks.bytes_table((directory / str(bucket)).read_bytes())
    except (OSError, pa.ArrowException) as e:
        hint = "restore the whole sink from one backup, or start again from the source with skyband rebuild SPEC"
        raise SkybandError("SKY-E303", f"{directory / str(bucket)} cannot be read: it is a part of the job's state", hint=hint) from e
    return dict(zip(table["name"].to_pylist(), table["value"].to_pylist(), strict=True))
