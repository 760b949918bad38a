"""The errors of the edge filter, with codes of docs/reference/error-codes.md."""

from __future__ import annotations


class EdgeError(Exception):
    """A message, a state or a row that the filter refuses. ``code`` is as in SKY-E701."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(f"{code} {message}\n  hint: {hint}")
        self.code, self.message, self.hint = code, message, hint
