"""Report a failed run to a webhook, a command, or both. Standard library only.

The environment and the command line name the receivers, never a spec: a spec gains no right to run code or to reach the network.
The message is the outcome of the run (``outcome``, docs/reference/run-output.md), as JSON.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import conceal
from skyband.framework.console.receivers import NotDelivered, is_url, post, start

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
