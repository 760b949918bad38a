"""Add queries to a job: backfill their states and tables beside the job from the rows that it has accepted, and swap them in.

``_skyband/added`` gets the new queries' tables, the skybands of new states, and the job file that names every bucket's new state
(``new_states``). Nothing of the job changes before the swap (``generations.swap_in``).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.base.messages import Skyband, Tally, parse_kind
from skyband.framework.base.reasons import LATE, REASON, RULE, TOO_FAR_AHEAD
from skyband.framework.base.redaction import redact_values
from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.base.table_names import every_table
from skyband.framework.console.lines import Warn, warning_to_stderr
from skyband.framework.plan.growth import Additions
from skyband.framework.plan.model import Plan
from skyband.framework.sources.files.arrow import spark_starts_for
from skyband.framework.sources.registry import source_format
from skyband.framework.spark_adapter.failures import log_file, system_failure_error
from skyband.framework.storage.delta_read import to_schema
from skyband.framework.storage.location import remove_tree
from skyband.framework.streaming.bucket.bucket_states import BucketState, States, parsed, text_of
from skyband.framework.streaming.bucket.operator_host import FIRST, OperatorHost, objects_value
from skyband.framework.streaming.bucket.sequence import Keys
from skyband.framework.streaming.bucket.state_files import StateFiles
from skyband.framework.streaming.bucket.state_names import CHUNK, JOURNAL, SEEN
from skyband.framework.streaming.bucket.store import WindowStore, distinct
from skyband.framework.streaming.job.generations import swap_in
from skyband.framework.streaming.job.layout import JobFile, Layout, cache_key, token_key
from skyband.framework.streaming.job.taken_rows import taken_rows
from skyband.framework.streaming.rebuild.backfill import Backfill, only
from skyband.framework.streaming.rebuild.new_states import as_new, of_shards, read, states_now, written
from skyband.framework.streaming.rebuild.ordered_rows import ordered_rows
from skyband.framework.streaming.rebuild.takeover import taken_over
from skyband.framework.streaming.rows import blocks
from skyband.framework.streaming.rows.columns import TextCodes
from skyband.framework.streaming.rows.config import KEY_HASHES, HostConfig
from skyband.framework.streaming.rows.outbox import Block
from skyband.framework.streaming.rows.pack import Pack
from skyband.framework.streaming.rows.shards import Shards, several
from skyband.framework.streaming.spark.log import first_cause
from skyband.framework.tables.results.derive import derive
from skyband.framework.tables.schemas import skyband_name
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.published import PUBLISHED, withdraw
from skyband.framework.tables.writing.sink import FILLED_BATCH, Sink, table_of
from skyband.framework.tables.writing.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Start = Callable[[], "SparkSession"]
"""Returns Spark's session, and starts Spark if it has none."""

# Move a bucket's state from one set of operators to another, without its input: what is removed goes, what is new is empty.
#
# The other operators keep their values byte for byte. The window's rows are written again, with the columns and the rows that the new set
# needs. Columns that rows of before lack are null in them: an operator that begins now asks for later rows only. Uses no Spark.

I64 = npt.NDArray[np.int64]
_SEQUENCER = ("keys", "key_rows", "pending", "deleted")
"""Values of a bucket's state that belong to no operator."""
_PARTS = ("operator", "retained", FIRST)
"""Values of a bucket's state that belong to one operator."""
_BYTES = "bytes"


