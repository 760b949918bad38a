"""Explain by definition why an item is not in the result of a query over a result: over the rows that this result makes up."""

from __future__ import annotations

import pyarrow as pa

from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import QueryNode
from skyband.framework.verify.brute_force.objects import Accepted, Objects, objects
from skyband.framework.verify.brute_force.stream_rows import StreamRows
from skyband.framework.verify.stored import Key, Stored
from skyband.framework.why.answer import Answers
from skyband.framework.why.item import Item


class StreamAnswers(Answers):
    """As ``Answers``, for ``query`` over the rows of ``made``, which come from tables: nothing of the source is needed."""

    def __init__(self, stored: Stored, query: QueryNode, made: StreamRows) -> None:
        plan = made.node.plan
        none = pa.table({f.name: pa.array([], arrow_type(f.type)) for f in plan.intake.fields})
        # What the job rejected are rows of the source, which have other columns; of a result nothing is rejected.
        super().__init__(plan, query, none, stored.table("rejected").slice(0, 0), stored.until)
        self._made = made
        self.absent = f"it never was in the result of {made.node.of}, which {query.name} takes"
        self.ended = f"it left the result of {made.node.of}"

    def accepted(self, key: Key) -> tuple[Accepted, Objects]:
        """Return a key's rows, as far as results are complete."""
        if key not in self._known:
            found = self._made.accepted(key)
            self._known[key] = found, objects(self.plan, found)
        return self._known[key]

    def rows(self, item: Item) -> list[tuple[Key, list[int]]]:
        """Return, by key, the seqs of the rows that have one of the item's names. O(rows)."""
        found = []
        for key in self.until:
            seqs = [s for s, name in enumerate(self.names(key, item)) if name is not None] if self._made.count(key) else []
            if seqs:
                found.append((key, seqs))
        return found

    def waiting(self, item: Item) -> list[int]:
        """Return nothing: a result has no rows that wait."""
        return []
