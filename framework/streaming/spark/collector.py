"""The garbage collector in Python workers, where Spark has it walk over everything after every task."""

from __future__ import annotations

import gc
import itertools

_TASKS = itertools.count(1)
"""Of this worker process."""


def spare() -> None:
    """Freezes what is there, compiled kernels above all, so that the collector passes it over: some 20 ms a task.

    To be called at the start of tasks. Not all of them do it, as what is frozen is never looked at again, were it garbage later.
    """
    task = next(_TASKS)
    if task > 1 and task & (task - 1) == 0:
        gc.freeze()
