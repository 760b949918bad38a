"""Decide what an event of a table covers: everything since the last event of its asset, whoever has committed it. Standard library only.

The events that Airflow keeps are the record of what was announced: an event is stored together with the success of its task, so that
neither a gate that failed nor a task that was killed leaves rows that no event covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

BEGINNING: Final = None
"""Stands for the position before all batches, and before the backfilled rows of added queries."""
Figures = Mapping[str, Any]
"""Figures of batches: ``batches``, ``changes`` by query, ``rejected`` by reason."""


@dataclass(frozen=True)
class Announced:
    """Says where the last event of a table ended: the table's id in Delta, its version, and the job's last batch."""

    table_id: str
    version: int
    batch: int | None


def last_announced(extras: Iterable[Any]) -> Announced | None:
    """Return what the newest event covers of which ``extras``, newest first, are the contents; None if there is none.

    Events that others have made, by hand for instance, or that an earlier version of Skyband made, cover nothing.
    """
    for extra in extras:
        versions = extra.get("versions") if isinstance(extra, Mapping) else None
        if not isinstance(versions, Mapping) or "last_batch" not in extra:
            continue
        table_id, version, batch = versions.get("id"), versions.get("to"), extra["last_batch"]
        if isinstance(table_id, str) and _is_whole(version) and (batch is None or _is_whole(batch)):
            return Announced(table_id, version, batch)
    return None


@dataclass(frozen=True)
class Announcement:
    """Says what the next event of a table covers: versions after ``from_version`` (None: all), batches after ``after`` up to ``upto``."""

    from_version: int | None
    to_version: int
    table_id: str
    after: int | None
    upto: int | None

    @property
    def is_empty(self) -> bool:
        """Return True if the last event covers all rows of it: ``skyband maintain`` makes versions, too, without a batch."""
        return self.from_version is not None and (self.from_version == self.to_version or self.after == self.upto)


def announcement(span: Mapping[str, Any], last_batch: int | None, before: Announced | None) -> Announcement:
    """Return what the next event covers of a table with ``span``, as the outcome of a run has it, after ``before``.

    A table that was rebuilt, reset or restored from a backup since then is announced as a whole.
    """
    to, table_id = span["to"], span["id"]
    same = before is not None and before.table_id == table_id and before.version <= to
    if before is None or not same or (before.batch is not None and (last_batch is None or before.batch > last_batch)):
        return Announcement(None, to, table_id, BEGINNING, last_batch)
    return Announcement(before.version, to, table_id, before.batch, last_batch)


def figures_of_run(outcome: Mapping[str, Any], after: int | None) -> Figures | None:
    """Return the figures of the batches after ``after`` if these are the run's own batches, else None.

    From the beginning on there may be backfilled rows of added queries, which no run has among its own.
    """
    if after is None or outcome["batches"]["first"] != after + 1:
        return None
    return {"batches": outcome["batches"], "changes": outcome["changes"], "rejected": outcome["rows"]["rejected"]}


def event(
    outcome: Mapping[str, Any], table: str, query: str, covered: Announcement, count: Callable[[int | None, int | None], Figures]
) -> dict[str, Any]:
    """Return the content of a table's event. ``count`` counts what the batches after one and up to another have written."""
    checked = ("table_name", "expectation", "arguments", "severity", "success")
    figures = figures_of_run(outcome, covered.after) or count(covered.after, outcome["last_batch"])
    return {
        "job": outcome["job"],
        "table": table,
        "versions": {"from": covered.from_version, "to": covered.to_version, "id": covered.table_id},
        "last_batch": outcome["last_batch"],
        "batches": figures["batches"],
        "changes": figures["changes"][query],
        "rejected": figures["rejected"],
        "checks": [{k: check[k] for k in checked} for check in outcome["checks"]],
        "ended_at": outcome["ended_at"],
    }


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
