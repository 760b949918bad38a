"""Commits of a run whose lock may be taken over: none of an earlier holder's comes after the first sign of a later one.

A sink on object storage is locked by lease. Its holder's number, the epoch (``storage.holders``), is part of every commit, as the version
of a Delta transaction of its own. A run that takes over a lock that was not given back first commits its greater epoch to every table. A
commit is made onto the snapshot whose epoch was looked at, and Delta refuses one for which a transaction of the same name has come since:
looking and committing are one step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from skyband.framework.storage.epochs import epoch_of, lease_lost
from skyband.framework.tables.delta import delta_read

FENCE: Final = "skyband/epoch"
"""The transaction's name."""
_TRIES: Final = 100


def fence(root: Path, table: DeltaTable) -> list[Transaction]:
    """What a commit onto ``table`` as it is now has to say besides; nothing if the sink has no lease.

    Raises SkybandError SKY-E631 if a later holder has been there.
    """
    epoch = epoch_of(root)
    if epoch is None:
        return []
    if _epoch(table) > epoch:
        raise lease_lost(root)
    return [Transaction(FENCE, epoch)]


def overtaken(root: Path, name: str) -> bool:
    """Whether a later holder has been at the table: then why a commit was refused."""
    epoch = epoch_of(root)
    return epoch is not None and _epoch(delta_read.open_table(root, name)) > epoch


def raise_fences(root: Path) -> None:
    """No holder before this process's commits to any table below ``root`` from now on. O(tables).

    Raises SkybandError SKY-E631 if a later one has been there.
    """
    for directory in root.iterdir():
        if not directory.name.startswith("_") and delta_read.exists(root, directory.name):
            for _ in range(_TRIES):
                if _raised(root, directory.name):
                    break


def _raised(root: Path, name: str) -> bool:
    """Whether the table has this process's epoch; if not, a commit of another's came between."""
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
