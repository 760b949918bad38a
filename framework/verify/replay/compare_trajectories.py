"""Compare the trajectories of time-varying values with the changes, and ``<query>_now`` with the trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from skyband.framework.base.items import rank_key
from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import identity_columns, now_name, stream_columns, trajectory_name
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.replay.trajectories import Point, Trajectories, differences, off_line, unmarked, value_and_slope
from skyband.framework.verify.stored import Item, Key, Stored, keys_of, micros, smallest_first


def compare_trajectories(
    stored: Stored, query: QueryNode, changes: pa.Table, intervals: Sequence[tuple[int, int | None]]
) -> Iterator[Difference]:
    """Compare the trajectories with ``intervals``: the rows of ``changes`` that open and close each."""
    lines = Trajectories(stored, query)
    varying, streams = lines.varying, stream_columns(stored.plan, query)
    names = list(zip(keys_of(changes, streams), keys_of(changes, identity_columns(stored.plan, query)), strict=True))
    at, (values, slopes) = micros(changes, "changed_at"), value_and_slope(changes, varying)

    def wrong(name: tuple[Key, Item], said: str, when: int | None = None) -> Difference:
        return Difference(place(f"table {trajectory_name(query.name)}", streams, name[0], when), said, at=when)

    for enters, leaves in intervals:
        start = Point(at[enters] or 0, values[enters], slopes[enters])
        end = None if leaves is None else (at[leaves] or 0, values[leaves])
        item, points = names[enters][1], lines.points.get(names[enters], [])
        if varying.slope is None:
            found = unmarked(item, start.at, None if end is None else end[0], points)
        else:
            found = differences(item, start, end, points, varying.all_items)
        for said in found:
            yield wrong(names[enters], said, start.at)
    for name, line in lines.points.items() if varying.all_items else ():
        # Before its first point the value of an object is 0, and it is never negative.
        for said in off_line(name[1], [Point(line[0].at - 1, 0, 0), *line]):
            yield wrong(name, said)
        if line[-1].by(max(stored.until.get(name[0][len(name[0]) - len(stored.plan.intake.partition_by) :], 0), line[-1].at)) < 0:
            yield wrong(name, f"{name[1]} falls below 0 after its last point, {line[-1]}", line[-1].at)
    yield from _now(stored, query, lines)


def _now(stored: Stored, query: QueryNode, lines: Trajectories) -> Iterator[Difference]:
    """Compare the values and ranks of ``<query>_now`` with the trajectories."""
    table, streams = stored.table(now_name(query.name)), stream_columns(stored.plan, query)
    named = keys_of(table, streams), keys_of(table, identity_columns(stored.plan, query))
    rows = table.to_pylist()
    ranked: dict[Key, list[tuple[Any, int]]] = {}
    for i, (stream, item, at) in enumerate(zip(*named, micros(table, "as_of"), strict=True)):
        values = lines.values(stream, item, at or 0)
        row = rows[i]
        if any(row[n] != v for n, v in values.items()):
            where = place(f"table {now_name(query.name)}", streams, stream, at)
            yield Difference(where, "differs from the trajectory", [{**row, **values}], [row], at)
        ranked.setdefault(stream, []).append((rank_key(query.item, smallest_first(query, stream))(row), i))
    for stream, places in ranked.items():
        for rank, (_, i) in enumerate(sorted(places), 1):
            row = rows[i]
            if row["rank"] != rank:
                where = place(f"table {now_name(query.name)}", streams, stream)
                yield Difference(where, "the ranks do not follow from the values", [{**row, "rank": rank}], [row])
