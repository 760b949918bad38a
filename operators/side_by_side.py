"""Run single queries of one type side by side as one state: a few different functions, or one expression with different parameters.

Each part has a logic of its own; a Python loop over the parts runs once per block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from skyband.operators.base import (
    CHANGE_COLUMNS,
    F64,
    I64,
    AnyArray,
    Arrivals,
    Changes,
    Column,
    Instant,
    Items,
    Logic,
    Operator,
    State,
    Window,
)
from skyband.operators.state_keys import Divisible, Group, Named, state_keys


@dataclass(frozen=True)
class SideBySide:
    """Query i is the only query of ``parts[i]``, which reads ``parameters[i]``, (column, value) pairs, as constant columns.

    Parts that differ only in parameters share their compiled code.

    Raises ValueError for no parts, a part with more than one query, parts of different query types, roles or ``keeps``, names used twice
    by the parts' queries, or parameters not given for every part.
    """

    parts: tuple[Operator, ...]
    parameters: tuple[tuple[tuple[str, float], ...], ...] = ()

    state_format: ClassVar[str] = "Bank"
    query_types: ClassVar[frozenset[str]] = frozenset()
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a bank needs at least one part")
        if self.parameters and len(self.parameters) != len(self.parts):
            raise ValueError(f"{len(self.parameters)} lists of parameters for {len(self.parts)} parts")
        names: list[Any] = [getattr(p, "queries", None) or getattr(p, "names", ()) for p in self.parts]
        for i, queries in enumerate(names):
            if len(queries) != 1:
                raise ValueError(f"part {i} has {len(queries)} queries, not one")
        first = self.parts[0]
        for what in ("query_types", "roles", "keeps"):
            if any(getattr(p, what) != getattr(first, what) for p in self.parts):
                raise ValueError(f"the parts differ in {what}")
        called = [getattr(queries[0], "name", queries[0]) for queries in names]
        if len(set(called)) < len(called):
            raise ValueError("two queries of one name")
        # Class attributes in the protocol; here they depend on the parts.
        object.__setattr__(self, "query_types", first.query_types)
        object.__setattr__(self, "keeps", first.keeps)

    def constants(self, part: int) -> Mapping[str, float]:
        """Return the parameters of a part."""
        return dict(self.parameters[part]) if self.parameters else {}

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles, equal for all parts."""
        return self.parts[0].roles

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that the parts read, without their parameters."""
        return tuple(dict.fromkeys(c for i, p in enumerate(self.parts) for c in p.columns if c.name not in self.constants(i)))

    @property
    def window(self) -> Window:
        """Return the smallest window that contains the parts' windows."""
        return Window.union(p.window for p in self.parts)

    @property
    def state_keys(self) -> Divisible | None:
        """Return the parts' declarations; None if one of the parts has none."""
        parts = [state_keys(p) for p in self.parts]
        return _KeysOfParts(tuple(p for p in parts if p is not None)) if None not in parts else None

    def build(self, state: State | None) -> SideBySideLogic:
        """Return a logic that continues ``state`` bit for bit, or an empty one."""
        return SideBySideLogic(self, state)


@dataclass(frozen=True, slots=True)
class _KeysOfParts:
    parts: tuple[Divisible, ...]

    def picked(self, arrays: Mapping[str, AnyArray], keys: I64) -> dict[str, AnyArray]:
        """Return the arrays of some keys, as ``Divisible.picked``."""
        of = zip(self.parts, _split_parts(arrays, len(self.parts)), strict=True)
        joined = _concatenate_parts([part.picked(mine, keys) for part, mine in of])
        return joined | (_RETAINED.picked(arrays, keys) if "retained_key" in arrays else {})


_RETAINED = Group(Named("retained_key"), {"retained_seq": 0, "retained_by": 0})


