"""Some cases of ``fuzz``; ``make fuzz`` has many."""

from __future__ import annotations

from pathlib import Path

from tests.framework.sources import fuzz
from tests.seeds import seeds


def test_damaged_sources_are_read_or_refused_with_a_code(tmp_path: Path) -> None:
    for seed in seeds(0, 100):
        try:
            fuzz.case(seed, tmp_path / "in")
        except Exception as e:
            e.add_note(f"seed {seed}")
            raise
