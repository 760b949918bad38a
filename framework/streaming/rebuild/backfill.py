"""Operators that have come to a bucket, run alone over all rows that it has accepted: what they tell, and its new state.

The rows come again from the source, in the order of their times. They are put in order and numbered anew, by the keys' own numbers, and
end where the bucket's state does; what the other operators keep stays as it is. The window's rows are written anew: with the columns, and
the rows, that the new operators need besides. Knows nothing of Spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import Changes, Skyband, Trajectory, parse_kind
from skyband.framework.plan.additions import holds_codes
from skyband.framework.streaming.bucket.operator_host import CHUNK, SEEN, OperatorHost, Others, objects_value
from skyband.framework.streaming.bucket.sequence import Keys
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.bucket.store import distinct, split_address
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block, Outbox
from skyband.framework.streaming.rows.rejects import json_rows

I64 = npt.NDArray[np.int64]

_SEQUENCER = ("keys", "key_rows", "pending", "deleted")
"""Values of a bucket's state that no operator has a part in."""


class Backfill:
    """The operators ``states`` of bucket ``number``, whose state of before is ``was``; what they tell of ``queries`` is told.

    ``left_out``: texts, as table ``rejected`` has them, of rows that the job has rejected although they could be read, each as often as it
    has; not to be changed.
    """

    def __init__(
        self, config: HostConfig, states: Collection[str], queries: Collection[str], number: int, was: Mapping[str, bytes],
        left_out: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.config, self.number, self.was, self.queries = config, number, was, queries
        self.left_out = Counter(left_out)
        self.core = json.loads(was["core"])
        self.until = int(self.core["until"])
        self.kept = [node for node in config.operators if node.name not in states]
        self.sequencer = _sequencer(config, was)
        self.held = self._texts()
        codes = TextCodes(config.texts, self.held)
        whole = OperatorHost(config, codes)
        self.host = OperatorHost(_only(config, states), codes)
        # The rows are the whole bucket's.
        self.host.store, self.host.seen, self.host.hashes = whole.store, whole.seen, whole.hashes
        self.host.others = self._others()
        self.host.store.noting = self.host.seen.noting = False
        self.host.begin()
        self.waiting = self.sequencer.schema.empty_table()

    def take(self, rows: pa.Table) -> list[Block]:
        """The blocks of further rows (``HostConfig.row_schema``), none earlier than those before: cut anywhere."""
        rows = self._accepted(rows.select(self.sequencer.schema.names).cast(self.sequencer.schema))
        rows = pa.concat_tables([self.waiting, rows])
        if not rows.num_rows:
            return []
        time = rows[self.config.intake.event_time].cast(pa.int64())
        # Rows of one instant belong together.
        last = int(pc.max(time).as_py())
        now = pc.less(time, last)
        self.waiting = rows.filter(pc.invert(now)).combine_chunks()
        return self._run(rows.filter(now), last)

    def end(self) -> tuple[list[Block], dict[str, bytes]]:
        """(the last blocks, with every skyband whole, all values of the bucket's new state).

        Raises SkybandError SKY-E581 if the rows were not those that the bucket has accepted.
        """
        told = self._run(self.waiting, self.until)
        self._same_rows()
        host, next_seq = self.host, self.sequencer.keys.next_seq
        out = Outbox()
        for i, node in enumerate(host.operators):
            # Before its first row a bucket has none.
            if node.skyband and next_seq.any():
                table = host.items.skyband(i, host.logics[i].skyband(), host.store, self.sequencer.key_values, self.number)
                out.put(Skyband(node.name, self.number).kind, table)
        for store in {id(s): s for s in (host.store, host.seen)}.values():
            store.expire(next_seq, self.until)
            store.rewrite()
        core = {k: v for k, v in self.core.items() if k not in (CHUNK, SEEN, f"next_{CHUNK}", f"next_{SEEN}")}
        made, _ = host.save(core, next_seq, self.until)
        values = {name: value for name, value in self.was.items() if self._stays(name)} | made | {"core": json.dumps(core).encode()}
        if self.held is not None:
            values["texts"] = blocks.table_bytes(host.codes.held([*host.coded(), self.held["value"]]))
        return told + out.blocks, values

    def _run(self, rows: pa.Table, limit: int) -> list[Block]:
        out = Outbox()
        taken = self.sequencer.sequence(rows, self.host.codes, out)
        self.host.run(taken, limit, self.sequencer.key_values, self.number, out)
        self.sequencer.until = limit
        for store in (self.host.store, self.host.seen):
            store.expire(self.sequencer.keys.next_seq, limit)
        return [(kind, data) for kind, data in out.blocks if self._told(kind)]

    def _told(self, kind: str) -> bool:
        match parse_kind(kind):
            case Changes(query) | Trajectory(query):
                return query in self.queries
        return False

    def _accepted(self, rows: pa.Table) -> pa.Table:
        """``rows`` before the end of the bucket's state, less those left out."""
        rows = rows.filter(pc.less(rows[self.config.intake.event_time].cast(pa.int64()), self.until))
        if not self.left_out or not rows.num_rows:
            return rows
        keep = np.ones(rows.num_rows, bool)
        texts = json_rows(rows.select([f.name for f in self.config.intake.fields]).combine_chunks())
        for i in np.nonzero(pc.is_in(texts, value_set=pa.array(list(self.left_out), pa.string())).to_numpy(zero_copy_only=False))[0]:
            text = texts[int(i)].as_py()
            keep[i] = not self.left_out[text]
            self.left_out[text] -= not keep[i]
        return rows.filter(pa.array(keep))

    def _stays(self, name: str) -> bool:
        """Whether a value of the state is not touched."""
        what, _, of = name.partition("/")
        return name in _SEQUENCER or (what in ("operator", "retained") and of in [n.name for n in self.kept]) or what == "objects"

    def _texts(self) -> pa.Table | None:
        """The texts whose codes operators that stay may hold."""
        texts = self.was.get("texts") if any(holds_codes(node) for node in self.kept) else None
        return blocks.bytes_table(texts) if texts else None

    def _others(self) -> Others:
        """What the operators that stay need; the objects that they know keep their numbers."""
        rows = [np.frombuffer(self.was.get(f"retained/{node.name}", b""), np.int64) for node in self.kept]
        objects = {}
        for named in dict.fromkeys(n for node in self.kept for n in node.objects):
            if named in self.host.objects:
                self.host.objects[named].restore(blocks.bytes_table(self.was[objects_value(named)]))
                objects[named] = self.host.objects[named].numbers
        return Others(distinct(np.concatenate([np.empty(0, np.int64), *rows])), objects)

    def _same_rows(self) -> None:
        """SkybandError SKY-E581 if keys, numbers, instants or ids are not those of the state."""
        was, now = Keys.restore(blocks.bytes_arrays(self.was["keys"])), self.sequencer.keys
        n = was.known
        accepted, found = int(was.next_seq[:n].sum()), int(now.next_seq[: now.known].sum())
        if now.known != n or any((a[:n] != b[:n]).any() for a, b in ((was.next_seq, now.next_seq), (was.last_time, now.last_time))):
            raise _other_rows(f"it now has {counted(found, 'row')} where the job has accepted {accepted:,}")
        for name, value in self.was.items():
            if name.startswith(f"{CHUNK}/") and not self._has(blocks.bytes_table(value)):
                raise _other_rows("ids or times of rows are not those that the job has accepted")

    def _has(self, rows: pa.Table) -> bool:
        """Whether rows of the state's window, as far as they are still needed, came again."""
        store, at = self.host.store, rows["__at"].to_numpy()
        there = store.has(*split_address(at))
        mine = rows.filter(pa.array(there))
        again, time = store.take(*split_address(at[there]))
        ids = list(self.config.intake.id)
        return bool((time == mine["__time"].to_numpy()).all()) and again.select(ids).equals(mine.select(ids).cast(again.select(ids).schema))


def _sequencer(config: HostConfig, was: Mapping[str, bytes]) -> Sequencer:
    """The sequencer before the first row, which knows the keys by the numbers that they have."""
    sequencer = Sequencer(config)
    keys = blocks.bytes_arrays(was["keys"])
    sequencer.keys = Keys.restore(keys | {name: np.zeros_like(keys[name]) for name in ("next_seq", "last_time")})
    key_rows = was.get("key_rows")
    sequencer.key_rows = [blocks.bytes_table(key_rows)] if key_rows else []
    return sequencer


def _only(config: HostConfig, states: Collection[str]) -> HostConfig:
    """``config`` with some of its operators."""
    mine = [i for i, node in enumerate(config.operators) if node.name in states]
    queries = tuple(replace(q, operator=mine.index(q.operator)) for q in config.queries if q.operator in mine)
    return replace(config, operators=tuple(config.operators[i] for i in mine), queries=queries)


def _other_rows(said: str) -> SkybandError:
    hint = "skyband rebuild SPEC (without --added) makes everything anew from what the source has now"
    return SkybandError("SKY-E581", f"the source no longer gives the rows that the job was made of: {said}", hint=hint)
