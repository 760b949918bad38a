"""Report a failed run to a webhook, a command, or both. Standard library only.

The environment and the command line name the receivers, never a spec: a spec gains no right to run code or to reach the network.
The message is the outcome of the run (``outcome``, docs/reference/run-output.md), as JSON.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import conceal

WEBHOOK: Final = "SKYBAND_NOTIFY_WEBHOOK"
COMMAND: Final = "SKYBAND_NOTIFY_COMMAND"
SECONDS: Final = 10.0
"""How long a receiver may take."""


class _Failed(Exception):
    """A receiver did not take it; the message is for the user and holds no secret."""


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
            if not _is_url(webhook):
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
        for name, send in (("webhook", self._post), ("command", self._run)):
            if getattr(self, name):
                try:
                    _within(self.seconds, lambda send=send: send(data))  # type: ignore[misc]
                except _Failed as e:
                    found.append(SkybandError("SKY-E560", f"the outcome of the run did not reach the {name}: {e}"))
        return found

    def _post(self, data: bytes) -> None:
        # Imported by runs that failed, not by every command.
        import urllib.error
        import urllib.request
        from http.client import HTTPException

        class NoRedirect(urllib.request.HTTPRedirectHandler):
            """Send the outcome only to the configured receiver."""

            def redirect_request(self, *_: Any, **__: Any) -> None:
                """None: the redirection is an error."""

        head = {"Content-Type": "application/json", "User-Agent": "skyband"}
        request = urllib.request.Request(str(self.webhook), data, head, method="POST")
        try:
            with urllib.request.build_opener(NoRedirect).open(request, timeout=self.seconds):
                pass
        except urllib.error.HTTPError as e:
            raise _Failed(f"it answered {e.code}") from None
        except (OSError, HTTPException, ValueError) as e:
            # The words of the library may hold parts of the URL.
            reason = getattr(e, "reason", e)
            why = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__
            raise _Failed(why) from None

    def _run(self, data: bytes) -> None:
        import subprocess

        try:
            process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as e:
            raise _Failed(f"{self.command[0]}: {e.strerror}") from None
        try:
            process.communicate(data, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            # Whatever it has started goes with it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise _Failed(_late(self.seconds)) from None
        if process.returncode != 0:
            raise _Failed(f"{self.command[0]} ended with exit code {process.returncode}")


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0) and text.isprintable()
    except ValueError:
        return False


def _late(seconds: float) -> str:
    return f"no answer within {seconds:g} s"


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Does ``work`` and waits for it so long: an answer that comes byte by byte would outlast any time-out of a socket's."""
    raised: list[_Failed] = []

    def run() -> None:
        try:
            work()
        except _Failed as e:
            raised.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds + 1)
    if thread.is_alive():
        raise _Failed(_late(seconds))
    if raised:
        raise raised[0]
