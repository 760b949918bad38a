"""The spec of docs/how-to/top-k-and-thresholds.md that has a test passes it."""

from __future__ import annotations

import re
from pathlib import Path

from skyband.jobs import cli
from tests.conftest import ROOT


def test_the_page_shows_a_spec_that_passes_its_test(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "top-k-and-thresholds.md").read_text(encoding="utf-8")
    (spec,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "\ntests:" in block)
    path = tmp_path / "offers.yaml"
    path.write_text(spec, encoding="utf-8")
    assert cli.main(["test", str(path)]) == 0
