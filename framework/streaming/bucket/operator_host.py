"""One bucket's operators, with the window's rows that they and their results need: accepted rows in, changes and skybands out.

Its part of the state: the rows kept, in chunks that are written once, each operator's arrays and the rows it names, and the codes of texts
that stand in those arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.messages import CHANGED, Changes, FinalResults, Skyband, Trajectory, requested_count, unusable_count
from skyband.framework.plan.model import OperatorNode, only_retained
from skyband.framework.streaming.bucket.item_rows import ItemRows, KeyValues, Result
from skyband.framework.streaming.bucket.objects import ObjectNumbers
from skyband.framework.streaming.bucket.sequencer import Sequenced
from skyband.framework.streaming.bucket.state_names import CHUNK, SEEN
from skyband.framework.streaming.bucket.store import Segment, WindowStore, address, distinct, split_address
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.columns import TextCodes, operator_column, ragged_column, stream_column
from skyband.framework.streaming.rows.config import ID_HASHES, HostConfig
from skyband.framework.streaming.rows.outbox import Outbox
from skyband.operators.base import (
    DELETION_TARGET,
    NULL,
    AnyArray,
    Arrivals,
    Logic,
    Named,
    ObjectLogic,
    Ragged,
    State,
    object_column,
)
from skyband.operators.found_pairs import FoundPairs
from skyband.operators.shards import Shardable
from skyband.operators.state_keys import HoldsCodes

I64 = npt.NDArray[np.int64]

FIRST: Final = "first"
"""Name of the state value with the seqs, by key, before which an operator takes no row: it began when the bucket had these rows."""

_NONE = np.empty(0, np.int64)
NO_PAIRS: Final[Mapping[str, FoundPairs]] = {}
_OF_QUERIES = {"unusable:": unusable_count, "asked:": requested_count}
"""Beginnings of the counters of operators that are about one of their queries, whose number follows, and what they count for an entry."""


@dataclass(slots=True)
class Others:
    """What operators need that share the window's rows and are not run here: sorted addresses of ``rows``, numbers of objects by their
    columns."""

    rows: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    objects: dict[tuple[str, ...], I64] = field(default_factory=dict)


def objects_value(columns: tuple[str, ...]) -> str:
    """Name of the state value with the objects that ``columns`` name."""
    return f"objects/{','.join(columns)}"


class OperatorHost:
    """Runs the operators of ``config`` over what a ``Sequencer`` accepts. ``seen``: the window's rows with the hashes of their ids."""

    def __init__(self, config: HostConfig, codes: TextCodes | None = None) -> None:
        self.window = config.window
        self.operators = config.operators
        self._sharded = config.shards is not None
        self.deletes = config.intake.has_deletions
        # Ids of the whole window are needed to know a row that comes twice: apart only if nothing else of the window is kept.
        apart = only_retained(config.operators, config.statistics)
        self.hashes = list(ID_HASHES) if config.intake.unique == "checked" else []
        schema = config.host_schema()
        kept = config.kept_columns() + ([] if apart else self.hashes)
        self.store = WindowStore(config.window, pa.schema([schema.field(n) for n in kept]), apart)
        self.seen = WindowStore(config.window, pa.schema([schema.field(n) for n in self.hashes])) if apart else self.store
        self.codes = TextCodes(config.texts) if codes is None else codes
        self.logics: list[Logic] = []
        self.needed: list[I64] = []
        """The objects that each operator needed at the last check."""
        self.retained: list[I64] = [np.empty(0, np.int64) for _ in config.operators]
        self.first: list[I64] = [_NONE for _ in config.operators]
        """For each operator that began after the bucket, the seq of every key's first row that it may take; else empty."""
        self._deferred: set[int] = set()
        """Operators whose skyband may have changed since it was last sent."""
        self.objects = {named: ObjectNumbers(named, schema) for node in config.operators for named in node.objects}
        self.items = ItemRows(config, self.objects, self.codes)
        self.others = Others()
        self.taken = config.taken
        self.results: dict[str, Result] = {}
        """What the last call changed, by query, of the queries whose results others take."""

    @classmethod
    def new(cls, config: HostConfig) -> OperatorHost:
        """Return the operators before the first row."""
        return cls(config).begin()

    def begin(self) -> OperatorHost:
        """The operators are before their first row."""
        self.logics = [self._build(node, None) for node in self.operators]
        self.needed = self._needed()
        return self

    def _build(self, node: OperatorNode, state: State | None) -> Logic:
        """Return the logic of ``node``: one that takes the pairs that shards find, if there are shards."""
        if self._sharded and isinstance(node.operator, Shardable) and node.operator.can_be_sharded:
            return node.operator.build_merge(state)
        return node.operator.build(state)

    def run(
        self,
        taken: Sequenced,
        limit: int,
        keys: KeyValues,
        bucket: int,
        out: Outbox,
        whole: bool,
        found: Mapping[str, FoundPairs] = NO_PAIRS,
    ) -> None:
        """Process the accepted rows and advance to ``limit``; return each operator's changes, and its skyband if it may have changed.

        Unless ``whole``, skybands and what rows are still needed are left for later: both take time in proportion to all keys.
        ``found``: the pairs that shards have found, by name of the operator.
        """
        arrivals = self._taken_arrivals(taken)
        columns = dict(arrivals.columns)
        self.results = {}
        for i, (node, logic) in enumerate(zip(self.operators, self.logics, strict=True)):
            woken = logic.wake()
            mine = replace(arrivals, named=self._named(i, columns)) if node.objects else arrivals
            if node.name in found:
                mine = replace(mine, found=found[node.name])
            changes = logic.advance(mine, limit)
            out.counts[CHANGED] += len(changes)
            rows: dict[str, pa.Table] = {}
            points: dict[str, pa.Table] = {}
            for name, table in self.items.changes(i, changes, self.store, keys):
                out.put(Changes(name).kind, table)
                if name in self.taken:
                    rows[name] = table
            if changes.traces is not None:
                for name, table in self.items.trajectories(i, changes.traces, self.store, keys):
                    out.put(Trajectory(name).kind, table)
                    if name in self.taken:
                        points[name] = table
            self.results |= self.items.results(i, changes, rows, points)
            if changes.finals is not None:
                for name, table in self.items.finals(i, changes.finals, self.store, keys):
                    out.put(FinalResults(name).kind, table)
            if node.skyband and (len(taken.seq) or (woken is not None and woken < limit)):
                self._deferred.add(i)
        if whole:
            self._send_skybands(keys, bucket, out)
            self.retained = [distinct(address(*logic.retained())) for logic in self.logics]
            self._pin()
        self._forget_objects()

    def _taken_arrivals(self, taken: Sequenced) -> Arrivals:
        """Keep the accepted rows, and return them as operators take them."""
        self._keep(taken)
        target = {DELETION_TARGET: taken.target} if self.deletes else {}
        columns = self._columns(taken.key, taken.rows) | target
        return Arrivals(taken.key, taken.seq, taken.time, columns, self._ragged(taken.rows))

    def _send_skybands(self, keys: KeyValues, bucket: int, out: Outbox) -> None:
        for i in sorted(self._deferred):
            table = self.items.skyband(i, self.logics[i].skyband(), self.store, keys, bucket)
            out.put(Skyband(self.operators[i].name, bucket).kind, table)
        self._deferred.clear()

    def count(self, out: Outbox) -> None:
        """The operators' own counters. Of the queries of one entry, the one that could use the fewest objects counts."""
        for i, node in enumerate(self.operators):
            for name, n in self.logics[i].counters().items():
                what, colon, query = name.partition(":")
                counted = _OF_QUERIES.get(what + colon)
                if counted is not None:
                    of = counted(self.items.entry(i, int(query)))
                    out.counts[of] = max(out.counts[of], int(n))
                else:
                    out.counts[f"{node.name}.{name}"] = int(n)

    def wakes(self) -> list[int]:
        """Instants at which something waits: an expiry of a result item, a boundary."""
        return [w for logic in self.logics if (w := logic.wake()) is not None]

    @property
    def crowded(self) -> bool:
        """True if it keeps too many texts that may be unused."""
        return len(self.codes.values) > 1_000_000 + 4 * sum(len(s.at) for s in self.store.segments)

    def save(self, core: dict[str, Any], next_seq: I64, until: int) -> tuple[dict[str, bytes], list[str]]:
        """Return (values of its part of the state, names to drop), and add its own to the fields of ``core``. Chunks of rows come once."""
        values: dict[str, bytes] = {}
        dropped: list[str] = []
        for name, store in self._stores():
            for number, rows in store.unsaved(next_seq, until):
                values[f"{name}/{number}"] = blocks.table_bytes(rows)
            dropped += [f"{name}/{n}" for n in store.dropped]
            store.dropped = []
            core |= {name: [c.number for c in store.chunks], f"next_{name}": store.next_chunk}
        checkpoints = self.checkpoints()
        for i, node in enumerate(self.operators):
            # By name: queries may change places in the spec.
            values[f"retained/{node.name}"] = self.retained[i].tobytes()
            values[f"operator/{node.name}"] = blocks.arrays_bytes(checkpoints[node.name])
            if len(self.first[i]):
                values[f"{FIRST}/{node.name}"] = self.first[i].tobytes()
        for named, numbers in self.objects.items():
            values[objects_value(named)] = blocks.table_bytes(numbers.saved())
        coded = self.coded(checkpoints)
        if coded:
            values["texts"] = blocks.table_bytes(self.codes.held(coded))
        return values, dropped

    @classmethod
    def restore(
        cls, config: HostConfig, core: dict[str, Any], read: Callable[[str], bytes | None], next_seq: I64, until: int
    ) -> OperatorHost:
        """The operators of what ``save`` gave."""
        texts = read("texts")
        host = cls(config, TextCodes(config.texts, blocks.bytes_table(texts) if texts else None))
        host.retained = [np.frombuffer(read(f"retained/{node.name}") or b"", np.int64).copy() for node in config.operators]
        host.first = [np.frombuffer(read(f"{FIRST}/{node.name}") or b"", np.int64) for node in config.operators]
        host._pin()
        for name, store in host._stores():
            store.next_chunk = core[f"next_{name}"]
            for n in core[name]:
                store.load(n, blocks.bytes_table(read(f"{name}/{n}") or b""))
        for named, numbers in host.objects.items():
            numbers.restore(blocks.bytes_table(read(objects_value(named)) or b""))
        held = host.store.alive(config.window, next_seq, until)
        for i, node in enumerate(config.operators):
            arrays = blocks.bytes_arrays(read(f"operator/{node.name}") or b"")
            kept = {
                "window": held.since(host.first[i]),
                "retained": host.store.named(host.retained[i]),
                "none": host.store.named(held.at[:0]),
            }
            host.logics.append(host._build(node, State(arrays, host._arrivals(node, kept[node.operator.keeps]))))
        host.needed = host._needed()
        return host

    def _keep(self, taken: Sequenced) -> None:
        """Add the new objects to the window's rows."""
        kept, hashes = taken.rows.select(self.store.schema.names).cast(self.store.schema), taken.rows.select(self.hashes)
        key, seq, time = taken.key, taken.seq, taken.time
        made = seq >= 0
        if not made.all():
            key, seq, time = key[made], seq[made], time[made]
            kept, hashes = kept.filter(pa.array(made)), hashes.filter(pa.array(made))
        self.store.append(key, seq, time, kept)
        if self.hashes and self.seen is not self.store:
            self.seen.append(key, seq, time, hashes)

    def _pin(self) -> None:
        parts = [at for at in (self.others.rows, *self.retained) if len(at)]
        self.store.pins = parts[0] if len(parts) == 1 else distinct(np.concatenate([_NONE, *parts]))

    def _arrivals(self, node: OperatorNode, rows: Segment) -> Arrivals:
        """Stored rows as the operator of ``node`` takes them. What names objects, and sets, are stored only for those that keep rows."""
        key, seq = split_address(rows.at)
        columns: dict[str, AnyArray] = {c.name: operator_column(rows.rows, c, self.codes) for c in node.attributes}
        stored = node.operator.keeps != "none"
        for named in node.objects if stored else ():
            columns[object_column(named).name] = self.objects[named].number(key, rows.rows)
        if self.deletes:
            columns[DELETION_TARGET] = np.full(len(rows.at), NULL)
        return Arrivals(key, seq, rows.time, columns, {c.name: ragged_column(rows.rows, c) for c in node.ragged if stored})

    def _columns(self, key: I64, rows: pa.Table) -> dict[str, AnyArray]:
        wanted = {c.name: c for node in self.operators for c in node.attributes}
        columns = {name: operator_column(rows, c, self.codes) for name, c in wanted.items()}
        return columns | {object_column(named).name: numbers.number(key, rows) for named, numbers in self.objects.items()}

    def _ragged(self, rows: pa.Table) -> dict[str, Ragged]:
        return {c.name: ragged_column(rows, c) for c in dict.fromkeys(c for node in self.operators for c in node.ragged)}

    def _named(self, operator: int, columns: dict[str, AnyArray]) -> dict[str, Named]:
        """The objects in ``columns`` that the operator did not need so far: another that did may have kept their numbers alive."""
        found = {}
        for named in self.operators[operator].objects:
            column = object_column(named).name
            met = columns[column]
            met = met[met != NULL]
            found[column] = self.objects[named].named(distinct(met[~np.isin(met, self.needed[operator])]))
        return found

    def _forget_objects(self) -> None:
        """Remove objects that no operator needs any more."""
        self.needed = self._needed()
        for named, numbers in self.objects.items():
            mine = [self.needed[i] for i, node in enumerate(self.operators) if named in node.objects]
            numbers.keep([*mine, self.others.objects.get(named, np.empty(0, np.int64))])

    def _needed(self) -> list[I64]:
        """Return the numbers of the objects that each operator needs."""
        both = zip(self.operators, self.logics, strict=True)
        return [cast(ObjectLogic, logic).objects() if node.objects else np.empty(0, np.int64) for node, logic in both]

    def _stores(self) -> tuple[tuple[str, WindowStore], ...]:
        """What is kept, by the name of its state values."""
        return ((CHUNK, self.store),) if self.seen is self.store else ((CHUNK, self.store), (SEEN, self.seen))

    def checkpoints(self) -> dict[str, dict[str, AnyArray]]:
        """Return the arrays of the operators' checkpoints by name."""
        return {node.name: logic.checkpoint() for node, logic in zip(self.operators, self.logics, strict=True)}

    def coded(self, checkpoints: Mapping[str, Mapping[str, AnyArray]]) -> list[pa.ChunkedArray]:
        """Return the texts whose codes stand in operators' own arrays. ``checkpoints``: those of operators that are not empty, by name."""
        found = [
            pa.chunked_array([self.codes.decode(node.operator.codes_in(checkpoints[node.name]))])
            for node in self.operators
            if node.name in checkpoints and isinstance(node.operator, HoldsCodes) and node.operator.holds_codes
        ]
        for node, at in zip(self.operators, self.retained, strict=True):
            texts = [c for c in node.attributes if c.kind == "text"]
            if texts and node.operator.keeps == "retained":
                rows = self.store.named(at).rows
                found += [stream_column(rows, c) for c in texts]
        return found