def changed(config: HostConfig, was: Mapping[str, bytes], fresh: Collection[str]) -> dict[str, bytes]:
    """Return all values of the state that continues ``was`` with the operators of ``config``, of which those named ``fresh`` are empty.

    ``was``: the values of a state that has no journal. Raises ValueError if an operator of ``config`` is neither in it nor ``fresh``.
    O(rows of the window).
    """
    lost = [o.name for o in config.operators if o.name not in fresh and f"operator/{o.name}" not in was]
    if lost or any(name.startswith(f"{JOURNAL}/") for name in was):
        raise ValueError(f"no state of {', '.join(lost)}" if lost else "the state has a journal")
    core: dict[str, Any] = json.loads(was["core"])
    keys, until = Keys.restore(blocks.bytes_arrays(was["keys"])), int(core["until"])
    texts = blocks.bytes_table(was["texts"]) if was.get("texts") else None
    whole = OperatorHost(config, TextCodes(config.texts, texts))
    whole.retained = [np.frombuffer(was.get(f"retained/{o.name}", b"") if o.name not in fresh else b"", np.int64) for o in config.operators]
    whole._pin()
    values = {name: was[name] for name in _SEQUENCER if name in was}
    for node in config.operators:
        if node.name not in fresh:
            values |= {f"{part}/{node.name}": was[name] for part in _PARTS if (name := f"{part}/{node.name}") in was}
        elif keys.next_seq[: keys.known].any():
            values[f"{FIRST}/{node.name}"] = keys.next_seq[: keys.known].tobytes()
    values |= _begun(config, [o.name for o in config.operators if o.name in fresh])
    for named, numbers in whole.objects.items():
        name = objects_value(named)
        values[name] = was[name] if name in was else blocks.table_bytes(numbers.saved())
    rows = _rows(was, core)
    core = {k: v for k, v in core.items() if k not in (CHUNK, SEEN, f"next_{CHUNK}", f"next_{SEEN}")}
    for name, store in whole._stores():
        _load(store, rows)
        store.expire(keys.next_seq, until)
        store.rewrite()
        for number, chunk in store.unsaved(keys.next_seq, until):
            values[f"{name}/{number}"] = blocks.table_bytes(chunk)
        core |= {name: [c.number for c in store.chunks], f"next_{name}": store.next_chunk}
    coded = whole.coded({o.name: blocks.bytes_arrays(was[f"operator/{o.name}"]) for o in config.operators if o.name not in fresh})
    if coded:
        values["texts"] = blocks.table_bytes(whole.codes.held(coded))
    core[_BYTES] = sum(len(value) for name, value in values.items() if not name.startswith((f"{CHUNK}/", f"{SEEN}/")))
    return values | {"core": json.dumps(core).encode()}


def _begun(config: HostConfig, fresh: Collection[str]) -> dict[str, bytes]:
    """Return the values of operators before their first row."""
    host = OperatorHost.new(only(config, fresh))
    values: dict[str, bytes] = {}
    for node, logic in zip(host.operators, host.logics, strict=True):
        values[f"retained/{node.name}"] = b""
        values[f"operator/{node.name}"] = blocks.arrays_bytes(logic.checkpoint())
    return values


def _rows(was: Mapping[str, bytes], core: Mapping[str, Any]) -> pa.Table:
    """Return the rows that the state keeps, by address: those of the window, and the hashes of their ids where these are apart."""
    chunks, seen = ([blocks.bytes_table(was[f"{name}/{n}"]) for n in core.get(name, ())] for name in (CHUNK, SEEN))
    tables = [pa.concat_tables(parts).combine_chunks() for parts in (chunks, seen) if parts]
    if not tables:
        return pa.table({"__at": pa.array([], pa.int64()), "__time": pa.array([], pa.int64())})
    tables = [t.take(pa.array(np.argsort(t["__at"].to_numpy(), kind="stable"))) for t in tables]
    at = distinct(np.concatenate([t["__at"].to_numpy() for t in tables]))
    time = np.empty(len(at), np.int64)
    columns: dict[str, pa.ChunkedArray] = {}
    for table in tables:
        here = table["__at"].to_numpy()
        place = np.searchsorted(here, at)
        found = np.append(here, -1)[place] == at
        time[found] = table["__time"].to_numpy()[place[found]]
        index = pa.array(place, mask=~found)
        columns |= {n: table[n].take(index) for n in table.column_names if n not in ("__at", "__time")}
    return pa.table({**columns, "__at": at, "__time": time})


def _load(store: WindowStore, rows: pa.Table) -> None:
    """Give the store its columns of ``rows``: a column that is not there is null, a list of it empty."""
    made = {}
    for field in store.schema:
        if field.name in rows.column_names:
            made[field.name] = rows[field.name].cast(field.type)
        elif pa.types.is_list(field.type):
            made[field.name] = pa.chunked_array([pa.array([[]] * rows.num_rows, field.type)])
        else:
            made[field.name] = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    if rows.num_rows:
        store.load(0, pa.table({**made, "__at": rows["__at"], "__time": rows["__time"]}))
        store.chunks = []


