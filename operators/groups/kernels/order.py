"""Rows of each group in order of a value: a treap whose nodes are the rows, with sizes, so that the k-th row is found in O(log rows)."""

from __future__ import annotations

from typing import Final

from skyband.operators.groups.kernels.tables import Order, Rows
from skyband.operators.jit import inner

NIL: Final = -1
_HALF: Final = (1 << 31) - 1


@inner
def priority(row: int) -> int:
    """Return the priority of a node: the larger ones are above. No product leaves 63 bits."""
    h = (row & _HALF) * 0x45D9F3B5
    h ^= h >> 29
    h = (h & _HALF) * 0x2545F491
    return h ^ (h >> 31)


@inner
def before(rows: Rows, argument: int, whole: int, a: int, b: int) -> bool:
    """Return True if row a is before row b: by value, then by place."""
    if whole:
        x, y = rows.cells[argument, a], rows.cells[argument, b]
        return bool(x < y or (x == y and a < b))
    v, w = rows.floats[argument, a], rows.floats[argument, b]
    return bool(v < w or (v == w and a < b))


@inner
def link(order: Order, slot: int, group: int, parent: int, right: bool, child: int) -> None:
    """Make a node the child of another, or the root of the group."""
    if parent == NIL:
        order.root[slot, group] = child
    elif right:
        order.right[slot, parent] = child
    else:
        order.left[slot, parent] = child


@inner
def size_of(order: Order, slot: int, node: int) -> int:
    """Return the number of rows below a node, itself included."""
    return 0 if node == NIL else int(order.size[slot, node])


@inner
def enter_order(order: Order, rows: Rows, slot: int, group: int, row: int, argument: int, whole: int) -> None:
    """Add a row. O(log rows) expected."""
    mine, parent, right = priority(row), NIL, False
    node = order.root[slot, group]
    while node != NIL and priority(node) >= mine:
        order.size[slot, node] += 1
        parent, right = node, before(rows, argument, whole, node, row)
        node = order.right[slot, node] if right else order.left[slot, node]
    order.size[slot, row] = size_of(order, slot, node) + 1
    link(order, slot, group, parent, right, row)
    less, at = 0, node
    while at != NIL:
        if before(rows, argument, whole, at, row):
            less += size_of(order, slot, order.left[slot, at]) + 1
            at = order.right[slot, at]
        else:
            at = order.left[slot, at]
    split(order, rows, slot, node, row, argument, whole, less)


@inner
def split(order: Order, rows: Rows, slot: int, node: int, row: int, argument: int, whole: int, less: int) -> None:
    """Give the rows below ``node`` to the new node ``row``: ``less`` of them are before it."""
    total = size_of(order, slot, node)
    low, low_right, high, high_right = row, False, row, True  # where the next part of each side is linked
    while node != NIL:
        if before(rows, argument, whole, node, row):
            below = order.right[slot, node]
            kept = size_of(order, slot, order.left[slot, node]) + 1
            order.size[slot, node] = less
            if low_right:
                order.right[slot, low] = node
            else:
                order.left[slot, low] = node
            low, low_right = node, True
            less, total, node = less - kept, size_of(order, slot, below), below
        else:
            below = order.left[slot, node]
            order.size[slot, node] = total - less
            if high_right:
                order.right[slot, high] = node
            else:
                order.left[slot, high] = node
            high, high_right = node, False
            total, node = size_of(order, slot, below), below
    if low_right:
        order.right[slot, low] = NIL
    else:
        order.left[slot, low] = NIL
    if high_right:
        order.right[slot, high] = NIL
    else:
        order.left[slot, high] = NIL


@inner
def leave_order(order: Order, rows: Rows, slot: int, group: int, row: int, argument: int, whole: int) -> None:
    """Remove a row. O(log rows) expected."""
    parent, right, node = NIL, False, order.root[slot, group]
    while node != row:
        order.size[slot, node] -= 1
        parent, right = node, before(rows, argument, whole, node, row)
        node = order.right[slot, node] if right else order.left[slot, node]
    a, b = order.left[slot, row], order.right[slot, row]
    while a >= 0 and b >= 0:  # merge the two sides, the larger priority above
        whole_size = order.size[slot, a] + order.size[slot, b]
        if priority(a) >= priority(b):
            order.size[slot, a] = whole_size
            link(order, slot, group, parent, right, a)
            parent, right, a = a, True, order.right[slot, a]
        else:
            order.size[slot, b] = whole_size
            link(order, slot, group, parent, right, b)
            parent, right, b = b, False, order.left[slot, b]
    link(order, slot, group, parent, right, b if a == NIL else a)


@inner
def row_at(order: Order, slot: int, group: int, place: int) -> int:
    """Return the row at a place of the order, from 0."""
    node = order.root[slot, group]
    while True:
        left = order.left[slot, node]
        less = size_of(order, slot, left)
        if place < less:
            node = left
        elif place == less:
            return int(node)
        else:
            place -= less + 1
            node = order.right[slot, node]
