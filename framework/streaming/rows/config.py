"""The configuration that is sent to workers: the part of a plan that the host needs, without the source's options (possible secrets)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from skyband.framework.base.columns import cause, membership, sign
from skyband.framework.base.messages import COUNTS, FRONTIER, Tally
from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import IntakeNode, OperatorNode, Plan, QueryNode, StreamNode
from skyband.framework.plan.nodes import SourceClock, StatisticsNode, statistic_columns
from skyband.framework.sources.protocol import ORIGIN
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.rows.shards import Shards
from skyband.framework.streaming.rows.tokens import key_of
from skyband.operators.base import Window
from skyband.operators.shards import Share, can_be_sharded

# Columns the intake adds to the user's: event time twice over is avoided, hashes come from Spark.
CODES = pa.list_(pa.int64())
KEY_HASHES = ("__k1", "__k2")
ID_HASHES = ("__h1", "__h2")
WARNED = "__warned"
"""Column of the intake's rows, if rules have severity ``warn``: the names of those that a row breaks, separated by commas, or null."""
WATERMARK = "__watermark"
"""Column of blocks of packed rows: the latest event time of the task's rows so far that move the watermark; of rows of the control source:
the instant to which they move it."""
CAPPED = "__capped"
"""Column of blocks of rows read under caps (``sources.drop``): the instant with which a row counts for the watermark."""


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A stream that the result of query ``of`` makes up: fields as in ``StreamNode``, and the ``host`` of its queries.

    ``width``: parts of an item of the result; ``varies``: whether its value varies with time; ``carried``: columns of what varies with
    it (``ItemShape.carried``).
    """

    name: str
    of: str
    takes: Literal["entries", "members"]
    objects: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    renewed: int | None
    host: HostConfig
    width: int
    varies: bool
    carried: tuple[str, ...] = ()

    @property
    def membership(self) -> str:
        """Return the name of the column that says whether an object is in the result."""
        return membership(self.of)

    def entry_schema(self) -> pa.Schema:
        """Return the columns of rows of the stream, without the instant at which they come."""
        intake = self.host.intake
        return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in intake.fields if f.name != intake.event_time])

    def entry_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows of changes, or of points of trajectories, as rows of the stream; null is what they lack. O(rows)."""
        given = {new: rows[name] for name, new in (*self.columns, ("cause", cause(self.of))) if name in rows.column_names}
        given[sign(self.of)] = rows["change"] if "change" in rows.column_names else pa.chunked_array([pa.repeat("+", rows.num_rows)])
        schema = self.entry_schema()
        return pa.table([given[f.name].cast(f.type) if f.name in given else pa.nulls(rows.num_rows, f.type) for f in schema], schema=schema)


