"""The values of groups that their changes carry, as of each event: cells of rows, such as texts and instants, without rounding."""

from __future__ import annotations

from skyband.operators.base import NULL
from skyband.operators.groups.kernels.order import row_at
from skyband.operators.groups.kernels.tables import END, NEWEST, Events, State
from skyband.operators.jit import inner, inner_inlined


@inner_inlined
def note_cells(state: State, events: Events, record: int, group: int) -> None:
    """Write the cells of a group that its changes carry."""
    for c in range(len(state.layout.cells)):
        events.cells[c, record] = cell_of(state, state.layout.cells[c], group)


@inner
def cell_of(state: State, a: int, group: int) -> int:
    """Return the cell of the row that has the value of an aggregate; ``NULL`` if there is none."""
    layout, code, slot = state.layout, state.layout.code[a], state.layout.slot[a]
    if code in (END, NEWEST):
        row = state.groups.head[slot, group] if code == END else state.groups.tail[slot, group]
        return int(state.rows.cells[layout.list_of[slot], row]) if row >= 0 else NULL
    known = state.groups.known[layout.order_of[slot], group]
    if known == 0:
        return NULL
    place = (known * layout.share[a, 0] + layout.share[a, 1] - 1) // layout.share[a, 1] - 1
    return int(state.rows.cells[layout.order_of[slot], row_at(state.order, slot, group, place)])
