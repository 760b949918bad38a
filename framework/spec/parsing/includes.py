"""Read the files that a spec includes: parts of specs, below the spec's directory and of bounded size.

The spec overrides their fields.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Final

import yaml

from skyband.framework.base.errors import SkybandError
from skyband.framework.spec.parsing.positions import SourceText
from skyband.framework.spec.parsing.recovery import MAX_BYTES, Composed, compose

INCLUDE: Final = "include"
MOST: Final = 20
"""Maximum number of included files."""
_HINT: Final = "a spec includes .yaml files below its own directory, named by their path from there"


def included(main: Composed, listed: yaml.Node, directory: str, size: int) -> tuple[list[Composed], list[SkybandError]]:
    """Return the readable files of ``listed`` (a path or a list of paths), and the errors of the others.

    All are read in full, so that all their mistakes are reported; ``size`` is what the spec itself has of ``MAX_BYTES``.
    """
    found: list[Composed] = []
    errors: list[SkybandError] = []

    def wrong(node: yaml.Node, message: str, hint: str | None = _HINT) -> None:
        mark, end = node.start_mark, node.end_mark
        length = end.column - mark.column if end.line == mark.line else 1
        errors.append(SkybandError("SKY-E108", message, hint, main.text.where(mark.line, mark.column, length)))

    named: Sequence[yaml.Node] = listed.value if isinstance(listed, yaml.SequenceNode) else [listed]
    if len(named) > MOST:
        wrong(listed, f"a spec includes at most {MOST} files", None)
    for node in named[:MOST]:
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str" or not node.value:
            wrong(node, f"'{INCLUDE}' takes a path, or a list of paths")
            continue
        try:
            raw = _read(node.value, directory, MAX_BYTES - size)
        except ValueError as e:
            wrong(node, f"{node.value}: {e}")
            continue
        size += len(raw)
        part = _composed(os.path.normpath(os.path.join(os.path.dirname(main.text.file), node.value)), raw)
        errors += part.errors
        found.append(part)
    return found, errors


def _read(path: str, directory: str, room: int) -> bytes:
    """Return the content of an included file. Raises ValueError with the reason if it cannot be read; never blocks on a pipe."""
    if "${" in path or "\0" in path:
        raise ValueError("the name of an included file is written out, without variables and parameters")
    if os.path.isabs(path) or "://" in path or not path.endswith((".yaml", ".yml")):
        raise ValueError("it cannot be included")
    whole, base = os.path.realpath(os.path.join(directory, path)), os.path.realpath(directory)
    if os.path.commonpath([whole, base]) != base:
        raise ValueError("it does not lie below the directory of the spec")
    try:
        handle = os.open(whole, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ValueError("it is not a regular file")
            raw = file.read(room + 1)
    except OSError as e:
        raise ValueError((e.strerror or "it cannot be read").lower()) from None
    if len(raw) > room:
        raise ValueError(f"with it, the spec is larger than {MAX_BYTES // 1024} KB")
    return raw


def _composed(file: str, raw: bytes) -> Composed:
    """Return the nodes of an included file, which may not include others."""
    try:
        part = compose(file, raw.decode("utf-8"))
    except UnicodeDecodeError:
        text = SourceText(file, "")
        return Composed(text, errors=[SkybandError("SKY-E108", "the file is not UTF-8 text", "save it as UTF-8", text.where(0, 0))])
    root = part.root
    if part.readable and not isinstance(root, yaml.MappingNode):
        said = "the file has no fields of a spec, such as 'window: {time: 7 days}'"
        part.errors.append(SkybandError("SKY-E108", said, None, part.text.where(0, 0)))
    if isinstance(root, yaml.MappingNode):
        for key, _ in root.value:
            if isinstance(key, yaml.ScalarNode) and key.value == INCLUDE:
                where = part.text.where(key.start_mark.line, key.start_mark.column, len(INCLUDE))
                part.errors.append(SkybandError("SKY-E108", "an included file cannot include others", "list all files in the spec", where))
    return part
