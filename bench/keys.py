"""The cost of a batch by the number of keys that a bucket holds, without Spark: 1,000 rows over a random thousand of the keys.

A bucket runs as in a job, with its state written after every batch, in a process of its own per row. Every key holds a full window of
``HELD`` rows before the clock starts, and batches run from a whole state to another, at least ``BATCHES``. Figures are CPU time per row, in
all and by part (``parts_ns``):

- ``sequencing``: decode, order and number the rows, check their ids, make the rows of ``heads``
- ``kernel``: the operator's algorithm
- ``store``: add the rows to the window's
- ``changes``: the rows of changes, and the list of the rows that must be kept
- ``skyband``: the rows of the skyband's table
- ``state``: encode the state, and write what differs to files
- ``rest``: decide when the bucket runs next, and what is left

Peers: the same rows with all of them in ``one_key``, and in ``thousand_keys`` that are all there is. ``written`` is the bytes of state
that a batch writes (the values that differ, without the list that names them), ``skyband_bytes`` the size of the skyband's block. Memory
is resident memory after the windows are full, less that before. ``SKYBAND_BENCH_HELD_KEYS`` lists numbers of keys, separated by commas.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.base.messages import ROWS, Skyband
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import validate_file
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.bucket_states import BucketState, parsed
from skyband.framework.streaming.bucket.calls import Call, HeldBuckets, Watermarks
from skyband.framework.streaming.bucket.item_rows import ItemRows
from skyband.framework.streaming.bucket.operator_host import OperatorHost
from skyband.framework.streaming.bucket.sequencer import Sequencer
from skyband.framework.streaming.bucket.state_files import BucketFiles, StateFiles
from skyband.framework.streaming.bucket.store import WindowStore
from skyband.framework.streaming.rows.blocks import table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Outbox

KEYS = tuple(int(n) for n in os.environ.get("SKYBAND_BENCH_HELD_KEYS", "10000,100000,1000000").split(","))
BATCH, HELD, WARM, BATCHES = 1000, 4, 3, 50
ENOUGH = 10_000
"""The keys from which the memory of a process says how much a key takes."""
START, STEP = 1_600_000_000_000_000, 1000
"""The first row's time and the time between rows, in microseconds."""
COLUMNS = ("operator", "params", "cpu_ns_per_event", "parts_ns", "written", "skyband_bytes", "memory_per_key", "peers")
"""The fields that are printed; the lines of the file have all."""

QUERIES = {
    "topk": ("{expression: x, direction: max}", "{type: topk, scoring: one, k: 2}"),
    "topk_pairs": ('{expression: "abs(a.x - b.x)", direction: min}', "{type: topk_pairs, scoring: one, k: 2}"),
}
SPEC = """\
job: keys
source:
  format: csv
  path: in
  schema: {{id: bigint, ts: timestamp, grp: bigint, x: double}}
  id: [id]
  event_time: {{column: ts, watermark: 0 seconds}}
  partition_by: [grp]
window: {{count: {held}}}
scoring:
  one: {scoring}
queries:
  best: {query}
sink: {{path: out}}
"""

I64 = npt.NDArray[np.int64]


class Parts:
    """Nanoseconds of CPU time by part. A call inside another part's call counts for its own part only."""

    def __init__(self) -> None:
        self.ns: dict[str, int] = {}
        self._open = ["rest"]
        self._since = time.process_time_ns()

    def _turn(self) -> None:
        now = time.process_time_ns()
        self.ns[self._open[-1]] = self.ns.get(self._open[-1], 0) + now - self._since
        self._since = now

    def start(self) -> None:
        """Forget the times so far."""
        self.ns = {}
        self._since = time.process_time_ns()

    def stop(self) -> dict[str, int]:
        """Return the times since ``start``."""
        self._turn()
        return self.ns

    def timed(self, function: Callable[..., Any], part: Callable[..., str]) -> Callable[..., Any]:
        """Return ``function`` with its calls timed; ``part`` names the part of a call from its arguments."""

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            self._turn()
            self._open.append(part(*args))
            try:
                return function(*args, **named)
            finally:
                self._turn()
                self._open.pop()

        return call


