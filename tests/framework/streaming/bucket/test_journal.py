"""The journal of a bucket: what its entries are, when a batch goes to it, and what is deferred meanwhile."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from skyband.framework.base.messages import COUNTS, DEFERRED, Tally
from skyband.framework.streaming.bucket import journal
from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.journal import BATCH, ENTRIES, LEAST, SHARE, Entry, Journal, entries
from skyband.framework.streaming.rows.blocks import bytes_table, table_bytes
from skyband.framework.streaming.rows.config import HostConfig
from tests.framework.streaming.bucket.test_bucket import SPEC, keeping_a_journal, table_of
from tests.framework.streaming.bucket.test_bucket_loyalty import plan_of


def block(rows: int) -> bytes:
    return table_bytes(pa.table({"x": list(range(rows))}))


@pytest.mark.parametrize("frontier", [None, 0, -5, 1 << 60])
@pytest.mark.parametrize("sizes", [[], [0], [3, 1, 700]])
def test_an_entry_comes_back_as_it_was(sizes: list[int], frontier: int | None) -> None:
    written = Journal()
    written.note(Entry([pa.py_buffer(block(n)) for n in sizes], frontier))
    written.note(Entry([], 7))
    values = written.unsaved()
    first, second = entries(values.get)
    assert [bytes(b) for b in first.data] == [block(n) for n in sizes] and first.frontier == frontier
    assert second == Entry([], 7) and first.size == BATCH < Entry([block(BATCH // 8), block(1)], None).size
    assert written.names() == list(values) == ["journal/0", "journal/1"] and written.unsaved() == {}


def test_a_batch_counts_the_same_however_it_is_cut_into_blocks() -> None:
    # A repeated batch may be cut by other tasks; tables may have what the first attempt sent.
    n = BATCH // 8
    rows = pa.table({
        "x": pa.array([*range(n - 1), None]), "t": pa.array([None, *("ü" * (i % 3) for i in range(n - 1))]), "yes": pa.array([True] * n),
        "d": pa.array([None] * n, pa.decimal128(18, 2)), "none": pa.nulls(n), "words": pa.array([[str(i)] * (i % 3) for i in range(n)]),
    })  # fmt: skip
    whole = Entry([table_bytes(rows)], None)
    for cut in (1, 7, n // 2):
        parts = Entry([pa.py_buffer(table_bytes(rows.slice(at, most))) for at, most in ((0, cut), (cut, n))], None)
        assert parts.size == whole.size > BATCH
    coded = rows.set_column(1, "t", rows["t"].dictionary_encode())
    assert Entry([table_bytes(coded)], None).size == whole.size


def test_a_bucket_with_a_small_state_keeps_none() -> None:
    assert not Journal(LEAST - 1).takes(Entry([], None)) and Journal(LEAST).takes(Entry([], None))


def test_the_whole_state_is_saved_after_a_share_of_it_or_many_batches() -> None:
    kept = Journal(LEAST)
    share = Entry([block(LEAST // SHARE // 4 // 8)], None)
    taken = 0
    while kept.takes(share):
        kept.note(share)
        taken += 1
    assert taken == 3
    assert not Journal(LEAST).takes(Entry([block(LEAST // SHARE // 8)], None))
    small = Journal(2 * SHARE * ENTRIES * BATCH)
    for _ in range(ENTRIES):
        assert small.takes(Entry([], None))
        small.note(Entry([], None))
    assert not small.takes(Entry([], None))


def test_tables_of_keys_are_deferred_with_the_state_and_sent_with_it(tmp_path: Path) -> None:
    config = HostConfig.of(plan_of(tmp_path / "spec.yaml", SPEC.format(window="{count: 200}", small="{count: 20}", delay=0)), (), "test")
    bucket, state = Bucket(config, 0), dict[str, bytes]()

    def batch(at: int, key: str, flush: bool = False) -> tuple[set[str], int, dict[str, bytes], list[str]]:
        blocks = bucket.run([table_bytes(table_of(config, [(at, at, key, float(at), "u")]))], at * 60_000, flush)
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
        sizes = [len(batch(5 + i, "p")[2]) > 1 for i in range(2 * (journal.ENTRIES + 1))]
        assert sizes == 2 * [*[False] * journal.ENTRIES, True]
    # A journal of before is read where none would be kept.
    assert batch(30, "p")[0] == {"heads", "skyband"} and not any(name.startswith("journal/") for name in state)
