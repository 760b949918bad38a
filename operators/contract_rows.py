"""Random rows for ``contract``: for any operator's columns, full of ties, nulls, equal times and bursts larger than the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skyband.operators.base import DELETION_TARGET, F64, I64, NULL, AnyArray, Arrivals, Named, Operator, Ragged

GAPS = ((0, 0, 1, 2, 7), (0, 0, 1, 2, 7), (1,), (0, 0, 0, 40), (3, 11), (0, 1))
"""Steps of the clock between rows, in units; one of these per stream."""

OTHER_TEXTS = 3
"""Texts in the stream besides the constants of the plan."""

TOKENS, LARGEST_SET = 9, 6
"""Different tokens of a column of sets, and tokens of its largest; some sets are empty."""

RAGGED = ("tokens", "characters")
"""Kinds of columns with several values a row."""

REACH = 12
"""A deletion names one of this many newest objects of its key, alive in the operator's window or not."""


@dataclass(frozen=True)
class Rows:
    """Accepted rows of one bucket in the order of their instants, over all keys; all arrays have one entry per row.

    A deletion has ``seq`` -1 and the deleted object's seq in ``target``, which is ``NULL`` for objects. ``text`` columns hold numbers
    of texts, which ``block`` turns into codes; ``object`` columns values, which ``Numbers`` turns into numbers; ``sets`` those of columns
    of tokens, and the texts of those of characters. ``end``: an instant after the last row. ``constants``: so many texts have fixed codes.
    """

    time: I64
    key: I64
    seq: I64
    target: I64
    values: Mapping[str, AnyArray]
    kinds: Mapping[str, str]
    constants: int
    end: int
    sets: Mapping[str, list[I64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def first_codes(self) -> I64:
        """A code for every text."""
        return np.arange(self.constants + OTHER_TEXTS)

    def block(self, at: AnyArray, codes: I64) -> Arrivals:
        """The rows at the positions ``at`` (ascending), by key, with texts under ``codes``."""
        order = at[np.argsort(self.key[at], kind="stable")]
        columns = {name: self.column(name, order, codes) for name in self.values}
        ragged = {name: _ragged([sets[i] for i in order.tolist()], codes, self.kinds[name]) for name, sets in self.sets.items()}
        return Arrivals(self.key[order], self.seq[order], self.time[order], columns, ragged)

    def column(self, name: str, at: AnyArray, codes: I64) -> AnyArray:
        """One column of the rows ``at``."""
        values: AnyArray = self.values[name][at]
        if self.kinds[name] != "text":
            return values
        return np.where(values == NULL, NULL, codes[np.maximum(values, 0)])


def _ragged(sets: list[I64], codes: I64, kind: str) -> Ragged:
    """Sets of tokens, with codes that depend on those of texts: other ones once these are; or texts, whose characters do not."""
    start = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
    values = np.concatenate([np.empty(0, np.int64), *sets])
    return Ragged(start, values if kind == "characters" else values * 1_000_003 + codes[-1])


class Numbers:
    """The host's numbers for objects: one for every value of a column and key, a new one for an object that was forgotten."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.number_of: dict[tuple[str, int, int], int] = {}
        """(column, key, value) to the number of an object that is still needed."""
        self.value_of: list[int] = []
        """The value of every number there ever was."""

    def given(self, rows: Arrivals) -> Arrivals:
        """``rows`` with numbers in the columns of kind ``object``, whose values are the objects' names, and with the names of new ones."""
        columns, named = dict(rows.columns), {}
        for name in self.names:
            first = len(self.value_of)
            columns[name] = self._numbered(name, rows)
            new = np.arange(first, len(self.value_of))
            named[name] = Named(new, Ragged(np.arange(len(new) + 1), np.array(self.value_of[first:], np.int64)))
        return replace(rows, columns=columns, named=named)

    def _numbered(self, name: str, rows: Arrivals) -> I64:
        out = np.full(len(rows), NULL)
        for i, (key, value) in enumerate(zip(rows.key.tolist(), rows.columns[name].tolist(), strict=True)):
            if value == NULL:
                continue
            if (name, key, value) not in self.number_of:
                self.number_of[name, key, value] = len(self.value_of)
                self.value_of.append(value)
            out[i] = self.number_of[name, key, value]
        return out

    def keep(self, needed: set[int]) -> int | None:
        """Forget all others; a number of ``needed`` that is none, if there is one."""
        unknown = needed - set(self.number_of.values())
        self.number_of = {name: n for name, n in self.number_of.items() if n in needed}
        return min(unknown, default=None)

    def known(self) -> set[tuple[int, int]]:
        """(key, number) of the objects that are not forgotten."""
        return {(key, n) for (_, key, _), n in self.number_of.items()}


def random_rows(operator: Operator, rng: np.random.Generator, rows: int, keys: int) -> Rows:
    """A stream of up to ``rows`` rows for the columns ``operator`` asks for, with deletions if it reads ``$target``."""
    n = int(rng.integers(1, rows + 1)) if rng.random() < 0.2 else rows
    kinds: dict[str, str] = {c.name: c.kind for c in operator.columns}
    constants = constant_texts(operator)
    unit = _unit(operator, rng)
    gaps = rng.choice(GAPS[rng.integers(len(GAPS))], n) * unit
    if unit > 1:
        gaps += (gaps > 0) * rng.integers(0, 2, n)
    key = rng.integers(0, keys, n)
    if rng.random() < 0.1:
        key.sort()
    if rng.random() < 0.5:  # a burst: many rows at one instant, more than the window holds if that is possible
        size = min(n, (operator.window.count or 8) + 3)
        first = int(rng.integers(0, n - size + 1))
        gaps[first + 1 : first + size] = 0
        if rng.random() < 0.5:
            key[first : first + size] = key[first]
    time = np.cumsum(gaps) + int(rng.choice([-50, 100, 1_600_000_000_000_000]))
    names: dict[int, int] = {}
    key = np.array([names.setdefault(k, len(names)) for k in key.tolist()], np.int64)
    deletes = DELETION_TARGET in kinds
    seq, target = _numbered(key, rng, float(rng.choice([0.1, 0.4])) if deletes else 0.0)
    plain = {c.name: c for c in operator.columns if c.name != DELETION_TARGET and c.kind not in RAGGED}
    values = {
        name: _vectors(rng, n, c.dimension) if c.kind == "vector" else _column(c.kind, rng, n, constants) for name, c in plain.items()
    }
    sets = {name: _sets(rng, n) if kind == "tokens" else _texts(rng, n) for name, kind in kinds.items() if kind in RAGGED}
    for c in operator.columns:
        if c.kind == "object":  # named by a column the operator reads too, or by one of its own
            values[c.name] = values.get(c.name[1:], _column("int", rng, n, constants))
    if deletes:
        values[DELETION_TARGET] = target
    spare = [1, 5 * unit, 200 * unit, 2 * (operator.window.micros or unit)]
    return Rows(time.astype(np.int64), key, seq, target, values, kinds, constants, int(time[-1]) + int(rng.choice(spare)), sets)


def constant_texts(operator: Any) -> int:
    """How many text constants the plan gave codes to: those of the operator, or of its parts."""
    parts: tuple[Any, ...] = getattr(operator, "parts", ())
    return max([len(getattr(operator, "texts", ())), *(constant_texts(p) for p in parts)])


def _unit(operator: Operator, rng: np.random.Generator) -> int:
    """What the clock advances by: a few dozen rows fit into a time window."""
    if operator.window.micros is None:
        return int(rng.choice([1, 1, 1000]))
    return max(1, operator.window.micros // int(rng.choice([4, 20, 60])))


def _numbered(key: I64, rng: np.random.Generator, share: float) -> tuple[I64, I64]:
    """(seq, target): rows numbered by key, about ``share`` of them turned into deletions of objects that came before."""
    seq, target = np.empty(len(key), np.int64), np.full(len(key), NULL)
    count: dict[int, int] = {}
    gone: set[tuple[int, int]] = set()
    for i, k in enumerate(key.tolist()):
        next_seq = count.get(k, 0)
        live = [s for s in range(max(0, next_seq - REACH), next_seq) if (k, s) not in gone] if share else []
        if live and rng.random() < share:
            target[i] = live[int(rng.integers(len(live)))]
            gone.add((k, int(target[i])))
            seq[i] = -1
        else:
            seq[i] = next_seq
            count[k] = next_seq + 1
    return seq, target


def _column(kind: str, rng: np.random.Generator, n: int, constants: int) -> AnyArray:
    """One column; about one row in twenty is null in some columns."""
    null = rng.random(n) < rng.choice([0.0, 0.05, 0.05])
    if kind == "float":
        x = _floats(rng, n)
        x[null] = np.nan
        return x
    if kind == "text":
        y = rng.integers(0, constants + OTHER_TEXTS, n)
    elif kind == "bool":
        y = rng.integers(0, 2, n)
    elif kind == "time":
        y = np.cumsum(rng.integers(-2, 5, n)) * int(rng.choice([1, 1_000_000])) + int(rng.choice([0, 1_600_000_000_000_000]))
    else:
        y = rng.integers(-1, 5, n) + int(rng.choice([0, 0, 0, 2**53]))
    y = y.astype(np.int64)
    y[null] = NULL
    return y


def _vectors(rng: np.random.Generator, n: int, dimension: int) -> F64:
    """Vectors of few different numbers, so that many are alike; about one row in twenty is null."""
    x = rng.integers(-1, 3, (n, dimension)).astype(np.float64)
    x[rng.random(n) < 0.05] = np.nan
    return x


def _sets(rng: np.random.Generator, n: int) -> list[I64]:
    """Token sets, many of them alike: a walk through small subsets of few tokens."""
    found = [rng.permutation(TOKENS)[: int(rng.integers(0, LARGEST_SET + 1))] for _ in range(n)]
    again = rng.random(n) < 0.3
    for i in range(1, n):
        if again[i]:
            found[i] = rng.permutation(found[i - int(rng.integers(1, min(i, 8) + 1))])
    return found


def _texts(rng: np.random.Generator, n: int) -> list[I64]:
    """Texts as code points, some null or empty, few of them longer than a word of a kernel's bits."""
    found = [rng.integers(97, 100, int(rng.choice([0, 2, 4, 9, 70], p=[0.1, 0.3, 0.3, 0.25, 0.05]))) for _ in range(n)]
    null = rng.random(n) < 0.05
    return [np.array([NULL]) if null[i] else text for i, text in enumerate(found)]


def _floats(rng: np.random.Generator, n: int) -> F64:
    """float64[n]: ties, slopes, both zeros, infinities."""
    shape = rng.integers(7)
    up = (np.arange(n) // 2).astype(np.float64)
    if shape <= 1:
        x = rng.integers(0, 4, n).astype(np.float64)
        return np.where((x == 0) & (rng.random(n) < 0.5), -0.0, x)
    if shape == 2:
        return rng.choice([-np.inf, np.inf, -0.0, 0.0, 1.0], n)
    if shape == 3:
        return rng.normal(size=n)
    walk: F64 = np.cumsum(rng.integers(-2, 3, n)).astype(np.float64)
    return walk if shape == 4 else up if shape == 5 else -up
