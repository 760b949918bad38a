"""Commits of a holder whose lock was taken over: none comes after the fence, whatever the old one still has open."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.epochs import EPOCHS
from skyband.framework.storage.location import location
from skyband.framework.tables.delta.commits import FENCE, raise_fences
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing.driver_writer import DriverWriter

PLAIN = TableSpec("plain", pa.schema([("a", pa.int64())]), "rows")
PARTS = TableSpec("parts", pa.schema([("a", pa.int64()), ("bucket", pa.int32())]), "rows by bucket", ("bucket",))


@pytest.fixture(autouse=True)
def nobody() -> None:
    EPOCHS.clear()


def holding(directory: str, epoch: int) -> DriverWriter:
    """A writer of the holder number ``epoch``: what this process does next is done by that holder."""
    EPOCHS[directory] = epoch
    return DriverWriter(location(directory))


def attempt(writer: DriverWriter, directory: str, epoch: int, kind: str, batch: int) -> str | None:
    """One commit of holder ``epoch``; the code with which it was refused."""
    EPOCHS[directory] = epoch
    rows = pa.table({"a": [epoch], "bucket": pa.array([0], pa.int32())})
    try:
        if kind == "append":
            writer.append("plain", rows.select(["a"]), "app", batch)
        elif kind == "overwrite":
            writer.overwrite("plain", rows.select(["a"]), "app", batch)
        else:
            writer.overwrite_partitions("parts", rows, "bucket", [0], "app", batch)
    except SkybandError as e:
        return e.code
    return None


@pytest.mark.parametrize("kind", ["append", "overwrite", "partitions"])
def test_the_holder_before_cannot_commit(directory: str, kind: str) -> None:
    old = holding(directory, 1)
    for spec in (PLAIN, PARTS):
        old.ensure(spec)
    assert attempt(old, directory, 1, kind, 0) is None
    new = holding(directory, 2)
    raise_fences(location(directory))
    # With the table as it had it open, and as it is now.
    assert attempt(old, directory, 1, kind, 1) == "SKY-E631"
    assert attempt(DriverWriter(location(directory)), directory, 1, kind, 1) == "SKY-E631"
    with pytest.raises(SkybandError) as e:
        EPOCHS[directory] = 1
        raise_fences(location(directory))
    assert e.value.code == "SKY-E631"
    table = "parts" if kind == "partitions" else "plain"
    assert new.read(table)["a"].to_pylist() == [1]
    assert attempt(new, directory, 2, kind, 1) is None
    assert sorted(DriverWriter(location(directory)).read(table)["a"].to_pylist()) == ([1, 2] if kind == "append" else [2])


@pytest.mark.slow
def test_a_batch_that_both_have_is_there_once_and_later_ones_are_the_new_holders(directory: str) -> None:
    """By random turns of three holders, each of which begins when it likes: commits never go back to an earlier epoch."""
    chance = random.Random(7)
    first = holding(directory, 1)
    first.ensure(PLAIN)
    holders, batches = {1: first}, {1: 0}
    for _ in range(40):
        if len(holders) < 3 and chance.random() < 0.1:
            epoch = max(holders) + 1
            holders[epoch] = holding(directory, epoch)
            raise_fences(location(directory))
            last = DriverWriter(location(directory)).version("plain", "app")
            batches[epoch] = 0 if last is None else last + 1
        epoch = chance.choice(list(holders))
        refused = attempt(holders[epoch], directory, epoch, "append", batches[epoch])
        assert refused == (None if epoch == max(holders) else "SKY-E631")
        batches[epoch] += refused is None
    table = DriverWriter(location(directory)).opened("plain")
    assert len(holders) == 3 and table.transaction_version(FENCE) == 3
    assert table.to_pyarrow_table().num_rows == batches[3]


def test_a_sink_of_this_machine_says_nothing_of_epochs(tmp_path: object) -> None:
    writer = DriverWriter(location(str(tmp_path)))
    writer.ensure(PLAIN)
    writer.append("plain", pa.table({"a": [1]}), "app", 0)
    assert writer.opened("plain").transaction_version(FENCE) is None
