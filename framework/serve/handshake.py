"""What happens before a client is let in: encryption is declined, the token is proven by SCRAM-SHA-256, or a statement is cancelled."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from skyband.framework.serve.catalog import DATABASE, USER
from skyband.framework.serve.protocol import scram, wire
from skyband.framework.serve.protocol.wire import Body, Refused, WireError

SECONDS: Final = 10.0
"""How long a client may take to prove the token."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A client that proved the token, with what it said of itself."""

    startup: dict[str, str]


@dataclass(frozen=True, slots=True)
class Cancel:
    """A request to cancel the statement of another connection."""

    process: int
    secret: int


class Handshake:
    """The state of one client that is not let in yet. Its socket does not block: ``advance`` goes as far as the bytes allow."""

    def __init__(self, sock: socket.socket, verifier: scram.Verifier) -> None:
        self.sock, self.until = sock, time.monotonic() + SECONDS
        self._buffer = b""
        self._startup: dict[str, str] | None = None
        self._verifier = verifier
        self._exchange: scram.Exchange | None = None

    def advance(self) -> Entered | Cancel | None:
        """Take what has come: the outcome, or None if more has to come.

        Raises Refused for a client that is not let in, WireError for what is no message, EOFError if the client is gone.
        """
        try:
            # No byte beyond the message is taken: what follows is for the connection's process.
            data = self.sock.recv(self._missing())
        except (BlockingIOError, InterruptedError):
            return None
        if not data:
            raise EOFError
        self._buffer += data
        if self._missing():
            return None
        message, self._buffer = self._buffer, b""
        return self._first(message[4:]) if self._startup is None else self._proof(message)

    def _missing(self) -> int:
        """Return how many bytes the message lacks, as far as that is known."""
        head = 4 if self._startup is None else 5
        if len(self._buffer) < head:
            return head - len(self._buffer)
        length = int(struct.unpack("!i", self._buffer[head - 4 : head])[0])
        if not 4 <= length <= wire.MAX_STARTUP:
            raise WireError("the first message is no message of PostgreSQL's protocol")
        return head - 4 + length - len(self._buffer)

    def _first(self, content: bytes) -> Cancel | None:
        body = Body(content)
        code = body.int32()
        if code in (wire.SSL_REQUEST, wire.GSS_REQUEST):
            self.sock.sendall(b"N")
            return None
        if code == wire.CANCEL_REQUEST:
            return Cancel(body.int32(), body.int32() & 0xFFFFFFFF)
        if code >> 16 != 3:
            raise Refused("0A000", "the server speaks version 3 of PostgreSQL's protocol")
        words = [w.decode("utf-8", "replace") for w in body.rest().split(b"\0")]
        said = dict(zip(words[::2], words[1::2], strict=False))
        self._startup = said
        if code != wire.PROTOCOL:
            # A later minor version: report the version that this server supports.
            self.sock.sendall(wire.message(b"v", struct.pack("!ii", wire.PROTOCOL, 0)))
        self._exchange = scram.Exchange(self._verifier)
        self.sock.sendall(wire.authentication(10, wire.string(scram.MECHANISM) + b"\0"))
        return None

    def _proof(self, message: bytes) -> Entered | None:
        assert self._exchange is not None and self._startup is not None
        if message[:1] != b"p":
            raise WireError("the client does not answer the authentication")
        body = Body(message[5:])
        if not self._exchange.begun:
            mechanism, size = body.text(), body.int32()
            if mechanism != scram.MECHANISM:
                raise Refused("28000", f"the server authenticates by {scram.MECHANISM} only")
            self.sock.sendall(wire.authentication(11, self._exchange.challenge(body.take(size))))
            return None
        proof = self._exchange.confirm(body.rest())
        # The token is proven before anything is said of the user or the database.
        if proof is None or self._startup.get("user") != USER:
            raise Refused("28P01", "the user or the token is wrong", f"user {USER}, and the token of SKYBAND_SERVE_TOKEN as password")
        if self._startup.get("database", USER) != DATABASE:
            raise Refused(
                "3D000", f"there is no database {self._startup['database']!r}", f"the database is {DATABASE}; each job is a schema in it"
            )
        self.sock.sendall(wire.authentication(12, proof) + wire.authentication(0))
        return Entered(self._startup)
