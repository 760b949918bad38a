"""Deliver JSON to a webhook or a command within a time limit. Standard library only.

The caller decides what is sent and to whom. What a failure says holds no part of a URL, header or body.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import conceal

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from subprocess import Popen


JSON_HEADERS: Final[Mapping[str, str]] = {"Content-Type": "application/json", "User-Agent": "skyband"}
LONGEST_RETRY_AFTER: Final = 3600.0
"""The most seconds for which a receiver is left alone because it says so."""
_HEAL: Final = frozenset({408, 409, 423, 425, 429})
"""Statuses of the 400s after which the same request may be taken later: time-outs, conflicts, locks, too many requests."""
_started: dict[int, Popen[bytes]] = {}
"""The commands that run now, by the number of their process."""


class NotDelivered(Exception):
    """A receiver did not take it; the message is for the user and holds no secret. ``events``: how many it did not take.

    ``status``: what it answered by HTTP, None if it did not. ``retry_after``: the seconds for which it wants to be left alone.
    """

    def __init__(self, why: str, events: int = 1, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(why)
        self.events, self.status, self.retry_after = events, status, retry_after

    @property
    def final(self) -> bool:
        """Return True if the same request would be refused again: a status of the 400s that time does not heal."""
        return self.status is not None and 400 <= self.status < 500 and self.status not in _HEAL


def post(url: str, data: bytes, seconds: float, headers: Mapping[str, str] = JSON_HEADERS) -> None:
    """POST ``data`` to ``url`` and wait for the answer. Raises NotDelivered unless it is of the 200s; a redirection is not followed."""
    connections: list[HTTPConnection] = []

    def hang_up() -> None:
        for connection in connections:
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    within(seconds, lambda: _post(url, data, seconds, headers, connections), hang_up)


def start(words: Sequence[str], data: bytes, seconds: float) -> None:
    """Start a command without a shell, with ``data`` on its standard input, and wait for its end.

    Raises NotDelivered if it cannot be started, ends with another exit code than 0, or takes longer than ``seconds``; then it and all that
    it has started in its session are killed.
    """
    within(seconds, lambda: _start(words, data, seconds))


def stop_commands() -> None:
    """Kill the commands that still run, with all that they have started in their sessions: nobody waits for them any more."""
    for process in list(_started.values()):
        _kill(process)


def is_url(text: str) -> bool:
    """Return True if ``text`` is a URL with http or https and a host."""
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0) and text.isprintable()
    except ValueError:
        return False


def _post(url: str, data: bytes, seconds: float, headers: Mapping[str, str], connections: list[HTTPConnection]) -> None:
    # Imported by runs that send something, not by every command.
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    from skyband.framework.console.web import opener

    request = urllib.request.Request(url, data, dict(headers), method="POST")
    try:
        with opener(connections).open(request, timeout=seconds):
            pass
    except urllib.error.HTTPError as e:
        raise NotDelivered(f"it answered {e.code}", status=e.code, retry_after=retry_after(e.headers.get("Retry-After"))) from None
    except (OSError, HTTPException, ValueError) as e:
        # The words of the library may hold parts of the URL.
        reason = getattr(e, "reason", e)
        why = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__
        raise NotDelivered(why) from None


def retry_after(value: str | None, now: datetime | None = None) -> float:
    """Return the seconds of a header ``Retry-After``: a number, or a date. 0 for none or nonsense; at most ``LONGEST_RETRY_AFTER``."""
    from email.utils import parsedate_to_datetime

    if value is None:
        return 0.0
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    # A date without a zone is UTC.
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return min(max(0.0, (at - (now or datetime.now(UTC))).total_seconds()), LONGEST_RETRY_AFTER)


def _start(words: Sequence[str], data: bytes, seconds: float) -> None:
    import subprocess

    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as e:
        raise NotDelivered(f"{words[0]}: {e.strerror}") from None
    _started[process.pid] = process
    try:
        process.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired:
        # Whatever it has started goes with it.
        _kill(process)
        process.wait()
        raise NotDelivered(_late(seconds)) from None
    finally:
        del _started[process.pid]
    if process.returncode != 0:
        raise NotDelivered(f"{words[0]} ended with exit code {process.returncode}")


def _kill(process: Popen[bytes]) -> None:
    with suppress(OSError):  # it has just ended
        os.killpg(process.pid, signal.SIGKILL)


def _late(seconds: float) -> str:
    return f"no answer within {seconds:g} s"


def within(seconds: float, work: Callable[[], None], stop: Callable[[], None] = lambda: None) -> None:
    """Do ``work`` and wait for it so long: an answer that comes byte by byte would outlast any time-out of a socket's.

    ``stop`` then makes it end: a receiver that never comes to an end must not leave a thread for every request. Raises NotDelivered.
    """
    raised: list[NotDelivered] = []

    def run() -> None:
        try:
            work()
        except NotDelivered as e:
            raised.append(e)
        except Exception as e:  # whatever a library raises: it has not been delivered
            raised.append(NotDelivered(type(e).__name__))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds + 1)
    if thread.is_alive():
        stop()
        raise NotDelivered(_late(seconds))
    if raised:
        raise raised[0]


# Report a failed run to a webhook, a command, or both. Standard library only.
#
# The environment and the command line name the receivers, never a spec: a spec gains no right to run code or to reach the network.
# The message is the outcome of the run (``outcome``, docs/reference/run-output.md), as JSON.

WEBHOOK: Final = "SKYBAND_NOTIFY_WEBHOOK"
COMMAND: Final = "SKYBAND_NOTIFY_COMMAND"
SECONDS: Final = 10.0
"""How long a receiver may take."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """The receivers of the outcome of a failed run.

    ``webhook``: a URL that takes a POST; ``command``: the words of a command that takes it on standard input.
    """

    webhook: str | None = None
    command: tuple[str, ...] = ()
    seconds: float = SECONDS

    @classmethod
    def of(cls, env: Mapping[str, str], command: str | None = None) -> Receivers:
        """Those that the environment names, and ``command`` (in a shell's spelling; no shell runs it) instead of the environment's.

        The URL of a webhook is a secret: it is concealed from now on. SkybandError SKY-E201 for what is no URL or no command.
        """
        webhook = env.get(WEBHOOK) or None
        if webhook is not None:
            conceal(WEBHOOK, webhook)
            if not is_url(webhook):
                raise SkybandError("SKY-E201", f"{WEBHOOK} is not a URL with http or https and a host")
        text = (env.get(COMMAND) if command is None else command) or ""
        try:
            words = tuple(shlex.split(text))
        except ValueError as e:
            name = COMMAND if command is None else "--notify-command"
            raise SkybandError("SKY-E201", f"{name} is not a command: {str(e).lower()}", "write it as in a shell") from None
        return cls(webhook, words)

    def __bool__(self) -> bool:
        return bool(self.webhook or self.command)

    def tell(self, outcome: Mapping[str, Any]) -> list[SkybandError]:
        """Send ``outcome`` to every receiver, for at most ``seconds`` each; return the failures (SKY-E560)."""
        data = json.dumps(outcome).encode()
        found = []
        sends: dict[str, Callable[[], None]] = {}
        if self.webhook is not None:
            sends["webhook"] = partial(post, self.webhook, data, self.seconds)
        if self.command:
            sends["command"] = partial(start, self.command, data, self.seconds)
        for name, send in sends.items():
            try:
                send()
            except NotDelivered as e:
                found.append(SkybandError("SKY-E560", f"the outcome of the run did not reach the {name}: {e}"))
        return found
