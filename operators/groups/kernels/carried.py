"""The values that groups carry: cells of rows, such as texts and instants, without rounding, and the bits of others."""

from __future__ import annotations

from typing import Final

from skyband.operators.base import NULL
from skyband.operators.groups.kernels.heaps import Board
from skyband.operators.groups.kernels.order import row_at
from skyband.operators.groups.kernels.tables import END, NEWEST, Events, State
from skyband.operators.jit import inner, inner_inlined

_MAGNITUDE: Final = 2**63 - 1
"""All bits of a float64 but the sign."""
_INFINITY: Final = 0x7FF0_0000_0000_0000
"""The bits of infinity: those of NaN are larger."""


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


@inner
def equal_values(a: int, b: int, whole: int) -> bool:
    """Return True if two carried values are equal: whole numbers, or the bits of float64, of which NaN equals NaN and -0.0 equals 0.0."""
    if a == b:
        return True
    if whole > 0:
        return False
    x, y = a & _MAGNITUDE, b & _MAGNITUDE
    return bool((x > _INFINITY and y > _INFINITY) or (x | y) == 0)


@inner_inlined
def carries_another(board: Board, group: int) -> bool:
    """Return True if a value that points have is shown as another one than that of the group's last point."""
    for i in range(len(board.traces)):
        if not equal_values(board.shown_carried[board.traces[i, 0], group], board.traced_carried[i, group], board.traces[i, 1]):
            return True
    return False


@inner_inlined
def note_traced(board: Board, group: int) -> None:
    """Note the values of a group that its point has."""
    for i in range(len(board.traces)):
        board.traced_carried[i, group] = board.shown_carried[board.traces[i, 0], group]


@inner_inlined
def show_carried(board: Board, group: int) -> None:
    """Show the values of a group as they are now."""
    for c in range(len(board.carried)):
        board.shown_carried[c, group] = board.carried[c, group]


@inner_inlined
def shows_former(board: Board, group: int) -> bool:
    """Return True if a carried value of a group is not shown as it is now."""
    different = False
    for c in range(len(board.carried)):
        different |= board.shown_carried[c, group] != board.carried[c, group]
    return different