BUCKET: Final = "__bucket"
_SENT: Final = "kind string, data binary"
_ARROW: Final = pa.schema([("kind", pa.string()), ("data", pa.binary())])
_DONE: Final = "done"
"""Kind of the message that says where a bucket's new state is."""
_FAILED: Final = "refused"
"""Kind of the message that a bucket failed, with the error as JSON."""
_ROWS: Final = 500_000
"""Number of rows of a table to write at a time."""


def add(
    start: Start, plan: Plan, layout: Layout, job: JobFile, found: Additions, local: bool = False, warn: Warn = warning_to_stderr
) -> int:  # fmt: skip
    """Backfill what ``found`` names, swap it in, and return the number of rows of the new queries' tables.

    ``local``: this process reads the rows of the source, and calls ``start`` only for files that Arrow does not read as Spark would,
    which ``warn`` reports. Only for a caller that holds the job's lock, when no batch is unfinished. The source is not read if no state
    is made from it.
    Raises SkybandError SKY-E301 if the source cannot be read again, SKY-E581 if it lacks rows that the job has accepted.
    O(rows of the source), O(bytes of the states) without it.
    """
    job = taken_over(start, layout, job, unfinished_committed=False)
    remove_tree(layout.added)
    made = Layout(str(layout.added))
    writer = writer_for(plan.sink, None if local else start())
    config = _config(plan, layout, job)
    states, files = states_now(layout, job), StateFiles(layout.state)
    shards = several(job.shards, plan.buckets)
    # Of shards, too.
    ended: dict[int, BucketState] = {}
    if found.fresh or found.removed or not found.states:
        rest, was = only(config, {o.name for o in plan.operators} - set(found.states)), states
        states = {}
        for bucket, state in was.items():
            values = changed(rest, read(layout, bucket, state), found.fresh)
            states[bucket] = written(files, bucket, values)
            ended |= {} if found.states else of_shards(files, bucket, values, shards)
    fill = Fill(config, found, layout, states, shards, _left_out(Sink(plan, writer, job.generation)))
    tables = _Tables(writer_for(str(made.root), None if local else start()), plan, job, found)
    if not found.states:
        ended |= states
    run = partial(_run_here, start, warn) if local else partial(_run, start)
    for kind, data in run(plan, layout, job, fill) if found.states else ():
        if kind == _FAILED:
            raise SkybandError(*json.loads(data))
        if kind == _DONE:
            ended |= parsed(data)
        else:
            tables.add(kind, data)
    for bucket in sorted(set(states) - set(ended)):
        # Buckets without a row that is due send nothing themselves.
        for kind, data in fill.ended(fill.begun(bucket)):
            if kind == _DONE:
                ended |= parsed(data)
            else:
                tables.add(kind, data)
    rows = tables.end(Sink(plan, writer, job.generation))
    failpoint("added.made")
    if plan.live.taken:
        named = [t for q in (*found.queries, *found.removed) for t in every_table(q)]
        published = Sink(plan, writer, job.generation).app_id(PUBLISHED)
        withdraw(writer, named, f"{published}/live", plan.live.taken)
    made.save(replace(layout.renewed(plan, job), new_states=as_new(layout, ended)))
    leaving = [skyband_name(n) for n in (*found.states, *found.gone)] + [t for q in found.removed for t in every_table(q)]
    swap_in(layout, tables.names, [n for n in leaving if (layout.root / n).exists()])
    return rows


