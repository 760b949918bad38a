"""Messages that the edge filter saves: the loyalty paper's section 4.3 (Figure 6.4) with rain and flows instead of synthetic updates.

Of the rows after the first window: the percentage that is not sent. ``reply``: every object is an edge of its own, as in the paper, and
learns the border when it sends. ``file``: all objects are one edge, which gets a border every ``every``. The border is the loyalty of the
k-th object, or (``next``) of the one after it, the paper's border object. The paper saves 25 % by default and 45 % with its largest window.
``SKYBAND_BENCH_EDGE_ROWS``: how many rows are measured at most (50,000 by default).
"""

from __future__ import annotations

import csv
import gzip
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.loyalty import ROOT, rain
from skyband.edge import Border, EdgeFilter, Message, Query
from skyband.edge.message import text_of

DAY = 86_400_000_000
ROWS = int(os.environ.get("SKYBAND_BENCH_EDGE_ROWS", "50000"))
COLUMNS = ("operator", "params", "rows", "saved")
TRIED = {
    "rain": [(1, 30), (10, 30), (50, 30), (10, 90), (10, 365), (10, 1000)],
    "flows": [(1, 1), (5, 1), (5, 0.25), (5, 7)],
}
"""(k, days of the window)."""


class Loyalties:
    """The loyalty of every object as of now, by the definition: the server's side."""

    def __init__(self, objects: int, window: int) -> None:
        self.window, self.now = window, 0
        self.loyalty, self.slope = np.zeros(objects, np.int64), np.zeros(objects, np.int64)
        self.on = np.zeros(objects, bool)
        self.echoes: deque[tuple[int, int, int]] = deque()

    def advance(self, at: int) -> None:
        """Move time on to ``at``."""
        while self.echoes and self.echoes[0][0] <= at:
            due, who, step = self.echoes.popleft()
            self._move(due)
            self.slope[who] -= step
        self._move(at)

    def report(self, who: int, on: bool) -> None:
        """Take a report of this instant."""
        if self.on[who] != on:
            step = 1 if on else -1
            self.on[who] = on
            self.slope[who] += step
            self.echoes.append((self.now + self.window, who, step))

    def border(self, rank: int) -> int | None:
        """Return the loyalty of the object of that rank, None if there is none. O(objects)."""
        if rank > len(self.loyalty):
            return None
        found = int(np.partition(self.loyalty, -rank)[-rank])
        return found if found > 0 else None

    def _move(self, at: int) -> None:
        if at > self.now:
            self.loyalty += self.slope * (at - self.now)
        self.now = at


def flows() -> Any:
    """int64 (rows, 3): time, responding host, whether it left the connection unanswered; None where the data is not."""
    path = (ROOT / os.environ.get("SKYBAND_SHARED", "../shared")).resolve() / "data" / "conn.csv.gz"
    if not Path(path).exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found = [(round(float(r["ts"]) * 1e6), r["id.resp_h"], r["conn_state"] == "S0") for r in csv.DictReader(file)]
    time, host, on = (np.array(column) for column in zip(*found, strict=True))
    table = np.stack([time.astype(np.int64), np.unique(host, return_inverse=True)[1], on.astype(np.int64)], axis=1)
    return table[np.argsort(table[:, 0], kind="stable")]


def streams() -> Iterator[tuple[str, Any]]:
    """Yield name and rows (time in microseconds, object, on) of the data that is there."""
    wet = rain()
    if wet is not None:
        wet[:, 0] *= DAY
        yield "rain", wet
    network = flows()
    if network is not None:
        yield "flows", network


def message(window: int, k: int, server: Loyalties | None, rank: int) -> str:
    """Return the message of now."""
    loyalty = None if server is None else server.border(rank)
    borders = () if loyalty is None else (Border((), loyalty),)
    return text_of(Message("bench", server.now if server else 0, "t", ("who",), "on", "held", (Query("q", window, None, borders),)))


def saved(rows: Any, window: int, k: int, every: int | None, rank: int) -> float:
    """Return the percentage of rows that are not sent; ``every`` None: every object is an edge, and learns the border by sending."""
    objects = int(rows[:, 1].max()) + 1
    server, measured, last, sent = Loyalties(objects, window), int(rows[0, 0]) + window, None, 0
    edges = [EdgeFilter(complete=True) for _ in range(objects if every is None else 1)]
    for edge in edges:
        edge.receive(message(window, k, None, rank))
    for number, (t, who, on) in enumerate(rows.tolist()):
        server.advance(t)
        edge = edges[who if every is None else 0]
        if every is not None and (last is None or t - last >= every):
            edge.receive(message(window, k, server, rank))
            last = t
        found = edge.offer({"t": t, "id": number, "who": who, "on": on})
        server.report(who, bool(on))
        if found and every is None:
            edge.receive(message(window, k, server, rank))
        sent += len(found) if t >= measured else 0
    return 100 * (1 - sent / max(counted(rows, window), 1))


def counted(rows: Any, window: int) -> int:
    """Return how many rows come after the first window."""
    return int(np.count_nonzero(rows[:, 0] >= rows[0, 0] + window))


def run() -> Iterator[dict[str, Any]]:
    """Yield a row for each data set, k and window."""
    for name, rows in streams():
        for k, days in TRIED[name]:
            window = int(days * DAY)
            last = rows[max(0, len(rows) - ROWS) :]
            first = int(np.searchsorted(rows[:, 0], last[0, 0] - window))
            mine = rows[first:] - np.array([rows[first, 0], 0, 0])
            percent = {
                "reply": saved(mine, window, k, None, k), "reply next": saved(mine, window, k, None, k + 1),
                "file": saved(mine, window, k, DAY if name == "rain" else DAY // 24, k),
            }  # fmt: skip
            yield {"operator": name, "params": {"k": k, "days": days}, "rows": counted(mine, window), "saved": percent}
