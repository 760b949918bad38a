"""The journal of a bucket: what its entries are, when a batch goes to it, and what is deferred meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.messages import COUNTS, DEFERRED, Tally
from skyband.framework.streaming.bucket import bucket as bucket_module
from skyband.framework.streaming.bucket.bucket import BATCH, ENTRIES, LEAST, SHARE, Bucket, Entry, Journal, entries
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.rows.outbox import Block
from tests.framework.streaming.bucket.test_bucket import SPEC, keeping_a_journal, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of


def block(rows: int) -> bytes:
    return table_bytes(pa.table({"x": list(range(rows))}))


@pytest.mark.parametrize(("late", "frontier"), [(None, None), (0, None), (None, 0), (-5, 7), (1 << 60, 1 << 61)])
@pytest.mark.parametrize("sizes", [[], [0], [3, 1, 700]])
def test_an_entry_comes_back_as_it_was(sizes: list[int], late: int | None, frontier: int | None) -> None:
    written = Journal()
    written.note(Entry([pa.py_buffer(block(n)) for n in sizes], late, frontier))
    written.note(Entry([], 7, None))
    values = written.unsaved()
    first, second = entries(values.get)
    assert [bytes(b) for b in first.data] == [block(n) for n in sizes] and (first.late, first.frontier) == (late, frontier)
    assert second == Entry([], 7, None) and first.size == BATCH < Entry([block(BATCH // 8), block(1)], None, None).size
    assert written.names() == list(values) == ["journal/0", "journal/1"] and written.unsaved() == {}


def former(data: list[bytes], frontier: int | None, found: list[bytes]) -> bytes:
    """The value of an entry of an earlier version, which had the frontier before the batch alone."""
    said: dict[str, object] = {"frontier": frontier, "sizes": [len(block) for block in (*data, *found)]}
    said |= {"found": len(found)} if found else {}
    header = json.dumps(said).encode()
    return len(header).to_bytes(8, "little") + header + b"".join([*data, *found])


@pytest.mark.parametrize("frontier", [None, 0, -5, 1 << 60])
@pytest.mark.parametrize("found", [[], [block(2), block(1)]])
def test_an_entry_of_an_earlier_version_is_read(frontier: int | None, found: list[bytes]) -> None:
    """Its rows were late before that frontier, and what they alone made due was processed."""
    read = Entry.of(former([block(3), block(1)], frontier, found))
    assert ([bytes(b) for b in read.data], [bytes(b) for b in read.found]) == ([block(3), block(1)], found)
    assert (read.late, read.frontier) == (frontier, None)


def test_a_state_with_a_journal_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    config = HostConfig.of(plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 6}", small="{count: 3}", delay=5)), (), "test")

    def rows(minutes: list[int]) -> bytes:
        return table_bytes(table_of(config, [(t, t, "pq"[t % 2], float(t * 7 % 5), "u") for t in minutes]))

    bucket = Bucket(config, 0)
    bucket.run([rows([*range(10)])], 0)
    state, _ = bucket.save()
    # One of the rows is late, and one waits.
    for number, (watermark, minutes) in enumerate([(4, [12, 3, 10, 11]), (7, [20, 14, 13])]):
        bucket.run([rows(minutes)], watermark * 60_000)
        state[f"journal/{number}"] = former([rows(minutes)], watermark * 60_000_000, [])
    read = Bucket.restore(config, 0, state.get)
    assert (read.until, read.due(), read.sequencer.waiting()) == (bucket.until, bucket.due(), bucket.sequencer.waiting())

    def tables(sent: list[Block]) -> list[Block]:
        return [(kind, bytes(data)) for kind, data in sent if kind.startswith(("changes:", "rejected"))]

    batch = [rows([25, 16, 14])], 15 * 60_000, 30 * 60_000
    assert tables(read.run(*batch)) == tables(bucket.run(*batch)) != []
    assert read.save()[0]["keys"] == bucket.save()[0]["keys"]


def test_a_batch_counts_the_same_however_it_is_cut_into_blocks() -> None:
    # A repeated batch may be cut by other tasks; tables may have what the first attempt sent.
    n = BATCH // 8
    rows = pa.table({
        "x": pa.array([*range(n - 1), None]), "t": pa.array([None, *("ü" * (i % 3) for i in range(n - 1))]), "yes": pa.array([True] * n),
        "d": pa.array([None] * n, pa.decimal128(18, 2)), "none": pa.nulls(n), "words": pa.array([[str(i)] * (i % 3) for i in range(n)]),
    })  # fmt: skip
    whole = Entry([table_bytes(rows)], None, None)
    for cut in (1, 7, n // 2):
        parts = Entry([pa.py_buffer(table_bytes(rows.slice(at, most))) for at, most in ((0, cut), (cut, n))], None, None)
        assert parts.size == whole.size > BATCH
    coded = rows.set_column(1, "t", rows["t"].dictionary_encode())
    assert Entry([table_bytes(coded)], None, None).size == whole.size


def test_a_bucket_with_a_small_state_keeps_none() -> None:
    assert not Journal(LEAST - 1).takes(Entry([], None, None)) and Journal(LEAST).takes(Entry([], None, None))


def test_the_whole_state_is_saved_after_a_share_of_it_or_many_batches() -> None:
    kept = Journal(LEAST)
    share = Entry([block(LEAST // SHARE // 4 // 8)], None, None)
    taken = 0
    while kept.takes(share):
        kept.note(share)
        taken += 1
    assert taken == 3
    assert not Journal(LEAST).takes(Entry([block(LEAST // SHARE // 8)], None, None))
    small = Journal(2 * SHARE * ENTRIES * BATCH)
    for _ in range(ENTRIES):
        assert small.takes(Entry([], None, None))
        small.note(Entry([], None, None))
    assert not small.takes(Entry([], None, None))


def test_tables_of_keys_are_deferred_with_the_state_and_sent_with_it(tmp_path: Path) -> None:
    config = HostConfig.of(plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 200}", small="{count: 20}", delay=0)), (), "test")
    bucket, state = Bucket(config, 0), dict[str, bytes]()

    def batch(at: int, key: str, flush: bool = False) -> tuple[set[str], int, dict[str, bytes], list[str]]:
        blocks = bucket.run([table_bytes(table_of(config, [(at, at, key, float(at), "u")]))], at * 60_000, flush=flush)
        counts = Tally()
        for kind, data in blocks:
            if kind == COUNTS:
                counts.add(data)
            elif kind == "heads":
                heads.append(sorted(bytes_table(data)["grp"].to_pylist()))
        values, dropped = bucket.save()
        for name in dropped:
            del state[name]
        state.update(values)
        return {kind.partition(":")[0] for kind, _ in blocks} - {COUNTS, "changes"}, counts[DEFERRED], values, dropped

    heads: list[list[str]] = []
    with keeping_a_journal():
        # A row is due with the next one.
        assert batch(0, "p")[0] == set() and batch(1, "p", flush=True)[0] == {"heads", "skyband"}
        sent, deferred, values, dropped = batch(2, "p")
        assert (sent, deferred, list(values), dropped) == (set(), 1, ["journal/0"], [])
        bucket = Bucket.restore(config, 0, state.get)
        assert batch(3, "q")[:2] == (set(), 1)
        sent, deferred, values, dropped = batch(4, "q", flush=True)
        assert (sent, deferred, dropped) == ({"heads", "skyband"}, 0, ["journal/0", "journal/1"]) and "core" in values
        assert heads[-1] == ["p", "q"]
        # After as many entries the whole state is saved anyway.
        sizes = [len(batch(5 + i, "p")[2]) > 1 for i in range(2 * (bucket_module.ENTRIES + 1))]
        assert sizes == 2 * [*[False] * bucket_module.ENTRIES, True]
    # A journal of before is read where none would be kept.
    assert batch(30, "p")[0] == {"heads", "skyband"} and not any(name.startswith("journal/") for name in state)