class Sizes:
    """Notes the sizes of the values of a bucket's state, and the bytes written so far, as ``put`` and ``drop`` of its files are called."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.written = 0
        self.whole = False
        """Whether the whole state has been written since this was last set to False."""

    def noting(self, stack: ExitStack) -> None:
        """Note all calls until ``stack`` is closed."""
        put, drop = BucketFiles.put, BucketFiles.drop

        def noted_put(files: BucketFiles, name: str, value: bytes) -> None:
            kept = files.large.get(name)
            put(files, name, value)
            self.sizes[name] = len(value)
            # A large value that has not changed keeps its file.
            if kept is None or files.large.get(name) != kept:
                self.written += len(value)
            self.whole |= name == "core"

        def noted_drop(files: BucketFiles, name: str) -> None:
            drop(files, name)
            self.sizes.pop(name, None)

        stack.enter_context(patch.object(BucketFiles, "put", noted_put))
        stack.enter_context(patch.object(BucketFiles, "drop", noted_drop))


def plan_of(operator: str) -> Plan:
    """Return the plan of a job with one query of ``operator``."""
    scoring, query = QUERIES[operator]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "spec.yaml"
        path.write_text(SPEC.format(held=HELD, scoring=scoring, query=query))
        job, errors = validate_file(str(path), {})
    assert job is not None and not errors, [e.render() for e in errors]
    return compile_job(job)


def mixed(values: I64, seed: int) -> I64:
    """Return hashes of ``values`` (splitmix64), as the intake gives them."""
    z = values.astype(np.uint64) * np.uint64(2) + np.uint64(seed)
    z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)


class Feed:
    """Makes batches of rows with new ids, in order of time."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows = 0
        self.rng = np.random.default_rng(1)

    def block(self, key: I64) -> tuple[bytes, Watermarks]:
        """Return a block with a row for each of ``key``, and the watermarks of its batch."""
        ids = np.arange(self.rows, self.rows + len(key))
        before = (START + STEP * (self.rows - 1)) // 1000 if self.rows else 0
        self.rows += len(key)
        watermarks = Watermarks(before, (START + STEP * (self.rows - 1)) // 1000)
        columns = {
            "id": pa.array(ids), "ts": pa.array(START + STEP * ids).cast(pa.timestamp("us", "UTC")), "grp": pa.array(key),
            "x": pa.array(self.rng.random(len(key))), "__k1": pa.array(mixed(key, 0)), "__k2": pa.array(mixed(key, 1)),
            "__h1": pa.array(mixed(ids, 0)), "__h2": pa.array(mixed(ids, 1)), "__origin": pa.nulls(len(key), pa.string()),
        }  # fmt: skip
        return table_bytes(pa.table(columns).select(self.schema.names).cast(self.schema)), watermarks


def methods(bucket: Bucket) -> list[tuple[type, str, str]]:
    """The timed methods, with the parts they belong to."""
    logic = type(bucket.host.logics[0])
    return [
        *((Sequencer, name, "sequencing") for name in ("due_rows", "sequence", "close")),
        *((logic, name, "kernel") for name in ("advance", "wake", "retained")),
        (WindowStore, "append", "store"), (OperatorHost, "run", "changes"),
        (logic, "skyband", "skyband"), (ItemRows, "skyband", "skyband"), (Bucket, "save", "state"),
        *((BucketFiles, name, "state") for name in ("put", "drop", "save")),
    ]  # fmt: skip


def resident() -> int:
    """Return this process's resident memory in bytes."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(operator: str, keys: int, least: int) -> dict[str, Any]:
    """Fill the windows of ``keys`` keys, then run at least ``least`` batches, the last of which writes the whole state."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        return _measured(operator, keys, least, StateFiles(Path(directory)), stack)


def _measured(operator: str, keys: int, least: int, files: StateFiles, stack: ExitStack) -> dict[str, Any]:
    before = resident()
    config = HostConfig.of(plan_of(operator), (), "bench")
    held, sizes, feed = HeldBuckets(config, files), Sizes(), Feed(config.row_schema())
    sizes.noting(stack)
    parts, skyband = Parts(), Skyband(config.operators[0].name, 0).kind
    put, rng = Outbox.put, np.random.default_rng(2)
    shown: list[int] = []
    state: BucketState | None = None

    def batch(key: I64, flush: bool = False) -> tuple[float, float]:
        nonlocal state
        data, watermarks = feed.block(key)
        parts.start()
        cpu, wall = time.process_time(), time.perf_counter()
        blocks = list(held.run(Call(0, state, [(ROWS, data)], flush=flush), watermarks))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        parts.stop()
        state = parsed(blocks[-1][1])[0]
        files.collect([{0: state.token}])
        shown.append(sum(len(block) for kind, block in blocks if kind == skyband))
        return cpu, wall

    def touched() -> I64:
        return rng.choice(keys, BATCH, replace=False) if keys >= BATCH else rng.integers(0, keys, BATCH)

    for _ in range(HELD):
        batch(rng.permutation(keys))
    memory = resident() - before
    for owner, name, part in methods(Bucket(config, 0)):
        stack.enter_context(patch.object(owner, name, parts.timed(getattr(owner, name), lambda *_, part=part: part)))
    stack.enter_context(patch.object(Outbox, "put", parts.timed(put, lambda _, kind, __: "skyband" if kind == skyband else "changes")))
    for n in range(WARM):
        batch(touched(), flush=n == WARM - 1)
    cpu = wall = 0.0
    ns: dict[str, int] = {}
    written, shown[:] = sizes.written, []
    batches = 0
    while batches < least or not sizes.whole:
        sizes.whole = False
        c, w = batch(touched())
        batches += 1
        cpu, wall = cpu + c, wall + w
        for part, n in parts.ns.items():
            ns[part] = ns.get(part, 0) + n
    rows = batches * BATCH
    order = ("kernel", "sequencing", "store", "changes", "skyband", "state", "rest")
    return {
        "operator": operator, "params": {"keys": keys, "held": HELD, "batch": BATCH, "batches": batches},
        "cpu_ns_per_event": cpu / rows * 1e9, "wall_ns_per_event": wall / rows * 1e9,
        "parts_ns": {part: ns.get(part, 0) / rows for part in order},
        "written": round((sizes.written - written) / batches), "state": sum(sizes.sizes.values()),
        "skyband_bytes": round(sum(shown) / batches),
    } | ({"memory_per_key": memory / keys, "memory_per_row": memory / (HELD * keys)} if keys >= ENOUGH else {})  # fmt: skip


def measured_alone(operator: str, keys: int) -> dict[str, Any]:
    """Return ``measured`` of a process that has loaded the code and the kernels."""
    measured(operator, BATCH, 1)
    return measured(operator, keys, BATCHES)


def run() -> Iterator[dict[str, Any]]:
    """Measurements: both operators with one key, a thousand, and ``KEYS``."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as pool:
        for operator in QUERIES:
            peers: dict[str, float] = {}
            for keys, name in ((1, "one_key"), (BATCH, "thousand_keys"), *((n, "") for n in KEYS)):
                row = pool.submit(measured_alone, operator, keys).result()
                yield row | {"peers": dict(peers)}
                if name:
                    peers[name] = row["cpu_ns_per_event"]
