"""Replace values of a spec without editing its file, such as ``queries.best.k=20`` of ``skyband whatif --set``.

The value is YAML. It takes its place among the nodes of the spec before these are read, so that the ordinary checks see it. Mistakes
in it are reported with the setting as the name of their file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import yaml

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of

ALLOWED: Final = ("queries", "scoring", "window", "transform", "quality.rows", "deletes", "stats", "tokens", "vectors")
"""The parts of a spec that only decide which rows are accepted and what results are made of them."""
_LATENESS: Final = ("source", "event_time")
_STR: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, as YAML, and the names and numbers (from 0, in lists) that lead to its place."""

    path: tuple[str, ...]
    value: str

    @property
    def said(self) -> str:
        """Return the setting as it is written."""
        return f"{'.'.join(self.path)}={self.value}"

    @property
    def file(self) -> str:
        """Return the name of its text in messages."""
        return f"--set {self.said}"


class CannotSet(Exception):
    """There is no such place in the spec. ``hint``: what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def setting_of(text: str) -> Setting:
    """Parse ``PATH=VALUE``. Raises SkybandError SKY-E201 for anything else, and for a part of the spec that must not be set."""
    path, equals, value = text.partition("=")
    names = tuple(name.strip() for name in path.split("."))
    if not equals or not all(names):
        raise SkybandError("SKY-E201", f"--set takes PATH=VALUE, not {text!r}", hint="such as --set queries.best.k=20")
    if "${" in value:
        raise SkybandError("SKY-E201", f"the value of --set {path.strip()} refers to a variable", hint="write the value itself")
    if not any(names[: len(part)] == part for part in (tuple(a.split(".")) for a in ALLOWED)):
        hint = f"it takes values of {one_of(ALLOWED)}"
        if names[:2] == _LATENESS:
            hint = "which rows came too late is known only of the runs; --with rejected:late puts these rows back"
        elif (near := did_you_mean(names[0], [a.partition(".")[0] for a in ALLOWED])) is not None:
            hint = near
        raise SkybandError("SKY-E201", f"{'.'.join(names)} cannot be set: it does more than change results", hint=hint)
    return Setting(names, value)


def placed(root: yaml.Node, setting: Setting, value: yaml.Node) -> yaml.Node:
    """Return ``root`` with ``value`` in its place; nodes that others refer to by alias are not changed. Raises CannotSet."""
    return _placed(root, setting.path, (), value)


def _placed(node: yaml.Node | None, path: Sequence[str], above: tuple[str, ...], value: yaml.Node) -> yaml.Node:
    if not path:
        return value
    name, rest, here = path[0], path[1:], (*above, path[0])
    if isinstance(node, yaml.SequenceNode):
        items = list(node.value)
        if not (name.isascii() and name.isdecimal() and int(name) < len(items)):
            raise CannotSet(
                f"{'.'.join(above)} is a list of {counted(len(items), 'item')}, and has no {name!r}", "items are numbered from 0"
            )
        items[int(name)] = _placed(items[int(name)], rest, here, value)
        return yaml.SequenceNode(node.tag, items, node.start_mark, node.end_mark, node.flow_style)
    if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:null":
        raise CannotSet(f"{'.'.join(above)} is a single value, without fields", f"set all of it: --set '{'.'.join(above)}={{{name}: ...}}'")
    if not isinstance(node, yaml.MappingNode):
        node = yaml.MappingNode("tag:yaml.org,2002:map", [], value.start_mark, value.end_mark)
    pairs = list(node.value)
    at = next((n for n, (key, _) in enumerate(pairs) if isinstance(key, yaml.ScalarNode) and key.value == name), None)
    if at is None:
        # The spec may have it by way of YAML's ``<<``; a field that is written wins over it.
        key = yaml.ScalarNode(_STR, name, value.start_mark, value.end_mark, style='"')
        pairs.append((key, _placed(_merged(node, name), rest, here, value)))
    else:
        pairs[at] = (pairs[at][0], _placed(pairs[at][1], rest, here, value))
    return yaml.MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)


def _merged(node: yaml.MappingNode, name: str, depth: int = 0) -> yaml.Node | None:
    """Return the field that a mapping has by ``<<``, None if it has none."""
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag == _MERGE and depth < 10:
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(source, yaml.MappingNode):
                    own = next((v for k, v in source.value if isinstance(k, yaml.ScalarNode) and k.value == name), None)
                    found = own if own is not None else _merged(source, name, depth + 1)
                    if found is not None:
                        return found
    return None