class SideBySideLogic:
    """Passes each call on to the parts' logics."""

    def __init__(self, op: SideBySide, state: State | None) -> None:
        self.op = op
        self.logics: list[Logic]
        if state is None:
            self.logics = [p.build(None) for p in op.parts]
            return
        arrays = _split_parts(state.arrays, len(op.parts))
        mine = self._mine(state)
        self.logics = [
            p.build(State(arrays[i], self._given(i, state.rows if mine is None else _rows_of(state.rows, mine[:, i]))))
            for i, p in enumerate(op.parts)
        ]

    def _given(self, part: int, arrivals: Arrivals) -> Arrivals:
        """Return the arrivals with the part's parameters as columns."""
        constants = self.op.constants(part)
        if not constants:
            return arrivals
        columns = {**arrivals.columns, **{name: np.full(len(arrivals), float(value)) for name, value in constants.items()}}
        return Arrivals(arrivals.key, arrivals.seq, arrivals.time, columns)

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Process every event < ``until``, as ``Logic.advance``. Its time is the sum of the parts' times."""
        found = [logic.advance(self._given(i, arrivals), until) for i, logic in enumerate(self.logics)]
        of = np.repeat(np.arange(len(found)), [len(c) for c in found]).astype(np.int16)
        if not len(of):
            return Changes.empty(len(self.op.roles))
        return Changes(of, *(np.concatenate([getattr(c, name) for c in found]) for name in CHANGE_COLUMNS[1:]))

    def wake(self) -> Instant | None:
        """Return the earliest instant of the parts."""
        return min((w for w in (logic.wake() for logic in self.logics) if w is not None), default=None)

    def checkpoint(self) -> dict[str, AnyArray]:
        """Return the parts' arrays, concatenated by name and type, and which part retains which row."""
        saved = _concatenate_parts([logic.checkpoint() for logic in self.logics])
        if self.op.keeps == "retained":
            key, seq, mine = self._retained()
            saved.update(retained_key=key, retained_seq=seq, retained_by=np.packbits(mine, axis=1))
        return saved

    def _retained(self) -> tuple[I64, I64, AnyArray]:
        """Return (key, seq) of the rows that any part retains, sorted, and a mask (rows, parts) of the parts that do."""
        of = [logic.retained() for logic in self.logics]
        key, seq = (np.concatenate([pair[i] for pair in of]) for i in range(2))
        row, first = _numbered(key, seq)
        mine = np.zeros((len(first), len(of)), bool)
        mine[row, np.repeat(np.arange(len(of)), [len(k) for k, _ in of])] = True
        return key[first], seq[first], mine

    def _mine(self, state: State) -> AnyArray | None:
        """Return a mask (rows, parts) of the parts that retained each row; None if parts do not retain rows by name."""
        if self.op.keeps != "retained":
            return None
        key, seq = state.arrays["retained_key"], state.arrays["retained_seq"]
        known = np.unpackbits(state.arrays["retained_by"], axis=1, count=len(self.op.parts)).astype(bool)
        row, first = _numbered(np.concatenate([key, state.rows.key]), np.concatenate([seq, state.rows.seq]))
        mine = np.zeros((len(first), len(self.op.parts)), bool)
        mine[row[: len(key)]] = known
        picked: AnyArray = mine[row[len(key) :]]
        return picked

    def retained(self) -> tuple[I64, I64]:
        """Return the rows that any part needs."""
        key, seq, _ = self._retained()
        return key, seq

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """Return the snapshot of the query's part."""
        return self.logics[query].snapshot(key, k, window, 0)

    def skyband(self) -> Items:
        """Return no items: skybands of different functions cannot be combined."""
        none: F64 = np.empty(0, np.float64)
        return Items(np.empty(0, np.int64), np.empty((0, len(self.op.roles)), np.int64), none)

    def counters(self) -> dict[str, int]:
        """Return the sums of the parts' counters; ``unusable`` and ``asked`` per part."""
        found: dict[str, int] = {}
        for i, logic in enumerate(self.logics):
            for name, n in logic.counters().items():
                to = f"{name.removesuffix('0')}{i}" if name in ("unusable:0", "asked:0") else name
                found[to] = found.get(to, 0) + n
        return found


def _rows_of(rows: Arrivals, keep: AnyArray) -> Arrivals:
    """Return the rows of the mask ``keep``."""
    return Arrivals(rows.key[keep], rows.seq[keep], rows.time[keep], {name: a[keep] for name, a in rows.columns.items()})


def _numbered(key: AnyArray, seq: AnyArray) -> tuple[I64, I64]:
    """Return the rank of every (key, seq) among the distinct ones, and the index of the first of each. O(n log n)."""
    order = np.lexsort((seq, key))
    new = np.ones(len(order), bool)
    new[1:] = (key[order[1:]] != key[order[:-1]]) | (seq[order[1:]] != seq[order[:-1]])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new) - 1
    return rank, order[new]


def _concatenate_parts(parts: list[dict[str, AnyArray]]) -> dict[str, AnyArray]:
    """Concatenate arrays of equal name, type and number of axes, so that thousands of parts need as many arrays as one.

    ``name:type:axes`` holds the flat values, ``#name:type:axes`` the part number and shape of each array.
    """
    groups: dict[str, list[tuple[int, AnyArray]]] = {}
    for i, arrays in enumerate(parts):
        for name, a in arrays.items():
            groups.setdefault(f"{name}:{a.dtype.str}:{a.ndim}", []).append((i, a))
    out: dict[str, AnyArray] = {}
    for name, group in groups.items():
        out[name] = np.concatenate([a.ravel() for _, a in group])
        out["#" + name] = np.array([(i, *a.shape) for i, a in group], np.int64)
    return out


def _split_parts(arrays: Mapping[str, AnyArray], parts: int) -> list[dict[str, AnyArray]]:
    """Invert ``_concatenate_parts``."""
    out: list[dict[str, AnyArray]] = [{} for _ in range(parts)]
    for name, shapes in arrays.items():
        if not name.startswith("#"):
            continue
        flat, at = arrays[name[1:]], 0
        for part, *shape in shapes.tolist():
            size = int(np.prod(shape, dtype=np.int64))
            out[part][name[1:].rsplit(":", 2)[0]] = flat[at : at + size].reshape(shape).copy()
            at += size
    return out
