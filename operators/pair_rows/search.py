"""Search for the partners of each arrival: the window of every key and the queries that search it, for operators that need no skyband."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from skyband.operators.base import F64, I64, AnyArray, Arrivals, Instant, Window
from skyband.operators.pair_rows.deletions import Deletions, loaded, no_deletions, saved, split
from skyband.operators.pair_rows.kernels.partners import KEY, NEWER, OLDER, QUERY, PartnerQueries, Partners, PartnerTask
from skyband.operators.pair_rows.kernels.tables import KEY_COLUMNS, NEXT_SEQ, Advance, Settings
from skyband.operators.pair_rows.windows import Marks, Windows, WindowsConfiguration, no_objects
from skyband.operators.single_rows.tombstones import Tombstones
from skyband.operators.windows import count_of, micros_of


class Pairs(NamedTuple):
    """The pairs found. All arrays of shape (m,)."""

    query: I64
    """int64."""
    key: I64
    """int64."""
    older: I64
    """int64: seq."""
    newer: I64
    """int64: twice the newer seq, plus 1 if that one is the pair's ``a``."""
    score: F64
    """float64: internal."""


class PartnerQuery(NamedTuple):
    """The partners that are searched for."""

    k: int
    """The number of best partners of an arrival; 0 for all."""
    window: Window
    """The window whose last object is the arrival."""
    worst_score: float
    """The largest internal score."""


class SearchConfiguration(WindowsConfiguration, Protocol):
    """The part of an operator's configuration that a search reads."""

    def unusable(self, arrivals: Arrivals) -> AnyArray:
        """Return a mask (n,) of the arrivals that no pair can use; with ``between``, those of neither side may be in it."""
        ...


def no_partner_task() -> PartnerTask:
    """Return a task without arrivals: its types are those that searches are compiled for."""
    none = np.empty(0, np.int64)
    return PartnerTask(
        Settings(0, 0, 0, 0, 0, 0, 0), PartnerQueries(none, none, none, np.empty(0)), np.empty((0, KEY_COLUMNS), np.int64),
        no_objects(0, 0), Advance(none, none, 0, 0),
    )  # fmt: skip


def some(partners: Partners, at: AnyArray) -> Partners:
    """Return the partners at the positions ``at``."""
    return Partners(partners.fields[at], partners.score[at])


def newest_first(partners: Partners) -> Partners:
    """Return all partners of arrivals in the order of a state: by key and arrival, the newest first."""
    older, newer, key = (partners.fields[:, c] for c in (OLDER, NEWER, KEY))
    later = (key[1:] == key[:-1]) & ((newer[1:] < newer[:-1]) | ((newer[1:] == newer[:-1]) & (older[1:] > older[:-1])))
    if not (later | (key[1:] < key[:-1])).any():
        return partners  # as an index finds them
    return some(partners, np.lexsort((-older, newer, key)))


