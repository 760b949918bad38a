"""A small spec, and the command ``skyband test`` in this process."""

from __future__ import annotations

from unittest import mock

from skyband.jobs.cli import main

SMALL = """\
job: small
source:
  format: csv
  path: "${SMALL_IN}"
  schema: {id: int, ts: timestamp, x: double}
  id: [id]
  event_time: {column: ts, watermark: 1 minute}
window: {count: 10}
scoring:
  x: {expression: x, direction: max}
queries:
  best: {type: topk, scoring: x, k: 1}
sink: {path: "${SMALL_OUT}/small"}
"""


def test_command(*argv: str) -> int:
    """The exit code. What other tests of this process compile stays as it is."""
    with mock.patch("skyband.operators.jit.compile_nothing"):
        return main(["test", *argv])


test_command.__test__ = False  # type: ignore[attr-defined]
