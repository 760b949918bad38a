"""What a run asks of the states of buckets: those from which it goes on are whole, and others do not stay."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.messages import RUNS
from skyband.framework.streaming.bucket.bucket_states import BucketState, NewStates, last_states, text_of
from skyband.framework.streaming.bucket.state_files import BucketFiles, StateFiles
from skyband.framework.streaming.bucket.state_names import state_name
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.run.batch import Batch, Totals
from skyband.framework.streaming.run.states import collect_states, require_states
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import KEPT_RUNS, Sink
from tests.framework.streaming.bucket.test_bucket_states import SPEC
from tests.specs import plan_of_text

LARGE = bytes(1 << 15)


class Job:
    """A job whose batches leave states; ``tokens``: of each batch, by bucket."""

    def __init__(self, directory: Path) -> None:
        self.plan = plan_of_text(SPEC.replace("{sink}", str(directory / "out")))
        self.layout = Layout(self.plan.sink)
        self.sink = Sink(self.plan, writer_for(self.plan.sink), "g")
        self.sink.ensure_all()
        self.states: dict[int, BucketState] = {}
        self.tokens: list[dict[int, str]] = []
        self.file = JobFile(self.plan.job, "g", {}, 2, None)

    def save(self, *numbers: int) -> dict[int, str]:
        """States that no row of ``runs`` names."""
        made = {}
        for number in numbers:
            token = _save(self.layout, number, len(self.tokens))
            made[number] = token
        return made

    def batch(self, *numbers: int, spark: bool = False) -> None:
        """A batch after which these buckets have other states. ``spark``: an earlier version ran it."""
        made = self.save(*numbers)
        self.states |= {number: BucketState(token, None) for number, token in made.items()}
        self.tokens.append({number: state.token for number, state in self.states.items()})
        text = None if spark else text_of(self.states)
        row: dict[str, Any] = {"batch_id": len(self.tokens) - 1, "batch_time": datetime(2024, 1, 1, tzinfo=UTC), "state": text}
        row |= dict.fromkeys(("unusable", "warned", "counters"), "{}") | {"drift": "[]"}
        self.sink.commit(row["batch_id"], {RUNS: self.sink.runs_row(row)})

    def there(self, number: int) -> set[str]:
        """The tokens of the lists of a bucket."""
        return {p.stem for p in (self.layout.state / state_name(number)).glob("*.list")}


def _save(layout: Layout, number: int, batch: int) -> str:
    files = BucketFiles(StateFiles(layout.state).of(number))
    files.put("core", b"%d" % batch)
    files.put("keys", LARGE + b"%d" % batch)
    return files.save()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.parametrize("number", [1, -2])
@pytest.mark.parametrize("lost", ["list", "value", "directory"])
@pytest.mark.parametrize("back", [1, 2, 3])
def test_the_states_of_the_last_two_batches_must_be_whole(job: Job, number: int, lost: str, back: int) -> None:
    """The last batch may have to be repeated from the state before it; what was before that is needed by nobody."""
    for _ in range(4):
        job.batch(0, 1, -1, -2)
    require_states(job.layout, job.sink, job.file)
    directory, token = job.layout.state / state_name(number), job.tokens[-back][number]
    for path in directory.glob("*" if lost == "directory" else f"{token}.{'list' if lost == 'list' else '0'}"):
        path.unlink()
    if back == 3 and lost != "directory":
        require_states(job.layout, job.sink, job.file)
        return
    with pytest.raises(SkybandError) as e:
        require_states(job.layout, job.sink, job.file)
    assert e.value.code == "SKY-E303" and str(directory) in str(e.value)


def test_a_job_without_states_needs_none(job: Job) -> None:
    require_states(job.layout, job.sink, job.file)
    # Batches of an earlier version, whose state Spark kept, then those after it was taken over.
    job.batch(spark=True)
    job.batch(spark=True)
    require_states(job.layout, job.sink, job.file)
    job.batch(0)
    require_states(job.layout, job.sink, job.file)


def test_what_no_row_of_the_last_ones_names_is_removed(job: Job) -> None:
    numbers = (0, 1, -1)
    warnings: list[str] = []
    for _ in range(KEPT_RUNS + 3):
        job.batch(*numbers)
    # Of a batch that was repeated, or whose process was killed.
    unnamed = job.save(*numbers)
    collect_states(job.layout, job.sink, job.file, None, warnings.append)
    for number in numbers:
        named = {tokens[number] for tokens in job.tokens[-KEPT_RUNS:]}
        assert len(named) == KEPT_RUNS and job.there(number) == named and unnamed[number] not in named
        directory = job.layout.state / state_name(number)
        assert len(list(directory.iterdir())) == 2 * KEPT_RUNS
    assert warnings == []
    require_states(job.layout, job.sink, job.file)
    # A bucket that has not run for long keeps its state.
    for _ in range(KEPT_RUNS + 3):
        job.batch(1)
    collect_states(job.layout, job.sink, job.file, None, warnings.append)
    assert job.there(0) == {job.states[0].token} and len(job.there(1)) == KEPT_RUNS
    require_states(job.layout, job.sink, job.file)


def test_states_that_a_repeated_batch_has_made_stay_as_the_next_one_begins_from_them(job: Job) -> None:
    """The row of ``runs`` is that of the first attempt, and names its states."""
    for _ in range(2):
        job.batch(0, 1)
    made = {number: BucketState(token, None) for number, token in job.save(0, 1).items()}
    collect_states(job.layout, job.sink, job.file, made, print)
    assert all(job.there(number) == {state.token, *(t[number] for t in job.tokens)} for number, state in made.items())
    require_states(job.layout, job.sink, job.file)


def test_a_list_that_cannot_be_read_removes_nothing_and_is_reported(job: Job) -> None:
    for _ in range(KEPT_RUNS):
        job.batch(0)
    unnamed = job.save(0)[0]
    (job.layout.state / "0" / f"{job.tokens[0][0]}.list").write_bytes(b"damaged")
    warnings: list[str] = []
    collect_states(job.layout, job.sink, job.file, None, warnings.append)
    assert len(warnings) == 1 and warnings[0].startswith("files of former states stay: ") and job.tokens[0][0] in warnings[0]
    assert unnamed in job.there(0) and len(job.there(0)) == KEPT_RUNS + 1
    # The run goes on.
    require_states(job.layout, job.sink, job.file)


def test_states_of_shards_that_are_no_more_are_forgotten(job: Job) -> None:
    """After a change of ``run.shards``: their files go with the rows of ``runs`` that name them."""
    job.batch(0, 1, -1, -2)
    rows = job.sink.last_runs(2)
    for numbers, known in ((None, {0, 1, -1, -2}), ({0, 1}, {0, 1}), ({0, 1, 2, 3, -1}, {0, 1, -1})):
        totals = Totals(rows, numbers)
        batch = Batch(1, states={1: BucketState("0123456789abcdef", 5)})
        totals.add(batch)
        assert batch.states is not None and set(batch.states) == known
        assert batch.states[0] == job.states[0] and batch.states[1] == BucketState("0123456789abcdef", 5)


def test_states_that_were_made_after_a_batch_take_the_place_of_those_in_its_row(job: Job) -> None:
    for _ in range(2):
        job.batch(0, 1)
    made = {number: BucketState(token, 0) for number, token in job.save(0, 1, 4).items()}
    job.file.new_states = NewStates(1, text_of(made))
    new = job.file.new_states
    assert (
        last_states(job.layout.root, new) == made != last_states(job.layout.root)
        and Totals(job.sink.last_runs(2), None, new).before(2).states == made
    )
    # They stay as long as a run looks at that row. What it and those before name goes.
    collect_states(job.layout, job.sink, job.file, None, print)
    assert {number: job.there(number) for number in (0, 1, 4)} == {number: {state.token} for number, state in made.items()}
    require_states(job.layout, job.sink, job.file)
    # The batch after it begins from them, also when it is repeated.
    job.states = dict(made)
    job.batch(1)
    rows = job.sink.last_runs(2)
    for number in (2, 3):
        assert Totals(rows, None, new).before(number).states == (made if number == 2 else job.states)
    assert last_states(job.layout.root, new) == job.states
    collect_states(job.layout, job.sink, job.file, None, print)
    require_states(job.layout, job.sink, job.file)
    (job.layout.state / "4" / f"{made[4].token}.list").unlink()
    with pytest.raises(SkybandError, match="SKY-E303"):
        require_states(job.layout, job.sink, job.file)


def test_states_are_made_again_after_one_batch(job: Job) -> None:
    """The row before the last one names states that are gone since the first were made: no batch can begin from them."""
    for batch in range(2, 6):
        while len(job.tokens) < batch:
            job.batch(0, 1)
        made = {number: BucketState(token, 0) for number, token in job.save(0, 1).items()}
        job.file.new_states = NewStates(batch - 1, text_of(made))
        warnings: list[str] = []
        collect_states(job.layout, job.sink, job.file, None, warnings.append)
        require_states(job.layout, job.sink, job.file)
        assert {number: job.there(number) for number in (0, 1)} == {number: {state.token} for number, state in made.items()}
        assert warnings == []
        job.states = dict(made)


def test_states_that_were_made_and_never_named_are_removed_with_their_bucket(job: Job) -> None:
    """As of a division of buckets that was killed: no row names their buckets."""
    job.batch(0)
    job.save(0, 7, -9)
    other = job.layout.state / "elsewhere" / "0123456789abcdef.list"
    other.parent.mkdir()
    other.write_bytes(b"theirs")
    collect_states(job.layout, job.sink, job.file, None, print)
    assert job.there(0) == {job.states[0].token} and job.there(7) == job.there(-9) == set() and other.exists()
