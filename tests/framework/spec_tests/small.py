"""A small spec, and the command ``skyband test`` in this process."""

from __future__ import annotations

from unittest import mock

from skyband.jobs.cli import main
from tests.specs import spec_text

SMALL = spec_text(
    "small",
    "{id: int, ts: timestamp, x: double}",
    path='"${SMALL_IN}"',
    event_time="{column: ts, watermark: 1 minute}",
    sink='{path: "${SMALL_OUT}/small"}',
    window="{count: 10}",
    scoring={"x": "{expression: x, direction: max}"},
    queries={"best": "{type: topk, scoring: x, k: 1}"},
)


def test_command(*argv: str) -> int:
    """The exit code. What other tests of this process compile stays as it is."""
    with mock.patch("skyband.operators.jit.disable_compilation"):
        return main(["test", *argv])


test_command.__test__ = False  # type: ignore[attr-defined]
