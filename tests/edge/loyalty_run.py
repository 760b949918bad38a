"""Random reports on objects, filtered by several edges, into the operator of loyalty: with delays and restarts on both sides."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skyband.edge import Border, EdgeFilter, Message, Query
from skyband.edge.message import text_of
from skyband.operators.base import NULL, Column, Ragged, Window
from skyband.operators.loyalty import Loyalty, LoyaltyQuery
from tests.operators.loyalty_host import Host, Stream

Row = dict[str, Any]


@dataclass
class Job:
    """Queries over the reports of a job: rows {t, id, key, who, on, held}."""

    queries: tuple[LoyaltyQuery, ...]
    window: int
    partition_by: tuple[str, ...] = ("key",)

    def operator(self) -> Loyalty:
        return Loyalty(
            object=("who",), updates=Column("on", "int"), window=Window(None, self.window), queries=self.queries, held="held"
        )  # fmt: skip

    def message(self, server: Server | None, below: int = 0) -> Message:
        """The message as of all that the server has done; ``below``: borders that are lower by so much hold less back."""
        queries = []
        for i, q in enumerate(self.queries):
            borders = []
            for key in range(len(server.keys)) if server is not None and q.k is not None else ():
                found = server.host.logic.snapshot(key, q.k, Window(None, self.window), i).extra["loyalty_seconds"]
                if len(found) == q.k:
                    loyalty = max(0, int(np.rint(found.min() * 1e6)) - below)
                    borders.append(Border((server.keys[key],), loyalty))
            queries.append(Query(f"q{i}", self.window, q.at_least, tuple(borders)))
        as_of = server.host.logic.until - 1 if server is not None and server.host.logic.until != NULL else 0
        return Message("job", as_of, "t", ("who",), "on", "held", tuple(queries), ("id",), ("key",))


@dataclass
class Server:
    """The operator behind a watermark. It accepts an id once."""

    host: Host
    keys: list[int] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    done: int = NULL

    def take(self, rows: list[Row]) -> None:
        for row in rows:
            if row["id"] not in self.seen:
                assert row["t"] >= self.done or row["held"] is None, "a row is late"
                if row["t"] >= self.done:  # a heartbeat that repeats a state may be late, which does no harm
                    self.seen.add(row["id"])
                    self.waiting.append(row)

    def advance(self, until: int) -> None:
        ready = sorted((r for r in self.waiting if r["t"] < until), key=lambda r: (r["t"], r["id"]))
        self.waiting = [r for r in self.waiting if r["t"] >= until]
        self.done = max(self.done, until)
        for row in ready:
            if row["key"] not in self.keys:
                self.keys.append(row["key"])
        column = {name: np.array([r[name] for r in ready], np.int64) for name in ("t", "on")}
        key = np.array([self.keys.index(r["key"]) for r in ready], np.int64)
        stream = Stream(column["t"], key, [(r["who"],) for r in ready], {"on": column["on"], "~held": column["on"]})
        block = self.host.block(stream, 0, len(ready))
        texts = [ready[i].get("held") for i in np.argsort(key, kind="stable")]
        letters = [[NULL] if text is None else [ord(c) for c in text] for text in texts]
        start = np.cumsum([0, *map(len, letters)]).astype(np.int64)
        values = np.array([c for one in letters for c in one], np.int64)
        self.host.advance(dataclasses.replace(block, ragged={"~held": Ragged(start, values)}), until)

    def by_key(self) -> list[Any]:
        """Changes and points, without the numbers of keys, which depend on the rows that came."""
        found = [(r[0], self.keys[r[1]], *r[2:]) for r in [*self.host.changes, *self.host.points]]
        return sorted(found, key=repr)


def unfiltered(job: Job, rows: list[Row], end: int) -> Server:
    server = Server(Host(job.operator()))
    server.take(rows)
    server.advance(end)
    return server


@dataclass
class Edge:
    """An edge: its filter, and what it would read again after a restart."""

    filter: EdgeFilter
    saved: str = ""
    since: list[Row] = field(default_factory=list)
    clock: int = NULL

    def take(self, row: Row) -> list[Row]:
        self.since.append(row)
        self.clock = max(self.clock, row["t"])
        return self.filter.offer(row)

    def receive(self, message: Message) -> list[Row]:
        rows = self.filter.receive(text_of(message))
        self.save()
        return rows

    def save(self) -> None:
        self.saved, self.since = self.filter.save(), []

    def restart(self) -> list[Row]:
        """Lose everything since the last save, and read those rows again; what was sent then is sent again."""
        self.filter = EdgeFilter(margin=self.filter.margin, heartbeat=self.filter.heartbeat)
        self.filter.load(self.saved)
        sent = [found for row in self.since for found in self.filter.offer(row)]
        return sent + self.filter.advance(self.clock)


def filtered(job: Job, rows: list[Row], end: int, rng: np.random.Generator, edges: int, complete: bool = True) -> tuple[Server, list[Edge]]:
    """The rows by way of several edges, which know of the server what came with delays."""
    server = Server(Host(job.operator(), few=int(rng.choice([0, 2, 64]))))
    beats = (None, None, int(rng.integers(1, 9)))
    filters = [
        EdgeFilter(complete=complete, margin=int(rng.choice([0, 0, 3])), heartbeat=beats[int(rng.integers(3))]) for _ in range(edges)
    ]
    places = [Edge(one) for one in filters]
    begin = rows[0]["t"] if rows else 0
    late_start = [0 if complete else int(rng.integers(0, len(rows) + 1)) for _ in places]
    on_their_way: list[Message] = [job.message(None)]
    for edge, wait in zip(places, late_start, strict=True):
        if wait == 0:
            edge.receive(on_their_way[0])
        else:
            edge.save()
    lag = int(rng.choice([1, 1, 2, 6]))
    below = int(rng.choice([0, 0, 1]))
    told, number = begin, 0
    for t in range(begin, end):
        while number < len(rows) and rows[number]["t"] == t:
            row = rows[number]
            number += 1
            server.take(places[row["who"] % edges].take(row))
        for i, edge in enumerate(places):
            if rng.random() < 0.6 or t + 1 - edge.clock >= lag:
                server.take(edge.filter.advance(t + 1))
                edge.clock = t + 1
                if rng.random() < 0.3:
                    edge.save()
                    edge.since = []
            if rng.random() < 0.05:
                server.take(edge.restart())
            if number >= late_start[i] and rng.random() < 0.3 and on_their_way:
                server.take(edge.receive(on_their_way[int(rng.integers(len(on_their_way)))]))
        until = min(e.clock for e in places) - 1
        if rng.random() < 0.5 and until > told:
            server.advance(until)
            told = until
            on_their_way.append(job.message(server, below))
            server.host.forget()
            if rng.random() < 0.1:
                server.host.restore()
    for edge in places:
        server.take(edge.filter.flush())
    server.advance(end)
    return server, places


def random_rows(rng: np.random.Generator, count: int, objects: int, keys: int) -> list[Row]:
    """Reports in the server's order: ties, bursts, repeats."""
    gaps = [(0, 1, 2), (0, 0, 1), (1, 1, 1), (0, 3, 20), (2, 7, 11)][int(rng.integers(5))]
    time = np.cumsum(rng.choice(gaps, count)) + int(rng.choice([0, -40, 1000]))
    bias = rng.random(objects) if rng.random() < 0.5 else np.full(objects, 0.5)
    found = []
    for i, t in enumerate(time.tolist()):
        who = int(rng.integers(objects))
        found.append({"t": t, "id": i, "key": who % keys, "who": who, "on": int(rng.random() < bias[who]), "held": None})
    return found
