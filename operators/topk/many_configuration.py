"""The configuration of ``ManyTopK``: Q top-k queries of one form over one window, as arrays with a row per query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from skyband.operators.base import F64, I64, AnyArray, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.single_rows.many_queries import ManyQueries
from skyband.operators.state_keys import Counted, Group, Named, StateKeys


@dataclass(frozen=True, eq=False)
class ManyTopKConfiguration(ManyQueries):
    """Q queries over ``attributes``; all arrays have Q rows.

    ``weights`` float64 (Q, d), of weighted sums; or, with ``score``, an expression over ``attributes`` and ``parameters``, float64 (Q,
    parameters): what the parameters are. ``k`` int64 (Q,); ``counts``/``micros`` int64 (Q,): a query's own window, 0 for the state's;
    ``largest`` bool (Q,): direction max; ``low``/``high`` float64 (Q, d): constraint box, closed (None: no boxes); ``where`` up to 62
    predicates and ``where_of`` int64 (Q,) the one a query uses, -1 for none; ``min_score``/``max_score`` float64 (Q,), NaN for none;
    ``every`` int64 (Q,) microseconds, 0 for per event. ``ints``: attributes that arrive as int64.

    Raises ValueError, naming the query, for arrays of wrong shape, k < 1, weights that are not finite, windows larger than the state's,
    boxes or bounds that are NaN, names used twice, and an expression that has no bounds (``score_programs.without_bounds``).
    """

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    weights: F64
    k: I64
    window: Window
    counts: I64 | None = None
    micros: I64 | None = None
    largest: AnyArray | None = None
    low: F64 | None = None
    high: F64 | None = None
    where: tuple[Node, ...] = ()
    where_of: I64 | None = None
    min_score: F64 | None = None
    max_score: F64 | None = None
    every: I64 | None = None
    score: Node | None = None
    parameters: tuple[str, ...] = ()
    ints: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()
    deletes: bool = False

    state_format: ClassVar[str] = "ManyTopK"
    query_types: ClassVar[frozenset[str]] = frozenset({"topk"})
    keeps: ClassVar[Literal["window", "retained", "none"]] = "window"
    state_keys: ClassVar[StateKeys] = StateKeys(
        each={
            "next_seq": 0, "step": 1, "wake_at": 1, "due": 1, "rep_n": 1, "rep_s": 0, "rep_q": 0, "rep_t": 0, "rep_d": 0,
            "l_size": 1, "l_thr": 1, "l_cut": 1, "l_full": 1, "l_old": 1,
        },
        groups=(Group(Named("tomb_key"), {"tomb_seq": 0, "tomb_time": 0}), Group(Counted("l_m"), {"lists": 0})),
    )  # fmt: skip

    def __post_init__(self) -> None:
        self.check("topk", "k", "largest", "min_score", "max_score")
        self.refuse(self.k < 1, "k must be at least 1")
