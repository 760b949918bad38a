"""The log lines of commands, as text for people or as JSON for programs (``--log-format``). Only this module writes to stderr.

Text: the message alone. JSON: one object per line with ``time`` (ISO, UTC), ``level`` (info, warning, error), ``job``, ``event``,
``message`` and the event's figures; an error has ``code``, ``hint`` and ``where``.
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
"""Reports a warning to the user."""
SILENCE: Final = "SKYBAND_SILENCE"
"""Environment variable: seconds without a line after which a command reports its current activity."""
_MOST_SILENT: Final = 60.0


def _seconds() -> float:
    try:
        seconds = float(os.environ.get(SILENCE, ""))
    except ValueError:
        seconds = 0.0
    return min(seconds, 86_400.0) if seconds > 0 else 3.0


SILENT: float = _seconds()
"""The value of ``SILENCE``, by default three seconds."""


class Lines:
    """Log lines as text. Events go to ``err`` (default: stderr), reports to ``out`` (default: stdout)."""

    def __init__(self, err: TextIO | None = None, out: TextIO | None = None) -> None:
        self.job: str | None = None
        self.failures: list[SkybandError] = []
        """All reported errors."""
        self.doing = "working"
        """The current activity of the command, which is reported after some seconds without a line."""
        self._err = err or sys.stderr
        self._out = out or sys.stdout
        self._last_line_at = monotonic()
        self._beat: threading.Event | None = None

    @property
    def live(self) -> bool:
        """Return True if ``show`` updates a line in place, as on terminals (``console.live``)."""
        return False

    def show(self, now: Callable[[], str]) -> None:
        """Report ``now()`` after some seconds without a line, at growing intervals, until ``close``.

        Nothing is reported while it is "". While it stays the same it is reported again only when twice the time has passed. Another
        thread calls it.
        """
        self.close()
        self._beat = threading.Event()
        threading.Thread(target=self._report_activity, args=(now, self._beat), daemon=True).start()

    def _report_activity(self, now: Callable[[], str], over: threading.Event) -> None:
        began = monotonic()
        reported, when = "", 0.0
        while not over.wait(SILENT / 4):
            at = monotonic()
            if at - max(self._last_line_at, began) < max(SILENT, min(_MOST_SILENT, (at - began) / 4)):
                continue
            text = now()
            if text == reported and at - began < 2 * when:
                continue
            if text:
                reported, when = text, at - began
                self.tell("info", "working", f"{text} \u00b7 {at - began:.0f} s", seconds=round(at - began, 3))
            self._last_line_at = at

    def close(self) -> None:
        """End the reports that ``show`` started."""
        if self._beat is not None:
            self._beat.set()
            self._beat = None

    def tell(self, level: str, event: str, text: str, **figures: Any) -> None:
        """Write an event."""
        self._last_line_at = monotonic()
        _put(self._err, redacted_for_terminal(text))

    def say(self, text: str) -> None:
        """Set the current activity of the command, and write it for people only."""
        self.doing, self._last_line_at = text, monotonic()
        _put(self._err, redacted_for_terminal(text))

    def batch(self, text: str | None, figures: Mapping[str, Any]) -> None:
        """Report a finished batch. ``text``: None for no line."""
        if text is not None:
            self.tell("info", "batch", text, **figures)

    def report(self, event: str, text: str, **figures: Any) -> None:
        """Write a part of the requested report."""
        print(redacted_for_terminal(text), file=self._out, flush=True)

    def stopped(self, number: int) -> None:
        """Report that a signal ended the command."""
        self.tell("warning", "stopped", f"stopped by {signal.Signals(number).name}: run again to go on", signal=number)

    def errors(self, errors: Sequence[SkybandError]) -> None:
        """Write errors, separated by blank lines."""
        self.failures += errors
        if errors:
            _put(self._err, "\n\n".join(e.render(redacted_for_terminal) for e in errors))


class JsonLines(Lines):
    """Log lines as JSON, all of them on ``err``."""

    def tell(self, level: str, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.tell``."""
        self._last_line_at = monotonic()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "job": self.job, "event": event, "message": text, **figures}
        _put(self._err, json.dumps(_redacted_values(line), default=str))

    def say(self, text: str) -> None:
        """Set the current activity. JSON has no line for it."""
        self.doing = text

    def batch(self, text: str | None, figures: Mapping[str, Any]) -> None:
        """See ``Lines.batch``; every batch has a line."""
        self.tell("info", "batch", text or f"batch {figures['batch']}: nothing new", **figures)

    def report(self, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.report``."""
        self.tell("info", event, text, **figures)

    def errors(self, errors: Sequence[SkybandError]) -> None:
        """Write one line per error."""
        self.failures += errors
        for e in errors:
            plain = e.plain()
            self.tell("error", "error", plain.pop("message"), **plain)


def _redacted_values(value: Any) -> Any:
    """Return ``value`` with its texts redacted."""
    if isinstance(value, dict):
        return {k: _redacted_values(v) for k, v in value.items()}
    return redacted(value) if isinstance(value, str) else value


def lines(form: str = "text", err: TextIO | None = None, out: TextIO | None = None) -> Lines:
    """Return the log lines in a format of ``FORMATS``."""
    return JsonLines(err, out) if form == "json" else Lines(err, out)


def warning_to_stderr(text: str) -> None:
    """Write the warning as text."""
    Lines().tell("warning", "warning", f"WARNING: {text}")


def _put(stream: TextIO, text: str) -> None:
    # A closed stream must not end a run, nor an interrupted line (RuntimeError) a signal handler.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        print(text, file=stream, flush=True)
