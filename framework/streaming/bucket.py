"""One bucket of keys: orders rows behind the frontier, numbers them, runs the operators, and keeps their state. Knows nothing of Spark.

Per call: blocks of rows in, blocks for tables out; ``save`` gives what changed in state. A bucket read back from
state continues byte for byte.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.plan.model import only_retained
from skyband.framework.streaming import blocks, rejects
from skyband.framework.streaming.columns import TextCodes, ints, micros, operator_column
from skyband.framework.streaming.config import ID_HASHES, KEY_HASHES, ORIGIN, HostConfig
from skyband.framework.streaming.deletions import DELETES, Deletions
from skyband.framework.streaming.item_rows import ItemRows
from skyband.framework.streaming.order import canonical_order
from skyband.framework.streaming.sequence import Ids, Keys, number_rows
from skyband.framework.streaming.store import Segment, WindowStore, address, split_address
from skyband.operators.base import DELETION_TARGET, NEVER, NULL, AnyArray, Arrivals, Logic, State

I64 = npt.NDArray[np.int64]

CHUNK, SEEN = "chunk", "seen"
"""Names of state values that are written once: rows, and the hashes of their ids."""

Block = tuple[str, bytes]


class Bucket:
    """``run`` takes one batch's rows for this bucket (or none, when a timer fires) and returns blocks named after tables."""

    def __init__(self, config: HostConfig, number: int) -> None:
        self.config = config
        self.number = number
        self.schema = config.row_schema()
        self.keys = Keys()
        self.key_rows: list[pa.Table] = []
        self.until = -NEVER
        self.pending = self.schema.empty_table()
        self.ids = Ids(config.window) if config.intake.unique == "checked" else None
        self.deletions = Deletions(config.intake.deletes, config.texts, config.window)
        # Ids of the whole window are needed to know a row that comes twice: apart only if nothing else of the window is kept.
        apart = only_retained(config.operators)
        hashes = list(ID_HASHES) if self.ids is not None else []
        kept = config.kept_columns() + ([] if apart else hashes)
        self.store = WindowStore(config.window, self._some(kept), apart)
        self.seen = WindowStore(config.window, self._some(hashes)) if apart else self.store
        self.codes = TextCodes(config.texts)
        self.logics: list[Logic] = [node.operator.build(None) for node in config.operators]
        self.retained: list[I64] = [np.empty(0, np.int64) for _ in config.operators]
        self.resolver = ItemRows(config)
        if not config.intake.partition_by:
            self.keys.single()
        self._tie_columns = self._order_columns()

    def run(self, data: list[bytes], watermark_ms: int) -> list[Block]:
        """Everything that is due: rows below the frontier in order, expiries and boundaries between them."""
        started = clock.perf_counter()
        out: list[Block] = []
        counts: dict[str, int] = {"late": 0, "duplicate_id": 0, "accepted": 0, "changes": 0}
        before = self.pending.num_rows
        frontier = self.config.frontier(watermark_ms)
        rows, limit = self._arrived(data, frontier, counts, out)
        decoded = clock.perf_counter()
        key, time, seq, target, ready = self._accept(rows, counts, out)
        accepted = clock.perf_counter()
        touched = np.unique(key)
        self._advance(key, time, seq, target, ready, limit, counts, out)
        operated = clock.perf_counter()
        self.until = limit
        self._heads(touched, out)
        counts["pending"] = self.pending.num_rows - before
        newest = [int(time.max())] if len(time) else []
        if self.pending.num_rows:
            newest.append(int(pc.max(self.pending[self.config.intake.event_time].cast(pa.int64())).as_py()))
        if newest:
            counts["newest"] = max(newest)
        if frontier is not None:
            counts["frontier"] = frontier
        counts["us_decode"] = int(1e6 * (decoded - started))
        counts["us_order"] = int(1e6 * (accepted - decoded))
        counts["us_operator"] = int(1e6 * (operated - accepted))
        for i, node in enumerate(self.config.operators):
            for name, n in self.logics[i].counters().items():
                if name.startswith("unusable:"):
                    of = f"unusable:{self.resolver.entry(i, int(name[9:]))}"
                    counts[of] = max(counts.get(of, 0), int(n))
                else:
                    counts[f"{node.name}.{name}"] = int(n)
        out.append(("counts", json.dumps(counts).encode()))
        return out

    @property
    def crowded(self) -> bool:
        """Too many texts that may be dead are remembered: read the bucket back from state, which forgets them."""
        return len(self.codes.values) > 1_000_000 + 4 * sum(len(s.at) for s in self.store.segments)

    def due(self) -> int | None:
        """The earliest instant at which something waits: a pending row, an expiry of a result item, a boundary."""
        dues = [w for logic in self.logics if (w := logic.wake()) is not None]
        if self.pending.num_rows:
            dues.append(int(pc.min(self.pending[self.config.intake.event_time].cast(pa.int64())).as_py()))
        return min(dues) if dues else None

    def _arrived(self, data: list[bytes], frontier: int | None, counts: dict[str, int], out: list[Block]) -> tuple[pa.Table, int]:
        """(rows that may be processed, the limit below which they may). Late rows go to ``rejected``, early ones to ``pending``."""
        tables = [blocks.bytes_table(d) for d in data]
        fresh = pa.concat_tables(tables).cast(self.schema) if tables else self.schema.empty_table()
        event_time = self.config.intake.event_time
        floor = self.until if frontier is None else max(frontier, self.until)
        limit = floor
        if fresh.num_rows:
            newest = int(pc.max(fresh[event_time].cast(pa.int64())).as_py())
            # Never past the engine's next watermark, which is at least this bucket's newest time, in ms, less the delay.
            limit = max(limit, (newest // 1000 - self.config.intake.delay_ms) * 1000)
            late = pc.less(fresh[event_time].cast(pa.int64()), pa.scalar(floor, pa.int64()))
            if pc.any(late).as_py():
                rejected = fresh.filter(late)
                counts["late"] = rejected.num_rows
                self._reject(rejected, "late", out)
                fresh = fresh.filter(pc.invert(late))
        rows = pa.concat_tables([self.pending, fresh]) if self.pending.num_rows else fresh
        if not rows.num_rows:
            return rows, limit
        ready = pc.less(rows[event_time].cast(pa.int64()), pa.scalar(limit, pa.int64()))
        if pc.all(ready).as_py():
            self.pending = self.schema.empty_table()
            return rows, limit
        self.pending = rows.filter(pc.invert(ready)).combine_chunks()
        return rows.filter(ready), limit

    def _accept(self, rows: pa.Table, counts: dict[str, int], out: list[Block]) -> tuple[I64, I64, I64, I64, pa.Table]:
        """(key, time, seq, target, rows) of the accepted rows in canonical order; duplicates and deletions of nothing go to ``rejected``.

        A deletion has seq -1 and the seq of the object it deletes as its target; the others' is NULL.
        """
        intake = self.config.intake
        if not rows.num_rows:
            empty = np.empty(0, np.int64)
            return empty, empty, empty, empty, rows
        time = micros(rows[intake.event_time])
        if intake.partition_by:
            key, first = self.keys.number(ints(rows[KEY_HASHES[0]]), ints(rows[KEY_HASHES[1]]))
            if len(first):
                self.key_rows.append(rows.select(list(intake.partition_by)).take(pa.array(first)).combine_chunks())
        else:
            key = np.zeros(rows.num_rows, np.int64)
        rows = self.deletions.marked(rows, self.codes)
        order = canonical_order(key, time, rows, self._tie_columns)
        if not np.array_equal(order, np.arange(len(order))):
            key, time, rows = key[order], time[order], rows.take(pa.array(order))
        if self.ids is None:
            seq = number_rows(self.keys, key)
            target = np.full(len(seq), NULL)
        else:
            hashes = ints(rows[ID_HASHES[0]]), ints(rows[ID_HASHES[1]])
            seq, target = self.ids.accept(self.keys, key, time, *hashes, self.until, self.deletions.of(rows))
            for reason, bad in (("duplicate_id", (seq < 0) & (target == NULL)), ("no_target", target == -1)):
                if bad.any():
                    rejected = rows.filter(pa.array(bad))
                    counts[reason] = rejected.num_rows
                    self._reject(rejected, reason, out)
            good = (seq >= 0) | (target >= 0)
            if not good.all():
                rows, key, time, seq, target = rows.filter(pa.array(good)), key[good], time[good], seq[good], target[good]
        made = seq >= 0
        self.keys.last_time[key[made]] = time[made]
        self.deletions.add(key, time, target)
        counts["accepted"] = len(seq)
        if not made.all():
            counts["deleted"] = int((~made).sum())
        return key, time, seq, target, rows.combine_chunks()

    def _advance(
        self, key: I64, time: I64, seq: I64, target: I64, rows: pa.Table, limit: int, counts: dict[str, int], out: list[Block]
    ) -> None:
        """Runs every operator over the accepted rows and names its changes' objects."""
        kept = rows.select(self.store.schema.names).cast(self.store.schema)
        made = seq >= 0
        hashes = rows.select(list(ID_HASHES) if self.ids is not None else [])
        if not made.all():
            key_, seq_, time_ = key[made], seq[made], time[made]
            kept, hashes = kept.filter(pa.array(made)), hashes.filter(pa.array(made))
        else:
            key_, seq_, time_ = key, seq, time
        self.store.append(key_, seq_, time_, kept)
        if self.ids is not None and self.seen is not self.store:
            self.seen.append(key_, seq_, time_, hashes)
        arrivals = Arrivals(key, seq, time, self._columns(rows) | ({DELETION_TARGET: target} if self.config.intake.deletes else {}))
        pins = []
        for i, (node, logic) in enumerate(zip(self.config.operators, self.logics, strict=True)):
            woken = logic.wake()
            changes = logic.advance(arrivals, limit)
            counts["changes"] += len(changes)
            for name, table in self.resolver.changes(i, changes, self.store, self.key_values):
                out.append((f"changes:{name}", blocks.table_bytes(table)))
            if node.skyband and (len(seq) or (woken is not None and woken < limit)):
                table = self.resolver.skyband(i, logic.skyband(), self.store, self.key_values, self.number)
                out.append((f"skyband:{node.name}:{self.number}", blocks.table_bytes(table)))
            pins.append(np.unique(address(*logic.retained())))
        self.retained = pins
        self.store.pins = np.concatenate(pins) if pins else np.empty(0, np.int64)

    def _arrivals(self, rows: Segment) -> Arrivals:
        """Stored rows as an operator takes them."""
        columns = self._columns(rows.rows)
        if self.config.intake.deletes:
            columns[DELETION_TARGET] = np.full(len(rows.at), NULL)
        return Arrivals(*split_address(rows.at), rows.time, columns)

    def _columns(self, rows: pa.Table) -> dict[str, AnyArray]:
        wanted = {c.name: c.kind for node in self.config.operators for c in node.attributes}
        return {name: operator_column(rows[name], kind, self.codes) for name, kind in wanted.items()}

    def key_values(self, key: I64) -> pa.Table:
        """The ``partition_by`` columns of dense key numbers."""
        self.key_rows = [pa.concat_tables(self.key_rows).combine_chunks()] if len(self.key_rows) > 1 else self.key_rows
        if not self.key_rows:
            return pa.table({})
        return self.key_rows[0].take(pa.array(key))

    def _heads(self, touched: I64, out: list[Block]) -> None:
        """A ``heads`` row for every key that got rows."""
        if not len(touched):
            return
        table = self.key_values(touched)
        stamp = pa.timestamp("us", "UTC")
        for name, values, kind in (
            ("bucket", np.full(len(touched), self.number, np.int32), pa.int32()),
            ("last_seq", self.keys.next_seq[touched] - 1, pa.int64()),
            ("last_time", self.keys.last_time[touched], stamp),
            ("as_of", np.full(len(touched), self.until - 1, np.int64), stamp),
        ):
            table = (
                table.append_column(name, pa.array(values).cast(kind))
                if table.num_columns
                else pa.table({name: pa.array(values).cast(kind)})
            )
        out.append(("heads", blocks.table_bytes(table)))

    def _reject(self, rows: pa.Table, reason: str, out: list[Block]) -> None:
        columns = [f.name for f in self.config.intake.fields]
        table = rejects.rejected(rows.combine_chunks(), columns, reason, self.config.intake.event_time, ORIGIN)
        out.append(("rejected", blocks.table_bytes(table)))

    def _order_columns(self) -> list[str]:
        intake = self.config.intake
        # The rest by name: their order in the spec must not matter.
        names = [*intake.tie_break, *intake.id, *([DELETES] if intake.deletes else []), *sorted(f.name for f in intake.fields)]
        return [n for n in dict.fromkeys(names) if n != intake.event_time and n not in intake.partition_by]

    # State -----------------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, bytes], list[str]]:
        """(values to write, names to drop). Small values come every time; chunks of the window once."""
        next_seq = self.keys.next_seq
        values: dict[str, bytes] = {}
        dropped: list[str] = []
        core: dict[str, Any] = {"until": self.until}
        for name, store in self._stores():
            for number, rows in store.unsaved(next_seq, self.until):
                values[f"{name}/{number}"] = blocks.table_bytes(rows)
            dropped += [f"{name}/{n}" for n in store.dropped]
            store.dropped = []
            core |= {name: [c.number for c in store.chunks], f"next_{name}": store.next_chunk}
        values["core"] = json.dumps(core).encode()
        values["keys"] = blocks.arrays_bytes(self.keys.arrays())
        if self.config.intake.partition_by and self.key_rows:
            self.key_rows = [pa.concat_tables(self.key_rows).combine_chunks()]
            values["key_rows"] = blocks.table_bytes(self.key_rows[0])
        values["pending"] = blocks.table_bytes(self.pending)
        if self.config.intake.deletes:
            values["deleted"] = blocks.arrays_bytes(self.deletions.arrays(next_seq, self.until))
        for i, node in enumerate(self.config.operators):
            # By name: queries may change places in the spec.
            values[f"retained/{node.name}"] = self.retained[i].tobytes()
            values[f"operator/{node.name}"] = blocks.arrays_bytes(self.logics[i].checkpoint())
        coded = self._coded()
        if coded:
            values["texts"] = blocks.table_bytes(self.codes.held(coded))
        return values, dropped

    def _stores(self) -> tuple[tuple[str, WindowStore], ...]:
        """What is kept, by the name of its state values."""
        return ((CHUNK, self.store),) if self.seen is self.store else ((CHUNK, self.store), (SEEN, self.seen))

    def _some(self, names: list[str]) -> pa.Schema:
        return pa.schema([self.schema.field(n) for n in names])

    def _coded(self) -> list[pa.ChunkedArray]:
        """Text columns of the rows whose codes stand in operators' own arrays."""
        found = []
        for node, at in zip(self.config.operators, self.retained, strict=True):
            names = [c.name for c in node.attributes if c.kind == "text"]
            if names and node.operator.keeps == "retained":
                rows = self.store.named(at).rows
                found += [rows[n] for n in names]
        return found

    @classmethod
    def restore(cls, config: HostConfig, number: int, read: Callable[[str], bytes | None]) -> Bucket:
        """The bucket whose values ``read`` gives by name (None: there is no such value)."""
        bucket = cls(config, number)
        core_value = read("core")
        if core_value is None:
            return bucket
        core: dict[str, Any] = json.loads(core_value)
        bucket.until = core["until"]
        bucket.keys = Keys.restore(blocks.bytes_arrays(read("keys") or b""))
        key_rows = read("key_rows")
        bucket.key_rows = [blocks.bytes_table(key_rows)] if key_rows else []
        bucket.pending = blocks.bytes_table(read("pending") or b"").select(bucket.schema.names)
        texts = read("texts")
        bucket.codes = TextCodes(config.texts, blocks.bytes_table(texts) if texts else None)
        bucket.retained = [np.frombuffer(read(f"retained/{node.name}") or b"", np.int64).copy() for node in config.operators]
        bucket.store.pins = np.concatenate(bucket.retained) if bucket.retained else np.empty(0, np.int64)
        for name, store in bucket._stores():
            store.next_chunk = core[f"next_{name}"]
            for n in core[name]:
                store.load(n, blocks.bytes_table(read(f"{name}/{n}") or b""))
        next_seq = bucket.keys.next_seq
        if bucket.ids is not None:
            seen = bucket.seen.alive(config.window, next_seq, bucket.until)
            live = np.nonzero(bucket.deletions.restore(read("deleted"), seen.at))[0]
            key, seq = split_address(seen.at[live])
            hashes = ints(seen.rows[ID_HASHES[0]])[live], ints(seen.rows[ID_HASHES[1]])[live]
            bucket.ids.load(bucket.keys, key, seq, seen.time[live], *hashes)
        held = bucket.store.alive(config.window, next_seq, bucket.until)
        for i, node in enumerate(config.operators):
            arrays = blocks.bytes_arrays(read(f"operator/{node.name}") or b"")
            kept = {"window": held, "retained": bucket.store.named(bucket.retained[i]), "none": bucket.store.named(held.at[:0])}
            bucket.logics[i] = node.operator.build(State(arrays, bucket._arrivals(kept[node.operator.keeps])))
        return bucket
