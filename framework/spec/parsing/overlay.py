"""Merge one YAML mapping over another: mappings are merged field by field, other values of the upper one win."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import yaml

from skyband.framework.spec.parsing.document import MAX_DEPTH, MAX_NODES, TooMuch

Pair = tuple[yaml.Node, yaml.Node]

_MERGE: Final = "tag:yaml.org,2002:merge"


class Overlay:
    """Lays mappings over others. What is written once and used by alias is merged once; ``TooMuch`` if that is very often all the same."""

    def __init__(self) -> None:
        self._merged: dict[tuple[int, int], yaml.MappingNode] = {}
        self._kept: list[yaml.Node] = []  # so that no other node gets the number of one that was merged
        self._pairs = 0

    def over(self, lower: yaml.MappingNode, upper: yaml.MappingNode, depth: int = 0) -> yaml.MappingNode:
        """A mapping with the fields of both, in the lower one's order; neither is changed. O(fields of both).

        Every name and value keeps its place in its file; names of both are where the upper one has them. A field that one of them has
        twice stays so, for the reader of the whole to tell.
        """
        known = self._merged.get((id(lower), id(upper)))
        if known is not None or depth > MAX_DEPTH:
            return upper if known is None else known
        made = yaml.MappingNode(upper.tag, [], upper.start_mark, upper.end_mark, upper.flow_style)
        self._merged[id(lower), id(upper)] = made
        self._kept += (lower, upper)
        self._pairs += len(lower.value) + len(upper.value)
        if self._pairs > 2 * MAX_NODES:
            raise TooMuch(f"the fields of included files and profiles are more than {2 * MAX_NODES:,}", upper)
        above: dict[str, list[Pair]] = {}
        for key, value in upper.value:
            above.setdefault(_name(key), []).append((key, value))
        done: set[str] = set()
        for key, value in lower.value:
            name = _name(key)
            if name not in above:
                made.value.append((key, value))
            elif name not in done:
                done.add(name)
                made.value += [(k, self._both(value, v, depth + 1)) for k, v in above[name]]
        made.value += [pair for name, pairs in above.items() if name not in done for pair in pairs]
        return made

    def _both(self, lower: yaml.Node, upper: yaml.Node, depth: int) -> yaml.Node:
        mappings = isinstance(lower, yaml.MappingNode) and isinstance(upper, yaml.MappingNode)
        return self.over(lower, upper, depth) if mappings else upper  # type: ignore[arg-type]


def _name(key: yaml.Node) -> str:
    """Return the identity of a field; names that are not text, and YAML's ``<<``, are never equal."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE else f"\0{id(key)}"


def taken(root: yaml.MappingNode, names: Iterable[str]) -> tuple[yaml.MappingNode, dict[str, list[Pair]]]:
    """Return (the mapping without the fields of these names, these fields)."""
    found: dict[str, list[Pair]] = {name: [] for name in names}
    rest: list[Pair] = []
    for key, value in root.value:
        found.get(_name(key), rest).append((key, value))
    return yaml.MappingNode(root.tag, rest, root.start_mark, root.end_mark, root.flow_style), found
