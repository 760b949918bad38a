"""Pools of Python workers, which the engine tells apart by the environment their functions were made in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

INTAKE: Final = {"SPARK_SIMPLIFIED_TRACEBACK": "1"}
"""What the engine adds to the environment of workers that take Arrow; not to that of the stateful step's (``daemon.HOST``)."""

_ONE = threading.RLock()
"""The environment is the context's: of all jobs that a program has in one engine."""


@contextmanager
def pool(context: SparkContext, more: Mapping[str, str]) -> Iterator[None]:
    """Functions that are handed to the engine inside are run by the workers of the pool with ``more`` in their environment."""
    environment = context.environment
    with _ONE:
        environment |= more
        try:
            yield
        finally:
            for name in more:
                environment.pop(name, None)
