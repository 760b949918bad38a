"""The filter of one edge: which rows to send now, which to hold back, and which never to send."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from typing import Any, Final

from skyband.edge.errors import EdgeError
from skyband.edge.instants import instant_of, written_like
from skyband.edge.line import Line
from skyband.edge.message import LARGEST, Message, parse_message
from skyband.edge.state import Saved, saved_of, saved_text

Row = dict[str, Any]
_EARLIEST: Final = -LARGEST
_SAVED: Final = ("_clock", "_last_sent", "offered", "sent", "complete", "_trusting")


class EdgeFilter:
    """Holds back reports that cannot change the server's results. Not thread-safe.

    ``offer`` every row, in the order of time for each object, and send what is returned. Call ``advance`` regularly, so that rows are sent
    in time if no other row comes. Without a message from the server, everything is sent.

    ``complete``: the filter is given a message before the first row, and every row that the job has of its objects; if not, it holds
    nothing back of an object before its second row, and takes it to have been on all the time before the first.
    ``margin``: send held rows so many microseconds before they must be; use the longest time between two calls of ``advance``, and then no
    row is dated before the call that returns it. ``heartbeat``: send one held row if none was sent for so many microseconds of event
    time, so that the server's time goes on.
    """

    def __init__(self, *, complete: bool = False, margin: int = 0, heartbeat: int | None = None) -> None:
        self.complete, self.margin, self.heartbeat = complete, margin, heartbeat
        self.offered = self.sent = 0
        self._message: Message | None = None
        self._lines: dict[Hashable, Line] = {}
        self._heights: dict[tuple[int, Hashable], int] = {}
        self._due: list[tuple[int, int, Hashable]] = []
        self._count = 0
        self._clock = self._last_sent = self._swept = _EARLIEST
        self._spare: tuple[int, Row] | None = None
        self._trusting = True
        self._restarted = False

    # ---------------------------------------------------------------- the caller's side

    @property
    def counters(self) -> dict[str, int]:
        """Return how many rows were ``offered`` and ``sent``, the difference ``saved``, and how many objects have rows ``held`` back."""
        held = sum(1 for line in self._lines.values() if line.row is not None)
        return {"offered": self.offered, "sent": self.sent, "saved": self.offered - self.sent, "held": held}

    def offer(self, row: Mapping[str, Any]) -> list[Row]:
        """Return the rows to send now that ``row`` is there: often none. O(switches of its object in the window).

        A row that the filter does not understand is returned unchanged. Raise EdgeError SKY-E703 for a row before the last one of its
        object, or an event time that cannot be read; the filter is unchanged then.
        """
        if self._message is None:
            self.offered += 1
            return self._sending([dict(row)])
        report = self._report(self._message, row)
        if report is None:
            self.offered += 1
            return self._sending([dict(row)])
        name, on, at, order = report
        line = self._lines.get(name)
        if line is not None and (at < line.time or (at == line.time and line.dated)):
            raise _disordered(at, line.time)
        found = self._until(at)
        self.offered += 1
        if name not in self._lines:
            self._lines[name] = Line() if self.complete else Line(first=at)
        found += self._take(self._message, name, self._lines[name], dict(row), on, at, order)
        return self._sending(found or self._beat(at))

    def receive(self, text: str) -> list[Row]:
        """Take the message in ``text``, as ``skyband edge`` writes it; return the rows to send now. A message may come late or twice.

        Raise EdgeError SKY-E701 if it is none, or of another job: then the filter holds nothing back until a good message comes.
        """
        try:
            message = parse_message(text)
            if self._message is not None and message.job != self._message.job:
                hint = "an edge serves one job; take a new filter, without the old state"
                raise EdgeError("SKY-E701", f"the message is of job {message.job!r}, and the filter of {self._message.job!r}", hint)
        except EdgeError:
            self._trusting = False
            raise
        found: list[Row] = []
        if self._message is None or message.columns() != self._message.columns():
            found = self._released(self._clock)
            self.complete = self.complete and self._message is None and self.offered == 0
            self._lines, self._heights, self._due, self._message = {}, {}, [], message
        for index, query in enumerate(message.queries):
            for border in query.borders:
                place = (index, border.key)
                # Borders fall by 1 at most: of several the one that is highest at some instant always is.
                self._heights[place] = max(self._heights.get(place, _EARLIEST), border.loyalty + message.as_of)
        self._trusting = True
        return self._sending(found)

    def advance(self, instant: int) -> list[Row]:
        """Return the rows to send now that all rows before ``instant`` (microseconds) have been offered."""
        found = self._until(instant)
        if self._restarted:
            self._restarted = False
            found += self._released(self._clock)
        if self._message is not None:
            self._forget_objects(self._message, instant)
        return self._sending(found or self._beat(instant))

    def flush(self) -> list[Row]:
        """Return everything that is held back, as at the end of a stream."""
        return self._sending(self._released(self._clock))

    def save(self) -> str:
        """Return the state as JSON text, to be kept where a restart finds it. Rows must consist of JSON's values and datetimes."""
        settings = {name: int(getattr(self, name)) for name in _SAVED}
        heights = [[index, list(key), height] for (index, key), height in self._heights.items()]  # type: ignore[call-overload]
        return saved_text(Saved(settings, self._message, heights, self._lines, self._spare))

    def load(self, text: str) -> None:
        """Continue from the text that ``save`` returned. With a heartbeat, the next ``advance`` returns everything that is held back.

        Raise EdgeError SKY-E702 for any other text; the filter is unchanged then.
        """
        saved = saved_of(text)
        if set(saved.settings) != set(_SAVED):
            raise EdgeError("SKY-E702", "this is no state of an edge filter (its settings)", "begin with a new filter, which sends more")
        self._message, self._lines, self._spare = saved.message, saved.lines, saved.spare
        self._clock, self._last_sent, self.offered, self.sent = (saved.settings[name] for name in _SAVED[:4])
        self.complete, self._trusting = (bool(saved.settings[name]) for name in _SAVED[4:])
        self._heights = {(index, tuple(key)): height for index, key, height in saved.heights}
        self._due, self._swept = [], _EARLIEST
        # The job may know more than the filter: what heartbeats sent since ``save`` depends on the calls of ``advance``, which are lost.
        self._restarted = self.heartbeat is not None
        for name, line in self._lines.items():
            if line.row is not None:
                self._watch(name, line)

    # ---------------------------------------------------------------- the rule

    def _report(self, message: Message, row: Mapping[str, Any]) -> tuple[Hashable, bool, int, tuple[Any, ...]] | None:
        """Return (key and object, whether on, instant, place among rows of one instant) of a row; None if it is no report."""
        on = row.get(message.updates)
        key = tuple(row.get(c) for c in message.partition_by)
        name = tuple(row.get(c) for c in message.object)
        if on not in (0, 1) or None in name or None in key or any(not isinstance(v, Hashable) for v in (*name, *key)):
            return None
        at = instant_of(row.get(message.event_time))
        return (key, name), bool(on), at, tuple(_orderly(row.get(c)) for c in message.order)

    def _step(self, line: Line, key: Hashable, at: int) -> int:
        """Return for how long after ``at`` the object surely stays out of all results, as it is and as the server knows it; -1 if not.

        An object comes closer to a falling border by 2 a unit of time, to a bound by 1.
        """
        message, step = self._message, LARGEST
        assert message is not None
        for index, query in enumerate(message.queries):
            highest = line.most(query.window, at)
            if query.at_least is not None:
                step = min(step, query.at_least - highest - 1)
            else:
                gap = self._heights.get((index, key), _EARLIEST) - at - highest
                step = min(step, (gap - 1) // 2 if gap > 0 else -1)
        return step if self._trusting else -1

    def _take(self, message: Message, name: Hashable, line: Line, row: Row, on: bool, at: int, order: tuple[Any, ...]) -> list[Row]:
        """Return the rows to send for a report, and note it."""
        again = at == line.time
        last = not again or order >= line.order
        repeats = not last or on == line.on
        if not repeats:
            line.switch(at, True)
        step = self._step(line, name[0], at)  # type: ignore[index]
        hold = step > 0 and not (again and line.sent) and line.first < at
        if not last and line.row is not None and not hold:
            return [self._correction(line, at), row | {message.held: None}]
        if last:
            line.time, line.order, line.dated = at, order, False
        line.forget(at - max(q.window for q in message.queries))
        if hold:
            line.sent = False
            if line.held == 0:
                # Nothing is unknown to the server: the row has no effect at all.
                line.row, self._spare = None, (at, row)
                return []
            line.row = row if last or line.row is None else line.row
            line.safe = at + step
            self._watch(name, line)
            return []
        unknown = [h for h in line.unknown() if h < at]
        line.held, line.row, line.sent = 0, None, True
        return [row | {message.held: " ".join(map(str, unknown)) or None}]

    def _until(self, instant: int) -> list[Row]:
        """Return corrections for the objects that could come into a result before ``instant`` if nothing was sent."""
        found: list[Row] = []
        if not self._trusting and self._due:
            for held in self._lines.values():
                if held.row is not None:
                    found.append(self._correction(held, min(held.safe, max(instant - 1, held.time))))
        while self._due and self._due[0][0] - self.margin < instant:
            safe, _, name = heapq.heappop(self._due)
            line = self._lines.get(name)
            if line is None or line.due != safe:
                continue
            line.due = LARGEST
            if line.row is None:
                continue
            step = self._step(line, name[0], safe) if line.safe == safe else line.safe - safe  # type: ignore[index]
            if step > 0:
                line.safe = safe + step
                self._watch(name, line)
            else:
                found.append(self._correction(line, min(safe, max(instant - 1, line.time))))
        self._clock = max(self._clock, instant)
        if self._message is not None and found:
            time = self._message.event_time
            found.sort(key=lambda row: instant_of(row[time]))
        return found

    def _beat(self, instant: int) -> list[Row]:
        """Return one row that is held back, or that had no effect, if the server's time has to go on."""
        if self.heartbeat is None or self._last_sent == _EARLIEST or instant - self._last_sent <= self.heartbeat:
            return []
        for line in self._lines.values():
            if line.row is not None:
                return [self._correction(line, max(instant - 1, line.time))]
        if self._spare is not None and self._spare[0] > self._last_sent:
            return [self._spared(*self._spare)]
        return []

    def _spared(self, at: int, row: Row) -> Row:
        """Return a row that had no effect, and note that it is sent: the job ignores held switches up to the instant of a row it has."""
        report = None if self._message is None else self._report(self._message, row)
        line = None if report is None else self._lines.get(report[0])
        if line is not None and line.time == at:
            line.sent = True
        return row

    def _correction(self, line: Line, at: int) -> Row:
        """Return the object's last row, dated ``at``, with all switches before; nothing of it is held back any more."""
        assert self._message is not None and line.row is not None
        unknown = " ".join(str(h) for h in line.unknown() if h < at) or None
        time = self._message.event_time
        dated = {time: line.row[time] if at == line.time else written_like(line.row[time], at), self._message.held: unknown}
        row = line.row | dated
        line.dated = at > line.time
        line.time, line.held, line.row, line.sent = at, 0, None, True
        return row

    def _released(self, clock: int) -> list[Row]:
        """Return everything that is held back, by time, and the last row that had no effect if it is the newest."""
        found = [self._correction(line, max(clock - 1, line.time)) for line in self._lines.values() if line.row is not None]
        if self._message is not None:
            time = self._message.event_time
            found.sort(key=lambda row: instant_of(row[time]))
            if (
                self._spare is not None
                and self._spare[0] >= clock - 1
                and self._spare[0] > max([self._last_sent, *(instant_of(r[time]) for r in found)])
            ):
                found.append(self._spared(*self._spare))
        self._spare = None
        return found

    # ---------------------------------------------------------------- upkeep

    def _watch(self, name: Hashable, line: Line) -> None:
        """Look at an object again when it is no longer safe, or before."""
        if line.safe < line.due:
            self._count += 1
            line.due = line.safe
            heapq.heappush(self._due, (line.safe, self._count, name))

    def _forget_objects(self, message: Message, instant: int) -> None:
        """Forget, once a window, the objects that are off, were not on in any window, and get no more rows of their last instant."""
        longest = max(q.window for q in message.queries)
        if not self.complete or instant - self._swept < longest:
            return
        self._swept = instant
        for name, line in list(self._lines.items()):
            line.forget(instant - longest)
            if line.held == 0:
                # Nothing is unknown to the server any more.
                line.row = None
            if not line.on and not line.switches and line.time < instant:
                del self._lines[name]

    def _sending(self, rows: list[Row]) -> list[Row]:
        self.sent += len(rows)
        if rows and self._message is not None:
            times = [instant_of(row[self._message.event_time]) for row in rows if row.get(self._message.event_time) is not None]
            self._last_sent = max([self._last_sent, *times])
        return rows


def _orderly(value: Any) -> tuple[int, Any]:
    """Return a value that compares as the server orders it: nulls first, numbers by value, texts by their UTF-8 bytes."""
    if value is None:
        return 0, 0
    return 1, value.encode() if isinstance(value, str) else value


def _disordered(at: int, last: int) -> EdgeError:
    message = f"a row of the instant {at} comes after one of {last} of the same object"
    return EdgeError(
        "SKY-E703", message, "offer the rows of an object in order of time; send this one as it is only if nothing is held back"
    )
