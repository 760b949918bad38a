"""Queries over pairs: the best k of a window, perhaps of one side with the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final, Literal, cast

from skyband.operators.base import Kind, Window
from skyband.operators.expressions.ast import Attr, Binary, Literal_, Node, Type
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.windows import check_window

DELETED: Final = Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0})
"""The positions of keys in the deletions of a checkpoint."""

PAIR_ROWS: Final = StateKeys(
    each={"next": 0, "step": 1, "wake": 1, "due": 1, "shown": 1, "shown_score": 0, "shown_older": 0, "shown_newer": 0},
    groups=(Group(Named("sky_key"), {"sky_score": 0, "sky_older": 0, "sky_newer": 0, "sky_stair": 0}),),
)
"""The positions of keys in the checkpoint of a K-skyband of pairs, for any operator."""


ALL_PAIRS: Final = StateKeys(
    each={"next": 0, "step": 1},
    groups=(Group(Named("key"), {"older": 0, "newer": 0, "score": 0, "newer_time": 0, "older_time": 0, "end": 0, "deleted": 0}), DELETED),
)
"""The positions of keys in the checkpoint of a table of all pairs, for any operator."""


@dataclass(frozen=True, slots=True)
class PairQuery:
    """The best ``k`` pairs of ``window`` with score in [min_score, max_score]; ``every_micros``: net changes at its multiples only."""

    name: str
    k: int
    window: Window
    min_score: float | None = None
    max_score: float | None = None
    every_micros: int | None = None


@dataclass(frozen=True, slots=True)
class BoundedPairQuery:
    """All pairs of ``window`` with score in [min_score, max_score]; ``every_micros``: net changes at its multiples only."""

    name: str
    window: Window
    min_score: float | None = None
    max_score: float | None = None
    every_micros: int | None = None


def check_bounded(queries: Sequence[BoundedPairQuery], window: Window, what: str) -> None:
    """Raise ValueError unless the queries for all pairs within bounds can be answered from one state of ``window``."""
    check_window(window, window, what)
    if not queries:
        raise ValueError(f"a {what} state needs at least one query")
    if len({q.name for q in queries}) < len(queries):
        raise ValueError("two queries of one name")
    for q in queries:
        check_window(q.window, window, q.name)
        if q.min_score is None and q.max_score is None:
            raise ValueError(f"{q.name}: no score bound")
        if any(bound is not None and isnan(bound) for bound in (q.min_score, q.max_score)):
            raise ValueError(f"{q.name}: a score bound is not a number")
        if q.every_micros is not None and q.every_micros < 1:
            raise ValueError(f"{q.name}: every must be at least 1 microsecond")


@dataclass(frozen=True, slots=True)
class Between:
    """Two sides: objects whose ``column`` is ``a``, and those where it is ``b``. Others pair with nothing.

    ``kind`` is the column's; for "text" the sides are text constants of the plan.
    """

    column: str
    a: str | int | bool
    b: str | int | bool
    kind: Kind = "text"

    def check(self) -> None:
        """Raise ValueError unless these are two sides."""
        if self.a == self.b:
            raise ValueError("the two sides of a pair are equal")
        if self.kind not in ("text", "int", "bool"):
            raise ValueError(f"sides are distinguished by a text, int or bool column, not {self.kind}")

    def condition(self, which: Literal["a", "b"]) -> Node:
        """Return the condition that a pair's object ``which`` is on its side."""
        kind = cast(Type, self.kind)
        value = self.a if which == "a" else self.b
        typed = str(value) if kind == "text" else bool(value) if kind == "bool" else int(value)
        return Binary(type="bool", op="=", x=Attr(type=kind, side=which, name=self.column), y=Literal_(type=kind, value=typed))

    def codes(self, texts: tuple[str, ...]) -> tuple[int, int]:
        """Return the column's codes for a and b; ``texts`` are the plan's constants. Raise ValueError if a side is none of them."""
        return (texts.index(str(self.a)), texts.index(str(self.b))) if self.kind == "text" else (int(self.a), int(self.b))


def all_of(parts: list[Node]) -> Node | None:
    """Return the conjunction of conditions; None: there are none."""
    whole: Node | None = None
    for part in parts:
        whole = part if whole is None else Binary(type="bool", op="and", x=whole, y=part)
    return whole


class PairsOfSides:
    """What configurations of pairs with or without two sides have in common; each declares these fields, and a cached ``kernel``."""

    between: Between | None
    texts: tuple[str, ...]

    def side_codes(self) -> tuple[int, int]:
        """Return the codes of the side column for a and for b."""
        assert self.between is not None
        return self.between.codes(self.texts)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of a pair's objects: by age, or with ``between`` by side."""
        return ("older", "newer") if self.between is None else ("a", "b")

    def conditions(self, where: Node | None) -> list[Node]:
        """Return ``where`` and the conditions of the sides."""
        sides = [] if self.between is None else [self.between.condition("a"), self.between.condition("b")]
        return sides if where is None else [where, *sides]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "kernel"}
