"""Deliver to receivers that misbehave: what never ends is ended, and what was not taken is never taken for delivered."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from skyband.framework.console.receivers import NotDelivered, post, start, stop_commands, within

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def answering(pieces: Iterator[bytes]) -> Iterator[tuple[str, threading.Event]]:
    """A receiver that sends ``pieces`` whatever it is asked, and an event: its connection has been closed."""
    listening, closed = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def work() -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                with suppress(OSError):
                    for piece in pieces:
                        connection.sendall(piece)
                closed.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    with listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x", closed


def drip() -> Iterator[bytes]:
    yield HEAD + b"X: "
    while True:
        time.sleep(0.02)
        yield b"x"


def forever(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def test_an_answer_that_never_ends_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with answering(drip()) as (url, closed):
        with pytest.raises(NotDelivered, match="no answer within"):
            post(url, b"{}", 0.2)
        assert closed.wait(20)
        for thread in set(threading.enumerate()) - before:
            thread.join(20)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    "answer, said",
    [
        (b"", "RemoteDisconnected"),
        (b"what\r\n\r\n", "BadStatusLine"),
        (HEAD + b"X: " + b"x" * 200_000 + b"\r\n\r\n", "LineTooLong"),
        (HEAD + b"X: x\r\n" * 500 + b"\r\n", "HTTPException"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/x\r\n\r\n", "it answered 302"),
        (b"HTTP/1.1 307 Again\r\nLocation: file:///etc/passwd\r\n\r\n", "it answered 307"),
        (b"HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=x\r\n\r\n", "it answered 401"),
    ],
)
def test_answers_that_are_none(answer: bytes, said: str) -> None:
    with answering(iter([answer])) as (url, _), pytest.raises(NotDelivered) as e:
        post(url, b"{}", 5)
    assert str(e.value) == said


def test_the_body_of_an_answer_is_not_waited_for() -> None:
    with answering(forever(HEAD + b"Content-Length: 9999999999\r\n\r\nx")) as (url, closed):
        post(url, b"{}", 5)
        assert closed.wait(20)


def test_an_error_of_any_kind_is_no_delivery() -> None:
    def work() -> None:
        raise RuntimeError("nobody foresaw it: sesame")

    with pytest.raises(NotDelivered, match=r"\ARuntimeError\Z"):
        within(5, work)


def test_commands_do_not_outlive_those_who_wait_for_them(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    words = ("sh", "-c", f"sleep 600 & echo $! > {said}.new; mv {said}.new {said}; wait")
    raised: list[Exception] = []

    def work() -> None:
        try:
            start(words, b"{}", 500)
        except NotDelivered as e:
            raised.append(e)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not said.exists() and time.monotonic() < until:
        time.sleep(0.01)
    child = int(said.read_text())
    stop_commands()
    thread.join(20)
    assert not thread.is_alive() and "exit code -9" in str(raised[0])
    while runs(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not runs(child)
    stop_commands()


def runs(process: int) -> bool:
    """False for one that is gone, or has ended and not been waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
