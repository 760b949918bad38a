"""Compare item columns of changes, and ``heads``, with one key's accepted objects: ids, instants and carried columns, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from skyband.framework.plan.model import QueryNode
from skyband.framework.tables.schemas import changes_name, stream_columns
from skyband.framework.verify.brute_force.objects import Accepted
from skyband.framework.verify.differences import Difference, place
from skyband.framework.verify.stored import Key, Stored, exact, keys_of, micros, row_of


def compare_items(stored: Stored, query: QueryNode, stream: Key, mine: Accepted, rows: pa.Table) -> Iterator[Difference]:
    """Compare ``rows``, the changes of ``stream``, with the objects of its key, ``mine``."""
    plan, names = stored.plan, stream_columns(stored.plan, query)
    for n, part in enumerate(query.item.parts):
        if not part.is_row:
            continue
        seq = rows[part.prefix + "seq"].to_numpy()
        known = (seq >= 0) & (seq < len(mine.time))
        if not known.all():
            i = int(np.argmin(known))
            yield Difference(_where(query, names, stream, rows, i), f"no object has seq {seq[i]:,}", None, [row_of(rows, i)])
            continue
        for c in query.item.columns(plan.intake.id, query.carry, plan.intake.partition_by):
            if c.part != n or c.what not in ("id", "time", "carry"):
                continue
            column = mine.rows[plan.intake.event_time if c.what == "time" else c.source]
            source = column.take(pa.array(seq)).cast(rows.schema.field(c.name).type)
            pairs = zip(exact(pa.table({c.name: source}), [c.name]), exact(rows, [c.name]), strict=True)
            for i in (i for i, (a, b) in enumerate(pairs) if a != b):
                shown, said = row_of(rows, i), f"differs from its object: {c.name}"
                yield Difference(_where(query, names, stream, rows, i), said, [{**shown, c.name: source[i].as_py()}], [shown])


def _where(query: QueryNode, names: tuple[str, ...], stream: Key, rows: pa.Table, i: int) -> str:
    return place(f"table {changes_name(query.name)}", names, stream, micros(rows.slice(i, 1), "changed_at")[0], rows["step"][i].as_py())


def compare_head(stored: Stored, mine: Accepted) -> Iterator[Difference]:
    """Compare the row of ``heads`` with the objects of its key, ``mine``."""
    table, names = stored.table("heads"), stored.plan.intake.partition_by
    places = [i for i, k in enumerate(keys_of(table, names)) if k == mine.key]
    if not places or not mine.time or not stored.settled:
        return
    i = places[0]
    expected = {"last_seq": len(mine.time) - 1, "last_time": mine.time[-1]}
    if table["last_seq"][i].as_py() != expected["last_seq"] or micros(table.slice(i, 1), "last_time")[0] != expected["last_time"]:
        last = pa.scalar(mine.time[-1], pa.timestamp("us", "UTC")).as_py()
        shown = {**row_of(table, i), "last_seq": expected["last_seq"], "last_time": last}
        said = "last_seq and last_time are not those of the key's last object"
        yield Difference(place("table heads", names, mine.key), said, [shown], [row_of(table, i)])
