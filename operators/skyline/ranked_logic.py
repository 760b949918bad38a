"""The state of a ranked skyline: the state of the skyline, the scores of its rows, and the members of every result in rank order."""

from __future__ import annotations

from typing import Final

import numpy as np

from skyband.operators.base import DELETION_TARGET, F64, I64, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions import RowKernel, compile_row
from skyband.operators.single_rows.arrays import changes_of_rows, external, widened
from skyband.operators.single_rows.scores import scorer
from skyband.operators.skyline.kernels.ranking import Ranking, Scores, rank_changes, scores_of_changes, scores_of_rows
from skyband.operators.skyline.operator import Skyline, SkylineDeletes
from skyband.operators.skyline.ranked_configuration import RankedConfiguration

_NONE: Final[I64] = np.empty(0, np.int64)
_NO_SCORES: Final = Scores(np.zeros(1, np.int64), _NONE, np.empty(0, np.float64))
_ROW: Final = ("query", "key", "at", "step", "pos", "sign", "cause")


class RankedSkylineLogic:
    """The state of one bucket. A call costs that of the skyline, O(rows kept), and O(members) per step of the skyline."""

    def __init__(self, op: RankedConfiguration, skyline: Skyline | SkylineDeletes, state: State | None) -> None:
        self.op = op
        self._skyline = skyline.build(state)
        self._negate = op.direction == "min"
        self._scorer = scorer(op.scoring, None, op.direction, op.texts)
        self._filter: RowKernel | None = None
        if op.where is not None:
            self._filter = compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self._most = np.array(op.most, np.int64)
        self._bounded = np.array([q.every_micros is not None for q in op.queries], np.uint8)
        self._saves_scores = op.keeps == "retained"
        self._scores = _NO_SCORES
        self._ranking = Ranking(np.zeros(1, np.int64), _NONE, np.empty(0, np.float64))
        self._steps = np.zeros((0, len(op.queries)), np.int64)
        self._unusable = 0
        if state is not None:
            self._restore(state)

    def _restore(self, state: State) -> None:
        arrays = state.arrays
        self._steps = np.array(arrays["ranked_step"], np.int64).reshape(-1, len(self.op.queries))
        self._ranking = Ranking(
            np.array(arrays["member_start"], np.int64), np.array(arrays["member_seq"], np.int64),
            np.array(arrays["member_score"], np.float64),
        )  # fmt: skip
        start, seq = self._skyline.row_places()
        if self._saves_scores:
            self._scores = Scores(start, seq, np.array(arrays["row_score"], np.float64))
        else:
            self._scores = Scores(start, seq, scores_of_rows(start, seq, _NO_SCORES, self._scores_of(state.rows)))
            self._unusable = 0

    def _scores_of(self, rows: Arrivals) -> Scores:
        """Return the scores of the objects among rows, and count those that have none. O(rows)."""
        score, missing = self._scorer(rows.columns, len(rows))
        key, seq = np.asarray(rows.key, np.int64), np.asarray(rows.seq, np.int64)
        target = rows.columns.get(DELETION_TARGET)
        objects = np.ones(len(rows), bool) if target is None else (seq >= 0)
        if missing:
            self._unusable += int(np.count_nonzero(objects & np.isnan(score) & self._usable(rows)))
        if not objects.all():
            key, seq, score = key[objects], seq[objects], score[objects]
        keys = int(key[-1]) + 1 if len(key) else 0
        return Scores(np.searchsorted(key, np.arange(keys + 1)), np.ascontiguousarray(seq), np.ascontiguousarray(score, np.float64))

    def _usable(self, rows: Arrivals) -> AnyArray:
        """Return the rows that the skyline uses, (n,) bool."""
        usable = np.ones(len(rows), bool) if self._filter is None else self._filter.passes(rows.columns, len(rows)).astype(bool)
        for d in self.op.dimensions:
            column = np.asarray(rows.columns[d.column.name])
            usable &= ~np.isnan(column) if d.column.kind == "float" else column != NULL
        return usable

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``."""
        before = self._skyline.row_places()
        found = self._skyline.advance(arrivals, until)
        fresh = self._scores_of(arrivals) if len(arrivals) else _NO_SCORES
        made = self._ranked(found, fresh) if len(found) else Changes.empty(1)
        start, seq = self._skyline.row_places()
        if len(arrivals) or seq is not before[1]:
            self._scores = Scores(start, seq, scores_of_rows(start, seq, self._scores, fresh))
        return made

    def _ranked(self, found: Changes, fresh: Scores) -> Changes:
        """Return the changes of the ranked results that follow from those of the skyline."""
        keys, queries = int(found.key.max()) + 1, len(self.op.queries)
        self._steps = widened(self._steps, keys, 0, 0)
        start = widened(self._ranking.start, len(self._steps) * queries + 1, int(self._ranking.start[-1]), 0)
        rows = np.column_stack([*(getattr(found, name).astype(np.int64) for name in _ROW), found.items[:, 0]])
        score = scores_of_changes(rows, self._scores, fresh)
        made, self._ranking = rank_changes(rows, score, self._most, self._bounded, self._steps, self._ranking._replace(start=start))
        return changes_of_rows(made.rows, external(made.score, self._negate))

    def wake(self) -> Instant | None:
        """Return the next instant at which the skyline may change."""
        return self._skyline.wake()

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the arrays of the skyline, the members with their scores, steps, and the scores of rows unless the host keeps these."""
        saved = self._skyline.checkpoint()
        keys, queries = len(saved["last"]), len(self.op.queries)
        start = widened(self._ranking.start, keys * queries + 1, int(self._ranking.start[-1]), 0)
        saved |= {"ranked_step": widened(self._steps, keys, 0, 0), "member_start": start}
        saved |= {"member_seq": self._ranking.seq, "member_score": self._ranking.score}
        return saved | ({"row_score": self._scores.score} if self._saves_scores else {})

    def retained(self) -> tuple[I64, I64]:
        """Return the rows that the skyline needs."""
        return self._skyline.retained()

    def _with_scores(self, items: Items) -> tuple[Items, F64]:
        """Return the items that have a score, and their internal scores."""
        rows = np.zeros((len(items), 8), np.int64)
        rows[:, 1], rows[:, 7] = items.key, items.items[:, 0]
        score = scores_of_changes(rows, self._scores, _NO_SCORES)
        kept = ~np.isnan(score)
        extra = {name: a[kept] for name, a in items.extra.items()}
        return Items(items.key[kept], items.items[kept], external(score[kept], self._negate), extra), score[kept]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the ``k`` best members of the skyline of any window n <= N after all events < ``until``, in rank order."""
        if k < 1:
            raise ValueError(f"k is {k}, and must be at least 1")
        found, score = self._with_scores(self._skyline.snapshot(key, self.op.band, window, query))
        order = np.lexsort((-found.items[:, 0], -score))[:k]
        return Items(found.key[order], found.items[order], found.score[order])

    def skyband(self) -> Items:
        """Return all rows with a score that can come into a result, with the ``extra`` columns of the skyline."""
        return self._with_scores(self._skyline.skyband())[0]

    def counters(self) -> dict[str, int]:
        """Return those of the skyline; ``unusable`` counts rows without a score too."""
        found = self._skyline.counters()
        for i in range(len(self.op.queries)):
            found[f"unusable:{i}"] += self._unusable
        self._unusable = 0
        return found
