"""Pools of Python workers, which Spark tells apart by the environment their functions were made in."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark import SparkContext

INTAKE: Final = {"SPARK_SIMPLIFIED_TRACEBACK": "1"}
"""What Spark adds to the environment of workers that take Arrow; not to that of the stateful step's (``HOST``)."""

HOST: Final = {"SKYBAND_STEP": "host"}
"""Of the stateful step's: of a pool of their own its cache of decoded state would hit more often."""

_SHARED: Final = "spark.skyband.workers.shared"
SOON_OVER: Final = {_SHARED: "true"}
"""Spark's setting by which workers of all steps are of one pool."""

_ONE = threading.RLock()
"""The environment is the context's: of all jobs that a program has in one engine."""


_TASKS = itertools.count(1)
"""Numbers the tasks of this worker process."""


def freeze_loaded_objects() -> None:
    """Exclude the objects that exist now, compiled kernels above all, from garbage collection. Call it at the start of each task.

    Spark runs a full collection after every task; freezing saves about 20 ms of it. Only tasks 2, 4, 8, ... freeze, because a frozen object
    is never collected, even once it is garbage.
    """
    task = next(_TASKS)
    if task > 1 and task & (task - 1) == 0:
        gc.freeze()


@contextmanager
def pool(context: SparkContext, more: Mapping[str, str]) -> Iterator[None]:
    """Functions that are handed to Spark inside are run by the workers of the pool with ``more`` in their environment."""
    environment = context.environment
    with _ONE:
        environment |= more
        try:
            yield
        finally:
            for name in more:
                environment.pop(name, None)


class Pools(NamedTuple):
    """What tells workers of intake from those of the stateful step."""

    intake: Mapping[str, str]
    host: Mapping[str, str]


def pools(context: SparkContext) -> Pools:
    """Those of Spark. One that is over soon has one: a process less to start, half a second of a core; its cache does not count."""
    both = {**INTAKE, **HOST}
    return Pools(both, both) if context.getConf().get(_SHARED) == "true" else Pools(INTAKE, HOST)
