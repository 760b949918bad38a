"""Backfill operators that were added to a bucket: run them alone over all rows that the bucket has accepted.

The rows are read again from the source, in the order of event times, up to the end of the bucket's state. They get the sequence numbers of
their keys again. The states of the other operators stay unchanged. The window's rows are rewritten with the columns and rows that the new
operators need in addition. Uses no Spark.
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
from skyband.framework.base.messages import Changes, FinalResults, Skyband, Trajectory, parse_kind
from skyband.framework.plan.growth import holds_codes
from skyband.framework.streaming.bucket.operator_host import FIRST, OperatorHost, Others, objects_value
from skyband.framework.streaming.bucket.sequence import Keys
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.bucket.state_names import CHUNK, SEEN
from skyband.framework.streaming.bucket.statistics import RowStatistics
from skyband.framework.streaming.bucket.store import distinct, split_address
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block, Outbox
from skyband.framework.streaming.rows.rejects import json_rows

I64 = npt.NDArray[np.int64]

_SEQUENCER = ("keys", "key_rows", "pending", "deleted")
"""Values of a bucket's state that belong to no operator."""


class Backfill:
    """Runs the operators ``states`` of bucket ``number``, whose former state is ``was``, and emits the changes of ``queries``.

    ``left_out``: the texts of rows in table ``rejected`` that the job could read and yet rejected, with their counts; not changed.
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
        self.statistics = RowStatistics(config)
        self.former_texts = self._texts()
        codes = TextCodes(config.texts, self.former_texts)
        whole = OperatorHost(config, codes)
        self.host = OperatorHost(only(config, states), codes)
        # The rows are shared by all operators of the bucket.
        self.host.store, self.host.seen, self.host.hashes = whole.store, whole.seen, whole.hashes
        self.host.others = self._others()
        self.host.store.noting = self.host.seen.noting = False
        self.host.begin()
        self.waiting = self.sequencer.schema.empty_table()

    def take(self, rows: pa.Table) -> list[Block]:
        """Return the blocks of further rows (``HostConfig.row_schema``), none earlier than those before."""
        rows = self._accepted(rows.select(self.sequencer.schema.names).cast(self.sequencer.schema))
        rows = pa.concat_tables([self.waiting, rows])
        if not rows.num_rows:
            return []
        time = rows[self.config.intake.event_time].cast(pa.int64())
        # Rows of one instant are processed together.
        last = int(pc.max(time).as_py())
        now = pc.less(time, last)
        self.waiting = rows.filter(pc.invert(now)).combine_chunks()
        return self._run(rows.filter(now), last)

    def end(self) -> tuple[list[Block], dict[str, bytes]]:
        """Return (the last blocks, with whole skybands; all values of the bucket's new state).

        Raises SkybandError SKY-E581 if the rows differ from those that the bucket has accepted.
        """
        last_blocks = self._run(self.waiting, self.until)
        self._check_rows()
        host, next_seq = self.host, self.sequencer.keys.next_seq
        out = Outbox()
        for i, node in enumerate(host.operators):
            # A bucket without rows has no skyband.
            if node.skyband and next_seq.any():
                table = host.items.skyband(i, host.logics[i].skyband(), host.store, self.sequencer.key_values, self.number)
                out.put(Skyband(node.name, self.number).kind, table)
        for store in {id(s): s for s in (host.store, host.seen)}.values():
            store.expire(next_seq, self.until)
            store.rewrite()
        core = {k: v for k, v in self.core.items() if k not in (CHUNK, SEEN, f"next_{CHUNK}", f"next_{SEEN}")}
        made, _ = host.save(core, next_seq, self.until)
        values = {name: value for name, value in self.was.items() if self._stays(name)} | made | {"core": json.dumps(core).encode()}
        if self.former_texts is not None:
            values["texts"] = blocks.table_bytes(host.codes.held([*host.coded(host.checkpoints()), self.former_texts["value"]]))
        return last_blocks + out.blocks, values

    def _run(self, rows: pa.Table, limit: int) -> list[Block]:
        out = Outbox()
        self.statistics.tidy(self.host.store, self.sequencer)
        taken = self.statistics.added(self.sequencer.sequence(rows, self.host.codes, out))
        self.host.run(taken, limit, self.sequencer.key_values, self.number, out, whole=True)
        self.sequencer.until = limit
        for store in (self.host.store, self.host.seen):
            store.expire(self.sequencer.keys.next_seq, limit)
        return [(kind, data) for kind, data in out.blocks if self._is_new(kind)]

    def _is_new(self, kind: str) -> bool:
        """Return whether a block belongs to an added query."""
        match parse_kind(kind):
            case Changes(query) | Trajectory(query) | FinalResults(query):
                return query in self.queries
        return False

    def _accepted(self, rows: pa.Table) -> pa.Table:
        """Return ``rows`` before the end of the bucket's state, without those left out."""
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
        """Return whether a value of the state stays unchanged."""
        what, _, of = name.partition("/")
        return name in _SEQUENCER or (what in ("operator", "retained", FIRST) and of in [n.name for n in self.kept]) or what == "objects"

    def _texts(self) -> pa.Table | None:
        """Return the texts whose codes the remaining operators may have stored."""
        texts = self.was.get("texts") if any(holds_codes(node) for node in self.kept) else None
        return blocks.bytes_table(texts) if texts else None

    def _others(self) -> Others:
        """Return the rows and objects that the remaining operators need. Their objects keep their numbers."""
        rows = [np.frombuffer(self.was.get(f"retained/{node.name}", b""), np.int64) for node in self.kept]
        objects = {}
        for named in dict.fromkeys(n for node in self.kept for n in node.objects):
            if named in self.host.objects:
                self.host.objects[named].restore(blocks.bytes_table(self.was[objects_value(named)]))
                objects[named] = self.host.objects[named].numbers
        return Others(distinct(np.concatenate([np.empty(0, np.int64), *rows])), objects)

    def _check_rows(self) -> None:
        """Raise SkybandError SKY-E581 if keys, numbers, instants or ids differ from those of the state."""
        was, now = Keys.restore(blocks.bytes_arrays(self.was["keys"])), self.sequencer.keys
        n = was.known
        accepted, found = int(was.next_seq[:n].sum()), int(now.next_seq[: now.known].sum())
        if now.known != n or any((a[:n] != b[:n]).any() for a, b in ((was.next_seq, now.next_seq), (was.last_time, now.last_time))):
            raise _other_rows(f"it now has {counted(found, 'row')}, but the job has accepted {accepted:,}")
        for name, value in self.was.items():
            if name.startswith(f"{CHUNK}/") and not self._has(blocks.bytes_table(value)):
                raise _other_rows("ids or times of rows differ from those that the job has accepted")

    def _has(self, rows: pa.Table) -> bool:
        """Return whether the rows of the state's window that are still needed were read again."""
        # A row from before a query began from now on may lack columns (``transition``), ids too.
        rows = rows.filter(pc.is_valid(rows[self.config.intake.id[0]]))
        store, at = self.host.store, rows["__at"].to_numpy()
        found = store.has(*split_address(at))
        mine = rows.filter(pa.array(found))
        again, time = store.take(*split_address(at[found]))
        ids = list(self.config.intake.id)
        return bool((time == mine["__time"].to_numpy()).all()) and again.select(ids).equals(mine.select(ids).cast(again.select(ids).schema))


def _sequencer(config: HostConfig, was: Mapping[str, bytes]) -> Sequencer:
    """Return a sequencer before the first row, with the keys and their numbers."""
    sequencer = Sequencer(config)
    keys = blocks.bytes_arrays(was["keys"])
    sequencer.keys = Keys.restore(keys | {name: np.zeros_like(keys[name]) for name in ("next_seq", "last_time")})
    key_rows = was.get("key_rows")
    sequencer.key_rows = [blocks.bytes_table(key_rows)] if key_rows else []
    return sequencer


def only(config: HostConfig, states: Collection[str]) -> HostConfig:
    """Return ``config`` with only the operators ``states``."""
    mine = [i for i, node in enumerate(config.operators) if node.name in states]
    queries = tuple(replace(q, operator=mine.index(q.operator)) for q in config.queries if q.operator in mine)
    return replace(config, operators=tuple(config.operators[i] for i in mine), queries=queries)


def _other_rows(said: str) -> SkybandError:
    hint = "run skyband rebuild SPEC without --added to rebuild everything from the present source"
    return SkybandError("SKY-E581", f"the source no longer has the rows that the job has read: {said}", hint=hint)
