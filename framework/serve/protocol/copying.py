"""``copy ... to stdout``: parse the statement, and write rows in PostgreSQL's formats ``text``, ``csv`` and ``binary``.

A statement that names a file or a program, or reads, is none of these: the syntax tree refuses it, as it does all that writes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skyband.framework.serve.protocol.syntax import Token, tokens
from skyband.framework.serve.protocol.wire import BINARY, TEXT, Refused

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_ESCAPES: Final = {8: b"\\b", 12: b"\\f", 10: b"\\n", 13: b"\\r", 9: b"\\t", 11: b"\\v", 92: b"\\\\"}
_FLAGS: Final = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows of ``query`` to be sent in ``form``: text, csv or binary. ``forced``: the columns that csv quotes always, None for all."""

    query: str
    form: str
    delimiter: bytes
    null: bytes
    header: bool
    quote: bytes
    escape: bytes
    forced: frozenset[str] | None

    @property
    def format(self) -> int:
        """The format of the values."""
        return BINARY if self.form == "binary" else TEXT

    def rows(self, names: Sequence[str], parts: Iterable[Sequence[Sequence[bytes | None]]]) -> Iterator[bytes]:
        """Yield the data of each message: a row of ``parts``, each of them columns of values, with what stands before and behind them."""
        if self.form == "binary":
            yield from self._binary(len(names), parts)
            return
        write = self._csv if self.form == "csv" else self._text()
        if self.header:
            yield write([n.encode("utf-8", "replace") for n in names], [False] * len(names))
        forced = [self.forced is None or n in self.forced for n in names]
        for columns in parts:
            for row in zip(*columns, strict=True):
                yield write(row, forced)

    def _binary(self, count: int, parts: Iterable[Sequence[Sequence[bytes | None]]]) -> Iterator[bytes]:
        head, start = struct.pack("!h", count), _SIGNATURE
        for columns in parts:
            for row in zip(*columns, strict=True):
                yield start + head + b"".join(b"\xff\xff\xff\xff" if v is None else struct.pack("!i", len(v)) + v for v in row)
                start = b""
        yield start + _END

    def _text(self) -> Callable[[Sequence[bytes | None], Sequence[bool]], bytes]:
        escapes = {self.delimiter[0]: b"\\" + self.delimiter, **_ESCAPES}
        special = re.compile(b"[" + b"".join(re.escape(bytes([c])) for c in escapes) + b"]")

        def write(row: Sequence[bytes | None], forced: Sequence[bool]) -> bytes:
            cells = [self.null if v is None else special.sub(lambda m: escapes[m[0][0]], v) for v in row]
            return self.delimiter.join(cells) + b"\n"

        return write

    def _csv(self, row: Sequence[bytes | None], forced: Sequence[bool]) -> bytes:
        alone = len(row) == 1
        return self.delimiter.join(self._cell(v, force, alone) for v, force in zip(row, forced, strict=True)) + b"\n"

    def _cell(self, value: bytes | None, force: bool, alone: bool) -> bytes:
        if value is None:
            return self.null
        plain = value != self.null and not any(c in value for c in (self.delimiter, self.quote, b"\n", b"\r")) and not (
            alone and value == b"\\."
        )  # fmt: skip
        if plain and not force:
            return value
        if self.escape != self.quote:
            value = value.replace(self.escape, self.escape * 2)
        return self.quote + value.replace(self.quote, self.escape + self.quote) + self.quote


def parsed(sql: str) -> Copy | None:
    """Return the copy to the client that ``sql`` asks for, None for any other statement. Raises Refused for options that are not taken."""
    if not re.match(r"copy\b", sql, re.IGNORECASE):
        return None
    words = _Words(sql)
    words.take("copy")
    options: dict[str, str | list[str] | None] = {}
    if words.at("binary") and not words.at("to", 1) and not words.at(".", 1):
        words.take("binary")
        options["format"] = "binary"
    query = words.query()
    if query is None or not words.take("to") or not words.take("stdout"):
        return None
    words.options(options)
    return _copy(query, options)


