"""Parts of results made by tasks: what travels to them and back, and their errors. Spark itself: ``tests/spark/test_delivery.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.run.spark_engine import on_spark
from skyband.framework.tables.results import derive as parts
from skyband.framework.tables.results.derive import Made, Part, derive
from skyband.framework.tables.writing.driver_writer import DriverWriter
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import NAMES, commit, flat, replay

SECRET = "s3cret"


class FakeSpark:
    """One that runs each part by itself, with nothing but what was sent; ``sent`` are the bytes."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.sent: list[bytes] = []

    def parallelize(self, items: Iterable[Any], count: int) -> FakeSpark:
        self.items = list(items)
        assert count == len(self.items)
        return self

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> Any:
        self.sent += [cloudpickle.dumps((function, item)) for item in self.items]
        return SimpleNamespace(collect=lambda: [cloudpickle.loads(cloudpickle.dumps(r)) for data in self.sent for r in _run(data)])


def _run(data: bytes) -> list[Any]:
    function, item = cloudpickle.loads(data)
    return list(function([item]))


def job(directory: Path) -> Sink:
    plan = make_plan(str(directory), ("grp",))
    plan = replace(plan, source=replace(plan.source, options=(("password", SECRET),)))
    sink = Sink(plan, DriverWriter(directory), "g1")
    sink.ensure_all()
    return sink


def test_tasks_make_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 5)
    sink = job(tmp_path)
    changes = random_changes(sink.plan, seed=8, batches=4, steps=40)
    sent = 0
    for n in range(4):
        commit(sink, changes, n)
        if not n:
            continue  # a key has no row of heads yet
        engine = FakeSpark()
        made = on_spark(engine)  # type: ignore[arg-type]

        def each(of: Sink, make: Any, cut: Any, engine: FakeSpark = engine, made: Any = made) -> list[Made]:
            engine.sent.clear()
            found: list[Made] = made(of, make, cut)
            assert len(found) == len(cut) and not any(SECRET.encode() in data for data in engine.sent)
            return found

        derive(sink, n, each)
        sent += len(engine.sent)
    assert sent > 4
    for q in sink.plan.queries:
        assert flat(sink.writer.read(q.name).to_pylist(), ["grp", *NAMES]) == flat(replay(sink.plan, changes, q.name), ["grp", *NAMES])


def _refuses(sink: Sink, part: Part) -> Made:
    raise SkybandError("SKY-E900", "the changes do not replay", hint="none")


def _breaks(sink: Sink, part: Part) -> Made:
    raise ValueError(SECRET)


def test_errors_of_tasks_are_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)
    sink, spread = job(tmp_path), on_spark(FakeSpark())  # type: ignore[arg-type]
    with pytest.raises(SkybandError, match="do not replay") as e:
        spread(sink, _refuses, [Part(), Part()])
    assert (e.value.code, e.value.hint) == ("SKY-E900", "none")
    with pytest.raises(SkybandError, match="results could not be made") as e:
        on_spark(FakeSpark())(sink, _breaks, [Part()])  # type: ignore[arg-type]
    assert e.value.code == "SKY-E300"
