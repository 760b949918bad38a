"""Families of expressions: one form over attributes x0, x1, ... with constants c0, c1, ... of its own for every query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skyband.operators.expressions import compile_row, parse
from skyband.operators.expressions.ast import Node


def _joined(sign: str, term: str) -> Callable[[int], str]:
    return lambda d: sign.join(term.replace("#", str(i)) for i in range(d))


FAMILIES: dict[str, Callable[[int], str]] = {
    "product": _joined(" * ", "(c# + x#)"),
    "squares": _joined(" + ", "c# * x# * x#"),
    "squares alone": _joined(" - ", "c# * (x# * x#)"),
    "distance": lambda d: f"sqrt({_joined(' + ', '(x# - c#) * (x# - c#)')(d)})",
    "closest": lambda d: f"min({_joined(', ', 'abs(x# - c#)')(d)}, 2)",
    "ratio": lambda d: f"({_joined(' - ', '(x# + c#)')(d)}) / (1 + max({_joined(', ', 'abs(x#)')(d)}, 0.5))",
    "poles": _joined(" + ", "c# / x#"),
    "roots": _joined(" + ", "c# * sqrt(x#)"),
    "steps": _joined(" + ", "-floor(x# * 1.5) * c#"),
}
"""Family -> its expression over d attributes."""


def spelled(text: str, constants: Any) -> str:
    """The expression with a query's constants in place of c0, c1, ..."""
    for i in range(len(constants) - 1, -1, -1):
        text = text.replace(f"c{i}", f"({float(constants[i])!r})")
    return text


def node(text: str, d: int) -> Node:
    return parse(text, {f"{letter}{i}": "float" for letter in "xc" for i in range(d)}, ("",), "score")


def with_family(rng: np.random.Generator, op: Any, family: str) -> Any:
    """The linear queries of ``op`` as queries of a family, with other constants."""
    d = len(op.attributes)
    constants = rng.choice([0.0, 1.0, -1.0, 0.5, 2.0, -0.25], (len(op.names), d))
    return replace(op, score=node(FAMILIES[family](d), d), parameters=tuple(f"c{i}" for i in range(d)), weights=constants)


def spelled_scores(score: Node, constants: Any, x: Any) -> Any:
    """The scores of rows x (n, d) with constants (d,), by the kernel of the expression alone."""
    columns = {f"x{i}": np.ascontiguousarray(x[:, i]) for i in range(x.shape[1])}
    columns |= {f"c{i}": np.full(len(x), c) for i, c in enumerate(constants)}
    return compile_row(score, None, False, {}).evaluate(columns, len(x))
