"""Read the commits of a Delta log one by one: which files they name, and which of them another writer made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from skyband.framework.storage import delta_read
from skyband.framework.storage.epochs import epoch_of, lease_lost
from skyband.framework.storage.location import Location, is_object

MARK: Final = "skyband"
"""The key of ``commitInfo`` for the job's id. It marks commits of Skyband that change rows without the transaction of a batch."""
_AT_ONCE: Final = 8
_NAME: Final = re.compile(r"(\d{20})\.json")

Action = Mapping[str, Any]


def named(log: Location, files: Iterable[str]) -> set[str]:
    """Return the decoded paths of the data files that the commits ``files`` add or remove. O(bytes of the commits)."""
    paths = set()
    for actions in _each(log, list(files)):
        for action in actions:
            for kind in ("add", "remove", "cdc"):
                path = (action.get(kind) or {}).get("path")
                if isinstance(path, str):
                    paths.add(unquote(path))
    return paths


def foreign(log: Location, first: int, last: int, own: Sequence[str], mark: str | None) -> str | None:
    """Describe the first commit of the versions ``first`` to ``last`` by which another writer changed rows; None if no row differs.

    A commit is the job's own if it has the ``mark``, or a transaction whose name is, or begins with, one of ``own``. Changes that cancel
    each other out (a restore to the former state) do not count, nor do commits that change no rows (compaction, properties). Commits that
    the log no longer has are skipped. O(bytes of the commits).
    """
    added: dict[str, str] = {}
    removed: dict[str, str] = {}
    versions = range(first, last + 1)
    for version, actions in zip(versions, _each(log, [f"{v:020}.json" for v in versions]), strict=True):
        if _own(actions, own, mark):
            continue
        for action in actions:
            for kind, changed, opposite in (("add", added, removed), ("remove", removed, added)):
                change = action.get(kind)
                if isinstance(change, dict) and change.get("dataChange", True) and isinstance(change.get("path"), str):
                    # A deletion vector changes the rows of a file under the same name.
                    vector = json.dumps(change.get("deletionVector"), sort_keys=True)
                    path = change["path"] + vector
                    if opposite.pop(path, None) is None:
                        changed[path] = f"version {version} is {_description(actions)}"
    return min([*added.values(), *removed.values()], key=_version, default=None)


def delta_ids(log: Location) -> set[str]:
    """Return the table ids in the commits of the log, for a table that cannot be opened."""
    ids = set()
    for actions in _each(log, [p.name for p in log.iterdir() if _NAME.fullmatch(p.name)] if log.is_dir() else []):
        ids |= {str(a["metaData"].get("id")) for a in actions if isinstance(a.get("metaData"), dict)}
    return ids


def has_transaction(log: Location, prefix: str) -> bool:
    """Return True if a commit or checkpoint of the log has a transaction whose name begins with ``prefix``. O(bytes of the log)."""
    names = [p.name for p in log.iterdir()] if log.is_dir() else []
    if any(_own(actions, [prefix], None) for actions in _each(log, [n for n in names if _NAME.fullmatch(n)])):
        return True
    for name in names:
        if ".checkpoint" in name and name.endswith(".parquet") and not name.startswith("."):
            with suppress(OSError, pa.ArrowException), (log / name).open("rb") as file:
                for txn in pq.read_table(file, columns=["txn"])["txn"].to_pylist():
                    if txn and str(txn.get("appId")).startswith(prefix):
                        return True
    return False


def _version(description: str) -> int:
    return int(description.split()[1])


def _own(actions: Sequence[Action], own: Sequence[str], mark: str | None) -> bool:
    for action in actions:
        info, txn = action.get("commitInfo"), action.get("txn")
        if mark is not None and isinstance(info, dict) and info.get(MARK) == mark:
            return True
        app_id = txn.get("appId") if isinstance(txn, dict) else None
        if isinstance(app_id, str) and any(app_id == name or (name.endswith("/") and app_id.startswith(name)) for name in own):
            return True
    return False


def _description(actions: Sequence[Action]) -> str:
    """Return a description of a commit from its own ``commitInfo``: ``RESTORE by Apache-Spark/4.2.0``."""
    info: Action = next((a["commitInfo"] for a in actions if isinstance(a.get("commitInfo"), dict)), {})
    operation = re.sub(r"[^\w ./-]", "", str(info.get("operation", "")))[:40] or "a commit"
    writer = re.sub(r"[^\w ./:-]", "", str(info.get("engineInfo", "")))[:60]
    return f"{operation} by {writer}" if writer else operation


def _each(log: Location, names: Sequence[str]) -> Iterator[list[Action]]:
    """Yield the actions of each commit, none for one that does not exist. Object storage is read several at a time."""
    if not is_object(log) or len(names) < 2:
        yield from (_actions(log / name) for name in names)
        return
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        yield from threads.map(lambda name: _actions(log / name), names)


def _actions(path: Location) -> list[Action]:
    """Return the actions of a commit. A line that is not a JSON object is skipped: opening the table reports it."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: list[Action] = []
    for line in text.splitlines():
        try:
            action = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(action, dict):
            found.append(action)
    return found


# Fence off earlier lock holders: once a later holder has committed to a table, an earlier one cannot.
#
# A sink on object storage is locked by lease. The number of its holder, the epoch (``storage.holders``), is part of every commit, as the
# version of a Delta transaction of its own. A run that takes over a lock that was not released first commits its greater epoch to every
# table. A commit is based on the snapshot whose epoch was checked, and Delta refuses it if a transaction of the same name was committed
# since. So the check and the commit are one atomic step.

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
