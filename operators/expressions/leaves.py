"""What a kernel reads instead of computing it: attributes, functions of one object's texts, and the texts and sets that it compares.

* A function of one object (``length(a.name)``, ``edit_distance(a.name, 'smith')``) is a column that the host computes (``leaf``).
* A function of the texts or sets of two objects (``edit_distance(a.name, b.name)``, ``jaccard(a.words, b.words)``) reads their characters
  or codes in the pool of the objects' arena (``compared``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, cast

from skyband.operators.base import CHARACTERS, DERIVED, TOKENS, Column, Kind
from skyband.operators.expressions.ast import Attr, Call, Literal_, Node
from skyband.operators.expressions.canonical import canonical, children, walk

TEXT_FUNCTIONS: Final = frozenset({"length", "lower", "substring", "edit_distance"})
"""Functions of texts."""

SET_FUNCTIONS: Final = ("jaccard", "cosine", "dice", "overlap")
"""Similarities of the sets of two objects, as those of ``set_index.functions``."""

NO_LIMIT: Final = -1
"""The limit of an edit distance without one."""


def leaf(node: Node) -> Attr | None:
    """Return the attribute of the one object that ``node`` is a function of texts of; None for what kernels compute. O(size)."""
    if isinstance(node, Attr):
        return node
    if not isinstance(node, Call) or node.fn not in TEXT_FUNCTIONS:
        return None
    sides = {n.side for n in walk(node) if isinstance(n, Attr)}
    return Attr(side=sides.pop(), name=DERIVED + canonical(of_one_object(node)), type=node.type) if len(sides) == 1 else None


def compared(node: Node) -> tuple[Attr, Attr] | None:
    """Return the attributes with the characters or codes that ``node`` compares; None for other nodes. Check for a ``leaf`` first."""
    if not isinstance(node, Call) or node.fn not in ("edit_distance", *SET_FUNCTIONS):
        return None
    x, y = node.args[:2]
    return (_compared(x), _compared(y)) if node.fn == "edit_distance" or x.type == "tokens" else None


def _compared(node: Node) -> Attr:
    side = next(n.side for n in walk(node) if isinstance(n, Attr))
    if isinstance(node, Attr) and node.type == "tokens":
        return Attr(side=side, name=TOKENS + node.name, type="tokens")
    return Attr(side=side, name=CHARACTERS + canonical(of_one_object(node)), type="characters")


def of_one_object(node: Node) -> Node:
    """Return a function of texts with attributes that name no object."""
    if isinstance(node, Attr):
        return replace(node, side="")
    return replace(node, args=tuple(map(of_one_object, node.args))) if isinstance(node, Call) else node


def evaluated(node: Node) -> Iterator[Node]:
    """Yield the nodes that a kernel has a value for, parents before children: those below a leaf have none."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        if leaf(top) is None and compared(top) is None:
            stack.extend(reversed(children(top)))


def read_columns(node: Node) -> tuple[Column, ...]:
    """Return the columns that kernels of ``node`` read, each once, in order of first use."""
    found: dict[str, Column] = {}
    for n in evaluated(node):
        read = leaf(n)
        if read is not None:
            found.setdefault(read.name, _column(read, n))
            continue
        for read, argument in zip(compared(n) or (), n.args if isinstance(n, Call) else (), strict=False):
            found.setdefault(read.name, _column(read, argument))
    return tuple(found.values())


def needed_columns(node: Node, side: str) -> frozenset[str]:
    """Return the names of the columns of object ``side`` of which a null makes ``node`` null, whatever the others hold.

    ``side``: "a" or "b" of a pair, "" in expressions over one object. O(size of the tree).
    """
    read = leaf(node)
    if read is not None:
        return frozenset({read.name} if read.side == side else ())
    if isinstance(node, Call) and node.fn == "where":
        branches = [needed_columns(x, side) for x in node.args[1:] if x.type != "null"]
        return frozenset.intersection(*branches) if branches else frozenset()
    if node.type == "bool":
        return frozenset()
    if (texts := compared(node)) is not None:
        return frozenset(x.name for x in texts if x.side == side)
    return frozenset().union(*(needed_columns(x, side) for x in children(node)))


def _column(read: Attr, node: Node) -> Column:
    if read.name[:1] not in (DERIVED, CHARACTERS) or read is node:
        return Column(read.name, cast(Kind, read.type), dimension=read.dimension)
    sources = dict.fromkeys(n.name for n in walk(node) if isinstance(n, Attr))
    return Column(read.name, cast(Kind, read.type), of_one_object(node), tuple(sources))


def limit_of(node: Call) -> int:
    """Return the limit of an ``edit_distance``, or ``NO_LIMIT``."""
    last = node.args[-1]
    return int(last.value) if len(node.args) == 3 and isinstance(last, Literal_) and isinstance(last.value, int) else NO_LIMIT
