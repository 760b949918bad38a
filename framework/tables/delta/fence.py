"""Fence off earlier lock holders: once a later holder has committed to a table, an earlier one cannot.

A sink on object storage is locked by lease. The number of its holder, the epoch (``storage.holders``), is part of every commit, as the
version of a Delta transaction of its own. A run that takes over a lock that was not released first commits its greater epoch to every
table. A commit is based on the snapshot whose epoch was checked, and Delta refuses it if a transaction of the same name was committed
since. So the check and the commit are one atomic step.
"""

from __future__ import annotations

from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from skyband.framework.storage.epochs import epoch_of, lease_lost
from skyband.framework.storage.location import Location
from skyband.framework.tables.delta import delta_read

FENCE: Final = "skyband/epoch"
"""The name of the transaction."""
_TRIES: Final = 100


def fence(root: Location, table: DeltaTable) -> list[Transaction]:
    """Return the transaction that a commit to this snapshot of ``table`` must contain; none if the sink has no lease.

    Raises SkybandError SKY-E631 if a later holder has committed to the table.
    """
    epoch = epoch_of(root)
    if epoch is None:
        return []
    if _epoch(table) > epoch:
        raise lease_lost(root)
    return [Transaction(FENCE, epoch)]


def overtaken(root: Location, name: str) -> bool:
    """Return True if a later holder has committed to the table, which is why a commit was refused."""
    epoch = epoch_of(root)
    return epoch is not None and _epoch(delta_read.open_table(root, name)) > epoch


def raise_fences(root: Location) -> None:
    """Prevent all earlier holders from committing to any table below ``root`` from now on. O(tables).

    Raises SkybandError SKY-E631 if a later holder has committed to one.
    """
    for directory in root.iterdir():
        if not directory.name.startswith("_") and delta_read.exists(root, directory.name):
            for _ in range(_TRIES):
                if _raised(root, directory.name):
                    break


def _raised(root: Location, name: str) -> bool:
    """Commit this process's epoch to the table; return False if another commit came first."""
    table = delta_read.open_table(root, name)
    mine = fence(root, table)
    partitions = table.metadata().partition_columns
    try:
        table.create_write_transaction(
            [], mode="append", schema=table.schema(), partition_by=partitions, commit_properties=CommitProperties(app_transactions=mine)
        )
    except CommitFailedError:
        return False
    return True


def _epoch(table: DeltaTable) -> int:
    found = table.transaction_version(FENCE)
    return -1 if found is None else int(found)
