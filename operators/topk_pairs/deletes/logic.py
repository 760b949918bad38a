"""The state and logic of top-k pairs where objects can be deleted: a reserve of the best alive pairs for every different window."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from skyband.operators import jit
from skyband.operators.base import F64, I64, NEVER, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions.compile import bound_type, count_type, score_type
from skyband.operators.pair_rows.deletions import UNTIL
from skyband.operators.pair_rows.kernels.partners import PartnerQueries
from skyband.operators.pair_rows.kernels.tables import (
    FIRST_STORED,
    KEY_COLUMNS,
    NEXT_SEQ,
    REGION_START,
    Advance,
    Bucket,
    ChangeRows,
    DeletionRows,
    Settings,
    Skyband,
)
from skyband.operators.pair_rows.logic import PairRowsLogic, deletion_rows, lay_out, no_progress, no_queries, no_skyband, places_of, starts
from skyband.operators.pair_rows.scored_partners import ScoredPartnerSearch
from skyband.operators.pair_rows.search import Pairs as FoundPairs
from skyband.operators.pair_rows.search import PartnerQuery
from skyband.operators.pair_rows.windows import Marks, Windows, no_objects
from skyband.operators.topk_pairs.configuration import MOST, SPARE, TopKPairsConfiguration
from skyband.operators.topk_pairs.deletes.kernels import Found, Layout, Reserves, drive
from skyband.operators.windows import check_window

PARTNERS: Final = 4
"""The number of best older partners that are found for every arrival. More than these are seldom in the reserve."""
DELETION_ROW: Final = -2
"""The row of ``Objects.integers`` with the number of an object's deletion (``Layout.integer_row``)."""


@cache
def driver() -> Callable[..., Any]:
    """Return ``drive``, compiled once for all scoring expressions: its signature is the types of its tables."""
    if not jit.HAVE_NUMBA:
        return drive
    from numba import typeof

    none = np.empty(0, np.int64)
    deleted, found = DeletionRows(none, none, none, none), Found(none, none, none, none, np.empty(0))
    tables = (
        Settings(0, 0, 0, 0, 0, 0, 0), Layout(0, 0, 0, 0, 0, 0, 0), PartnerQueries(none, none, none, np.empty(0)), no_queries(),
        np.empty((0, KEY_COLUMNS), np.int64), no_objects(0, 0), no_reserves(0), no_progress(0, 0, 0), np.empty((0, 0), np.int64),
        Advance(none, none, 0, 0), deleted, found, none,
    )  # fmt: skip
    signature = (count_type(), score_type(), count_type(), score_type(), bound_type(), bound_type(), *map(typeof, tables))
    compiled: Callable[..., Any] = jit.jit(signature)(drive)
    return compiled


def no_reserves(number: int) -> Reserves:
    """Return reserves without pairs, and without pairs behind their floors."""
    return Reserves(
        np.zeros((number, KEY_COLUMNS), np.int64), np.full(number, np.inf), np.full((number, 2), -1), np.empty(0, np.int64),
        no_skyband(), 0,
    )  # fmt: skip


