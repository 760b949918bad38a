"""The pools of Python workers. Spark has one per environment in which functions were serialized."""

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
"""The variable that Spark adds to the environment of Arrow workers, but not to that of the workers that run buckets (``HOST``)."""

HOST: Final = {"SKYBAND_STEP": "host"}
"""The variable of the workers that run buckets: with a pool of their own, the buckets that they keep are used more often."""

_SHARED: Final = "spark.skyband.workers.shared"
SOON_OVER: Final = {_SHARED: "true"}
"""The setting of a short run: the workers of all steps share one pool."""

_ONE = threading.RLock()
"""Guards the context's environment, which all jobs of a process share."""


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
    """Have functions that are serialized inside the block run by workers with ``more`` in their environment."""
    environment = context.environment
    with _ONE:
        environment |= more
        try:
            yield
        finally:
            for name in more:
                environment.pop(name, None)


class Pools(NamedTuple):
    """The environments that separate the workers of the intake from those that run buckets."""

    intake: Mapping[str, str]
    host: Mapping[str, str]


def pools(context: SparkContext) -> Pools:
    """Return the pools of ``context``. A short run has one: that saves starting a process, half a second of a core."""
    both = {**INTAKE, **HOST}
    return Pools(both, both) if context.getConf().get(_SHARED) == "true" else Pools(INTAKE, HOST)
