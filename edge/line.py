"""The loyalty of one object at the edge: as it is, and as the server knows it by the rows that it was sent."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from skyband.edge.message import LARGEST


@dataclass(slots=True)
class Line:
    """One object: whether it is ``on``, and the instants at which that has changed, ascending; of these the last ``held`` were not sent.

    ``time`` and ``order``: of its last row or correction; ``sent``: whether that was sent; ``dated``: whether it was a correction with a
    date of its own; ``row``: its last row, if rows are held back. ``safe``: held rows change nothing up to this instant; ``due``: when
    the filter looks at it again. ``first``: before this instant the object may have been on unseen.
    """

    on: bool = False
    switches: list[int] = field(default_factory=list)
    held: int = 0
    time: int = -LARGEST
    order: tuple[Any, ...] = ()
    sent: bool = False
    dated: bool = False
    row: dict[str, Any] | None = None
    safe: int = 0
    due: int = LARGEST
    first: int = -LARGEST

    def most(self, window: int, at: int) -> int:
        """Return for how long of (at - window, at] the object was on at most, as it is or as the server knows it. O(switches)."""
        return max(self.loyalty(window, at), self.known(window, at)) + max(0, self.first - (at - window))

    def loyalty(self, window: int, at: int) -> int:
        """Return for how long of (at - window, at] the object was on, by all switches. O(switches)."""
        return self._time_on(self.on, self.switches, window, at)

    def known(self, window: int, at: int) -> int:
        """Return the same by the switches that the server knows."""
        if self.held == 0:
            return self.loyalty(window, at)
        on = self.on if self.held % 2 == 0 else not self.on
        return self._time_on(on, self.switches[: -self.held], window, at)

    def unknown(self) -> list[int]:
        """Return the switches that were not sent."""
        return self.switches[len(self.switches) - self.held :]

    def switch(self, at: int, held: bool) -> None:
        """Change the state at the instant ``at``, which is not before the last switch; two switches of one instant are none."""
        self.on = not self.on
        if self.switches and self.switches[-1] == at:
            self.switches.pop()
            self.held = max(self.held - 1, 0)
        else:
            self.switches.append(at)
            self.held += int(held)

    def forget(self, before: int) -> None:
        """Drop switches at or before an instant that no window reaches any more; of the held ones two at a time."""
        old = bisect_right(self.switches, before)
        sent = len(self.switches) - self.held
        if old > sent:
            # The server has yet to hear of a single one, as it changes the state.
            gone = (old - sent) // 2 * 2
            del self.switches[sent : sent + gone]
            self.held -= gone
        del self.switches[: min(old, sent)]

    @staticmethod
    def _time_on(on: bool, switches: list[int], window: int, at: int) -> int:
        begin, end, total = at - window, at, 0
        for switch in reversed(switches):
            since = max(switch, begin)
            if on:
                total += end - since
            end, on = since, not on
            if since == begin:
                return total
        return total + (end - begin if on else 0)
