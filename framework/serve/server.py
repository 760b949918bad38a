"""The server: listens on loopback, authenticates clients by the token, and forks a process per connection.

A process for a connection, as PostgreSQL has it: a statement that takes all memory, cannot be interrupted or breaks DuckDB ends its own
connection and no other. The server itself runs one thread, opens no table and runs no statement, so that a fork copies nothing half-done.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import secrets
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.serve.catalog import DATABASE, USER
from skyband.framework.serve.database import Database
from skyband.framework.serve.protocol import scram, wire
from skyband.framework.serve.protocol.wire import Body, Refused, WireError
from skyband.framework.serve.session import Session
from skyband.framework.serve.watch import CANCEL

# What happens before a client is let in: encryption is declined, the token is proven by SCRAM-SHA-256, or a statement is cancelled.

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


HOST: Final = "127.0.0.1"
_WAITING: Final = 100
"""Clients at most that have connected and not yet proven the token."""
_TICK: Final = 0.2
_FULL: Final = (errno.EMFILE, errno.ENFILE)
_SPARE_MB: Final = 1024
"""Memory of a connection's process beyond that of its statement: Python, the libraries, the answer on its way."""


@dataclass(slots=True)
class _Connection:
    """A client that was let in: its process, the pipe to it, and the server's own copy of its socket."""

    process: int
    secret: int
    control: socket.socket
    sock: socket.socket


