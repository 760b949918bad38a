"""Killed at random moments, runs of the local engine come to the tables of a run left alone: jobs of every kind, and what kills them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import cases
from tests.spark.kills import chain, summary, unclean
from tests.spark.kinds import KINDS, OVER_RESULTS, all_types, types_of
from tests.spark.processes import PROC, Process, alive, descendants, kill, process

# Not among the chaos tests, which only `make test-all` runs: some kills belong to every run of the tests.
pytestmark = pytest.mark.long

KILLS = {"keyed": 8}
"""Kills of the kinds that every run of the tests has. The other kinds are in `make test-all`. Spark alone runs shards."""
SOME = [pytest.param(k, marks=() if k in KILLS else pytest.mark.slow) for k in KINDS | OVER_RESULTS if k != "shards"]


@pytest.mark.skipif(not PROC.is_dir(), reason="finds the processes of a run in /proc")
@pytest.mark.parametrize("kind", SOME)
def test_killed_at_random_moments(tmp_path: Path, kind: str) -> None:
    made = chain(None, tmp_path / "chain", kind, seed=31, kills=cases(KILLS.get(kind, 5)), engine="local")
    assert not made.faults and not made.unequal, summary([made])
    assert not unclean(made.kills), unclean(made.kills)
    assert made.kills and made.tables and made.rows


def test_the_kinds_have_every_query_type(tmp_path: Path) -> None:
    found: set[str] = set()
    for name, kind in KINDS.items():
        found |= types_of(kind.write(tmp_path / name, 1))
    assert found == all_types()


@pytest.mark.skipif(not PROC.is_dir(), reason="finds the processes of a run in /proc")
def test_a_number_given_again_is_another_process() -> None:
    """What has the number of a process that is gone is neither waited for nor killed."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = process(child.pid)
    assert found is not None and alive(found) and found in descendants(os.getpid())
    before = Process(found.pid, found.born - 1)
    assert not alive(before)
    kill([before])
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    kill([found])
    assert child.wait(10) == -9 and not alive(found) and process(found.pid) is None
