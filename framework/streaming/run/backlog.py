"""Process the backlog (the files present at start-up) as one unit: cap its watermark durably, and release the watermark at the end.

See ``sources.watermark_caps`` for caps. A backlog that fits into one batch, or whose files are in the order of event times, has none.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from skyband.framework.base.counts import counted
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import GREATEST, Tally
from skyband.framework.base.units import format_instant
from skyband.framework.console.lines import Warn
from skyband.framework.plan.model import Filter, Plan, SourceNode
from skyband.framework.sources.files.backlog import batch_bytes
from skyband.framework.sources.logs import next_watermark, watermark
from skyband.framework.sources.protocol import Backlog
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.several.format import header_of
from skyband.framework.sources.watermark_caps import NO_ROWS, UNKNOWN, Span, UnreadFile, WatermarkCaps, caps, fits, least
from skyband.framework.storage.location import Location
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.rows.instants.source_times import SourceTimes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 30 * 86_400_000_000
"""Microseconds after which a backlog has been read."""


class PartBacklog(NamedTuple):
    """The backlog of one source; ``name``: among several sources, else empty."""

    name: str
    source: SourceNode
    backlog: Backlog


class BacklogCaps:
    """The caps of the backlogs of one run; subclasses list and read the files.

    ``warn`` is called if rows have to wait for files that arrive out of order. ``times``: how far several sources have come. The rows of a
    batch cannot always move their common watermark as far as it is due, since a task knows the other sources as they were before the
    batch; ``done`` and ``catch_up`` order the rest.
    """

    def __init__(self, plan: Plan, layout: Layout, job: JobFile, warn: Warn, times: SourceTimes | None = None) -> None:
        self.plan = plan
        self.layout = layout
        self.job = job
        self.warn = warn
        self.caps = WatermarkCaps.load(layout.home)
        self.backlogs: list[PartBacklog] = []
        for name, source in plan.source.each:
            header = header_of(job.header, name) if name else job.header
            if (found := source_format(source.format).backlog(source, header, layout.home)) is not None:
                self.backlogs.append(PartBacklog(name, source, found))
        self._times = times if plan.intake.sources else None
        self._settled = self._times is None
        """Whether the watermark of several sources is where the rows that were there at the start move it."""
        self._released: list[Location] = []
        self._ordered_ms = 0
        """The last instant to which ``catch_up`` has ordered the watermark."""

    @property
    def capped(self) -> WatermarkCaps | None:
        """The caps that the next query has to apply, None if no file has one."""
        return self.caps if self.caps.capped else None

    def begin(self) -> bool:
        """Plan the next query durably. Return True if it has to end with the present files.

        O(files). Reads the files, or only their footers if these suffice, unless one batch takes all of them.
        """
        begun: list[str] = []
        found: dict[str, int | None] = {}
        others: list[int] = []
        for part in self.backlogs:
            unfinished, files = self._unread(part)
            own, rest = self._caps(part, files)
            begun += unfinished
            found |= own
            others += [] if rest is None else [rest]
        if self.backlogs and self.caps.plan(begun, found, min(others, default=None)):
            self.caps.save()
            failpoint("caps.planned")
        return self.caps.capped or self.caps.greatest is not None or not self._settled

    def read(self, counts: Tally) -> None:
        """Record durably the greatest event time that caps have kept from the watermark, and remove it from ``counts``."""
        greatest = counts.pop(GREATEST, None)
        if greatest is not None and greatest > (self.caps.greatest or -1):
            self.caps.greatest = greatest
            self.caps.save()

    def done(self) -> bool:
        """End the backlog: remove all caps, and order a row that moves the watermark to where it would be without them.

        Return whether such a row is needed; the next query reads it.
        """
        caps, delay_ms = self.caps, self.plan.intake.delay_ms
        due_ms = self._due_ms()
        # That of the last batch done: the row may have moved it already, and ordering it again would change nothing.
        behind = due_ms - delay_ms > next_watermark(self.layout.checkpoint)
        if behind:
            self._release(due_ms)
        else:
            self._settled = True
        caps.caps, caps.others, caps.greatest = {}, None, None
        caps.save()
        return behind

    def catch_up(self, reached: int) -> None:
        """Order a row that moves the watermark of several sources to where the last batch's rows could not move it, if it lags.

        ``reached``: the instant with which the batch's rows counted. Does nothing while a backlog is read: ``done`` does it.
        """
        if self._times is None or not self._settled:
            return
        due_ms = self._due_ms()
        if due_ms <= max(reached // 1000, watermark(self.layout.checkpoint) + self.plan.intake.delay_ms, self._ordered_ms):
            return
        # Those before the last have been read: each batch reads the row that the batch before it ordered.
        for path in self._released[:-2]:
            path.unlink(missing_ok=True)
        self._released = [*self._released[-2:], self._release(due_ms)]
        self._ordered_ms = due_ms

    def _due_ms(self) -> int:
        """Return the event time that the watermark has to see, in ms, to be where the rows so far move it; 0 if there is none."""
        if self._times is None:
            return 0 if self.caps.greatest is None else self.caps.greatest // 1000
        due = self._times.due()
        return 0 if due is None else due // 1000 + self.plan.intake.delay_ms

    def _release(self, due_ms: int) -> Location:
        self.caps.released = max(self.caps.released or 0, (due_ms - self.plan.intake.delay_ms) * 1000)
        self.caps.save()
        made = self.layout.order_release((_EPOCH + timedelta(milliseconds=due_ms)).isoformat(timespec="milliseconds"), due_ms)
        failpoint("caps.released")
        return made

    def _caps(self, part: PartBacklog, files: Sequence[UnreadFile]) -> tuple[dict[str, int | None], int | None]:
        """Return (caps of ``files``, cap of files that may still arrive): empty and None if no file can make rows of another one late."""
        source, intake_node = part.source, self.plan.intake
        if fits(files, source.max_files_per_batch, batch_bytes(source)):
            return {}, None
        delay = 1000 * next((clock.delay_ms for clock in intake_node.sources if clock.name == part.name), intake_node.delay_ms)
        # A file that is too large stops the run, or is set aside, before its batch reads it.
        large = set(part.backlog.too_large([p.url for p in files]))
        urls = [p.url for p in files if p.url not in large]
        field = next((f for f in source.fields if f.name == intake_node.event_time), None)
        spans = part.backlog.footers(str(field.source_name), urls) if field is not None and field.type == "timestamp" else {}
        rest = [u for u in urls if u not in spans]
        times = self._by_arrow(rest, exact=False)
        spans |= times | self._by_engine(part, [u for u in rest if u not in times])
        spans |= dict.fromkeys(large, unreadable(source))
        found = caps(files, spans, delay)
        choosy = intake_node.rules or any(isinstance(t, Filter) for t in intake_node.transforms)
        choosy = choosy or any(lookup.missing == "reject" for lookup in intake_node.lookups)
        latest = self.latest()
        far = {u for u in urls if latest is not None and spans[u] != UNKNOWN and spans[u][1] > latest}
        again = [u for u in urls if u in times or ((choosy or u in far) and u not in rest)]
        if again and any(c is not None for c in found.values()):
            # Event times and footers include rows that are rejected or filtered: read exactly whether the accepted rows need caps.
            spans |= self._read(part, again)
            found = caps(files, spans, delay)
        capped = [spans[u] for u, cap in found.items() if cap is not None]
        if not capped:
            return {}, None
        self._warn(len(files), capped)
        return found, least(spans, delay)

    def _read(self, part: PartBacklog, urls: Sequence[str]) -> dict[str, Span]:
        """Return the spans of the files ``urls``, read by Arrow if it can and by Spark otherwise."""
        found = self._by_arrow(urls, exact=True)
        return found | self._by_engine(part, [u for u in urls if u not in found])

    def _unread(self, part: PartBacklog) -> tuple[list[str], list[UnreadFile]]:
        """Return (URLs of the files of an unfinished batch, the files that no batch has taken)."""
        raise NotImplementedError

    def _by_arrow(self, urls: Sequence[str], exact: bool) -> dict[str, Span]:
        """Return the spans of those of the files ``urls`` that Arrow can read. ``exact``: only of accepted rows."""
        raise NotImplementedError

    def _by_engine(self, part: PartBacklog, urls: Sequence[str]) -> dict[str, Span]:
        """Return the spans of the files ``urls``, of accepted rows, as the stream would read them. Raises no error."""
        raise NotImplementedError

    def latest(self) -> int | None:
        """Return an event time that no batch of this backlog accepts, in microseconds; None if any is accepted.

        The batches are planned later, by clocks of their own: rows near the limit count, as one of them may accept them.
        """
        ahead = self.plan.intake.ahead_micros
        return None if ahead is None else time.time_ns() // 1000 + ahead + _LONGEST

    def _warn(self, files: int, capped: Sequence[Span]) -> None:
        known = [s for s in capped if s != UNKNOWN]
        which = f" ({format_instant(min(s[0] for s in known))} to {format_instant(max(s[1] for s in known))})" if known else ""
        self.warn(
            f"{counted(files, 'file')} are waiting, more than one batch takes, and their modification times are not in the order of their "
            f"event times: rows of {len(capped):,} of them{which} wait in state until files that may hold earlier rows have been read"
        )


def unreadable(source: SourceNode) -> Span:
    """Return the span of a file that cannot be read: it is set aside for good, or fixed before the job goes on."""
    return NO_ROWS if source.on_bad_file == "reject" else UNKNOWN
