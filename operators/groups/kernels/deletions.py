"""Where rows can be deleted: the row of each (key, seq), and rows that leave from the middle of their key.

Without deletions ``Rows.before`` is empty and all this does nothing.
"""

from __future__ import annotations

from skyband.operators.groups.kernels.lists import leave_set, place_of, unchain
from skyband.operators.groups.kernels.tables import State
from skyband.operators.jit import inner, inner_inlined


@inner_inlined
def add_to_index(state: State, key: int, row: int) -> None:
    """Note a row that is about to become the last one of its key. There must be free places."""
    if len(state.rows.before) == 0:
        return
    head = state.keys.head[key]
    state.rows.before[row] = -1 if head == row else state.keys.tail[key]
    at = place_of(state.by_seq, key, state.rows.seq[row])
    state.by_seq.owner[at], state.by_seq.value[at], state.by_seq.rows[at] = key, state.rows.seq[row], row
    state.by_seq.used[0] += 1


@inner_inlined
def drop_from_index(state: State, key: int, row: int) -> None:
    """Forget the row that was the first one of its key until now."""
    if len(state.rows.before) == 0:
        return
    forget(state, key, row)
    head = state.keys.head[key]
    if head >= 0:
        state.rows.before[head] = -1


@inner
def forget(state: State, key: int, row: int) -> None:
    """Remove a row from the index."""
    seq = state.rows.seq[row]
    state.by_seq.rows[place_of(state.by_seq, key, seq)] = 1
    leave_set(state.by_seq, key, seq)


@inner
def find_row(state: State, key: int, seq: int) -> int:
    """Return the row with a seq, or -1 if it belongs to no group or has left the window."""
    at = place_of(state.by_seq, key, seq)
    return int(state.by_seq.rows[at]) if state.by_seq.owner[at] >= 0 else -1


@inner
def unlink(state: State, key: int, row: int) -> None:
    """Remove any row from its key."""
    forget(state, key, row)
    unchain(state.rows.before, state.rows.after, state.keys.head, state.keys.tail, key, row)