class Fill:
    """The function for ``mapInArrow``. It takes the rows of whole buckets in the order of event times, bucket after bucket.

    It begins from the ``states`` of buckets, and writes the new ones, and those of their ``shards``, beside them.
    """

    def __init__(
        self, config: HostConfig, found: Additions, layout: Layout, states: States, shards: Shards | None, left_out: Mapping[str, int]
    ) -> None:
        self.config, self.found, self.layout, self.states, self.shards, self.left_out = config, found, layout, states, shards, left_out
        self.pack = Pack(config)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks as (kind, data)."""
        now: Backfill | None = None
        for batch in batches:
            for bucket, rows in self._by_bucket(pa.Table.from_batches([batch])):
                if now is None or now.number != bucket:
                    yield from self._sent(now)
                    now = self.begun(bucket)
                yield from _messages(now.take(rows))
        yield from self._sent(now)

    def begun(self, bucket: int) -> Backfill:
        """Return the new operators of a bucket before their first row."""
        was = read(self.layout, bucket, self.states[bucket])
        return Backfill(self.config, self.found.states, self.found.queries, bucket, was, self.left_out)

    def ended(self, fill: Backfill) -> list[Block]:
        """Write a bucket's new state. Return its last blocks, then the message that says where the state is."""
        last_blocks, values = fill.end()
        files = StateFiles(self.layout.state)
        made = {fill.number: written(files, fill.number, values), **of_shards(files, fill.number, values, self.shards)}
        return [*last_blocks, (_DONE, text_of(made).encode())]

    def _sent(self, fill: Backfill | None) -> Iterator[pa.RecordBatch]:
        if fill is None:
            return
        try:
            messages = self.ended(fill)
        except SkybandError as e:
            # Spark would wrap it into an error of its own.
            messages = [(_FAILED, json.dumps([e.code, e.message, e.hint]).encode())]
        yield from _messages(messages)

    def _by_bucket(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        rows, _ = self.pack.sort_out(table, Tally())
        if not rows.num_rows:
            return
        if self.config.buckets == 1:
            yield 0, rows
            return
        bucket = rows[KEY_HASHES[0]].to_numpy() % self.config.buckets
        cuts = [0, *(np.nonzero(np.diff(bucket))[0] + 1).tolist(), len(bucket)]
        for first, end in pairwise(cuts):
            yield int(bucket[first]), rows.slice(first, end - first)


class _Tables:
    """The tables of the added queries, which ``writer`` writes."""

    def __init__(self, writer: Writer, plan: Plan, job: JobFile, found: Additions) -> None:
        self.sink = Sink(plan, writer, job.generation)
        self.queries = tuple(q for q in plan.queries if q.name in found.queries)
        named = [n for q in self.queries for n in every_table(q.name)]
        named += [skyband_name(n) for n in (*found.states, *found.fresh)]
        self.names = [n for n in self.sink.specs if n in named]
        # The other tables are needed to derive results.
        self.sink.specs = {n: s for n, s in self.sink.specs.items() if n in (*self.names, "heads", "runs", "checks")}
        for spec in self.sink.specs.values():
            self.sink.writer.ensure(spec)
        self.waiting: dict[str, list[pa.Table]] = defaultdict(list)
        self.written: Counter[str] = Counter()
        self.rows = 0

    def add(self, kind: str, data: bytes) -> None:
        """Add a block of the new operators."""
        rows, of = blocks.bytes_table(data), parse_kind(kind)
        if isinstance(of, Skyband):
            # Wait for all buckets: some may have none.
            self.waiting[skyband_name(of.operator)].append(rows)
            return
        name = table_of(kind)
        assert name is not None
        self.rows += rows.num_rows
        self.waiting[name].append(rows.append_column("batch_id", pa.array(np.full(rows.num_rows, FILLED_BATCH, np.int64))))
        if sum(t.num_rows for t in self.waiting[name]) >= _ROWS:
            self._write(name)

    def end(self, job: Sink) -> int:
        """Write the waiting rows, and the results as of the last batch of ``job``. Return the number of rows of changes.

        Raises SkybandError SKY-E503 if a result violates an invariant.
        """
        row = job.last_runs(1)[-1]
        last = int(row["batch_id"])
        skybands = [n for n in self.waiting if n in self.names and self.sink.specs[n].partition_by == ("bucket",)]
        for name in skybands:
            rows = self._taken(name)
            buckets = pc.unique(rows["bucket"]).to_pylist()
            self.sink.writer.overwrite_partitions(name, rows, "bucket", buckets, self.sink.app_id(name), last)
        for name in list(self.waiting):
            self._write(name)
        for name in ("heads", "runs"):
            rows = job.writer.read(name) if name == "heads" else job.writer.read(name, where=pc.field("batch_id") == last)
            self.sink.writer.append(name, to_schema(rows, self.sink.specs[name].schema), self.sink.app_id(name), last)
        self.sink.plan = replace(self.sink.plan, queries=self.queries)
        derive(self.sink, last)
        broken = self.sink.writer.read("checks", ["table_name", "expectation"]).to_pylist()
        if broken:
            said = ", ".join(f"{b['table_name']} ({b['expectation']})" for b in broken[:3])
            raise SkybandError("SKY-E503", f"results of the new queries violate an invariant: {said}", hint="please report this spec")
        return self.rows

    def _taken(self, name: str) -> pa.Table:
        return pa.concat_tables([to_schema(t, self.sink.specs[name].schema) for t in self.waiting.pop(name)])

    def _write(self, name: str) -> None:
        self.written[name] += 1
        self.sink.writer.append(name, self._taken(name), f"{self.sink.app_id(name)}/filled", self.written[name])


def _messages(messages: list[Block]) -> Iterator[pa.RecordBatch]:
    for kind, data in messages:
        yield pa.RecordBatch.from_pydict({"kind": [kind], "data": [data]}, schema=_ARROW)


def _config(plan: Plan, layout: Layout, job: JobFile) -> HostConfig:
    # Neither the present row rules nor the clock apply: rows that the job has rejected are left out by their text.
    node = replace(plan.intake, rules=(), ahead_micros=None)
    return HostConfig.of(replace(plan, intake=node), (), cache_key(layout, job), token_key=token_key(layout, job))


def _run(start: Start, plan: Plan, layout: Layout, job: JobFile, fill: Fill) -> Iterator[Block]:
    """Yield every block, partition by partition."""
    from pyspark.sql import functions as F

    spark = start()
    spark.conf.set("spark.sql.shuffle.partitions", str(job.partitions))
    node = fill.config.intake
    rows = taken_rows(spark, plan, layout, job, node)
    rows = rows.where(F.col(REASON).isNull())
    key = F.pmod(F.col(KEY_HASHES[0]), F.lit(plan.buckets)) if node.partition_by else F.lit(0)
    parts = min(plan.buckets, 4 * job.partitions)
    ordered: DataFrame = rows.withColumn(BUCKET, key).repartition(parts, BUCKET).sortWithinPartitions(BUCKET, f"`{node.event_time}`")
    try:
        for row in ordered.drop(BUCKET).mapInArrow(fill, _SENT).toLocalIterator(prefetchPartitions=True):
            yield str(row["kind"]), bytes(row["data"])
    except Exception as e:  # Spark raises many types
        raise _error_of(e, plan, layout, job) from e


def _run_here(start: Start, warn: Warn, plan: Plan, layout: Layout, job: JobFile, fill: Fill) -> Iterator[Block]:
    """Yield every block of the buckets, one after the other, with the rows as this process reads them."""

    started = False

    def start_for(files: Mapping[str, str]) -> SparkSession:
        nonlocal started
        if not started:
            warn(spark_starts_for(files))
        started = True
        return start()

    rows = ordered_rows(start_for, plan, layout, job, fill.config.intake, Path(str(layout.added)) / "_skyband" / "rows")
    try:
        with raising_system_failures(layout.root):
            for batch in fill(rows):
                for row in batch.to_pylist():
                    yield row["kind"], row["data"]
    except SkybandError:
        raise
    except Exception as e:  # Spark raises many types
        if not started:
            raise
        raise _error_of(e, plan, layout, job) from e


def _error_of(e: Exception, plan: Plan, layout: Layout, job: JobFile) -> SkybandError:
    """Return the error that a user sees for an exception of Spark."""
    of_source = source_format(plan.source.format).failure(str(e), job.header, plan.source.path)
    said = f"the new queries could not be backfilled: {first_cause(redact_values(str(e)))}"
    system_error = system_failure_error(e, layout.checkpoint, log_file())
    return system_error or of_source or SkybandError("SKY-E300", said, hint=f"Spark's log is {log_file()}")


def _left_out(sink: Sink) -> dict[str, int]:
    """Return the texts of the rows that were rejected as late, as too far ahead or by a row rule, with their counts."""
    rows = sink.writer.read("rejected", ["reason", "text"])
    mine = pc.or_(pc.is_in(rows["reason"], pa.array([LATE, TOO_FAR_AHEAD])), pc.starts_with(rows["reason"], RULE))
    return dict(Counter(rows.filter(mine)["text"].to_pylist()))
