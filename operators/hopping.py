"""Hopping windows: any operator with boundaries, whose result at a boundary b is that of the rows in [b - T, b) instead of (b - T, b].

The operator inside sees every instant 1 microsecond later, but for boundaries: rows of b itself then come after it, and those of b - T
leave after it. So it knows the result at b as soon as all events before b are done; this logic keeps it until b is (``Logic.advance``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, cast

import numpy as np

from skyband.operators.around import Around, chosen_rows
from skyband.operators.base import (
    CHANGE_COLUMNS,
    I64,
    AnyArray,
    Arrivals,
    Changes,
    Instant,
    Items,
    Logic,
    ObjectLogic,
    State,
    Traces,
    Window,
)
from skyband.operators.state_keys import Divisible, Group, HoldsCodes, Named

_POINTS: Final = ("query", "key", "at", "items")
_INSIDE, _WAITING, _VALUE, _POINT, _POINT_VALUE = "inside:", "waiting:", "waiting value:", "point:", "point value:"
_KEPT_KEY, _KEPT_SEQ = "kept_key", "kept_seq"
"""Names of the rows that the logic inside retains, where items that wait retain others."""


@dataclass(frozen=True)
class Hopping(Around):
    """``inner``, all of whose queries have boundaries, over windows that end before them.

    Raises ValueError for an operator whose state cannot be divided by keys.
    """

    state_format: ClassVar[str] = "Hopping"

    @property
    def state_keys(self) -> Divisible:
        """Return how the state is divided by keys."""
        return _Keys(self.divisible)

    def codes_in(self, arrays: Mapping[str, AnyArray]) -> I64:
        """Return the codes of texts in the arrays of a checkpoint, each once."""
        return cast(HoldsCodes, self.inner).codes_in(_under(arrays, _INSIDE))

    def build(self, state: State | None) -> HoppingLogic:
        """Return a logic that continues ``state`` bit for bit, or an empty one."""
        return HoppingLogic(self, state)


class HoppingLogic:
    """The logic inside, and what it has found at a boundary that is not over."""

    def __init__(self, op: Hopping, state: State | None) -> None:
        self.op = op
        self._waiting = Changes.empty(len(op.roles))
        if state is None:
            self._logic: Logic = op.inner.build(None)
            return
        arrays, rows = state.arrays, state.rows
        if _KEPT_KEY in arrays:
            known = set(zip(arrays[_KEPT_KEY].tolist(), arrays[_KEPT_SEQ].tolist(), strict=True))
            mine = [i for i, place in enumerate(zip(rows.key.tolist(), rows.seq.tolist(), strict=True)) if place in known]
            rows = chosen_rows(rows, np.array(mine, np.int64))
        self._logic = op.inner.build(State(_under(arrays, _INSIDE), replace(rows, time=np.asarray(rows.time) + 1)))
        values, points = _under(arrays, _VALUE), _under(arrays, _POINT)
        traces = _traces(points, _under(arrays, _POINT_VALUE)) if points else None
        waiting = _under(arrays, _WAITING)
        self._waiting = Changes(*(waiting[name] for name in CHANGE_COLUMNS), values=values, traces=traces)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``."""
        found = _joined(self._waiting, self._logic.advance(replace(arrivals, time=np.asarray(arrivals.time) + 1), until + 1))
        if not len(found) and found.traces is None:
            self._waiting = found
            return found
        now = found.at < until
        self._waiting = _part(found, ~now, until, False)
        return _part(found, now, until, True)

    def wake(self) -> Instant | None:
        """Return the instant of what waits, or the one before the next of the logic inside."""
        if len(self._waiting) or self._waiting.traces is not None:
            at = [self._waiting.at, *([] if self._waiting.traces is None else [self._waiting.traces.at])]
            return int(np.concatenate(at).min())
        wake = self._logic.wake()
        return None if wake is None else wake - 1

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the arrays of the logic inside, and what waits."""
        saved = {_INSIDE + name: a for name, a in self._logic.checkpoint().items()}
        waiting = self._waiting
        saved |= {_WAITING + name: getattr(waiting, name) for name in CHANGE_COLUMNS}
        saved |= {_VALUE + name: a for name, a in waiting.values.items()}
        if self.op.keeps == "retained" and len(waiting):
            saved[_KEPT_KEY], saved[_KEPT_SEQ] = self._logic.retained()
        if waiting.traces is not None:
            saved |= {_POINT + name: getattr(waiting.traces, name) for name in _POINTS}
            saved |= {_POINT_VALUE + name: a for name, a in waiting.traces.values.items()}
        return saved

    def retained(self) -> tuple[I64, I64]:
        """Return the rows that the logic inside needs, and those of items that wait."""
        key, seq = self._logic.retained()
        if self.op.keeps == "none" or not len(self._waiting) or any(c.kind == "object" for c in self.op.columns):
            return key, seq
        items = self._waiting.items
        both = np.stack([np.concatenate([key, np.repeat(self._waiting.key, items.shape[1])]), np.concatenate([seq, items.ravel()])])
        key, seq = np.unique(both, axis=1)
        return key, seq

    def objects(self) -> I64:
        """Return the numbers of the objects that the logic inside needs, and those that wait."""
        waiting = [self._waiting.items.ravel(), *([] if self._waiting.traces is None else [self._waiting.traces.items.ravel()])]
        return np.unique(np.concatenate([cast(ObjectLogic, self._logic).objects(), *waiting]))

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the snapshot of the logic inside."""
        return self._logic.snapshot(key, k, replace(window, hopping=False), query)

    def skyband(self) -> Items:
        """Return the skyband of the logic inside."""
        return self._logic.skyband()

    def counters(self) -> dict[str, int]:
        """Return the counters of the logic inside."""
        return self._logic.counters()


