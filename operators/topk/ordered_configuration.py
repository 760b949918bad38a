"""The configuration of ``OrderedTopK``: sort keys, the queries that share a state, and what the state keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from skyband.operators.base import CHARACTERS, Column, Window
from skyband.operators.expressions import Node, read_columns
from skyband.operators.single_rows.blocks import DELETION_COLUMN
from skyband.operators.single_rows.scores import Direction, Linear, Scorer, scorer
from skyband.operators.state_keys import Group, Named, StateKeys
from skyband.operators.topk.one_function_configuration import TopKQuery
from skyband.operators.windows import check_ranked

Ties = Literal["break", "include", "dense", "exclude"]
"""Which rows a result has of those that are equal by all sort keys: the first by ``tie_break`` until there are k (``break``); all with
fewer than k better rows (``include``); all with fewer than k better values (``dense``); none if they do not all have a place
(``exclude``)."""

SCORE = "score"
"""The name of the sort key whose value is the score of an item."""

MAX_KEYS = 8


def text_column(name: str) -> Column:
    """Return the column with the characters of text column ``name``."""
    return Column(CHARACTERS + name, "characters", None, (name,))


@dataclass(frozen=True, slots=True)
class SortKey:
    """One sort key: a column (kinds float, int, bool, time, units and characters), or a function with a float64 value.

    ``name``: the column of the changes that holds the value of a function; ``SCORE`` for the score, "" for a column of the stream.
    """

    of: Column | Node | Linear
    direction: Direction
    name: str = ""


@dataclass(frozen=True)
class OrderedConfiguration:
    """The sort keys, the queries that share a state, and what the state keeps.

    ``oldest``: of equal rows the older ranks first, otherwise the newer. ``tie_break`` columns decide before that, ascending, null last.
    ``nulls_last``: rows whose first sort key is null rank after all others; otherwise they never rank. A null in another sort key ranks
    after all values. Bounds of queries are those of the score, which is then the only sort key.

    Raises ValueError for k < 1, k > ``keep_k``, a window larger than the state's, names used twice, no sort key or more than
    ``MAX_KEYS``, and bounds without a score or with ``nulls_last``.
    """

    keys: tuple[SortKey, ...]
    queries: tuple[TopKQuery, ...]
    keep_k: int
    window: Window
    ties: Ties = "break"
    tie_break: tuple[Column, ...] = ()
    oldest: bool = False
    nulls_last: bool = False
    where: Node | None = None
    texts: tuple[str, ...] = ()

    state_format: ClassVar[str] = "OrderedTopK"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "retained"
    deletes: ClassVar[bool] = False
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={"next_seq": 0, "step": 1, "wake_at": 1, "due": 1},
        groups=(
            Group(Named("member_key"), {"member_seq": 0}),
            Group(
                Named("shown_key"),
                {name: 0 for name in ("shown_query", "shown_seq", "shown_deleted", "shown_time", "shown_words", "shown_lengths")},
            ),
            Group(Named("text_key"), {"text_words": 0}),
            Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}),
        ),
    )

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= MAX_KEYS:
            raise ValueError(f"1 to {MAX_KEYS} sort keys, not {len(self.keys)}")
        check_ranked(self.queries, self.keep_k, self.window, self.keys[0].direction, "topk")
        if any(q.min_score is not None or q.max_score is not None for q in self.queries) and (not self.scored or self.nulls_last):
            raise ValueError("bounds of the score need a score as the only sort key, and no rows without a score")
        if len({self.ceiling(q) for q in self.queries}) > 1:
            raise ValueError("queries of one state must agree in " + ("max_score" if self.direction == "max" else "min_score"))

    @property
    def direction(self) -> Direction:
        """Return the direction of the first sort key."""
        return self.keys[0].direction

    @property
    def scored(self) -> bool:
        """Return True if items have a score."""
        return self.keys[0].name == SCORE

    def ceiling(self, q: TopKQuery) -> float | None:
        """Return the score beyond which an object is no candidate."""
        return q.max_score if self.direction == "max" else q.min_score

    def floor(self, q: TopKQuery) -> float | None:
        """Return the score behind which an object is no candidate of the query."""
        return q.min_score if self.direction == "max" else q.max_score

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles of an item's objects: an item is a single object."""
        return ("",)

    @cached_property
    def functions(self) -> dict[int, Scorer]:
        """Return the functions among the sort keys, by their place: float64 values, larger or not."""
        return {i: scorer(key.of, None, "max", self.texts) for i, key in enumerate(self.keys) if not isinstance(key.of, Column)}

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of sort keys, ``tie_break`` and predicate, and the deletions' targets."""
        found: dict[str, Column] = {}
        for i, key in enumerate(self.keys):
            for c in (key.of,) if isinstance(key.of, Column) else self.functions[i].columns:
                found.setdefault(c.name, c)
        for c in (*self.tie_break, *(() if self.where is None else read_columns(self.where))):
            found.setdefault(c.name, c)
        return (*found.values(), *((DELETION_COLUMN,) if self.deletes else ()))

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("functions", "columns")}
