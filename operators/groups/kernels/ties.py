"""Results that include all groups whose value equals that of the k-th: members are the heap of k and the groups *tied* with its last one.

The tied groups of a key follow its heap of members in ``Board.heap``, in no order; all have the value of the last member. So which of the
groups with that value are in the heap does not matter, and a value that changes moves few groups that stay in the result. The bound of a
member is its value.
"""

from __future__ import annotations

from skyband.operators.groups.kernels.heaps import MEMBERS, NOWHERE, OTHERS, Board, mark_dirty, move, push, refresh, remove
from skyband.operators.jit import inner


@inner
def bound_of(board: Board, group: int) -> float:
    """Return the bound of a group."""
    return float(board.groups[group]["bound"])


@inner
def is_tied(board: Board, key: int, group: int) -> bool:
    """Return True if a member is not in the heap."""
    return bool(board.groups[group]["place"] >> 1 >= board.size[MEMBERS, key])


@inner
def change_with_ties(board: Board, key: int, group: int, value: float, rows: int) -> bool:
    """Take over the new value of a group; return True if a heap or the tied groups were touched."""
    g = board.groups[group]
    place, known, before = g["place"], value == value, g["value"]
    g["value"], g["rows"] = value, rows
    if value == before or not (known or before == before):
        return False
    if place == NOWHERE:
        g["bound"] = value
        push(board, OTHERS, key, group)
    elif place & 1 == MEMBERS:
        mark_dirty(board, key, group)
        if is_tied(board, key, group):
            change_tied(board, key, group)
        elif known:
            g["bound"] = value
            move(board, MEMBERS, board.start[key], board.size[MEMBERS, key], place >> 1, group)
        else:
            remove_member(board, key, group)
    elif known and value > g["bound"]:
        g["bound"] = value
        move(board, OTHERS, board.start[key], board.size[OTHERS, key], place >> 1, group)
    else:
        return False
    return True


@inner
def change_tied(board: Board, key: int, group: int) -> None:
    """Take over the new value of a tied group: if it is another, the group is among the others until it is settled."""
    g = board.groups[group]
    value = g["value"]
    if value == g["bound"]:
        return
    i, start = g["place"] >> 1, board.start[key]
    board.tied[key] -= 1
    last = board.heap[MEMBERS, start + board.size[MEMBERS, key] + board.tied[key]]
    board.heap[MEMBERS, start + i] = last
    board.groups[last]["place"] = 2 * i + MEMBERS
    g["place"] = NOWHERE
    if value == value:
        g["bound"] = value
        push(board, OTHERS, key, group)


@inner
def remove_member(board: Board, key: int, group: int) -> None:
    """Remove a group from the heap of members; a tied one takes its place."""
    remove(board, MEMBERS, key, group)
    if board.tied[key] > 0:
        last = board.heap[MEMBERS, board.start[key] + board.size[MEMBERS, key] + board.tied[key]]
        board.tied[key] -= 1
        push(board, MEMBERS, key, last)


@inner
def add_tied(board: Board, key: int, group: int) -> None:
    """Add a group, which is nowhere, to the tied ones."""
    i = board.size[MEMBERS, key] + board.tied[key]
    board.heap[MEMBERS, board.start[key] + i] = group
    board.groups[group]["place"] = 2 * i + MEMBERS
    board.tied[key] += 1


@inner
def dismiss(board: Board, key: int, group: int) -> None:
    """Move a group, which is nowhere, to the others."""
    push(board, OTHERS, key, group)
    mark_dirty(board, key, group)


@inner
def dismiss_tied(board: Board, key: int) -> None:
    """Move all tied groups to the others."""
    first, tied = board.start[key] + board.size[MEMBERS, key], board.tied[key]
    board.tied[key] = 0
    for i in range(tied):
        dismiss(board, key, board.heap[MEMBERS, first + i])


@inner
def settle_tied(board: Board, key: int) -> None:
    """Make the tied groups equal to the last member again, after values of members have changed."""
    start = board.start[key]
    if board.tied[key] == 0:
        return
    value = bound_of(board, board.heap[MEMBERS, start + board.size[MEMBERS, key]])
    while board.tied[key] > 0 and bound_of(board, board.heap[MEMBERS, start]) < value:
        worst = board.heap[MEMBERS, start]
        remove_member(board, key, worst)
        dismiss(board, key, worst)
    if bound_of(board, board.heap[MEMBERS, start]) > value:
        dismiss_tied(board, key)


@inner
def settle_with_ties(board: Board, k: int, key: int) -> None:
    """Move groups until the members are the first k and all groups that equal the last of them."""
    settle_tied(board, key)
    start = board.start[key]
    while board.size[OTHERS, key] > 0:
        best = board.heap[OTHERS, start]
        full = board.size[MEMBERS, key] >= k
        worst = board.heap[MEMBERS, start] if full else NOWHERE
        if full and bound_of(board, best) < bound_of(board, worst):
            return
        value = board.groups[best]["value"]
        if value != value:
            remove(board, OTHERS, key, best)
        elif bound_of(board, best) != value:
            refresh(board, OTHERS, key, best)
        else:
            remove(board, OTHERS, key, best)
            mark_dirty(board, key, best)
            if full and bound_of(board, best) == bound_of(board, worst):
                add_tied(board, key, best)
            elif full:
                replace_last(board, key, worst, best)
            else:
                push(board, MEMBERS, key, best)


@inner
def replace_last(board: Board, key: int, worst: int, best: int) -> None:
    """Put a better group in the place of the last member, which stays, with all that equal it, while it equals the new last one."""
    remove(board, MEMBERS, key, worst)
    push(board, MEMBERS, key, best)
    if bound_of(board, board.heap[MEMBERS, board.start[key]]) == bound_of(board, worst):
        add_tied(board, key, worst)
    else:
        dismiss(board, key, worst)
        dismiss_tied(board, key)
