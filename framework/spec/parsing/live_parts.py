"""Put live queries into the document of a spec: parts that have only queries and scoring functions, each with its own places."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import yaml

from skyband.framework.base.errors import SkybandError
from skyband.framework.spec.parsing.positions import SourceText
from skyband.framework.spec.parsing.recovery import Composed, compose

ALLOWED: Final = ("queries", "scoring")
_LIVE_HINT: Final = "a file of live queries has the sections queries and, if they need them, scoring"


@dataclass(frozen=True, slots=True)
class LivePart:
    """``file`` names the ``text`` in messages. ``new``: a repeated name is a mistake; otherwise the present entry stays."""

    file: str
    text: str
    new: bool = False


@dataclass(frozen=True, slots=True)
class LiveParts:
    """``removed``: names of queries of the spec that are left out."""

    parts: tuple[LivePart, ...] = ()
    removed: Collection[str] = ()


NO_PARTS: Final = LiveParts()


def with_parts(root: yaml.MappingNode, live: LiveParts) -> tuple[yaml.MappingNode, list[Composed]]:
    """Return (the root with the queries and scoring functions of the parts, the parts with their mistakes). ``root`` is not changed."""
    made = yaml.MappingNode(root.tag, list(root.value), root.start_mark, root.end_mark)
    found = []
    for at, (key, value) in enumerate(made.value):
        if _name(key) == "queries" and isinstance(value, yaml.MappingNode) and live.removed:
            kept = [pair for pair in value.value if _name(pair[0]) not in live.removed]
            made.value[at] = key, yaml.MappingNode(value.tag, kept, value.start_mark, value.end_mark)
    for part in live.parts:
        read = compose(part.file, part.text)
        found.append(read)
        if read.readable:
            _check(read)
        if isinstance(read.root, yaml.MappingNode) and not read.errors:
            for key, value in read.root.value:
                _add(made, key, value, part.new)
    return made, found


def _check(part: Composed) -> None:
    """Note as mistakes whatever is not a query or a scoring function, and what would read a file or the environment."""
    root = part.root
    if not isinstance(root, yaml.MappingNode):
        part.errors.append(SkybandError("SKY-E590", "a file of live queries is a mapping", _LIVE_HINT, part.text.where(0, 0)))
        return
    names = [_name(key) for key, _ in root.value]
    for key, value in root.value:
        if _name(key) not in ALLOWED:
            _wrong(part, key, f"a file of live queries has no section {key.value!r}" if isinstance(key, yaml.ScalarNode) else _LIVE_HINT)
        elif not isinstance(value, yaml.MappingNode):
            _wrong(part, key, f"{key.value!r} needs entries, such as {{name: {{...}}}}")
        elif _name(key) == "queries":
            for _, entry in value.value:
                for field, _ in entry.value if isinstance(entry, yaml.MappingNode) else ():
                    if _name(field) == "queries_from":
                        _wrong(part, field, "a live query takes no table of queries (queries_from)")
    if "queries" not in names:
        _wrong(part, root, "the file has no section 'queries'")
    left: list[yaml.Node] = [root]
    seen: set[int] = set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            if "${" in str(node.value):
                _wrong(part, node, "a live query takes no variables and parameters: write the value out")
        elif isinstance(node, yaml.MappingNode):
            left += [n for pair in node.value for n in pair]
        else:
            left += node.value


def _wrong(part: Composed, node: yaml.Node, said: str) -> None:
    mark = node.start_mark
    part.errors.append(SkybandError("SKY-E590", said, _LIVE_HINT, part.text.where(mark.line, mark.column)))


def _add(root: yaml.MappingNode, key: yaml.Node, value: yaml.Node, new: bool) -> None:
    """Add the entries of a section to that of the root. A name that is there already stays, or is there twice if it is ``new``."""
    assert isinstance(value, yaml.MappingNode)
    for at, (name, present) in enumerate(root.value):
        if _name(name) == _name(key) and isinstance(present, yaml.MappingNode):
            known = {_name(k) for k, _ in present.value}
            entries = [*present.value, *(pair for pair in value.value if new or _name(pair[0]) not in known)]
            root.value[at] = name, yaml.MappingNode(present.tag, entries, present.start_mark, present.end_mark)
            return
    root.value.append((key, value))


def _name(key: yaml.Node) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else ""


def texts_of(found: Collection[Composed]) -> dict[str, SourceText]:
    """Return the texts of parts by their names in messages."""
    return {part.text.file: part.text for part in found}
