"""What ``skyband query`` and ``Job.query`` ask of a job's tables, and the texts in which people say instants and windows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError
from skyband.jobs.arguments import text, texts, whole_number

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.tables.results.reader import Answer
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
    text("name", query)
    k = None if k is None else whole_number("k", k, 1)
    limit = None if limit is None else whole_number("limit", limit)
    key = None if key is None else texts("key", key)
    other = k is not None or window is not None
    if at is not None and other:
        raise SkybandError("SKY-E201", "at goes with the query's own k and window", hint="leave out at, or k and window")
    instant = None if at is None else parse_instant(at)
    within = parse_window(text("window", window)) if window is not None else None
    from skyband.framework.storage.sinks import require_readable
    from skyband.framework.streaming.job.edited_spec import tables_of
    from skyband.framework.tables.results.reader import Reader

    require_readable(plan.sink)
    reader = Reader(plan)
    with tables_of(plan):
        return reader.snapshot(query, k, within, key) if other else reader.as_of(query, instant, key, limit)


def parse_instant(at: datetime | str) -> datetime:
    """An instant, or the ISO 8601 text of one; UTC unless it says otherwise. SkybandError SKY-E201 if it is none."""
    try:
        # A pandas NaT is a datetime that equals nothing.
        found = datetime.fromisoformat(at) if isinstance(at, str) else at if isinstance(at, datetime) and at == at else None
        if found is not None:
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    said = repr(at) if isinstance(at, str) else f"a {type(at).__name__}"
    hint = "write it as 2013-07-01T12:00 (UTC)" if isinstance(at, str) else "a datetime, or text such as 2013-07-01T12:00 (UTC)"
    raise SkybandError("SKY-E201", f"at takes an instant, not {said}", hint=hint)


def parse_window(said: str) -> Window:
    """A window as ``1 day`` or ``500 rows`` (or both, with a comma). SkybandError SKY-E201 if it is none."""
    from skyband.framework.base import units

    try:
        return units.parse_window(said)
    except ValueError as e:
        raise SkybandError("SKY-E201", f"window: {e}") from e