class Server:
    """A server of ``database`` at ``port`` of loopback for clients that have the token; ``report`` prints what went wrong in it.

    SkybandError SKY-E201 if the port cannot be had.
    """

    def __init__(self, database: Database, token: str, port: int, report: Callable[[str], None]) -> None:
        self._database, self._verifier, self._report = database, scram.verifier(token), report
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((HOST, port))
            self._listener.listen(64)
        except OSError as e:
            self._listener.close()
            raise SkybandError("SKY-E201", f"port {port} cannot be had: {(e.strerror or str(e)).lower()}", hint="--port N") from e
        self._listener.setblocking(False)
        self._waiting: dict[int, Handshake] = {}
        self._connections: dict[int, _Connection] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    @property
    def port(self) -> int:
        """The port that is listened to."""
        return int(self._listener.getsockname()[1])

    def run(self, stopped: Callable[[], bool]) -> None:
        """Serve until ``stopped``; then every connection ends."""
        try:
            while not stopped():
                for key, _ in self._selector.select(_TICK):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif (waiting := self._waiting.get(key.fd)) is not None and waiting.sock is key.fileobj:
                        self._advance(waiting)
                self._overdue()
                self._ended()
        finally:
            self._close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as e:
            if e.errno in _FULL and not self._make_room():
                time.sleep(_TICK)
            return
        if len(self._waiting) >= _WAITING:
            self._make_room()
        self._waiting[sock.fileno()] = Handshake(sock, self._verifier)
        self._selector.register(sock, selectors.EVENT_READ)

    def _make_room(self) -> bool:
        """End the client that has waited longest, so that those who only connect keep nobody out. Return whether there was one."""
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None:
            return False
        self._forget(oldest)
        _refuse(oldest.sock, Refused("53300", "too many clients are connecting"))
        return True

    def _forget(self, handshake: Handshake) -> None:
        del self._waiting[handshake.sock.fileno()]
        self._selector.unregister(handshake.sock)

    def _advance(self, handshake: Handshake) -> None:
        try:
            outcome = handshake.advance()
        except Refused as e:
            self._forget(handshake)
            _refuse(handshake.sock, e)
        except WireError as e:
            self._forget(handshake)
            _refuse(handshake.sock, Refused("08P01", str(e)))
        except (EOFError, OSError):
            self._forget(handshake)
            handshake.sock.close()
        else:
            if isinstance(outcome, Cancel):
                self._forget(handshake)
                handshake.sock.close()
                self._cancel(outcome)
            elif isinstance(outcome, Entered):
                self._forget(handshake)
                self._enter(handshake.sock, outcome)

    def _overdue(self) -> None:
        now = time.monotonic()
        for handshake in [h for h in self._waiting.values() if h.until < now]:
            self._forget(handshake)
            _refuse(handshake.sock, Refused("08006", "the client took too long to prove the token"))

    def _cancel(self, wanted: Cancel) -> None:
        connection = self._connections.get(wanted.process)
        if connection is not None and secrets.compare_digest(str(connection.secret), str(wanted.secret)):
            with contextlib.suppress(OSError):
                connection.control.send(CANCEL)

    def _enter(self, sock: socket.socket, entered: Entered) -> None:
        limit = self._database.limits.connections
        if len(self._connections) >= limit:
            _refuse(sock, Refused("53300", f"{limit} clients are connected, more are not let in", "start the server with --connections N"))
            return
        pair: tuple[socket.socket, ...] = ()
        secret = secrets.randbits(32)
        try:
            pair = control, theirs = self._pair()
            process = os.fork()
        except OSError as e:
            for end in pair:
                end.close()
            said = f"this machine has no room for another connection: {(e.strerror or str(e)).lower()}"
            _refuse(sock, Refused("53000", said, "connect again when others have left"))
            return
        if process == 0:
            with _ends_here(self._report):
                # Else the pipe would not end with the server.
                control.close()
                self._become(sock, theirs, secret, entered)
        theirs.close()
        control.setblocking(False)
        self._connections[process] = _Connection(process, secret, control, sock)

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        """Return the two ends of a pipe. A client that proved the token goes before those that have not."""
        while True:
            try:
                return socket.socketpair()
            except OSError as e:
                if e.errno not in _FULL or not self._make_room():
                    raise

    def _become(self, sock: socket.socket, control: socket.socket, secret: int, entered: Entered) -> None:
        """Be the process of one connection until it ends."""
        # Ctrl-C in a terminal reaches every process: the server ends, and ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        self._listener.close()
        for handshake in self._waiting.values():
            handshake.sock.close()
        for other in self._connections.values():
            other.sock.close()
            other.control.close()
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _bound_memory(self._database.limits.memory_mb)
        try:
            session = Session(sock, self._database, control, entered.startup)
            session.greet(os.getpid(), secret)
            session.serve()
        except Refused as e:
            _refuse(sock, e)
        except WireError as e:
            _refuse(sock, Refused("08P01", str(e)))
        except (EOFError, OSError):
            pass

    def _ended(self) -> None:
        """Let go of connections whose processes ended; tell the client if one did not end by itself."""
        while self._connections:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            connection = self._connections.pop(process, None)
            if connection is None:
                continue
            connection.control.close()
            if os.waitstatus_to_exitcode(status) not in (0, 1):
                _refuse(
                    connection.sock,
                    Refused("57P02", "the statement broke its connection's process", "other connections go on; connect again"),
                )
            else:
                connection.sock.close()

    def _close(self) -> None:
        self._listener.close()
        for handshake in self._waiting.values():
            handshake.sock.close()
        for connection in self._connections.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(connection.process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(connection.process, 0)
            _refuse(connection.sock, Refused("57P01", "the server was stopped"))
            connection.control.close()
        self._connections.clear()
        self._selector.close()


def _refuse(sock: socket.socket, refused: Refused) -> None:
    """Tell the client why its connection ends, if it still listens, and end it."""
    with contextlib.suppress(OSError):
        sock.setblocking(False)
        sock.send(wire.failure(refused, "FATAL"))
    sock.close()


@contextlib.contextmanager
def _ends_here(report: Callable[[str], None]) -> Iterator[None]:
    """End the process with what runs inside, whatever happens: nothing of the server's own runs in it afterwards."""
    code = 70
    try:
        yield
        code = 0
    except BaseException as e:
        report(f"a connection failed: {type(e).__name__}: {e}")
    finally:
        os._exit(code)


def _bound_memory(memory_mb: int) -> None:
    """Bound the data of this process: what DuckDB does not count itself, such as one giant text, ends in an error."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/statm", encoding="ascii") as f:
            now = int(f.read().split()[5]) * resource.getpagesize()
        bound = now + (2 * memory_mb + _SPARE_MB) * 1_000_000
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
