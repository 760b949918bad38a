"""Parse YAML with error recovery, so that one syntax error does not hide the other errors of a file.

After a syntax error the top-level section it is in is set aside (``Composed.lost``) and the rest is read. The two slips that need
no such loss, an unquoted ``${NAME}`` inside braces and a stray control character, are repaired in place, keeping columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import yaml

from skyband.framework.base.errors import SkybandError
from skyband.framework.spec.parsing.document import MAX_NODES, TOO_MUCH
from skyband.framework.spec.parsing.positions import SourceText

MAX_BYTES: Final = 256 * 1024
_ROUNDS: Final = 25
_READ: Final = 200_000
"""Characters that may be read before the last round."""
_MAX_NODES: Final = 2 * MAX_NODES + 1_000  # names count here, too
_UNQUOTED: Final = re.compile(r"\$\{([^}\n]{0,200})\}")
_TOP: Final = re.compile(r"""(?:["']?)([A-Za-z_][\w-]*)(?:["']?)\s*:(?:\s|$)""")

_PLAIN_TEXT: Final = (
    ("mapping values are not allowed", "a ': ' inside a value, or a wrong indentation", "quote the value if the ': ' belongs to it"),
    ("could not find expected ':'", "a field without ':' after its name", "write 'name: value'"),
    (
        "expected ',' or '}'",
        "a mapping in braces goes wrong here",
        "separate fields with ',', close with '}', and quote values with , : { } [ ]",
    ),
    (
        "expected ',' or ']'",
        "a list in brackets goes wrong here",
        "separate items with ',', close with ']', and quote values with , : { } [ ]",
    ),
    (
        "expected <block end>",
        "this does not belong to the line before",
        "check the indentation; quote a value that holds quotes as a whole",
    ),
    ("that cannot start any token", "a value cannot start with this character", "quote it"),
    ("undefined alias", "* at the start of a value means an alias, and there is none of this name", "quote the value"),
    ("expected alphabetic or numeric", "* or & at the start of a value means an alias or anchor", "quote the value"),
    ("unknown escape character", "an unknown escape in a double-quoted value", "use single quotes: '\\w+'"),
    ("found unexpected end of stream", "a quote is never closed", "close the quote"),
    ("expected a single document", "more than one document ('---') in the file", "one job per file"),
    ("but found another document", "more than one document ('---') in the file", "one job per file"),
    ("undefined tag handle", "! at the start of a value means a tag", "quote the value"),
)


class _TooMany(Exception):
    def __init__(self, mark: yaml.Mark) -> None:
        super().__init__()
        self.mark = mark


class _Loader(yaml.SafeLoader):
    """A composer that stops at too many nodes."""

    composed = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """As the base class."""
        self.composed += 1
        if self.composed > _MAX_NODES:
            raise _TooMany(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)


@dataclass(slots=True)
class Composed:
    """A file's nodes, and what was wrong. ``readable``: there are nodes to speak of; ``root`` is None if there are none.

    ``lost`` are the sections that were set aside, ``repaired`` the lines with a ``${NAME}`` that stands there as ``$(NAME)``.
    """

    text: SourceText
    root: yaml.Node | None = None
    readable: bool = False
    errors: list[SkybandError] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    repaired: set[int] = field(default_factory=set)


def compose(file: str, text: str) -> Composed:
    """Return the nodes of ``text``, of at most ``MAX_BYTES``; never raises. ``file`` is the name in messages and marks."""
    source = SourceText(file, text, careful=True)
    made = Composed(SourceText(file, text))
    errors = made.errors
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        hint = "a spec is a few KB; is this the right file?"
        errors.append(SkybandError("SKY-E103", f"the file is larger than {MAX_BYTES // 1024} KB", hint, source.where(0, 0)))
        return made
    read = 0
    for _ in range(_ROUNDS):
        if read > _READ:
            break
        try:
            made.root = _root(file, "\n".join(_clean(source.lines)))
            made.readable = made.root is not None or not errors
            break
        except RecursionError:
            errors.append(SkybandError("SKY-E103", "brackets nested too deep", None, source.where(0, 0)))
            break
        except yaml.reader.ReaderError as e:
            if not _repair_character(source, e, errors):
                break
        except _TooMany as e:
            where = source.where(e.mark.line, e.mark.column)
            errors.append(SkybandError("SKY-E103", f"the file holds more than {_MAX_NODES:,} names and values", TOO_MUCH, where))
            break
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark or e.context_mark
            read += mark.index if mark is not None else 0
            if not _repair(source, e, errors, made.lost, made.repaired):
                break
        except (ValueError, yaml.YAMLError) as e:
            errors.append(SkybandError("SKY-E101", f"not YAML: {e}", None, source.where(0, 0)))
            break
    return made


def _root(file: str, text: str) -> yaml.Node | None:
    """Compose like ``yaml.compose``, with marks that name the file."""
    loader = _Loader(text)
    loader.name = file
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _clean(lines: list[str]) -> list[str]:
    # A byte order mark is not text; \x85 and its kin were split off already, so that lines are counted alike everywhere.
    return [lines[0].removeprefix("\ufeff"), *lines[1:]] if lines else lines


def _repair_character(source: SourceText, e: yaml.reader.ReaderError, errors: list[SkybandError]) -> bool:
    at = int(e.position)
    for n, line in enumerate(source.lines):
        if at <= len(line) and at < len(line) + 1:
            if at >= len(line):
                return False
            message = f"the character U+{ord(line[at]):04X} cannot be in a YAML file"
            errors.append(SkybandError("SKY-E101", message, "remove it", source.where(n, at)))
            source.lines[n] = "".join(c if c.isprintable() or c == "\t" else "_" for c in line)
            return True
        at -= len(line) + 1
    return False


def _repair(source: SourceText, e: yaml.MarkedYAMLError, errors: list[SkybandError], lost: set[str], repaired: set[int]) -> bool:
    mark = e.problem_mark or e.context_mark
    if mark is None:
        errors.append(SkybandError("SKY-E101", str(e.problem or e), None, source.where(0, 0)))
        return False
    line, col = min(mark.line, len(source.lines) - 1), mark.column
    text = source.lines[line]
    if col > 0 and text[col - 1 : col + 1] == "${":
        for m in _UNQUOTED.finditer(text, col - 1):
            if m.start() == col - 1:
                hint = (
                    f'quote the value: "{m.group()}..."'
                    if text[m.end() : m.end() + 1] not in {",", "}", "]", " ", ""}
                    else f'quote it: "{m.group()}"'
                )
                message = f"inside braces, YAML reads {m.group()} without quotes as a mapping"
                errors.append(SkybandError("SKY-E104", message, hint, source.where(line, col - 1, len(m.group()))))
                source.lines[line] = text[: m.start()] + "$(" + m.group(1) + ")" + text[m.end() :]
                repaired.add(line)
                return True
    quote = _open_quote(source.lines, line)
    block = _block(source.lines, line if quote is None else quote[0])
    swallowed = e.context_mark is not None and any(w in (e.context or "") for w in ("flow", "quoted scalar"))
    if quote is not None:
        errors.append(SkybandError("SKY-E101", "this quote is never closed", "close it", source.where(*quote)))
    elif swallowed and e.context_mark is not None and _block(source.lines, e.context_mark.line) != block:
        line, col = e.context_mark.line, e.context_mark.column
        block = _block(source.lines, line)
        opened = source.lines[line][col : col + 1]
        errors.append(
            SkybandError("SKY-E101", f"this {opened} is never closed", "close it before the next section", source.where(line, col))
        )
    elif "\t" in text[: len(text) - len(text.lstrip())]:
        errors.append(SkybandError("SKY-E104", "a tab in the indentation", "indent with spaces", source.where(line, text.index("\t"))))
    else:
        problem = e.problem or "not YAML"
        message, hint = next(((m, h) for part, m, h in _PLAIN_TEXT if part in problem), (problem, "check quotes, braces and indentation"))
        if "end of stream" in problem and e.context_mark is not None:
            line, col = e.context_mark.line, e.context_mark.column
            block = _block(source.lines, line)
        if "document" in problem:
            errors.append(SkybandError("SKY-E101", message, hint, source.where(line, col)))
            source.lines[line:] = [""] * (len(source.lines) - line)
            return True
        errors.append(SkybandError("SKY-E101", message, hint, source.where(line, col)))
    if block is None:
        return False
    first, last = block
    section = _TOP.match(source.lines[first])
    if section is None and first == 0 and last == len(source.lines):
        return False
    if section is not None:
        lost.add(section.group(1))
    if not any(t.strip() for t in source.lines[first:last]):
        return False
    source.lines[first:last] = [""] * (last - first)
    return True


def _open_quote(lines: list[str], upto: int) -> tuple[int, int] | None:
    """Where a quote opens that is still open at the end of its section, in the sections up to line ``upto``."""
    opened: tuple[int, int] | None = None
    mark = ""
    for n, text in enumerate(lines):
        if _starts(text):
            if opened is not None or n > upto:
                return opened
            mark = ""
        i = 0
        while i < len(text):
            c = text[i]
            if mark:
                if c == "\\" and mark == '"':
                    i += 1
                elif c == mark:
                    mark, opened = "", None
            elif c == "#" and (i == 0 or text[i - 1].isspace()):
                break
            elif c in "'\"" and (i == 0 or text[i - 1] in " \t[{,:("):
                mark, opened = c, (n, i)
            i += 1
    return opened


def _block(lines: list[str], line: int) -> tuple[int, int] | None:
    """The top-level section that ``line`` is in: its first line and the line after its last."""
    first = min(line, len(lines) - 1)
    while first > 0 and not _starts(lines[first]):
        first -= 1
    last = first + 1
    while last < len(lines) and not _starts(lines[last]):
        last += 1
    return (first, last) if first < len(lines) else None


def _starts(text: str) -> bool:
    return bool(text) and not text[0].isspace() and text[0] not in "#-]})"
