"""Log lines on a terminal, with a status line below them that updates in place."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from skyband.framework.base.errors import redacted_for_terminal
from skyband.framework.console.lines import Lines

_PER_SECOND: Final = 8
_CURSOR: Final = "\x1b[?25h"
"""The escape sequence that shows the cursor."""


class LiveLines(Lines):
    """Text lines on a terminal. Between ``show`` and ``close`` the last line shows ``now()``, updated several times a second."""

    def __init__(self, err: TextIO) -> None:
        super().__init__(err)
        self._console = Console(file=err, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._live: Live | None = None
        self._now: Callable[[], str] | None = None

    @property
    def live(self) -> bool:
        """See ``Lines.live``."""
        return True

    def show(self, now: Callable[[], str]) -> None:
        """Show ``now()`` as the last line until ``close``. It must be fast; another thread may call it."""
        spinner = Spinner("dots")

        def line() -> Any:
            spinner.update(text=_fitting(redacted_for_terminal(now()), self._console.width - 3))
            return spinner

        live = Live(
            get_renderable=line, console=self._console, refresh_per_second=_PER_SECOND, transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        self.close()
        with contextlib.suppress(OSError, ValueError):
            live.start()
            self._live, self._now = live, now

    def close(self) -> None:
        """Remove the status line; the others stay."""
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                live.stop()

    def report(self, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.report``; the status line makes room, as the report may go to the same terminal."""
        shown = self._live is not None
        self.close()
        super().report(event, text, **figures)
        if shown and self._now is not None:
            self.show(self._now)

    def batch(self, text: str | None, figures: Mapping[str, Any]) -> None:
        """See ``Lines.batch``; the status line shows batches."""

    def tell(self, level: str, event: str, text: str, **figures: Any) -> None:
        """See ``Lines.tell``; prints above the status line, if there is one."""
        self._print(redacted_for_terminal(text))

    def errors(self, errors: Any) -> None:
        """See ``Lines.errors``."""
        self.close()
        super().errors(errors)

    def stopped(self, number: int) -> None:
        """See ``Lines.stopped``; called by a signal handler, which may have interrupted a line."""
        # Another thread removes the status line, since the interrupted code may hold the locks for it.
        closing = threading.Thread(target=self.close, daemon=True)
        closing.start()
        closing.join(1.0)
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._console.file.write(_CURSOR)
        super().stopped(number)

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self._console.print(text)


def _fitting(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def on_terminal(err: TextIO) -> bool:
    """Return True if ``err`` is a terminal that can update a line in place."""
    with contextlib.suppress(OSError, ValueError):
        return err.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return False
