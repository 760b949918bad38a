"""Kernels that are loaded ahead: made-up rows go through every kind of job, and what is not Skyband's own is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyband.framework.streaming.bucket.kernels import load_kernels
from skyband.framework.streaming.rows.config import HostConfig
from skyband.framework.streaming.run.fork_ahead import KernelsAhead
from skyband.jobs.spec import load_plan
from tests.spark.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_made_up_rows_are_taken_by_every_kind_of_job(tmp_path: Path, kind: str) -> None:
    config = HostConfig.of(load_plan(str(KINDS[kind].write(tmp_path / "job", 1))), (), "")
    assert load_kernels(config) == 2
    assert list(KernelsAhead(config)(iter([0]))) == []


def test_an_operator_that_is_not_skybands_is_not_given_made_up_rows(tmp_path: Path) -> None:
    class Theirs:
        """Has nothing that would be needed to run it."""

    config = HostConfig.of(load_plan(str(KINDS["keyed"].write(tmp_path / "job", 1))), (), "")
    theirs = replace(config.operators[0], operator=Theirs())  # type: ignore[arg-type]
    assert load_kernels(replace(config, operators=(*config.operators, theirs))) == 0