@dataclass(frozen=True, slots=True)
class HostConfig:
    """``finishes``: (Spark's watermark in ms, F in microseconds) of the job's finishes; ``cache_key`` names the checkpoint.

    ``threads``: those that operators may work with; where there are several buckets, each has a core. ``token_key``: 16 characters that
    key the codes of tokens (``rows.tokens``).
    ``together``: the rows of several sources that are there now are one unit, in which no source is idle.
    ``recorded``: the file of rows that an earlier generation rejected as too far ahead, if there is one (``rows.instants.ahead``).
    ``shards``: those that search for the pairs of buckets, None if buckets do it themselves. ``share``: for the shard that this is for.
    ``streams``: what results make up for further queries; ``taken``: the queries whose results are taken.
    """

    intake: IntakeNode
    window: Window
    operators: tuple[OperatorNode, ...]
    queries: tuple[QueryNode, ...]
    texts: tuple[str, ...]
    buckets: int
    finishes: tuple[tuple[int, int], ...]
    cache_key: str
    token_key: str
    threads: int = 1
    statistics: tuple[StatisticsNode, ...] = ()
    together: bool = False
    recorded: str | None = None
    shards: Shards | None = None
    share: Share | None = None
    streams: tuple[StreamConfig, ...] = ()
    taken: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, plan: Plan, finishes: tuple[tuple[int, int], ...], cache_key: str, cores: int = 1, token_key: str | None = None
    ) -> HostConfig:
        """Return the part of ``plan`` for hosts with ``cores`` cores. ``token_key`` defaults to one made of ``cache_key``."""
        queries = tuple(replace(q, asked=()) for q in plan.queries)
        threads = cores if plan.buckets == 1 else 1
        made = cls(
            plan.intake, plan.window, plan.operators, queries, plan.texts, plan.buckets, finishes, cache_key,
            token_key or key_of(cache_key), threads, plan.statistics, taken=frozenset(s.of for s in plan.streams),
        )  # fmt: skip
        return replace(made, streams=tuple(made._stream(plan, node) for node in plan.streams)) if plan.streams else made

    def _stream(self, plan: Plan, node: StreamNode) -> StreamConfig:
        """Return the configuration of a stream of results, whose rows have no ids to check."""
        own = node.plan
        host = replace(
            self, intake=replace(own.intake, unique="assumed"), window=own.window, operators=own.operators,
            queries=tuple(replace(q, asked=()) for q in own.queries), texts=own.texts, statistics=(),
        )  # fmt: skip
        item = next(q.item for q in plan.every_query if q.name == node.of)
        varies, carried = item.varies and not item.moves, tuple(c.name for c in item.carried)
        width = len(item.parts)
        return StreamConfig(node.name, node.of, node.takes, node.objects, node.columns, node.renewed, host, width, varies, carried)

    def of_shard(self, number: int) -> HostConfig:
        """Return the configuration of shard ``number`` of every bucket: the operators that it searches for, and no queries."""
        assert self.shards is not None
        operators = tuple(node for node in self.operators if can_be_sharded(node.operator))
        return replace(self, operators=operators, queries=(), streams=(), taken=frozenset(), share=Share(number, self.shards.of), threads=1)

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all shards, then of all buckets."""
        if self.shards is not None:
            yield from self.shards.numbers()
        yield from range(self.buckets)

    def bucket_of(self, number: int) -> int:
        """Return the bucket of a number: its own, or that of a shard."""
        return number if number >= 0 or self.shards is None else self.shards.place(number)[0]

    def shard_of(self, number: int) -> int:
        """Return the shard of a shard's number."""
        assert self.shards is not None
        return self.shards.place(number)[1]

    @property
    def merges(self) -> bool:
        """Return whether this is for a bucket that takes pairs which shards have found."""
        return self.shards is not None and self.share is None and any(can_be_sharded(node.operator) for node in self.operators)

    def frontier_count(self, watermark_ms: int) -> Block:
        """Return the message to the driver that says how far a batch has come."""
        frontier = self.frontier(watermark_ms)
        return COUNTS, Tally({} if frontier is None else {FRONTIER: frontier}).message()

    @property
    def clocks(self) -> tuple[SourceClock, ...]:
        """Return how each of several sources moves the watermark."""
        return tuple(replace(c, idle_micros=None) for c in self.intake.sources) if self.together else self.intake.sources

    def row_schema(self) -> pa.Schema:
        """Return the schema of rows from intake to host: all columns, then hashes, the origin and sets of tokens."""
        fields = [pa.field(f.name, arrow_type(f.type)) for f in self.intake.fields]
        if self.intake.partition_by:
            fields += [pa.field(n, pa.int64()) for n in KEY_HASHES]
        if self.intake.unique == "checked":
            fields += [pa.field(n, pa.int64()) for n in ID_HASHES]
        fields.append(pa.field(ORIGIN, pa.string()))
        fields += [pa.field(t.codes, CODES) for t in self.intake.tokens]
        return pa.schema(fields)

    def host_schema(self) -> pa.Schema:
        """Return the schema of rows from the sequencer to the operators: with their statistics."""
        return pa.schema([*self.row_schema(), *(pa.field(c, pa.float64()) for c in statistic_columns(self.statistics))])

    def kept_columns(self) -> list[str]:
        """Return the columns of rows that the host keeps: ids, carried columns, columns of operators and statistics."""
        names = list(self.intake.id)
        for q in self.queries:
            names += q.carry if q.written is None else q.written
        for node in self.operators:
            names += [source for c in node.attributes for source in c.sources]
            if node.operator.keeps != "none":
                names += [c for named in node.objects for c in named]
                names += [source for c in node.ragged for source in c.sources]
        names += [c for node in self.statistics for c in node.reads]
        return list(dict.fromkeys(names))

    def frontier(self, watermark_ms: int) -> int | None:
        """Return F in microseconds for Spark's watermark (None: none yet)."""
        return frontier_at(watermark_ms, self.finishes)


def frontier_at(watermark_ms: int, finishes: Iterable[Sequence[int]]) -> int | None:
    """Return F in microseconds for Spark's watermark (None: none yet).

    ``finishes``: pairs of Spark's watermark in ms and F. F of a finish is exact although Spark counts in ms.
    """
    if watermark_ms <= 0:
        return None
    return max((f for w, f in finishes if w == watermark_ms), default=watermark_ms * 1000)
