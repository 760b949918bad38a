"""A query type of another package's: the accounts with at least ``times`` rows in the window.

Nothing outside this module knows of it. Its items are objects that many rows report on, not rows; they have a value that is no score, and
no skyband.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from skyband.framework.items import ItemShape, Part, RankTerm, Value
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.model import QueryNode
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.protocol import QueryType, Question
from skyband.framework.spec.document import Path
from skyband.framework.spec.scope import Scope
from skyband.framework.spec.units import Name
from skyband.framework.verify.objects import Found, window_of
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

EXAMPLE = """\
job: accounts
source:
  format: csv
  path: in
  options: {header: true}
  schema: {id: bigint, ts: timestamp, account: bigint, region: string}
  id: [id]
  event_time: {column: ts}
window: {count: 12, time: 5 minutes}
queries:
  busy: {type: frequent, account: account, times: 3}
  busy_lately: {type: frequent, account: account, times: 2, window: {time: 1 minute}}
sink: {path: out}
"""


class Frequent(QueryModel):
    """Accounts with many rows in the window."""

    type: Literal["frequent"]
    account: Name = Field(description="The column that names the account.")
    times: int = Field(ge=1, description="How many rows at least.")


class FrequentType(QueryType):
    name = "frequent"
    model = Frequent
    example = EXAMPLE

    def item(self, query: Frequent) -> ItemShape:
        entered = Value("entered_by", "bigint", "seq of the row that made it so")
        return ItemShape((Part("", "the account", (query.account,)),), (RankTerm((query.account,), "asc"),), (entered,))

    def check(self, scope: Scope, path: Path, query: Frequent) -> None:
        if scope.column((*path, "account"), query.account) and scope.types[query.account] != "bigint":
            scope.doc.add("SKY-E126", "accounts are whole numbers", scope.doc.where_value((*path, "account")), "give it the type bigint")
        if query.every is not None:
            scope.doc.add("SKY-E117", "frequent works after every event", scope.doc.where_value((*path, "every")), "leave out every")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        for m in entries:
            q: Any = m.query

            def build(texts: tuple[str, ...], m: QueryEntry = m, q: Any = q) -> FrequentOperator:
                return FrequentOperator(q.account, q.times, m.window)

            yield OperatorDraft((m,), 1, m.window, "min", (), build, "counts", skyband=False)

    def asks(self, query: QueryNode) -> list[str]:
        return ["counts rows"]

    def brute_force(self, question: Question) -> Found:
        op: Any = question.plan.operators[question.query.operator].operator
        first, end, _ = window_of(question.query, question.query.window, question.data, question.at)
        account, count = np.unique(question.data.columns[op.account][first:end], return_counts=True)
        return [((int(a),), 0.0) for a in account[(count >= op.times) & (account != NULL)]]


@dataclass(frozen=True)
class FrequentOperator:
    account: str
    times: int
    window: Window
    roles: tuple[str, ...] = ("",)
    state_format: ClassVar[str] = "Frequent"
    query_types: ClassVar[frozenset[str]] = frozenset({"frequent"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "none"

    @property
    def columns(self) -> tuple[Column, ...]:
        return Column(self.account, "int"), object_column((self.account,))

    def build(self, state: State | None) -> FrequentLogic:
        return FrequentLogic(self, state)


@dataclass
class _Key:
    rows: deque[tuple[int, int, int]] = field(default_factory=deque)
    """(seq, time, object) of the window."""
    entered: dict[int, int] = field(default_factory=dict)
    """Object of the result -> seq of the row that made it so."""
    step: int = 0


class FrequentLogic:
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
        life = self.op.window.micros
        due = [k.rows[0][1] + life for k in self.keys.values() if k.rows] if life is not None else []
        return min(due, default=NEVER) if due else None

    def checkpoint(self) -> dict[str, AnyArray]:
        rows = [(key, *row) for key, k in self.keys.items() for row in k.rows]
        entered = [(key, *pair) for key, k in self.keys.items() for pair in k.entered.items()]
        needed = set(self.objects().tolist())
        return {
            "rows": np.array(rows, np.int64).reshape(-1, 4), "entered": np.array(entered, np.int64).reshape(-1, 3),
            "step": np.array([(key, k.step) for key, k in self.keys.items()], np.int64).reshape(-1, 2),
            "account": np.array([(n, a) for n, a in self.account.items() if n in needed], np.int64).reshape(-1, 2),
        }  # fmt: skip

    def objects(self) -> AnyArray:
        held = {n for k in self.keys.values() for _, _, n in k.rows if n != NULL} | {n for k in self.keys.values() for n in k.entered}
        return np.array(sorted(held), np.int64)

    def retained(self) -> tuple[AnyArray, AnyArray]:
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def snapshot(self, key: int, k: int, window: Window, query: int = 0) -> Items:
        raise ValueError("frequent keeps no skyband")

    def skyband(self) -> Items:
        return Items(np.empty(0, np.int64), np.empty((0, 1), np.int64), np.empty(0))

    def counters(self) -> dict[str, int]:
        return {}


FREQUENT = FrequentType()
