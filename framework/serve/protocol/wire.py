"""Messages of the PostgreSQL wire protocol, version 3.0: read those of clients, build those of the server."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Final

PROTOCOL: Final = 196608
SSL_REQUEST: Final = 80877103
GSS_REQUEST: Final = 80877104
CANCEL_REQUEST: Final = 80877102
MAX_STARTUP: Final = 10_000
"""Bytes of a message before the client has proven the token."""
MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of any later message: a statement and its parameters."""
TEXT: Final = 0
BINARY: Final = 1


class WireError(Exception):
    """The bytes of the client are no message of the protocol. The connection ends."""


class Refused(Exception):
    """The server does not do what the client asks: an SQLSTATE, one sentence, and what to do instead."""

    def __init__(self, state: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.state, self.message, self.hint = state, message, hint


class Body:
    """The content of one message, read from its start to its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def text(self) -> str:
        """Return the next zero-terminated string. Raises WireError if it is not UTF-8 or has no end."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise WireError("a string has no end")
        raw, self._at = self._data[self._at : end], end + 1
        return decoded(raw)

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        if count < 0 or self._at + count > len(self._data):
            raise WireError("the message is shorter than it says")
        raw, self._at = self._data[self._at : self._at + count], self._at + count
        return raw

    def int16(self) -> int:
        """Return the next integer of 2 bytes."""
        return int(struct.unpack("!h", self.take(2))[0])

    def int32(self) -> int:
        """Return the next integer of 4 bytes."""
        return int(struct.unpack("!i", self.take(4))[0])

    def rest(self) -> bytes:
        """Return what is left."""
        return self.take(len(self._data) - self._at)


def decoded(raw: bytes) -> str:
    """Return ``raw`` as text. Raises Refused 22021 if it is not UTF-8, the only encoding that the server takes."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise Refused("22021", "the text is not UTF-8", "set client_encoding to UTF8, the only encoding of this server") from e


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """Return ``count`` bytes. Raises EOFError if the client closes the connection before."""
    parts: list[bytes] = []
    while count:
        part = sock.recv(min(count, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_message(sock: socket.socket) -> tuple[bytes, bytes]:
    """Return the kind and the content of the next message. Raises WireError for an impossible length, EOFError at the end."""
    kind = read_exactly(sock, 1)
    length = int(struct.unpack("!i", read_exactly(sock, 4))[0])
    if not 4 <= length <= MAX_MESSAGE:
        raise WireError(f"a message of {length} bytes: at most {MAX_MESSAGE} are taken")
    return kind, read_exactly(sock, length - 4)


def message(kind: bytes, content: bytes = b"") -> bytes:
    """Return one message of the server."""
    return kind + struct.pack("!i", len(content) + 4) + content


def string(text: str) -> bytes:
    """Return ``text`` as the protocol writes it; a zero byte, which would end it, is left out."""
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: int, content: bytes = b"") -> bytes:
    """Return an authentication message: 0 is success, 10 to 12 are the steps of SASL."""
    return message(b"R", struct.pack("!i", code) + content)


def parameter_status(name: str, value: str) -> bytes:
    """Return the message that says the value of a setting."""
    return message(b"S", string(name) + string(value))


def key_data(process: int, secret: int) -> bytes:
    """Return the message with what a client needs to cancel a statement."""
    return message(b"K", struct.pack("!iI", process, secret))


def ready(status: bytes) -> bytes:
    """Return ReadyForQuery: ``I`` outside of a transaction, ``T`` in one, ``E`` in a failed one."""
    return message(b"Z", status)


def complete(tag: str) -> bytes:
    """Return CommandComplete."""
    return message(b"C", string(tag))


def copy_begins(form: int, columns: int) -> bytes:
    """Return CopyOutResponse: rows of ``columns`` values in the format ``form`` follow."""
    return message(b"H", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def copy_data(data: bytes) -> bytes:
    """Return CopyData."""
    return message(b"d", data)


def copy_ends() -> bytes:
    """Return CopyDone."""
    return message(b"c")


def failure(refused: Refused, severity: str = "ERROR") -> bytes:
    """Return ErrorResponse."""
    return message(b"E", _fields(severity, refused.state, refused.message, refused.hint))


def notice(text: str) -> bytes:
    """Return NoticeResponse."""
    return message(b"N", _fields("NOTICE", "00000", text, None))


def _fields(severity: str, state: str, text: str, hint: str | None) -> bytes:
    fields = [(b"S", severity), (b"V", severity), (b"C", state), (b"M", text)]
    if hint:
        fields.append((b"H", hint))
    return b"".join(code + string(value) for code, value in fields) + b"\0"


def row_description(columns: Iterable[tuple[str, int, int]], formats: Sequence[int]) -> bytes:
    """Return RowDescription of ``columns``: name, type's OID, size of a value (-1: it varies)."""
    parts = [
        string(name) + struct.pack("!ihihih", 0, 0, oid, size, -1, form)
        for (name, oid, size), form in zip(columns, formats, strict=True)
    ]  # fmt: skip
    return message(b"T", struct.pack("!h", len(parts)) + b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return ParameterDescription."""
    return message(b"t", struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def data_rows(columns: Sequence[Sequence[bytes | None]], count: int) -> Iterable[bytes]:
    """Return a DataRow message for each of ``count`` rows."""
    if not columns:
        return (message(b"D", struct.pack("!h", 0)) for _ in range(count))
    null, pack = b"\xff\xff\xff\xff", struct.Struct("!i").pack
    head = struct.pack("!h", len(columns))
    cells = [[null if v is None else pack(len(v)) + v for v in column] for column in columns]
    return (message(b"D", head + b"".join(row)) for row in zip(*cells, strict=True))