class ReserveLogic(PairRowsLogic):
    """About N vectorised scores per arrival, and after deletions for each object whose other pairs may have become good enough."""

    def __init__(self, configuration: TopKPairsConfiguration, max_per_object: int, state: State | None) -> None:
        self.scored, self.max_per_object = configuration, max_per_object
        queries, window = configuration.queries, configuration.window
        ends = list(dict.fromkeys(q.window.within(window) for q in queries))
        worst = [max(configuration.worst_score(q) for q in queries if q.window.within(window) == w) for w in ends]
        bounds = Marks(tuple(f"$bound{i}" for i in range(len(ends))), (*(f"$bounded{i}" for i in range(len(ends))), "$deletion", UNTIL))
        self.search = ScoredPartnerSearch(configuration, [PartnerQuery(PARTNERS, w, s) for w, s in zip(ends, worst, strict=True)], bounds)
        self.layout = Layout(
            (1 + SPARE[0]) * configuration.keep_k + SPARE[1], MOST, max_per_object, PARTNERS, len(configuration.kernel.float_names),
            len(configuration.kernel.int_names), len(ends),
        )  # fmt: skip
        of_query = np.array([ends.index(q.window.within(window)) for q in queries], np.int64)
        self.reserves = no_reserves(0)._replace(of_query=of_query)
        self.gone = np.zeros((0, sum(q.k for q in queries if q.every_micros)), np.int64)
        """1 for a pair shown at the last boundary (``Progress.shown_score``) with an object deleted since; (keys, shown pairs)."""
        super().__init__(configuration, state)
        self.settings = self.search.settings

    def _windows(self) -> Windows:
        return self.search.windows

    def _run(self, arrivals: Arrivals, bucket: Bucket, advance: Advance) -> tuple[ChangeRows, int, Skyband, int]:
        raise NotImplementedError("a logic with reserves has no skyband")

    def _grow(self, keys: int) -> None:
        more = max(0, keys - len(self.windows.keys))
        super()._grow(keys)
        if more:
            new, old = no_reserves(more * self.layout.reserves), self.reserves
            self.reserves = old._replace(
                regions=np.concatenate([old.regions, new.regions]), floor_score=np.concatenate([old.floor_score, new.floor_score]),
                floor_pair=np.concatenate([old.floor_pair, new.floor_pair]),
            )  # fmt: skip
            self.gone = np.concatenate([self.gone, np.zeros((more, self.gone.shape[1]), np.int64)])

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """See ``Logic.advance``. A search for the best partners of every arrival, then one kernel call for all events."""
        since, due = self.until, self._due(until)
        self.until = max(since, until)
        if not len(arrivals) and not len(due):
            return Changes.empty(2)
        if len(arrivals):
            self._grow(int(arrivals.key[-1]) + 1)
        objects, deletions = self.search.split(arrivals)
        if len(objects):
            self._count_unusable(objects)
            mine, firsts, found = self.search.find(objects, deletions, since, until)
        else:
            self.search.delete(deletions)
            none = np.empty(0, np.int64)
            mine, firsts, found = none, none, FoundPairs(none, none, none, none, np.empty(0))
        keys = np.unique(np.concatenate([mine, deletions.key, due]))
        advance = self._advance_of(keys, mine, firsts, since, until)
        self.windows.set_integers(DELETION_ROW, deletions.key, deletions.seq, np.arange(len(deletions.key)))
        rows, written, pairs, end = driver()(
            *self.scored.functions(False), self.settings, self.layout, self.search.queries, self.queries, self.windows.keys,
            self.windows.objects, self.reserves, self.progress, self.gone, advance, deletion_rows(deletions, keys),
            Found(starts(found.key, keys), found.query, found.older, found.newer, found.score), self.work,
        )  # fmt: skip
        self.reserves = self.reserves._replace(pairs=pairs, end=end)
        self.windows.set_integers(DELETION_ROW, deletions.key, deletions.seq, -1)
        return self._changes(ChangeRows(rows.fields[:written], rows.score[:written]))

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the reserves, next seqs, steps, due boundaries, shown lists and deletions. Bounds are found again when they are needed."""
        number, at = self._pairs()
        pairs = self.reserves.pairs
        windows = self.layout.reserves
        return {
            "until": np.array([self.until], np.int64), "next": self.windows.keys[:, NEXT_SEQ].copy(),
            "sky_key": number // windows, "sky_window": number % windows, "sky_score": pairs.score[at], "sky_older": pairs.older[at],
            "sky_newer": pairs.newer[at], "floor_score": self.reserves.floor_score.reshape(-1, windows).copy(),
            "floor_older": self.reserves.floor_pair[:, 0].reshape(-1, windows).copy(),
            "floor_newer": self.reserves.floor_pair[:, 1].reshape(-1, windows).copy(),
            **self._saved_progress(), "gone": self.gone.copy(),
            **self.search.saved(self.until),
        }  # fmt: skip

    def _pairs(self) -> tuple[I64, I64]:
        """Return (number of the reserve, place in the arena) of every pair whose older object is alive."""
        windows = self.layout.reserves
        number, at = places_of(self.reserves.regions)
        alive = self.windows.alive(number // windows, self.reserves.pairs.older[at], self.configuration.window, self.until)
        return number[alive], at[alive]

    def _restore(self, state: State) -> None:
        a = state.arrays
        self._grow(len(a["next"]))
        self.search.restore(state.rows, a, self.until)
        _, at = self.windows.stored()
        integers = self.windows.objects.integers
        integers[DELETION_ROW, at[integers[self.windows.until_row, at] < NEVER]] = -1
        self.until = int(a["until"][0])
        self._restore_progress(a)
        self.gone = np.array(a["gone"], np.int64)
        number = np.asarray(a["sky_key"], np.int64) * self.layout.reserves + np.asarray(a["sky_window"], np.int64)
        order = np.argsort(number, kind="stable")
        score = np.asarray(a["sky_score"], np.float64)[order]
        older, newer = (np.asarray(a[name], np.int64)[order] for name in ("sky_older", "sky_newer"))
        lay_out(self.reserves.regions, number)
        floors = np.stack([np.asarray(a[name], np.int64).ravel() for name in ("floor_older", "floor_newer")], axis=1)
        self.reserves = self.reserves._replace(
            floor_score=np.array(a["floor_score"], np.float64).ravel(), floor_pair=np.ascontiguousarray(floors),
            pairs=Skyband(score, older, newer, score.copy()), end=len(score),
        )  # fmt: skip
        self._bound_restored()

    def _bound_restored(self) -> None:
        """Bound the pairs of all objects by the floors."""
        key, at = self.windows.stored()
        for w in range(self.layout.reserves):
            number = key * self.layout.reserves + w
            self.windows.objects.floats[self.layout.float_row + w, at] = self.reserves.floor_score[number]
            self.windows.objects.integers[self.layout.integer_row + w, at] = self.reserves.floor_pair[number, 0]

    def skyband(self) -> Items:
        """Return nothing: any pair can come back."""
        return Items(np.empty(0, np.int64), np.empty((0, 2), np.int64), np.empty(0, np.float64))

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the best k <= K pairs of any window n <= N within the query's score bounds, in rank order. O(objects^2): by definition."""
        if not 1 <= k <= self.scored.keep_k:
            raise ValueError(f"k = {k}: this state answers 1 to {self.scored.keep_k}")
        check_window(window, self.scored.window, "snapshot")
        found = [] if not 0 <= key < len(self.windows.keys) else self._ranked(key, window, float(self.queries.worst[query]))
        taken: list[tuple[float, int, int]] = []
        uses: dict[int, int] = {}
        for score, older, newer in found:
            mine = (-older, (-newer) >> 1)
            if len(taken) < k and all(uses.get(seq, 0) < (self.max_per_object or k) for seq in mine):
                taken.append((score, -older, -newer))
                uses |= {seq: uses.get(seq, 0) + 1 for seq in mine}
        older_, newer_ = (np.array([t[i] for t in taken], np.int64) for i in (1, 2))
        return Items(
            np.full(len(taken), key, np.int64), self._items(older_, newer_), self._external(np.array([t[0] for t in taken], float))
        )

    def _ranked(self, key: int, window: Window, worst: float) -> list[tuple[float, int, int]]:
        """Return (score, -older, -newer) of all pairs of a key in rank order."""
        table, objects, settings = self.windows.keys, self.search.attributes(), self.settings
        offset = int(table[key, REGION_START] - table[key, FIRST_STORED])
        seqs = np.arange(table[key, FIRST_STORED], table[key, NEXT_SEQ])
        seqs = seqs[self.windows.alive(np.full(len(seqs), key), seqs, window, self.until)]
        seqs = seqs[self.windows.objects.integers[self.windows.until_row, seqs + offset] == NEVER]
        _, as_a, _, as_b, *_ = self.scored.functions(False)
        found = []
        for x in seqs.tolist():
            code = objects.integers[settings.side_row, x + offset] if settings.side_row >= 0 else settings.code_b
            if seqs[0] < x and code in (settings.code_a, settings.code_b):
                is_a, first = settings.side_row >= 0 and code == settings.code_a, int(seqs[0])
                scores = np.empty(x - first)
                own = (np.ascontiguousarray(part[:, x + offset]) for part in (objects.floats, objects.integers))
                (as_a if is_a else as_b)(objects.floats, objects.integers, first + offset, x + offset, *own, objects.pool, scores)
                older = seqs[seqs < x]
                found += [
                    (s, -o, -(2 * x + is_a)) for s, o in zip(scores[older - first].tolist(), older.tolist(), strict=True) if s <= worst
                ]
        return sorted(found)

    def _unusable(self, arrivals: Arrivals) -> AnyArray:
        return self.scored.unusable(arrivals)

    def _external(self, score: F64) -> F64:
        return self.scored.external(score)

    def _work_done(self) -> dict[str, int]:
        """Pairs scored and skipped, partners found, arrivals of which they were too few, and how often reserves were filled again."""
        found, own = self.search.counters(0), super()._work_done()
        return {
            "scored": found["scored"] + own["scored"], "skipped": found["skipped"], "candidates": found["candidates"],
            "rescans": own["candidates"], "refills": own["refills"],
        }  # fmt: skip
