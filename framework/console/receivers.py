"""Deliver JSON to a webhook or a command within a time limit. Standard library only.

The caller decides what is sent and to whom. What a failure says holds no part of a URL, header or body.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

JSON_HEADERS: Final[Mapping[str, str]] = {"Content-Type": "application/json", "User-Agent": "skyband"}


class NotDelivered(Exception):
    """A receiver did not take it; the message is for the user and holds no secret."""


def post(url: str, data: bytes, seconds: float, headers: Mapping[str, str] = JSON_HEADERS) -> None:
    """POST ``data`` to ``url`` and wait for the answer. Raises NotDelivered unless it is of the 200s; a redirection is not followed."""
    within(seconds, lambda: _post(url, data, seconds, headers))


def start(words: Sequence[str], data: bytes, seconds: float) -> None:
    """Start a command without a shell, with ``data`` on its standard input, and wait for its end.

    Raises NotDelivered if it cannot be started, ends with another exit code than 0, or takes longer than ``seconds``; then it and all that
    it has started in its session are killed.
    """
    within(seconds, lambda: _start(words, data, seconds))


def is_url(text: str) -> bool:
    """Return True if ``text`` is a URL with http or https and a host."""
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0) and text.isprintable()
    except ValueError:
        return False


def _post(url: str, data: bytes, seconds: float, headers: Mapping[str, str]) -> None:
    # Imported by runs that send something, not by every command.
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """Send only to the configured receiver."""

        def redirect_request(self, *_: Any, **__: Any) -> None:
            """None: the redirection is an error."""

    request = urllib.request.Request(url, data, dict(headers), method="POST")
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=seconds):
            pass
    except urllib.error.HTTPError as e:
        raise NotDelivered(f"it answered {e.code}") from None
    except (OSError, HTTPException, ValueError) as e:
        # The words of the library may hold parts of the URL.
        reason = getattr(e, "reason", e)
        why = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__
        raise NotDelivered(why) from None


def _start(words: Sequence[str], data: bytes, seconds: float) -> None:
    import subprocess

    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as e:
        raise NotDelivered(f"{words[0]}: {e.strerror}") from None
    try:
        process.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired:
        # Whatever it has started goes with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise NotDelivered(_late(seconds)) from None
    if process.returncode != 0:
        raise NotDelivered(f"{words[0]} ended with exit code {process.returncode}")


def _late(seconds: float) -> str:
    return f"no answer within {seconds:g} s"


def within(seconds: float, work: Callable[[], None]) -> None:
    """Do ``work`` and wait for it so long: an answer that comes byte by byte would outlast any time-out of a socket's."""
    raised: list[NotDelivered] = []

    def run() -> None:
        try:
            work()
        except NotDelivered as e:
            raised.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds + 1)
    if thread.is_alive():
        raise NotDelivered(_late(seconds))
    if raised:
        raise raised[0]
