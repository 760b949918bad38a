"""Workers of intake and of the stateful step: two pools, or one where Spark is soon over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skyband.framework.streaming.spark.worker_pools import HOST, INTAKE, SOON_OVER, pool, pools


def context(conf: dict[str, str]) -> Any:
    return SimpleNamespace(getConf=lambda: conf, environment={"OWN": "1"})


@pytest.mark.parametrize("conf, one", [({}, False), (SOON_OVER, True)])
def test_pools(conf: dict[str, str], one: bool) -> None:
    of = context(conf)
    intake, host = pools(of)
    # What Spark adds to the environment of those that take Arrow, it must find there already: or there would be two pools.
    told = [{**environment, **more} for environment, more in ((intake, INTAKE), (host, {}))]
    assert (told[0] == told[1]) == one and host.items() >= HOST.items()
    with pool(of, host):
        assert of.environment == {"OWN": "1", **host}
    assert of.environment == {"OWN": "1"}


@pytest.mark.spark
def test_a_long_run_has_two_pools(spark: Any) -> None:
    assert pools(spark.sparkContext) == (INTAKE, HOST)
