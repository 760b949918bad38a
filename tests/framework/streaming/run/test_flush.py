"""Buckets are ordered to flush once at a time, no row of an order is removed before it is read, and runs end with complete tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from skyband.framework.base.messages import DEFERRED, FLUSH, Tally
from skyband.framework.streaming.job.control import order, order_flush
from skyband.framework.streaming.run.batch import Batch, Totals
from skyband.framework.streaming.run.results import Results
from skyband.framework.streaming.run.runner import Flush, RecordIdle


def committed(totals: Totals, number: int, *counts: str) -> None:
    totals.add(Batch(number, Tally(dict.fromkeys(counts, 1))))
    totals.committed(number)


def context_of(control: Path) -> Any:
    return SimpleNamespace(layout=SimpleNamespace(control=control), derive_seconds=60.0)


def orders(control: Path) -> list[str]:
    return sorted(p.name for p in control.iterdir())


def test_an_order_stays_until_a_batch_after_the_one_that_read_it(tmp_path: Path) -> None:
    totals = Totals([])
    results = Results(context_of(tmp_path), cast(Any, SimpleNamespace(sink=None)), totals)
    order(tmp_path / "flush-0.json", at="")  # of an earlier run: the query has listed it
    committed(totals, 1)
    assert results.ready()
    for number in range(2, 8):
        # Of the present input: the order is not read before the next query.
        committed(totals, number, DEFERRED)
        assert not results.ready()
        assert orders(tmp_path) == ["flush-0.json", "flush-2.json"]
    committed(totals, 8, FLUSH)
    assert results.ready()
    # The batch may be repeated: it reads both.
    assert orders(tmp_path) == ["flush-0.json", "flush-2.json"]
    committed(totals, 9, DEFERRED)
    assert not results.ready()
    assert orders(tmp_path) == ["flush-0.json", "flush-9.json"]


def flushed(tmp_path: Path, totals: Totals, query: Callable[[], bool]) -> bool:
    return Flush(context_of(tmp_path), totals, cast(Any, SimpleNamespace(run=lambda once, phase: query()))).run()


def test_rows_that_arrive_with_the_flush_are_flushed_too(tmp_path: Path) -> None:
    totals = Totals([])
    committed(totals, 0, DEFERRED)
    order_flush(tmp_path, 0)
    read: list[list[str]] = []

    def query() -> bool:
        read.append(orders(tmp_path))
        committed(totals, totals.last_batch + 1, FLUSH)
        if len(read) < 3:
            # More rows have arrived than one batch takes.
            committed(totals, totals.last_batch + 1, DEFERRED)
        return True

    assert flushed(tmp_path, totals, query) and totals.behind == 0
    assert read == [["flush-0.json"], ["flush-2.json"], ["flush-4.json"]]


def test_a_run_ends_although_rows_arrive_all_the_time_and_is_not_noted_as_idle(tmp_path: Path) -> None:
    totals = Totals([])
    committed(totals, 0, DEFERRED)

    def query() -> bool:
        for count in (FLUSH, DEFERRED):
            committed(totals, totals.last_batch + 1, count)
        return True

    assert flushed(tmp_path, totals, query) and totals.behind == 1
    # It would read the job file.
    RecordIdle(context_of(tmp_path), cast(Any, None), totals, None).run()


def test_a_signal_ends_the_flushes(tmp_path: Path) -> None:
    totals = Totals([])
    committed(totals, 0, DEFERRED)
    assert not flushed(tmp_path, totals, lambda: False)
