"""Write the page of a DAG as Markdown. No text of a spec can end its code block. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TICKS = re.compile("`+")


def of_good(fact: Mapping[str, Any]) -> str:
    """Return the page of a valid spec: its path, graph, plan and text."""
    parts = [f"Made from {_code(fact['file'])} by Skyband."]
    parts += [
        "### Graph",
        _block("mermaid", fact["graph"]),
        "### Plan",
        _block("text", fact["plan"]),
        "### Spec",
        _block("yaml", fact["text"]),
    ]
    return "\n\n".join(parts) + "\n"


def of_broken(fact: Mapping[str, Any]) -> str:
    """Return the page of a broken spec: its mistakes and its text."""
    parts = [
        f"{_code(fact['file'])} cannot be used. When it is fixed, its own DAG replaces this one.",
        _block("text", fact["findings"]),
    ]
    return "\n\n".join([*parts, *(["### Spec", _block("yaml", fact["text"])] if fact["text"] else [])]) + "\n"


def _block(kind: str, text: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"


def _code(text: str) -> str:
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{ticks} {text} {ticks}" if "`" in text else f"{ticks}{text}{ticks}"
