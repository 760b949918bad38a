"""How far tables of states are behind is read from the last row of ``runs``, whatever stands in it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import BEHIND, DEFERRED, FLUSH, Tally, behind
from skyband.framework.streaming.run.batch import Batch, Totals
from skyband.framework.tables.results.derive import batches_behind


def test_the_last_row_of_runs_says_it(tmp_path: Path) -> None:
    assert batches_behind(tmp_path) == 0
    for batch, counters in enumerate(['{"behind": 3}', '{"near.rows": 1}', '{"behind": 1}']):
        write_deltalake(str(tmp_path / "runs"), pa.table({"batch_id": [batch], "counters": [counters]}), mode="append")
        assert batches_behind(tmp_path) == [3, 0, 1][batch]


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '{"behind": "2"}', '{"behind": -2}', '{"behind": 1.5}', '{"behind": true}'])
def test_what_is_no_number_of_batches_counts_as_none(text: str | None) -> None:
    assert behind(text) == 0


def test_batches_are_counted_until_all_buckets_have_flushed() -> None:
    totals = Totals([])
    said = []
    for number, counts in enumerate([{}, {DEFERRED: 2}, {}, {DEFERRED: 1}, {FLUSH: 1}, {}, {DEFERRED: 1, FLUSH: 1}, {DEFERRED: 1}]):
        for _ in range(2):
            # A batch that is repeated counts once.
            batch = Batch(number, Tally(counts))
            totals.add(batch)
        totals.committed(number)
        said.append(totals.behind)
        assert batch.counts.get(BEHIND, 0) == said[-1]
    assert said == [0, 1, 2, 3, 0, 0, 0, 1]
    row = Batch(8, Tally({BEHIND: 5, "near.rows": 2})).runs_row(0.0, [])
    assert Totals([{**row, "frontier": None, "newest": None}]).behind == 5


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000])
def test_counters_that_skyband_has_not_written_are_named(text: str) -> None:
    row = {**Batch(8, Tally()).runs_row(0.0, []), "frontier": None, "newest": None, "counters": text}
    with pytest.raises(SkybandError, match="counters of batch 8") as raised:
        Totals([row])
    assert raised.value.code == "SKY-E304"
