"""Insert ``parameters:`` of a spec where its values say ``${name}``: as text within a text, or as a whole value.

That is all a template is: a file of fields to include, with names in it that each job's own file gives values to. Nothing is computed,
names of fields cannot be made, and parameters do not refer to each other. What is no parameter is a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import yaml

from skyband.framework.spec.parsing.document import Filled, TooMuch

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MOST_CHARACTERS: Final = 1_000_000
"""Maximum total length of all texts after insertion."""


@dataclass(slots=True)
class Filling:
    """What is put in. ``used``: the parameters that something referred to; ``unfit``: (text, parameter) that is no text to put into one."""

    values: Mapping[str, yaml.Node]
    used: set[str] = field(default_factory=set)
    unfit: list[tuple[yaml.Node, str]] = field(default_factory=list)
    _characters: int = 0
    _made: dict[int, yaml.Node] = field(default_factory=dict)

    def fill(self, node: yaml.Node) -> yaml.Node:
        """The node with the parameters in it, the one given if it names none. O(nodes + characters); raises ``TooMuch``.

        What is written once and used by alias stays one.
        """
        order = list(nodes(node))
        for at in order:
            if isinstance(at, yaml.ScalarNode):
                self._made[id(at)] = self._scalar(at)
        for at in order:
            if isinstance(at, yaml.MappingNode):
                at.value = [(key, self._made.get(id(value), value)) for key, value in at.value]
            elif isinstance(at, yaml.SequenceNode):
                at.value = [self._made.get(id(value), value) for value in at.value]
        return self._made.get(id(node), node)

    def _scalar(self, node: yaml.ScalarNode) -> yaml.Node:
        text: str = node.value
        if "${" not in text or isinstance(node, Filled):
            return node
        whole = _REFERENCE.fullmatch(text.strip())
        if whole is not None and whole.group(1) in self.values:
            self.used.add(whole.group(1))
            return self.values[whole.group(1)]
        put = 0

        def replace(m: re.Match[str]) -> str:
            nonlocal put
            value = self.values.get(m.group(1) or "")
            if value is None:
                return m.group()
            self.used.add(m.group(1))
            if not isinstance(value, yaml.ScalarNode):
                self.unfit.append((node, m.group(1)))
                return m.group()
            put += 1
            self._characters += len(value.value)
            if self._characters > MOST_CHARACTERS:
                raise TooMuch(f"with its parameters, the spec is longer than {MOST_CHARACTERS:,} characters", node)
            return str(value.value)

        made = _REFERENCE.sub(replace, text)
        return Filled(node.tag, made, node.start_mark, node.end_mark, node.style) if put else node


def names(root: yaml.Node) -> set[str]:
    """Return all names that values below ``root`` refer to. O(nodes + characters)."""
    return {m.group(1) for node in scalars(root) for m in _REFERENCE.finditer(node.value) if m.group(1)}


def scalars(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield every scalar below ``root`` once."""
    return (node for node in nodes(root) if isinstance(node, yaml.ScalarNode))


def nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield ``root`` and every value below it once, without recursion, since the depth is unbounded."""
    left, seen = [root], {id(root)}
    while left:
        at = left.pop()
        yield at
        inside = [] if isinstance(at, yaml.ScalarNode) else [v for _, v in at.value] if isinstance(at, yaml.MappingNode) else at.value
        for inner in inside:
            if id(inner) not in seen:
                seen.add(id(inner))
                left.append(inner)
