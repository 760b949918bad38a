"""The columns of the stream that expressions and states read, by name. A set of tokens has its name with its prefix (``TOKENS``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.framework.plan.model import LogicalQuery, OperatorNode
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.canonical import attributes

if TYPE_CHECKING:
    from skyband.operators.expressions.aggregates import AggregateExpression


def state_columns(node: OperatorNode) -> tuple[str, ...]:
    """Return all columns that a state reads, each once."""
    named = (c for columns in node.objects for c in columns)
    return tuple(dict.fromkeys([*named, *node.reads, *node.tokens]))


def node_columns(*nodes: Node | None) -> tuple[str, ...]:
    """Return the columns that expressions read, each once."""
    return tuple(dict.fromkeys(c.name for node in nodes if node is not None for c in attributes(node)))


def scoring_columns(*asked: LogicalQuery) -> tuple[str, ...]:
    """Return the columns that the scores of queries are computed from, each once, without the parameters of a table of queries."""
    found: dict[str, None] = {}
    for one in asked:
        read = node_columns(one.scoring) if isinstance(one.scoring, Node) else tuple(c for c, _ in one.scoring.weights)
        found |= dict.fromkeys(c for c in read if c not in dict(one.parameters))
    return tuple(found)


def aggregate_columns(*expressions: AggregateExpression | None) -> tuple[str, ...]:
    """Return the columns that the aggregates of expressions read, each once."""
    return node_columns(*(a.argument for e in expressions if e is not None for a in e.aggregates))
