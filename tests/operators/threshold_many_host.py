"""Random configurations of ``ManyThreshold``, what they mean by definition, and each query as a ``Threshold`` of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.operators.base import Window
from skyband.operators.expressions import parse
from skyband.operators.expressions.canonical import canonical
from skyband.operators.single_rows.scores import Linear
from skyband.operators.threshold.many import ManyThreshold
from skyband.operators.threshold.one_function import Threshold, ThresholdQuery
from tests.operators.expression_families import node as node_of
from tests.operators.expression_families import spelled, spelled_scores
from tests.operators.host import blocks_of as cut_blocks  # noqa: F401
from tests.operators.topk_host import Stream
from tests.oracles.topk import Query, Row, replay

PREDICATES = ("x0 >= 1", "x0 < 2", "x0 > 1000")
BOUNDS = {
    "above": lambda s, b: s > b,
    "at_least": lambda s, b: s >= b,
    "below": lambda s, b: s < b,
    "at_most": lambda s, b: s <= b,
}


def random_bounds(rng: np.random.Generator, queries: int) -> dict[str, Any]:
    """At least one bound per query, at most one per side."""
    values = [-np.inf, -2.0, -0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 5.0, np.inf]
    out = {name: np.full(queries, np.nan) for name in BOUNDS}
    for q in range(queries):
        sides = int(rng.integers(1, 4))
        if sides & 1:
            out[str(rng.choice(["above", "at_least"]))][q] = rng.choice(values)
        if sides & 2:
            out[str(rng.choice(["below", "at_most"]))][q] = rng.choice(values)
    return {name: None if np.isnan(b).all() else b for name, b in out.items()}


def random_op(rng: np.random.Generator, d: int, queries: int, window: Window, deletes: bool, plain: bool) -> ManyThreshold:
    def maybe(a: Any) -> Any:
        return None if rng.random() < 0.5 else a

    names = tuple(f"x{i}" for i in range(d))
    schema: Any = dict.fromkeys(names, "float")
    some = rng.random((queries, 1)) < 0.5
    box_low = np.where(some, rng.choice([-np.inf, 0.0, 1.0, 2.0], (queries, d)), -np.inf)
    box_high = np.where(some & (box_low > -np.inf), box_low + rng.choice([-1.0, 0.0, 1.0, 9.0, 1e9], (queries, d)), np.inf)
    boxes = (box_low, box_high) if rng.random() < 0.5 and not plain else (None, None)
    return ManyThreshold(
        names=tuple(f"q{i}" for i in range(queries)), attributes=names,
        weights=rng.choice([0.0, 1.0, -1.0, 0.5, 2.0], (queries, d)), window=window,
        direction="max" if rng.random() < 0.5 else "min", **random_bounds(rng, queries),
        counts=maybe(rng.integers(0, window.count + 1, queries)) if window.count else None,
        micros=maybe(rng.integers(0, window.micros + 1, queries)) if window.micros else None, low=boxes[0], high=boxes[1],
        where=tuple(parse(p, schema, ("",)) for p in PREDICATES) if not plain else (),
        where_of=maybe(rng.integers(-1, 3, queries)) if not plain else None,
        every=maybe(rng.choice([0, 0, 3, 10, 40], queries)), deletes=deletes,
    )  # fmt: skip


def value(a: Any, q: int, none: Any) -> Any:
    return None if a is None or a[q] == none or a[q] != a[q] else a[q].item()


def predicate(op: ManyThreshold, q: int) -> str | None:
    """Where and box of a query as one predicate."""
    which = -1 if op.where_of is None else int(op.where_of[q])
    parts = [f"({PREDICATES[which]})"] if which >= 0 else []
    for i, name in enumerate(op.attributes if op.low is not None else ()):
        low, high = op.low[q, i], op.high[q, i]  # type: ignore[index]
        parts += [f"{name} >= {low!s}"] if low > -np.inf else []
        parts += [f"{name} <= {high!s}"] if high < np.inf else []
    return " and ".join(parts) or None


def single(op: ManyThreshold, q: int) -> Threshold:
    """The query as an operator of its own."""
    schema: Any = dict.fromkeys(op.attributes, "float")
    text = predicate(op, q)
    bounds = {name: value(getattr(op, name), q, np.nan) for name in BOUNDS}
    window = Window(value(op.counts, q, 0) or op.window.count, value(op.micros, q, 0) or op.window.micros)
    query = ThresholdQuery(op.names[q], window, every_micros=value(op.every, q, 0), **bounds)
    scoring: Any = Linear(tuple(zip(op.attributes, op.weights[q].tolist(), strict=True)), op.ints)
    if op.score is not None:
        scoring = node_of(spelled(canonical(op.score), op.weights[q]), len(op.attributes))
    node = None if text is None else parse(text, schema, ("",))
    return Threshold(scoring, op.direction, node, (query,), op.window, op.texts, op.deletes)


def scores(op: ManyThreshold, q: int, x: Any) -> Any:
    """Scores where predicate and box hold, else NaN; and how many of those that hold have no score."""
    if op.score is not None:
        score = spelled_scores(op.score, op.weights[q], x)
    else:
        with np.errstate(all="ignore"):
            score = op.weights[q, 0] * x[:, 0]
            for i in range(1, len(op.attributes)):
                score = score + op.weights[q, i] * x[:, i]
    truth = {0: x[:, 0] >= 1, 1: x[:, 0] < 2, 2: x[:, 0] > 1000, -1: np.ones(len(x), bool)}
    ok = truth[-1 if op.where_of is None else int(op.where_of[q])]
    if op.low is not None and op.high is not None:
        free = (op.low[q] == -np.inf) & (op.high[q] == np.inf)
        ok = ok & (free | ((op.low[q] <= x) & (x <= op.high[q]))).all(axis=1)
    return np.where(ok, score, np.nan), int((ok & np.isnan(score)).sum())


def expected(op: ManyThreshold, stream: Stream, end: int) -> list[Row]:
    out: list[Row] = []
    for q in range(len(op.names)):
        bounds = {name: value(getattr(op, name), q, np.nan) for name in BOUNDS}

        def accept(s: float, bounds: Any = bounds) -> bool:
            return all(BOUNDS[name](s, b) for name, b in bounds.items() if b is not None)

        count, micros = value(op.counts, q, 0) or op.window.count, value(op.micros, q, 0) or op.window.micros
        query = Query(None, count, micros, op.direction == "max", value(op.every, q, 0), accept)
        score = scores(op, q, stream.x)[0]
        for key in range(int(stream.key.max()) + 1):
            out += replay(q, key, stream.events(key, score), query, end)
    return out
