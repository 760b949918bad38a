"""Nodes of a plan about several sources that are read as one stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceClock:
    """How the source ``name`` moves the common watermark.

    ``delay_micros``: how long to wait for its rows that are out of order. ``idle_micros``: how far, in event time, it may hold the other
    sources back; None: for ever.
    """

    name: str
    delay_micros: int
    idle_micros: int | None

    @property
    def delay_ms(self) -> int:
        """Return the delay in whole milliseconds, rounded up."""
        return -(-self.delay_micros // 1000)
