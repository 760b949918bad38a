"""Write ``dashboard.json`` and ``rules.yaml``: ``python -m skyband.framework.observe.metrics.rendered``. A test fails if they are old."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from skyband.framework.observe.metrics.dashboard import dashboard
from skyband.framework.observe.metrics.rules import rules_text

DASHBOARD: Final = Path(__file__).with_name("dashboard.json")
RULES: Final = Path(__file__).with_name("rules.yaml")


def rendered() -> dict[Path, str]:
    """Return the text of each file."""
    return {DASHBOARD: json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n", RULES: rules_text()}


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")
