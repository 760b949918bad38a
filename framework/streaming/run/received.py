"""The messages of a batch's tasks to the driver: rows by kind, files that tasks have written, counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.messages import COUNTS, REJECTED, STATE, Changes, Skyband, Tally, parse_file_message, parse_kind
from skyband.framework.streaming.bucket.bucket_states import BucketState, parsed
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.tables.delta.data_files import DataFile


@dataclass(slots=True)
class Received:
    """Blocks and files of a batch by kind, in the order of arrival; of a bucket's state only the last."""

    counts: Tally = field(default_factory=Tally)
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    states: dict[int, BucketState] = field(default_factory=dict)
    """Where the states of buckets are now, if they are in files of the sink."""
    _parts: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    _reasons: Counter[str] = field(default_factory=Counter)
    """Number of rejected rows in files, by reason."""

    @classmethod
    def of(cls, messages: Iterable[Block]) -> Received:
        """Return the contents of the tasks' ``messages``."""
        found = cls()
        for kind, data in messages:
            if kind == COUNTS:
                found.counts.add(data)
            elif kind == STATE:
                found.states |= parsed(data)
            elif (written := parse_file_message(kind, data)) is not None:
                found._file(*written)
            else:
                found.put(kind, blocks.bytes_table(data))
        return found

    def put(self, kind: str, rows: pa.Table) -> None:
        """Add rows of a kind."""
        if isinstance(parse_kind(kind), Skyband):
            self._parts.pop(kind, None)
            self.files.pop(kind, None)
        self._parts[kind].append(rows)

    def take(self, kind: str) -> list[pa.Table]:
        """Remove the rows of a kind that arrived in messages, and return them."""
        return self._parts.pop(kind, [])

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows that arrived in messages, by kind."""
        return {kind: pa.concat_tables(parts, promote_options="default") for kind, parts in self._parts.items()}

    def reasons(self) -> dict[str, int]:
        """Return the number of rejected rows by the reason in table ``rejected``."""
        found = Counter(self._reasons)
        for part in self._parts.get(REJECTED, ()):
            found.update({x["values"]: x["counts"] for x in pc.value_counts(part["reason"]).to_pylist()})
        return dict(found)

    def changes(self) -> dict[str, int]:
        """Return the number of changes by query, without queries that have none."""
        found: Counter[str] = Counter()
        for rows in (self._parts, self.files):
            for kind, parts in rows.items():
                if isinstance(q := parse_kind(kind), Changes):
                    found[q.query] += sum(p.rows if isinstance(p, DataFile) else p.num_rows for p in parts)
        return dict(found)

    def _file(self, kind: str, file: dict[str, Any]) -> None:
        self._reasons.update(file.pop("reasons"))
        if isinstance(parse_kind(kind), Skyband):
            self._parts.pop(kind, None)
            self.files.pop(kind, None)
        self.files.setdefault(kind, []).append(DataFile(**file))
