"""Texts for changes and items in the messages of ``contract``, sortable forms for comparing them, and checks of trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.operators.base import CAUSES, I64, Changes, Items, Traces

Item = tuple[int, ...]
"""The seqs of an item's rows, or the numbers of its objects."""


def row_of(c: Changes, i: int) -> str:
    """Return a change as text."""
    sign = "+" if c.sign[i] > 0 else "-"
    cause = CAUSES[c.cause[i]] if 0 <= c.cause[i] < len(CAUSES) else f"cause {c.cause[i]}"
    return (
        f"query {c.query[i]} key {c.key[i]} at {c.at[i]} step {c.step[i]} pos {c.pos[i]}: "
        f"{sign} {tuple(c.items[i].tolist())} {float(c.score[i])!r} ({cause})"
    )


def instant_of(wake: int | None) -> str:
    """Return the result of ``wake`` as text."""
    return "never" if wake is None else str(wake)


def items_of(found: Items) -> list[tuple[int, Item]]:
    """Return (key, seqs) of every item."""
    return list(zip(found.key.tolist(), map(tuple, found.items.tolist()), strict=True))


def bytes_of(found: Items) -> list[tuple[Any, ...]]:
    """Return the rows of a skyband in a canonical order."""
    extra = [found.extra[name].tolist() for name in sorted(found.extra)]
    return sorted(zip(items_of(found), (s.tobytes() for s in found.score), *extra, strict=True))


Point = tuple[tuple[int, ...], ...]


def find_mistake(traces: Traces, since: int, until: int, known: set[tuple[int, int]], width: int) -> str | None:
    """Return the first mistake in the points of one call, or None; ``known`` holds (key, number) of the objects."""
    kinds = {"query": np.int16, "key": np.int64, "at": np.int64, "items": np.int64}
    for name, dtype in kinds.items():
        a, shape = getattr(traces, name), (len(traces), width) if name == "items" else (len(traces),)
        if a.dtype != dtype or a.shape != shape:
            return f"Traces.{name} is {a.dtype}{list(a.shape)}, not {np.dtype(dtype)}{list(shape)}"
    places = list(zip(traces.query.tolist(), traces.key.tolist(), traces.at.tolist(), strict=True))
    if places != sorted(places):
        return "points are not in the order of (query, key, at)"
    points = [(*place, tuple(item)) for place, item in zip(places, traces.items.tolist(), strict=True)]
    if len(set(points)) < len(points):
        return "an item has two points at one instant"
    for query, key, at, item in points:
        if not since <= at < until:
            return f"a point of query {query} at {at}, outside of the instants of the call, {since} to {until}"
        if any((key, part) not in known for part in item):
            return f"a point of {item} of key {key}, which is not known"
    return None


def follow_scores(shown: dict[tuple[int, int], dict[tuple[int, ...], float]], traces: Traces) -> None:
    """Give the items in ``shown``, the results by (query, key), the scores of their points, for operators whose scores vary with time."""
    if "score" not in traces.values:
        return
    for i, score in enumerate(traces.values["score"].tolist()):
        result, item = shown.get((int(traces.query[i]), int(traces.key[i])), {}), tuple(traces.items[i].tolist())
        if item in result:
            result[item] = score


def bytes_of_traces(parts: Sequence[tuple[Traces, I64]]) -> list[Point]:
    """Return all points of a run by (query, key, at), with the items of the second element and the bytes of their values."""
    found = []
    for traces, items in parts:
        values = [[x.tobytes() for x in traces.values[name]] for name in sorted(traces.values)]
        columns = (traces.query.tolist(), traces.key.tolist(), traces.at.tolist(), map(tuple, items.tolist()))
        found += list(zip(*columns, *values, strict=True))
    return sorted(found, key=lambda p: p[:3])
