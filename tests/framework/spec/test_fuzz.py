"""Damaged specs and those that are slow on purpose: each ends with plain words. More of them: ``make fuzz``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.framework.spec.fuzz import check, mutant
from tests.framework.spec.worst_cases import CASES
from tests.seeds import cases


def test_damaged_specs_end_with_plain_words() -> None:
    for seed in range(cases(200)):
        try:
            check(mutant(seed))
        except Exception as e:
            raise AssertionError(f"seed {seed}") from e


@pytest.mark.slow
@pytest.mark.parametrize("which", CASES)
def test_the_worst_cases_end(which: str) -> None:
    """In a process of its own, so that a hang is one failure and not the end of the tests."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.framework.spec.worst_cases", "--one", which], timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0 and "mistakes" in done.stdout, done.stderr
