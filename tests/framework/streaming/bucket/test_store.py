"""The window store: what is alive is found and shown right, chunks are written once and dropped when dead."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.streaming.bucket.store import WindowStore, address, first_places
from skyband.operators.base import Window

SCHEMA = pa.schema([("v", pa.string())])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=12), max_size=12),
    st.one_of(st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.integers(1, 9)),
    st.booleans(),
)
def test_store_keeps_what_is_alive_and_restores(batches, count, micros, reload):
    if not count and not micros:
        count = 3
    window = Window(count, micros)
    store, next_seq, now = WindowStore(window, SCHEMA), np.zeros(3, np.int64), 0
    everything: list[tuple[int, int, int]] = []
    saved: dict[int, pa.Table] = {}
    for batch in batches:
        rows = []
        for key, step in sorted(batch):
            rows.append((key, int(next_seq[key]), now + step))
            next_seq[key] += 1
        rows.sort(key=lambda r: (r[0], r[1]))
        # Time within a key never goes back.
        fixed, last = [], {}
        for key, seq, time in rows:
            time = max(time, last.get(key, 0))
            last[key] = time
            fixed.append((key, seq, time))
        everything += fixed
        k, s, t = (np.array(c, np.int64) for c in (zip(*fixed, strict=True) if fixed else ([], [], [])))
        store.append(k, s, t, pa.table({"v": [f"{a}/{b}" for a, b, _ in fixed]}, schema=SCHEMA))
        if fixed:
            table, times = store.take(k[::-1].copy(), s[::-1].copy())
            assert table["v"].to_pylist() == [f"{a}/{b}" for a, b, _ in fixed[::-1]]
            assert times.tolist() == t[::-1].tolist()
        now += 4
        for number, rows_ in store.unsaved(next_seq, now):
            assert number not in saved
            saved[number] = rows_
        for number in store.dropped:
            del saved[number]
        store.dropped = []
        alive = [(a, b, c) for a, b, c in everything if (not count or b >= next_seq[a] - count) and (not micros or c + micros >= now)]
        held = store.alive(window, next_seq, now)
        assert held.rows["v"].to_pylist() == [f"{a}/{b}" for a, b, _ in sorted(alive)]
        in_state = {int(x) for rows_ in saved.values() for x in rows_["__at"].to_pylist()}
        assert {int(address(np.int64(a), np.int64(b))) for a, b, _ in alive} <= in_state
        if reload:
            numbers = [c.number for c in store.chunks]
            fresh = WindowStore(window, SCHEMA)
            fresh.next_chunk = store.next_chunk
            for n in numbers:
                fresh.load(n, saved[n])
            store = fresh


def test_an_object_that_is_gone_is_an_error():
    store = WindowStore(Window(2, None), SCHEMA)
    one = np.zeros(1, np.int64)
    store.append(one, one, one, pa.table({"v": ["x"]}, schema=SCHEMA))
    with pytest.raises(KeyError, match="no longer in the window"):
        store.take(one, one + 1)


def test_quiet_keys_do_not_pin_chunks_for_ever():
    store = WindowStore(Window(10, None), SCHEMA)
    next_seq = np.zeros(2, np.int64)
    quiet = np.array([1], np.int64)
    written = 0
    for i in range(60):
        n = 5000
        key = np.concatenate([np.zeros(n, np.int64), quiet if i == 0 else quiet[:0]])
        seq = np.concatenate([np.arange(n) + next_seq[0], np.zeros(len(key) - n, np.int64)])
        next_seq[0] += n
        next_seq[1] = 1
        store.append(key, seq, seq, pa.table({"v": [str(x) for x in seq]}, schema=SCHEMA))
        written += sum(t.num_rows for _, t in store.unsaved(next_seq, 0))
    assert sum(len(c.at) for c in store.chunks) <= 1000
    assert written <= 60 * 11 + 1000
    assert store.take(quiet, quiet - 1)[0]["v"].to_pylist() == ["0"]


@given(st.lists(st.tuples(st.integers(1, 4), st.sets(st.integers(0, 40), max_size=6)), min_size=1, max_size=120), st.booleans())
def test_only_what_is_pinned_is_kept_and_written(batches, reload):
    store = WindowStore(Window(1_000_000, None), SCHEMA, only_pins=True)
    next_seq, saved = np.zeros(1, np.int64), {}
    for n, ages in batches:
        seq = next_seq[0] + np.arange(n)
        next_seq[0] += n
        store.append(np.zeros(n, np.int64), seq, seq, pa.table({"v": [str(x) for x in seq]}, schema=SCHEMA))
        held = {int(a) for s in store.segments for a in s.at}
        # An operator may let go of a row at any time, and never asks for one it has let go.
        store.pins = np.array(sorted(held & {int(next_seq[0]) - 1 - a for a in ages}), np.int64)
        saved |= dict(store.unsaved(next_seq, 0))
        for number in store.dropped:
            del saved[number]
        store.dropped = []
        rows, times = store.take(np.zeros(len(store.pins), np.int64), store.pins)
        assert rows["v"].to_pylist() == [str(x) for x in store.pins] and times.tolist() == store.pins.tolist()
        assert len(saved) <= 66
        if reload:
            fresh = WindowStore(store.window, SCHEMA, only_pins=True)
            fresh.next_chunk, fresh.pins = store.next_chunk, store.pins
            for c in store.chunks:
                fresh.load(c.number, saved[c.number])
            store = fresh
    assert sum(t.num_rows for t in saved.values()) <= sum(n for n, _ in batches)


def test_dead_rows_are_removed_with_every_save():
    store, next_seq = WindowStore(Window(10, None), SCHEMA), np.zeros(1, np.int64)
    held = []
    for n in range(200):
        store.append(np.zeros(1, np.int64), next_seq.copy(), np.array([n]), pa.table({"v": [str(n)]}, schema=SCHEMA))
        next_seq[0] += 1
        store.unsaved(next_seq, 0)
        store.dropped = []
        held.append(sum(len(s.at) for s in store.segments))
    # A segment goes when half of it is dead.
    assert max(held) <= 2 * 10 + 2 and store.alive(store.window, next_seq, 0).rows.num_rows == 10


@given(st.lists(st.integers(-5, 30)), st.lists(st.integers(-8, 35)), st.sampled_from([None, False, True]))
def test_first_places_are_those_of_a_binary_search(at, want, descending):
    at, want = np.array(sorted(at), np.int64), np.array(want if descending is None else sorted(want, reverse=descending), np.int64)
    assert first_places(at, want).tolist() == np.searchsorted(at, want).tolist()
