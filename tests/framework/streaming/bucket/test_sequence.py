"""Numbering and the duplicate check against their definitions (docs/semantics 1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.streaming.bucket import sequence
from skyband.framework.streaming.bucket.operations import DELETE, INSERT, KEEP_FIRST, REJECT, REPLACE, UPDATE
from skyband.framework.streaming.bucket.sequence import Ids, Keys, number_rows
from skyband.operators.base import NEVER, NULL, Window

Row = tuple[int, int, int, int]


def by_definition(rows: list[Row], window: Window, on_duplicate: int) -> list[tuple[int, int]]:
    """(seq, target) of every row (key, time, id, operation): seq -1 for a duplicate; for a deletion seq -1 and its target or -1."""
    out = []
    objects: dict[int, list[list[int]]] = {}  # key -> [time, id, deleted] by seq
    for key, time, ident, operation in rows:
        mine = objects.setdefault(key, [])
        alive = [
            seq
            for seq, (at, other, deleted) in enumerate(mine)
            if other == ident
            and not deleted
            and not (window.count and seq < len(mine) - window.count)
            and not (window.micros and time - at >= window.micros)
        ]
        assert len(alive) < 2
        if alive and operation == INSERT and on_duplicate != REPLACE:
            out.append((-1, NULL))
            continue
        for seq in alive:
            mine[seq][2] = 1
        if operation == DELETE:
            out.append((-1, alive[0] if alive else -1))
        else:
            out.append((len(mine), alive[0] if alive else NULL))
            mine.append([time, ident, 0])
    return out


windows = st.builds(Window, st.one_of(st.none(), st.integers(1, 5)), st.one_of(st.none(), st.integers(1, 6))).filter(
    lambda w: w.count or w.micros
)
streams = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 4), st.sampled_from((INSERT, UPDATE, DELETE))), max_size=60
)
duplicates = st.sampled_from((REJECT, REPLACE, KEEP_FIRST))


@pytest.mark.parametrize("part", [1, 3, 1 << 16])
@given(streams, windows, st.lists(st.integers(1, 20), max_size=6), st.integers(0, 5), st.booleans(), duplicates)
def test_accept_equals_the_definition_for_any_cut(part, rows, window, cuts, restore_at, deleting, on_duplicate):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_PART", part)
        accepted_by_definition(rows, window, cuts, restore_at, deleting, on_duplicate)


@given(streams, windows, st.integers(1, 4), duplicates)
def test_one_key_is_accepted_part_by_part(rows, window, part, on_duplicate):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sequence, "_PART", part)
        accepted_by_definition([(0, *r[1:]) for r in rows], window, [], 0, True, on_duplicate)


def accepted_by_definition(rows, window, cuts, restore_at, deleting, on_duplicate):
    rows = [(*r[:3], r[3] * deleting) for r in sorted(rows, key=lambda r: r[1])]
    keys, ids = Keys(), Ids(window)
    got, i, held = [], 0, []
    for n in [*cuts, len(rows)]:
        part = sorted(rows[i : i + n], key=lambda r: r[0])
        key = np.array([r[0] for r in part], np.int64)
        time = np.array([r[1] for r in part], np.int64)
        ident = np.array([r[2] for r in part], np.int64)
        dense, _ = keys.number(key + 7, key * 31)
        operation = np.array([r[3] for r in part] if deleting else [], np.int8)
        until = int(time.min()) if len(time) else -NEVER
        seq, target = ids.accept(keys, dense, time, ident, ident * 3, until, operation, on_duplicate)
        got += [(r, (s, t)) for r, s, t in zip(part, seq.tolist(), target.tolist(), strict=True)]
        gone = {(d, t) for d, t in zip(dense.tolist(), target.tolist(), strict=True) if t >= 0}
        held += [(d, s, t, x) for d, s, t, x in zip(dense.tolist(), seq.tolist(), time.tolist(), ident.tolist(), strict=True) if s >= 0]
        held = [h for h in held if h[:2] not in gone]
        if len(got) % 3 == restore_at % 3:
            keys = Keys.restore({k: v.copy() for k, v in keys.arrays().items()})
            ids = Ids(window)
            columns = [np.array(c, np.int64) for c in zip(*sorted(held), strict=True)] or [np.empty(0, np.int64)] * 4
            ids.load(keys, columns[0], columns[1], columns[2], columns[3], columns[3] * 3)
        i += n
    expected = list(zip(rows, by_definition(rows, window, on_duplicate), strict=True))
    for key in range(3):
        assert [x for x in got if x[0][0] == key] == [x for x in expected if x[0][0] == key]


def test_ids_forget_the_dead_when_they_grow():
    keys, ids = Keys(), Ids(Window(None, 10))
    keys.single()
    for i in range(200):
        time = np.arange(i * 50, i * 50 + 50, dtype=np.int64)
        seq, _ = ids.accept(keys, np.zeros(50, np.int64), time, time, time, i * 50)
        assert seq.tolist() == list(range(i * 50, i * 50 + 50))
    assert len(ids.table) <= 512


@given(st.lists(st.integers(0, 3), max_size=40))
def test_number_rows_counts_within_keys(key):
    key = np.array(sorted(key), np.int64)
    keys = Keys()
    keys._reserve(4)
    keys.next_seq[:4] = [0, 10, 20, 30]
    seq = number_rows(keys.next_seq, key)
    for k in range(4):
        assert seq[key == k].tolist() == list(range(10 * k, 10 * k + int((key == k).sum())))
        assert keys.next_seq[k] == 10 * k + int((key == k).sum())


def test_a_hundred_thousand_keys_get_dense_numbers_in_order_of_first_sight():
    rng = np.random.default_rng(3)
    names = rng.integers(-(2**62), 2**62, 100_000)
    rows = names[rng.integers(0, len(names), 300_000)]
    keys = Keys()
    dense, first = keys.number(rows, rows ^ 12345)
    _, where = np.unique(rows, return_index=True)
    order = np.sort(where)
    assert first.tolist() == order.tolist()
    assert np.array_equal(rows[first][dense], rows)
    again, new = keys.number(rows[::-1].copy(), rows[::-1] ^ 12345)
    assert len(new) == 0
    assert np.array_equal(again[::-1], dense)
