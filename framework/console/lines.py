"""What a command tells, a line a thing: as text for people, or as JSON for machines (``--log-format``). One place writes to stderr.

Text: what is said, and nothing else. JSON: one object a line with ``time`` (ISO, UTC), ``level`` (info, warning, error), ``job``,
``event``, ``message`` and the event's figures; an error has ``code``, ``hint`` and ``where``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, TextIO

from skyband.framework.base.errors import SkybandError, redacted, redacted_for_terminal

FORMATS: Final = ("text", "json")
Warn = Callable[[str], None]
"""Takes a warning for the user, as text."""
SILENCE: Final = "SKYBAND_SILENCE"
"""Variable of the environment: seconds without a line after which a command says what it is at."""
_MOST_SILENT: Final = 60.0


def _seconds() -> float:
    try:
        seconds = float(os.environ.get(SILENCE, ""))
    except ValueError:
        seconds = 0.0
    return min(seconds, 86_400.0) if seconds > 0 else 3.0


SILENT: float = _seconds()
"""What ``SILENCE`` says, by default three seconds."""


class Lines:
    """Text. ``err`` (by default stderr) takes what happens, ``out`` (by default stdout) what a report consists of."""

    def __init__(self, err: TextIO | None = None, out: TextIO | None = None) -> None:
        self.job: str | None = None
        self.failures: list[SkybandError] = []
        """All errors that were told."""
        self.doing = "working"
        """What the command is at, as it is said after some seconds without a line."""
        self._err = err or sys.stderr
        self._out = out or sys.stdout
        self._told_at = monotonic()
        self._beat: threading.Event | None = None

    @property
    def live(self) -> bool:
        """Whether there is a line that can change in place (``show``): see ``live``, for terminals."""
        return False

    def show(self, now: Callable[[], str]) -> None:
        """Tell what ``now`` says, until ``close``, whenever no line has come for some seconds, the longer it takes the more of them.

        Nothing is told while it says "". It may be called by another thread.
        """
        self.close()
        self._beat = threading.Event()
        threading.Thread(target=self._keep_telling, args=(now, self._beat), daemon=True).start()

    def _keep_telling(self, now: Callable[[], str], over: threading.Event) -> None:
        began = monotonic()
        while not over.wait(SILENT / 4):
            at = monotonic()
            if at - max(self._told_at, began) < max(SILENT, min(_MOST_SILENT, (at - began) / 4)):
                continue
            if text := now():
                self.tell("info", "working", f"{text} \u00b7 {at - began:.0f} s", seconds=round(at - began, 3))
            self._told_at = at

    def close(self) -> None:
        """What ``show`` shows is over."""
        if self._beat is not None:
            self._beat.set()
            self._beat = None

    def tell(self, level: str, event: str, text: str, **figures: Any) -> None:
        """Something happened."""
        self._told_at = monotonic()
        _put(self._err, redacted_for_terminal(text))

    def say(self, text: str) -> None:
        """What only who is looking wants to know: what the command is at from now on."""
        self.doing, self._told_at = text, monotonic()
        _put(self._err, redacted_for_terminal(text))

    def batch(self, text: str | None, figures: Mapping[str, Any]) -> None:
        """A batch is done. ``text``: None if there is nothing to say of it."""
        if text is not None:
            self.tell("info", "batch", text, **figures)

    def report(self, event: str, text: str, **figures: Any) -> None:
        """A part of what was asked for."""
        print(redacted_for_terminal(text), file=self._out, flush=True)

    def stopped(self, number: int) -> None:
        """A signal ended the command before it was done."""
        self.tell("warning", "stopped", f"stopped by {signal.Signals(number).name}: run again to go on", signal=number)

    def errors(self, errors: Sequence[SkybandError]) -> None:
        """Errors, a blank line between."""
        self.failures += errors
        if errors:
            _put(self._err, "\n\n".join(e.render(redacted_for_terminal) for e in errors))


class JsonLines(Lines):
    """JSON: all of it goes to ``err``."""

    def tell(self, level: str, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.tell``."""
        self._told_at = monotonic()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "job": self.job, "event": event, "message": text, **figures}
        _put(self._err, json.dumps(_shown(line), default=str))

    def say(self, text: str) -> None:
        """See ``Lines.say``: nobody is."""
        self.doing = text

    def batch(self, text: str | None, figures: Mapping[str, Any]) -> None:
        """See ``Lines.batch``: every batch has its line."""
        self.tell("info", "batch", text or f"batch {figures['batch']}: nothing new", **figures)

    def report(self, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.report``."""
        self.tell("info", event, text, **figures)

    def errors(self, errors: Sequence[SkybandError]) -> None:
        """One line each."""
        self.failures += errors
        for e in errors:
            plain = e.plain()
            self.tell("error", "error", plain.pop("message"), **plain)


def _shown(value: Any) -> Any:
    """``value`` with its texts as they may be shown."""
    if isinstance(value, dict):
        return {k: _shown(v) for k, v in value.items()}
    return redacted(value) if isinstance(value, str) else value


def lines(form: str = "text", err: TextIO | None = None, out: TextIO | None = None) -> Lines:
    """The lines of a form of ``FORMATS``."""
    return JsonLines(err, out) if form == "json" else Lines(err, out)


def warning_to_stderr(text: str) -> None:
    """The warning as text."""
    Lines().tell("warning", "warning", f"WARNING: {text}")


def to_stderr(error: SkybandError) -> None:
    """The error as text."""
    Lines().errors([error])


def _put(stream: TextIO, text: str) -> None:
    # A run does not end because nobody listens any more, nor does a signal's handler because it interrupted a line (RuntimeError).
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        print(text, file=stream, flush=True)
