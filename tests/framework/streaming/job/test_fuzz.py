"""Some cases of ``fuzz``, over a job that was made without Spark; ``make fuzz`` has many, over one that Spark ran."""

from __future__ import annotations

import pytest

from skyband.framework.plan.fingerprint import concealed, fingerprint
from skyband.framework.streaming.job.layout import JobFile, Layout
from tests.framework.streaming import checkpoints
from tests.framework.streaming.job import fuzz
from tests.framework.verify import small
from tests.seeds import seeds
from tests.spark.cuts import stream
from tests.spark.jobs import write_file, write_spec

QUICK = [c for c in fuzz.SHOWING if c[0] in ("status", "history", "plan", "query", "rejected")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> fuzz.Place:
    directory = tmp_path_factory.mktemp("fuzz")
    at = directory / "place" / "job"
    at.mkdir(parents=True)
    path = write_spec(at, queries=fuzz.NEAR)
    write_file(at, "0.csv", stream(1, 30), at=0)
    plan = small.make(path, stream(1, 30))
    layout = Layout(plan.sink)
    checkpoints.make(layout.home, batches=small.BATCHES + 1)
    layout.save(JobFile(plan.job, "g", concealed(fingerprint(plan), plan, "s"), 2, None, salt="s"))
    for name, text in (("files.json", '{"aside": {}, "read_as": {}}'), ("sent.json", '{"generation": "g", "queries": {}}')):
        checkpoints.write(layout.home / name, text)
    at.rename(directory / "made")
    return fuzz.Place(directory / "made", directory / "place")


@pytest.mark.parametrize("seed", seeds(0, 12))
def test_damage_to_a_sink_is_named_and_does_no_harm(place: fuzz.Place, seed: int) -> None:
    assert fuzz.case(seed, place, QUICK, [["maintain"], ["rebuild", "--undo"]]) == []


def test_a_job_that_is_whole_is_shown(place: fuzz.Place) -> None:
    place.fresh()
    before = place.everything()
    for command in (c for c in QUICK if c != ["history"]):
        code, said = fuzz.asked(command, place)
        assert code == 0, said
    assert place.everything() == before
