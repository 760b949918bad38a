"""A few cases of ``make fuzz`` against ``skyband serve``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework.serve.fuzz import fuzz, planted
from tests.framework.serve.support import CANARY, served


@pytest.mark.parametrize("seed", [1, 2])
def test_statements_at_random_break_no_promise(tmp_path: Path, seed: int) -> None:
    planted(tmp_path)
    with served(tmp_path, "--seconds", "2", "--memory", "300", "--rows", "10000", env={"SKYBAND_CANARY": CANARY}) as server:
        found = fuzz(server, 150, seed)
    # The grammar reaches both sides: some statements are answered, many are refused by name.
    assert found["answered"] > 5 and found["42883"] > 10 and found["25006"] > 5, found
