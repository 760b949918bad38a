"""The state of a skyline of which some members are chosen: the state of the skyline, the values of its rows, and every result's members.

``ChosenLogic`` runs the skyline and keeps the values of the rows that it needs. A subclass says what the values are, and who is chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np

from skyband.operators.base import DELETION_TARGET, F64, I64, NULL, AnyArray, Arrivals, Changes, Instant, Items, State, Window
from skyband.operators.expressions import RowKernel, compile_row
from skyband.operators.single_rows.arrays import changes_of_rows, external, widened
from skyband.operators.single_rows.scores import as_floats, scorer
from skyband.operators.skyline.chosen_configuration import ChosenConfiguration, RankedConfiguration, SizedConfiguration
from skyband.operators.skyline.kernels.ranking import Ranking, Scores, rank_changes, scores_of_changes, scores_of_rows
from skyband.operators.skyline.kernels.sizing import Members, Points, Preference, chosen, sized_changes, values_of
from skyband.operators.skyline.operator import Skyline, SkylineDeletes

_NONE: Final[I64] = np.empty(0, np.int64)
_NO_SCORES: Final = Scores(np.zeros(1, np.int64), _NONE, np.empty(0, np.float64))
_ROW: Final = ("query", "key", "at", "step", "pos", "sign", "cause")

V = TypeVar("V", Scores, Points)
"""The values of rows, grouped by key: ``start``, ``seq`` and one value or more of each."""


class ChosenLogic(ABC, Generic[V]):
    """The state of one bucket. A call costs that of the skyline, O(rows kept), and what choosing costs per step of the skyline."""

    steps_name: ClassVar[str]
    """The name of the steps in a checkpoint."""
    values_name: ClassVar[str]
    """The name of the values of rows in a checkpoint, which has them unless the host keeps the rows."""

    def __init__(self, op: ChosenConfiguration, skyline: Skyline | SkylineDeletes, no_values: V, state: State | None) -> None:
        self._skyline = skyline.build(state)
        self._queries, self._band = len(op.queries), op.band
        self._bounded = np.array([q.every_micros is not None for q in op.queries], np.uint8)
        self._saves_values = op.keeps == "retained"
        self._no_values: V = no_values
        self._values: V = no_values
        self._steps = np.zeros((0, self._queries), np.int64)
        if state is not None:
            arrays = state.arrays
            self._steps = np.array(arrays[self.steps_name], np.int64).reshape(-1, self._queries)
            self._restore_members(np.array(arrays["member_start"], np.int64), np.array(arrays["member_seq"], np.int64), arrays)
            start, seq = self._skyline.row_places()
            if self._saves_values:
                self._values = self._saved_values(start, seq, np.array(arrays[self.values_name], np.float64))
            else:
                self._values = self._values_at(start, seq, self._values_of(state.rows))

    @abstractmethod
    def _values_of(self, rows: Arrivals) -> V:
        """Return the values of the objects among rows. O(rows)."""

    @abstractmethod
    def _values_at(self, start: I64, seq: I64, fresh: V) -> V:
        """Return the values of the rows ``seq``, grouped by key, which the state has or ``fresh``."""

    @abstractmethod
    def _saved_values(self, start: I64, seq: I64, values: F64) -> V:
        """Return the values that a checkpoint has of the rows ``seq``."""

    @abstractmethod
    def _restore_members(self, start: I64, seq: I64, arrays: Any) -> None:
        """Take the members of results from a checkpoint."""

    @abstractmethod
    def _member_starts(self) -> I64:
        """Return where the members of each (key, query) begin, and the end of the last."""

    @abstractmethod
    def _choose(self, rows: I64, start: I64, fresh: V) -> Changes:
        """Return the changes of the results that follow from the change rows of the skyline, and change the members.

        ``start``: as ``_member_starts``, for all keys of the rows. ``fresh``: the values of rows that have just arrived.
        """

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``."""
        before = self._skyline.row_places()
        changes = self._skyline.advance(arrivals, until)
        fresh = self._values_of(arrivals) if len(arrivals) else self._no_values
        result = self._changes(changes, fresh) if len(changes) else Changes.empty(1)
        start, seq = self._skyline.row_places()
        if len(arrivals) or seq is not before[1]:
            self._values = self._values_at(start, seq, fresh)
        return result

    def _changes(self, changes: Changes, fresh: V) -> Changes:
        """Return the changes of the results that follow from those of the skyline."""
        self._steps = widened(self._steps, int(changes.key.max()) + 1, 0, 0)
        rows = np.column_stack([*(getattr(changes, name).astype(np.int64) for name in _ROW), changes.items[:, 0]])
        return self._choose(rows, self._starts(len(self._steps)), fresh)

    def _starts(self, keys: int) -> I64:
        """Return ``_member_starts`` for ``keys`` keys."""
        start = self._member_starts()
        return widened(start, keys * self._queries + 1, int(start[-1]), 0)

    def wake(self) -> Instant | None:
        """Return the next instant at which the skyline may change."""
        return self._skyline.wake()

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the arrays of the skyline, the steps, where members start, and the values of rows unless the host keeps these."""
        saved = self._skyline.checkpoint()
        keys = len(saved["last"])
        saved |= {self.steps_name: widened(self._steps, keys, 0, 0), "member_start": self._starts(keys)}
        return saved | self._saved_members() | ({self.values_name: self._values[2]} if self._saves_values else {})

    @abstractmethod
    def _saved_members(self) -> dict[str, AnyArray]:
        """Return the arrays of members for a checkpoint."""

    def retained(self) -> tuple[I64, I64]:
        """Return the rows that the skyline needs."""
        return self._skyline.retained()

    def counters(self) -> dict[str, int]:
        """Return those of the skyline."""
        return self._skyline.counters()


# The best members by a score.


class RankedSkylineLogic(ChosenLogic[Scores]):
    """The scores of the skyline's rows, and the members of every result in rank order. O(members) per step of the skyline."""

    steps_name = "ranked_step"
    values_name = "row_score"

    def __init__(self, op: RankedConfiguration, skyline: Skyline | SkylineDeletes, state: State | None) -> None:
        self.op = op
        self._negate = op.direction == "min"
        self._scorer = scorer(op.scoring, None, op.direction, op.texts)
        self._filter: RowKernel | None = None
        if op.where is not None:
            self._filter = compile_row(None, op.where, False, {t: i for i, t in enumerate(op.texts)})
        self._most = np.array(op.most, np.int64)
        self._ranking = Ranking(np.zeros(1, np.int64), _NONE, np.empty(0, np.float64))
        self._unusable = 0
        super().__init__(op, skyline, _NO_SCORES, state)
        self._unusable = 0

    def _values_of(self, rows: Arrivals) -> Scores:
        """Return the scores of the objects among rows, and count those that have none."""
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

    def _values_at(self, start: I64, seq: I64, fresh: Scores) -> Scores:
        return Scores(start, seq, scores_of_rows(start, seq, self._values, fresh))

    def _saved_values(self, start: I64, seq: I64, values: F64) -> Scores:
        return Scores(start, seq, values)

    def _restore_members(self, start: I64, seq: I64, arrays: Any) -> None:
        self._ranking = Ranking(start, seq, np.array(arrays["member_score"], np.float64))

    def _saved_members(self) -> dict[str, AnyArray]:
        return {"member_seq": self._ranking.seq, "member_score": self._ranking.score}

    def _member_starts(self) -> I64:
        return self._ranking.start

    def _choose(self, rows: I64, start: I64, fresh: Scores) -> Changes:
        score = scores_of_changes(rows, self._values, fresh)
        ranking = self._ranking._replace(start=start)
        changes, self._ranking = rank_changes(rows, score, self._most, self._bounded, self._steps, ranking)
        return changes_of_rows(changes.rows, external(changes.score, self._negate))

    def _with_scores(self, items: Items) -> tuple[Items, F64]:
        """Return the items that have a score, and their internal scores."""
        rows = np.zeros((len(items), 8), np.int64)
        rows[:, 1], rows[:, 7] = items.key, items.items[:, 0]
        score = scores_of_changes(rows, self._values, _NO_SCORES)
        kept = ~np.isnan(score)
        extra = {name: a[kept] for name, a in items.extra.items()}
        return Items(items.key[kept], items.items[kept], external(score[kept], self._negate), extra), score[kept]

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the ``k`` best members of the skyline of any window n <= N after all events < ``until``, in rank order."""
        if k < 1:
            raise ValueError(f"k is {k}, and must be at least 1")
        members, score = self._with_scores(self._skyline.snapshot(key, self.op.band, window, query))
        order = np.lexsort((-members.items[:, 0], -score))[:k]
        return Items(members.key[order], members.items[order], members.score[order])

    def skyband(self) -> Items:
        """Return all rows with a score that can come into a result, with the ``extra`` columns of the skyline."""
        return self._with_scores(self._skyline.skyband())[0]

    def counters(self) -> dict[str, int]:
        """Return those of the skyline; ``unusable`` counts rows without a score too."""
        counters = super().counters()
        for i in range(self._queries):
            counters[f"unusable:{i}"] += self._unusable
        self._unusable = 0
        return counters


# So many members near weights.


class SizedSkylineLogic(ChosenLogic[Points]):
    """The values of the skyline's rows, and the members of every result. O(members^2 d 2^d) per step of the skyline.

    Radii are those among the members. They are the same among all rows of the window, since at least ``band`` members dominate every other
    row and score at least as high for the same weights; members alone make them independent of rounding in the others.
    """

    steps_name = "sized_step"
    values_name = "row_values"

    def __init__(self, op: SizedConfiguration, skyline: Skyline | SkylineDeletes, state: State | None) -> None:
        self.op = op
        self._preference = Preference(np.array(op.weights, np.float64), op.band, op.distinct)
        self._sizes = np.array(op.sizes, np.int64)
        self._d = len(op.dimensions)
        self._members = Members(np.zeros(1, np.int64), _NONE, np.empty(0, np.uint8), np.empty((0, self._d), np.float64))
        super().__init__(op, skyline, Points(np.zeros(1, np.int64), _NONE, np.empty((0, self._d), np.float64)), state)

    def _values_of(self, rows: Arrivals) -> Points:
        """Return the values of the objects among rows, larger is better. O(rows d)."""
        key, seq = np.asarray(rows.key, np.int64), np.asarray(rows.seq, np.int64)
        values = np.empty((len(rows), self._d), np.float64)
        for j, d in enumerate(self.op.dimensions):
            column = as_floats(np.asarray(rows.columns[d.column.name]))
            values[:, j] = -column if d.direction == "min" else column
        if DELETION_TARGET in rows.columns:
            objects = seq >= 0
            key, seq, values = key[objects], seq[objects], values[objects]
        keys = int(key[-1]) + 1 if len(key) else 0
        return Points(np.searchsorted(key, np.arange(keys + 1)), np.ascontiguousarray(seq), np.ascontiguousarray(values))

    def _values_at(self, start: I64, seq: I64, fresh: Points) -> Points:
        key = np.repeat(np.arange(len(start) - 1), np.diff(start))
        return Points(start, seq, values_of(key, seq, self._values, fresh))

    def _saved_values(self, start: I64, seq: I64, values: F64) -> Points:
        return Points(start, seq, values.reshape(-1, self._d))

    def _restore_members(self, start: I64, seq: I64, arrays: Any) -> None:
        values = np.array(arrays["member_values"], np.float64).reshape(-1, self._d)
        self._members = Members(start, seq, np.array(arrays["member_shown"], np.uint8), values)

    def _saved_members(self) -> dict[str, AnyArray]:
        members = self._members
        return {"member_seq": members.seq, "member_shown": members.shown, "member_values": members.values}

    def _member_starts(self) -> I64:
        return self._members.start

    def _choose(self, rows: I64, start: I64, fresh: Points) -> Changes:
        values = values_of(rows[:, 1].copy(), rows[:, 7].copy(), self._values, fresh)
        members = self._members._replace(start=start)
        with np.errstate(over="ignore"):
            changes, self._members = sized_changes(rows, values, self._sizes, self._bounded, self._steps, members, self._preference)
        return changes_of_rows(changes, np.full(len(changes), np.nan)) if len(changes) else Changes.empty(1)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the ``k`` members with the smallest radii in any window n <= N after all events < ``until``, newest first."""
        if k < 1:
            raise ValueError(f"k is {k}, and must be at least 1")
        members = self._skyline.snapshot(key, self.op.band, window, query)
        seq = members.items[::-1, 0].copy()
        values = values_of(np.full(len(seq), key), seq, self._values, self._no_values)
        with np.errstate(over="ignore"):
            kept = chosen(seq, values, k, self._preference)[::-1] > 0
        return Items(members.key[kept], members.items[kept], members.score[kept])

    def skyband(self) -> Items:
        """Return all rows that can come into a result, with the ``extra`` columns of the skyline."""
        return self._skyline.skyband()
