"""The operator of the query type: a frozen configuration, and what moves, which takes blocks of rows and gives blocks of changes.

What is promised to its host is in ``skyband.operators.base``; ``skyband.operators.contract`` tests it. This one counts in plain Python: it
shows what has to be said, not how to be fast.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from skyband.operators.base import (
    ARRIVAL,
    DISPLACED,
    EXPIRY,
    NEVER,
    NULL,
    AnyArray,
    Arrivals,
    Changes,
    Column,
    Instant,
    Items,
    State,
    Window,
    object_column,
)
from skyband.operators.state_keys import Group, Named, StateKeys


@dataclass(frozen=True)
class FrequentOperator:
    """The objects of the column ``account`` with at least ``times`` rows in ``window``."""

    account: str
    times: int
    window: Window
    roles: tuple[str, ...] = ("",)
    state_format: ClassVar[str] = "Frequent"
    query_types: ClassVar[frozenset[str]] = frozenset({"frequent"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "none"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={}, groups=(Group(Named("rows", 0)), Group(Named("entered", 0)), Group(Named("step", 0))), whole=("account",)
    )
    """The keys are the first columns of three tables of a checkpoint: buckets of a job may become more."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it reads of a row: the account's value, and the number that the host gives it."""
        return Column(self.account, "int"), object_column((self.account,))

    def build(self, state: State | None) -> FrequentLogic:
        """What moves, from nothing or from a checkpoint."""
        return FrequentLogic(self, state)


@dataclass
class _Key:
    """One key's window and result."""

    rows: deque[tuple[int, int, int]] = field(default_factory=deque)
    """(seq, time, object) of the window."""
    entered: dict[int, int] = field(default_factory=dict)
    """Object of the result -> seq of the row that made it so."""
    step: int = 0


class FrequentLogic:
    """The rows of every key's window, and the result."""

    def __init__(self, op: FrequentOperator, state: State | None) -> None:
        self.op = op
        self.keys: dict[int, _Key] = {}
        self.account: dict[int, int] = {}
        if state is None:
            return
        a = state.arrays
        for key, seq, time, number in a["rows"].tolist():
            self._key(key).rows.append((seq, time, number))
        for key, number, seq in a["entered"].tolist():
            self._key(key).entered[number] = seq
        for key, step in a["step"].tolist():
            self._key(key).step = step
        self.account = dict(a["account"].tolist())

    def _key(self, key: int) -> _Key:
        return self.keys.setdefault(key, _Key())

    def advance(self, arrivals: Arrivals, until: Instant) -> Changes:
        """Takes rows in order, and time up to ``until``; all changes of the result. O(rows x accounts in the window)."""
        out: list[tuple[int, ...]] = []
        numbers, accounts = arrivals.columns[object_column((self.op.account,)).name], arrivals.columns[self.op.account]
        columns = [c.tolist() for c in (arrivals.key, arrivals.seq, arrivals.time, numbers, accounts)]
        arriving: dict[int, list[tuple[int, ...]]] = {}
        for key, seq, time, number, account in zip(*columns, strict=True):
            self.account[number] = account
            arriving.setdefault(key, []).append((seq, time, number))
        for key in sorted({*self.keys, *arriving}):
            mine = self._key(key)
            for seq, time, number in arriving.get(key, []):
                self._expire(key, mine, time, out)
                gone = mine.rows.popleft() if self.op.window.count is not None and self._full(mine, seq) else None
                mine.rows.append((seq, time, number))
                self._tell(key, mine, time, seq, None if gone is None else gone[2], number, out)
            self._expire(key, mine, until - 1, out)
        changes = np.array(out, np.int64).reshape(-1, 8)
        return Changes(
            query=np.zeros(len(changes), np.int16), key=changes[:, 0], at=changes[:, 1], step=changes[:, 2],
            pos=changes[:, 3].astype(np.int32), sign=changes[:, 4].astype(np.int8), cause=changes[:, 5].astype(np.int8),
            score=np.zeros(len(changes)), items=changes[:, 6:7].copy(), values={"entered_by": changes[:, 7].copy()},
        )  # fmt: skip

    def _full(self, mine: _Key, seq: int) -> bool:
        return bool(mine.rows) and mine.rows[0][0] <= seq - (self.op.window.count or 0)

    def _expire(self, key: int, mine: _Key, upto: int, out: list[tuple[int, ...]]) -> None:
        life = self.op.window.micros
        while life is not None and mine.rows and mine.rows[0][1] + life <= upto:
            at = mine.rows[0][1] + life
            while mine.rows and mine.rows[0][1] + life == at:
                mine.rows.popleft()
            self._tell(key, mine, at, -1, None, -1, out)

    def _tell(self, key: int, mine: _Key, at: int, seq: int, gone: int | None, number: int, out: list[tuple[int, ...]]) -> None:
        count: dict[int, int] = {}
        for _, _, n in mine.rows:
            count[n] = count.get(n, 0) + (n != NULL)
        now = {n for n, c in count.items() if c >= self.op.times}
        rank = self.account.__getitem__
        minus = [(n, EXPIRY if n not in count else DISPLACED, mine.entered[n]) for n in sorted(set(mine.entered) - now, key=rank)]
        plus = [(n, ARRIVAL, seq) for n in sorted(now - set(mine.entered), key=rank)]
        mine.step += bool(minus or plus)
        for pos, (n, cause, by) in enumerate([*minus, *plus]):
            out.append((key, at, mine.step, pos, -1 if pos < len(minus) else 1, cause, n, by))
        for n, _, _ in minus:
            del mine.entered[n]
        mine.entered |= {n: by for n, _, by in plus}

    def wake(self) -> Instant | None:
        """The next instant at which something expires."""
        life = self.op.window.micros
        due = [k.rows[0][1] + life for k in self.keys.values() if k.rows] if life is not None else []
        return min(due, default=NEVER) if due else None

    def checkpoint(self) -> dict[str, AnyArray]:
        """All there is, as arrays."""
        rows = [(key, *row) for key, k in self.keys.items() for row in k.rows]
        entered = [(key, *pair) for key, k in self.keys.items() for pair in k.entered.items()]
        needed = set(self.objects().tolist())
        return {
            "rows": np.array(rows, np.int64).reshape(-1, 4), "entered": np.array(entered, np.int64).reshape(-1, 3),
            "step": np.array([(key, k.step) for key, k in self.keys.items()], np.int64).reshape(-1, 2),
            "account": np.array([(n, a) for n, a in self.account.items() if n in needed], np.int64).reshape(-1, 2),
        }  # fmt: skip

    def objects(self) -> AnyArray:
        """Numbers of the accounts that are held."""
        held = {n for k in self.keys.values() for _, _, n in k.rows if n != NULL} | {n for k in self.keys.values() for n in k.entered}
        return np.array(sorted(held), np.int64)

    def retained(self) -> tuple[AnyArray, AnyArray]:
        """No rows: changes name accounts."""
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        """There is none to be had of another k or window."""
        raise ValueError("frequent keeps no skyband")

    def skyband(self) -> Items:
        """It keeps none."""
        return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        """Nothing to count."""
        return {}
