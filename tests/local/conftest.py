"""No test of the local engine starts Spark in this process."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("skyband.framework.streaming.spark.session.get_session", started)
    monkeypatch.setattr("skyband.framework.verify.brute_force.sample.get_session", started)
