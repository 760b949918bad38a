"""Sessions: the rows of each group in order, and the groups of each key in the order in which they fall silent."""

from __future__ import annotations

from skyband.operators.base import NEVER
from skyband.operators.groups.kernels.lists import unchain
from skyband.operators.groups.kernels.tables import Keys, Rows, Sessions
from skyband.operators.jit import inner


@inner
def next_end(sessions: Sessions, key: int) -> int:
    """Return the instant at which the next session of a key ends, or ``NEVER``."""
    group = sessions.soonest[key]
    return int(sessions.deadline[group]) if group >= 0 else NEVER


@inner
def enter_session(sessions: Sessions, key: int, group: int, row: int, before: int, time: int) -> None:
    """Append a row to its group, after the row ``before`` of its key, and make the group the last of the queue."""
    sessions.before[row], sessions.following[row] = before, -1
    if sessions.first[group] < 0:
        sessions.first[group] = row
    else:
        sessions.following[sessions.last[group]] = row
        leave_queue(sessions, key, group)
    sessions.last[group], sessions.deadline[group] = row, time + sessions.silence[0]
    latest = sessions.latest[key]
    sessions.earlier[group], sessions.later[group] = latest, -1
    if latest >= 0:
        sessions.later[latest] = group
    else:
        sessions.soonest[key] = group
    sessions.latest[key] = group


@inner
def leave_session(sessions: Sessions, rows: Rows, keys: Keys, key: int, row: int) -> None:
    """Remove a row, the first of its group, from its key and group; a group without rows leaves the queue."""
    unchain(sessions.before, rows.after, keys.head, keys.tail, key, row)
    group = rows.group[row]
    sessions.first[group] = sessions.following[row]
    if sessions.following[row] < 0:
        leave_queue(sessions, key, group)


@inner
def leave_queue(sessions: Sessions, key: int, group: int) -> None:
    """Remove a group from the queue of its key."""
    unchain(sessions.earlier, sessions.later, sessions.soonest, sessions.latest, key, group)