class PartnerSearch(ABC):
    """The windows of one bucket, with the queries that search them; a subclass finds the partners."""

    def __init__(
        self, configuration: SearchConfiguration, queries: Sequence[PartnerQuery], sub_batch: int = 0, marks: Marks | None = None
    ) -> None:
        """Search for ``queries``; ``sub_batch``: the most arrivals of a key that are taken together; ``marks``: as ``Windows``."""
        between, window = configuration.between, configuration.window
        self.windows = Windows(window, configuration.kernel, marks)
        sides, own = self.windows.sides(configuration), self.windows.marks
        self.settings = Settings(0, count_of(window), micros_of(window), sub_batch, *sides, len(own.floats), len(own.integers))
        self.between, self.is_unusable = between, configuration.unusable
        ends = [q.window.within(window) for q in queries]
        self.queries = PartnerQueries(
            np.array([q.k for q in queries], np.int64), np.array([count_of(w) for w in ends], np.int64),
            np.array([micros_of(w) for w in ends], np.int64), np.array([q.worst_score for q in queries], np.float64),
        )  # fmt: skip
        self.tombs = Tombstones.empty()
        self.arrived = self.unusable = self.on_a_side = self.found = 0

    @abstractmethod
    def _find(self, arrivals: Arrivals, advance: Advance) -> tuple[Partners, int]:
        """Return the partners of ``arrivals``, which are in the windows already, grouped by key and arrival, and their number."""

    @abstractmethod
    def work_done(self) -> dict[str, int]:
        """Return and reset the counters of the search."""

    def grow(self, keys: int) -> int:
        """Enlarge the tables to ``keys`` keys; return the number of new ones."""
        return self.windows.grow(keys)

    def task(self, advance: Advance) -> PartnerTask:
        """Return what compiled searches take to find the partners of the arrivals of ``advance``."""
        return PartnerTask(self.settings, self.queries, self.windows.keys, self.windows.objects, advance)

    @property
    def deletes(self) -> bool:
        """Return True if rows may be deletions."""
        return self.windows.until_row >= 0

    def split(self, arrivals: Arrivals) -> tuple[Arrivals, Deletions]:
        """Return the objects and the deletions among ``arrivals``. The tables must hold the keys (``grow``)."""
        return split(arrivals, self.windows.keys[:, NEXT_SEQ]) if self.deletes else (arrivals, no_deletions())

    def delete(self, deletions: Deletions) -> None:
        """Delete objects of the windows: arrivals after a deletion do not find its object."""
        if len(deletions.key):
            self.windows.delete(deletions.key, deletions.seq, deletions.before)
            self.tombs = self.tombs.with_(Tombstones(deletions.key, deletions.seq, deletions.time))

    def find(self, arrivals: Arrivals, deletions: Deletions, since: Instant, until: Instant) -> tuple[I64, I64, Pairs]:
        """Put arrivals (at least one) into the windows, delete objects between them, and find the arrivals' pairs.

        Returns the arrivals' keys, the seq of each key's first, and the pairs by key and arrival. The tables must hold the keys (``grow``).
        """
        unusable = self.is_unusable(arrivals)
        if self.between is not None:
            side = arrivals.columns[self.between.column]
            on_a_side = (side == self.settings.code_a) | (side == self.settings.code_b)
            unusable = unusable & on_a_side
        self.arrived += len(arrivals)
        self.on_a_side += len(arrivals) if self.between is None else int(np.count_nonzero(on_a_side))
        self.unusable += int(np.count_nonzero(unusable))
        keys, first = self.windows.append(arrivals, since)
        self.delete(deletions)
        partners, n = self._find(arrivals, Advance(keys, first, since, until))
        self.found += n
        fields = partners.fields[:n]
        query, key, older, newer = (fields[:, c].copy() for c in (QUERY, KEY, OLDER, NEWER))
        return keys, first, Pairs(query, key, older, newer, partners.score[:n].copy())

    def saved(self, until: Instant) -> dict[str, AnyArray]:
        """Return the deletions whose objects would still be in the window, as arrays of a checkpoint; nothing without deletions."""
        if not self.deletes:
            return {}
        self.tombs = self.tombs.alive(self.windows.keys[:, NEXT_SEQ], until, self.windows.window)
        return saved(self.tombs)

    def restore(self, rows: Arrivals, arrays: Mapping[str, AnyArray], until: Instant) -> None:
        """Fill the windows with the rows that the host kept; ``arrays``: the checkpoint, with every key's ``next`` seq."""
        next_seq = np.asarray(arrays["next"], np.int64)
        self.grow(len(next_seq))
        self.windows.restore(rows, next_seq, until)
        if self.deletes:
            self.tombs = loaded(arrays)
            self.windows.delete(self.tombs.key, self.tombs.seq, 0)

    @staticmethod
    def items(older: I64, newer: I64) -> I64:
        """Return the items (m, 2) in the order of the roles; ``newer`` is as in ``Pairs``."""
        newer_seq, newer_is_a = newer >> 1, (newer & 1) == 1
        return np.stack([np.where(newer_is_a, newer_seq, older), np.where(newer_is_a, older, newer_seq)], axis=1)

    def counters(self, queries: int) -> dict[str, int]:
        """Return and reset the counters of arrivals, of the search, and of arrivals that no pair can use (``unusable``)."""
        counters = {"objects": self.arrived, **self.work_done(), "candidates": self.found}
        for i in range(queries):
            counters |= {f"unusable:{i}": self.unusable, f"asked:{i}": self.on_a_side}
        self.arrived = self.unusable = self.on_a_side = self.found = 0
        return counters
