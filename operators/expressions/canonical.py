"""The one spelling of an expression, and what it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import cast

from skyband.operators.base import Column, Kind
from skyband.operators.expressions.ast import EPOCH, Attr, Binary, Call, In, IsNull, Literal_, Node, Unary
from skyband.operators.expressions.tokens import KEYWORDS

_PLAIN = re.compile(r"[^\W\d]\w*")


def name(text: str) -> str:
    """Return an attribute name as an expression spells it: in backquotes only if need be."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in KEYWORDS else "`" + text.replace("`", "``") + "`"


def canonical(node: Node) -> str:
    """Return the canonical spelling: it parses back to an equal tree, and equal trees have equal spellings (state is shared by them).

    O(size of the tree).
    """
    if isinstance(node, Literal_):
        return _literal(node)
    if isinstance(node, Attr):
        return f"{node.side}.{name(node.name)}" if node.side else name(node.name)
    if isinstance(node, Unary):
        return f"not {_operand(node.x)}" if node.op == "not" else f"-{_operand(node.x)}"
    if isinstance(node, Binary):
        return f"{_operand(node.x)} {node.op} {_operand(node.y)}"
    if isinstance(node, Call):
        return f"{node.fn}({', '.join(canonical(a) for a in node.args)})"
    if isinstance(node, IsNull):
        return f"{_operand(node.x)} is {'not ' if node.negated else ''}null"
    if isinstance(node, In):
        return f"{_operand(node.x)} {'not ' if node.negated else ''}in ({', '.join(_literal(o) for o in node.options)})"
    raise TypeError(f"not an expression: {node!r}")


def _operand(node: Node) -> str:
    return f"({canonical(node)})" if isinstance(node, Unary | Binary | IsNull | In) else canonical(node)


def _literal(node: Literal_) -> str:
    if node.value is None:
        return "null"
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    if isinstance(node.value, str):
        return "'" + node.value.replace("'", "''") + "'"
    if node.type == "duration":
        return f"{node.value} microseconds"
    if node.type == "time":
        return f"timestamp '{(EPOCH + timedelta(microseconds=int(node.value))).replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
    return repr(node.value)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of ``node``, in order."""
    if isinstance(node, Unary | IsNull):
        return (node.x,)
    if isinstance(node, Binary):
        return (node.x, node.y)
    if isinstance(node, Call):
        return node.args
    if isinstance(node, In):
        return (node.x, *node.options)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield every node of the tree, parents before children, left to right."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def attributes(node: Node) -> tuple[Column, ...]:
    """Return the attributes ``node`` reads, on whichever side, each once, in order of first use."""
    found: dict[str, Column] = {}
    for n in walk(node):
        if isinstance(n, Attr):
            found.setdefault(n.name, Column(n.name, cast(Kind, n.type), dimension=n.dimension))
    return tuple(found.values())


def text_constants(node: Node) -> tuple[str, ...]:
    """Return the text literals of ``node``, each once, in order of first use."""
    return tuple(dict.fromkeys(n.value for n in walk(node) if isinstance(n, Literal_) and isinstance(n.value, str)))