class _Words:
    """The tokens of a statement, read from its start to its end."""

    def __init__(self, sql: str) -> None:
        self._sql, self._tokens, self._at = sql, tokens(sql), 0

    def _next(self, ahead: int = 0) -> Token | None:
        return self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else None

    def at(self, word: str, ahead: int = 0) -> bool:
        """Return whether the token ``ahead`` of the next one is ``word``."""
        token = self._next(ahead)
        return token is not None and token.text.lower() == word

    def take(self, word: str) -> bool:
        """Go past ``word`` if it comes next, and return whether it did."""
        found = self.at(word)
        self._at += found
        return found

    def query(self) -> str | None:
        """Return the query in parentheses, or that of the named relation and its columns, None if there is neither."""
        if self.at("("):
            start, depth = self._tokens[self._at].end, 0
            while (token := self._next()) is not None:
                depth += {"(": 1, ")": -1}.get(token.text, 0)
                self._at += 1
                if not depth:
                    return self._sql[start : token.start].strip()
            return None
        name = self._names(".")
        if not name:
            return None
        columns = "*"
        if self.take("("):
            columns = ", ".join(self._names(","))
            if not columns or not self.take(")"):
                return None
        return f"select {columns} from {'.'.join(name)}"

    def _names(self, between: str) -> list[str]:
        """Return names with ``between`` between them, as they are written: words and texts in double quotes, nothing else."""
        made = list[str]()
        while (token := self._next()) is not None and token.kind in ("word", "name"):
            made.append(token.text)
            self._at += 1
            if not self.take(between):
                break
        return made

    def options(self, options: dict[str, str | list[str] | None]) -> None:
        """Read what comes after the target into ``options``. Raises Refused for what is no option."""
        self.take("with")
        if self.take("("):
            while not self.take(")"):
                name = self._word()
                options[name] = self._value()
                if not self.take(",") and not self.at(")"):
                    raise _misread()
        while self._next() is not None:
            name = self._word()
            if name == "force":
                name += "_" + self._word()
            if name in ("csv", "binary", "text"):
                options["format"] = name
            elif name == "header":
                options["header"] = None
            else:
                self.take("as")
                options[name] = self._names(",") if name == "force_quote" and not self.at("*") else self._value()

    def _word(self) -> str:
        token = self._next()
        if token is None or token.kind != "word":
            raise _misread()
        self._at += 1
        return token.text.lower()

    def _value(self) -> str | list[str] | None:
        token = self._next()
        if token is None or token.text in (",", ")"):
            return None
        self._at += 1
        if token.text == "(":
            names = self._names(",")
            if not self.take(")"):
                raise _misread()
            return names
        return _unescaped(token) if token.kind == "text" else token.text


def _unescaped(token: Token) -> str:
    if token.text[0] in "eE":
        return re.sub(r"\\(.)", lambda m: {"t": "\t", "n": "\n", "r": "\r"}.get(m[1], m[1]), token.text[2:-1]).replace("''", "'")
    return token.text[1:-1].replace("''", "'")


def _misread() -> Refused:
    return Refused("42601", "the options of copy are not understood", "copy (query) to stdout (format csv, header)")


def _copy(query: str, options: dict[str, str | list[str] | None]) -> Copy:
    unknown = set(options) - {"format", "delimiter", "null", "header", "quote", "escape", "force_quote", "encoding"}
    if unknown:
        raise Refused(
            "0A000", f"copy takes no option {min(unknown)[:60]!r} here", "format, delimiter, null, header, quote, escape, force_quote"
        )
    form = str(options.get("format") or "text").lower()
    if form not in ("text", "csv", "binary"):
        raise Refused("22023", f"copy has no format {form[:60]!r}", "text, csv or binary")
    if not re.fullmatch(r"utf-?8|unicode", str(options.get("encoding", "utf8")), re.IGNORECASE):
        raise Refused("0A000", "copy sends UTF8 only")
    allowed = {"text": {"delimiter", "null", "header"}, "csv": set(options), "binary": set[str]()}[form]
    misfit = set(options) - allowed - {"format", "encoding"}
    if misfit:
        raise Refused("42601", f"copy in the format {form} takes no option {min(misfit)!r}")
    quote = _byte(options, "quote", '"')
    given, null = options.get("force_quote", []), options.get("null", "" if form == "csv" else "\\N")
    if not isinstance(null, str) or "\n" in null or "\r" in null:
        raise Refused("22023", "the text for null is one line of text")
    header = options.get("header", "false")
    wanted = True if header is None else _FLAGS.get(str(header).lower())
    if wanted is None:
        raise Refused("22023", "the option header is on or off")
    forced = None if given == "*" else frozenset(_plain(n) for n in given) if isinstance(given, list) else frozenset({_plain(str(given))})
    return Copy(
        query, form, _byte(options, "delimiter", "," if form == "csv" else "\t"), null.encode(), wanted, quote,
        _byte(options, "escape", quote.decode()), forced,
    )  # fmt: skip


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _byte(options: dict[str, str | list[str] | None], name: str, default: str) -> bytes:
    value = options.get(name, default)
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in "\n\r\0" or (name == "delimiter" and value == "\\"):
        raise Refused("22023", f"the option {name} of copy is one ASCII character")
    return value.encode()