def _joined(first: Changes, second: Changes) -> Changes:
    """Return both by (query, key, step, pos)."""
    if not len(first) and first.traces is None:
        return second
    columns = [np.concatenate([getattr(first, name), getattr(second, name)]) for name in CHANGE_COLUMNS]
    order = np.lexsort((columns[4], columns[3], columns[1], columns[0]))
    names = first.values if len(first) else second.values
    values = {
        name: np.concatenate([c.values[name] for c in (first, second) if len(c)])[order] for name in names
    }  # fmt: skip
    return Changes(*(a[order] for a in columns), values=values, traces=_joined_traces(first.traces, second.traces))


def _joined_traces(first: Traces | None, second: Traces | None) -> Traces | None:
    if first is None or second is None:
        return second if first is None else first
    columns = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _POINTS}
    order = np.lexsort((columns["at"], columns["key"], columns["query"]))
    values = {name: np.concatenate([first.values[name], second.values[name]])[order] for name in first.values}
    return _traces({name: a[order] for name, a in columns.items()}, values)


def _traces(columns: Mapping[str, AnyArray], values: Mapping[str, AnyArray]) -> Traces:
    """Return points with the columns of ``_POINTS``."""
    return Traces(columns["query"], columns["key"], columns["at"], columns["items"], values)


def _part(found: Changes, chosen: AnyArray, until: Instant, before: bool) -> Changes:
    """Return the chosen changes, and the points ``before`` an instant, or from it on."""
    traces = found.traces
    if traces is not None:
        mine = (traces.at < until) == before
        part = _traces({name: getattr(traces, name)[mine] for name in _POINTS}, {name: a[mine] for name, a in traces.values.items()})
        traces = part if mine.any() else None
    values = {name: a[chosen] for name, a in found.values.items()}
    return Changes(*(getattr(found, name)[chosen] for name in CHANGE_COLUMNS), values=values, traces=traces)


def _under(arrays: Mapping[str, AnyArray], prefix: str) -> dict[str, AnyArray]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class _Keys:
    """How the state of ``Hopping`` is divided by keys. ``inner``: how that of the operator inside is."""

    inner: Divisible

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """Return the arrays of some keys, as ``Divisible.picked``."""
        found = {_INSIDE + name: a for name, a in self.inner.picked(_under(arrays, _INSIDE), keys).items()}
        for of, more in ((_WAITING, _VALUE), (_POINT, _POINT_VALUE)):
            if of + "key" in arrays:
                rows = {name: 0 for name in arrays if name.startswith((of, more)) and name != of + "key"}
                found |= Group(Named(of + "key"), rows).picked(arrays, keys)
        if _KEPT_KEY in arrays:
            found |= Group(Named(_KEPT_KEY), {_KEPT_SEQ: 0}).picked(arrays, keys)
        return found
