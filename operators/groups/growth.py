"""Room for more rows, groups, sums and events: each function returns what it is given with larger arrays. O(size), amortized O(1)."""

from __future__ import annotations

import numpy as np

from skyband.operators.base import I64
from skyband.operators.groups import arrays
from skyband.operators.groups.kernels.advance import MOMENTS, POOL
from skyband.operators.groups.kernels.lists import move_sets
from skyband.operators.groups.kernels.tables import Events, Keys, Layout, Sessions, State


def for_rows(state: State, needed: int, deletes: bool) -> State:
    """Make room for so many more rows; ``deletes``: rows may be deleted."""
    rows = arrays.more_rows(state.rows, needed, deletes)
    order, sessions = arrays.more_nodes(state.order, len(rows.expiry)), _sessions(state.sessions, rows=len(rows.expiry))
    state = state._replace(rows=rows, order=order, sessions=sessions)
    if deletes and 2 * (state.by_seq.used[0] + needed) > len(state.by_seq.owner):
        by_seq = arrays.empty_sets(1 << (4 * (int(state.by_seq.used[0]) + needed)).bit_length())
        move_sets(state.by_seq, by_seq)
        state = state._replace(by_seq=by_seq)
    return state


def for_keys(state: State, keys: int) -> State:
    """Make room for so many keys."""
    head, tail = (arrays.lengthened(a, keys, -1) for a in (state.keys.head, state.keys.tail))
    new = Keys(head, tail, arrays.lengthened(state.keys.next_seq, keys))
    return state._replace(keys=new, sessions=_sessions(state.sessions, keys=keys))


def for_groups(state: State, size: int) -> State:
    """Make room for ``size`` groups."""
    moments = state.moments._replace(sums=arrays.more_sums(state.moments.sums, size))
    order = state.order._replace(root=arrays.lengthened(state.order.root, size, -1))
    return state._replace(
        groups=arrays.more_groups(state.groups, size), sums=arrays.more_sums(state.sums, size), order=order, moments=moments,
        totals=arrays.lengthened(state.totals, size, axis=1), sessions=_sessions(state.sessions, groups=size),
    )  # fmt: skip


def _sessions(sessions: Sessions, rows: int = 0, groups: int = 0, keys: int = 0) -> Sessions:
    """Make room for at least so many rows, groups and keys; windows without sessions need none."""
    if not sessions.silence[0]:
        return sessions
    sizes = dict.fromkeys(("before", "following"), rows) | dict.fromkeys(("first", "last", "deadline", "earlier", "later"), groups)
    sizes |= dict.fromkeys(("soonest", "latest"), keys)
    short = {name: a for name, size in sizes.items() if size > len(a := getattr(sessions, name))}
    return sessions._replace(**{name: arrays.lengthened(a, sizes[name], -1) for name, a in short.items()})


def for_another(state: State, why: int) -> State:
    """Make room for another row, as ``advance`` and ``add_rows`` ask for it."""
    if why == POOL:
        return state._replace(sums=arrays.more_pool(state.sums, len(state.layout.sum_of)))
    if why == MOMENTS:
        sums = arrays.more_pool(state.moments.sums, 2 * len(state.layout.moments_of))
        return state._replace(moments=state.moments._replace(sums=sums))
    sets = arrays.empty_sets(2 * len(state.sets.owner))
    move_sets(state.sets, sets)
    return state._replace(sets=sets)


def empty_events(layout: Layout, groups: int, events: int, records: int, jobs: int) -> Events:
    """Return room for so many events of so many ``groups`` and ``jobs`` (keys), with ``records``."""

    def table(n: int) -> I64:
        return np.empty(n, np.int64)

    values = np.empty((len(layout.code), records))
    return Events(
        table(events), table(events), table(events + 1), np.zeros(jobs + 1, np.int64), table(records), table(records),
        values, values.view(np.int64), table(groups + 1), np.array([0, -1, 0, 0]), np.empty((len(layout.cells), records), np.int64),
    )  # fmt: skip
