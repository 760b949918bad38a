"""What ``skyband query`` and ``Job.query`` ask of a job's tables, and the texts in which people say instants and windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skyband.framework.errors import SkybandError

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.tables.reader import Answer
    from skyband.operators.base import Window


def ask(
    plan: Plan,
    query: str,
    at: datetime | str | None = None,
    k: int | None = None,
    window: str | None = None,
    key: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> Answer:
    """The result of ``query`` at ``at``, or its best ``k`` within ``window`` as of the last batch, of one ``key`` if it is given.

    ``limit`` is for what is told once: the newest rows. SkybandError for everything a user can mend. O(rows of the query's table).
    """
    other = k is not None or window is not None
    if at is not None and other:
        raise SkybandError("SKY-E201", "--at goes with the query's own k and window", hint="leave out --at, or --k and --window")
    instant = None if at is None else parse_instant(at) if isinstance(at, str) else in_utc(at)
    within = parse_window(window) if window is not None else None
    from skyband.framework.tables.reader import Reader

    reader = Reader(plan)
    return reader.snapshot(query, k, within, key) if other else reader.as_of(query, instant, key, limit)


def parse_instant(text: str) -> datetime:
    """An ISO 8601 instant; UTC unless it says otherwise. SkybandError SKY-E201 if it is none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as e:
        raise SkybandError("SKY-E201", f"--at {text!r} is not an instant", hint="write it as 2013-07-01T12:00 (UTC)") from e
    return in_utc(at)


def in_utc(at: datetime) -> datetime:
    """The instant in UTC, which is meant if it has no time zone."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def parse_window(text: str) -> Window:
    """A window as ``1 day`` or ``500 rows`` (or both, with a comma). SkybandError SKY-E201 if it is none."""
    from skyband.framework.spec import units

    try:
        return units.parse_window(text)
    except ValueError as e:
        raise SkybandError("SKY-E201", f"--window: {e}") from e
