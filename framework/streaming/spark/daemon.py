"""The process from which Spark forks its Python workers. It imports the workers' modules once, before the forks.

PySpark's own daemon imports nothing, because imports may start threads, which do not survive a fork. The imports here start none
(``THREADLESS``; a test counts the threads). Objects that exist before the fork are frozen, so that the garbage collection that Spark runs
after every task skips them.
"""

from __future__ import annotations

import gc
import importlib
import os
from contextlib import suppress
from typing import Final

from skyband.framework.base.lean_arrow import lean_arrow
from skyband.framework.spark_adapter.workers import WORKER_MODULES, run_daemon
from skyband.framework.streaming.spark.worker_pools import HOST

THREADLESS: Final = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Environment variables that keep BLAS, and an allocator of Arrow's that is not used, from starting threads."""

_ALL: Final = (*WORKER_MODULES, "skyband.framework.streaming.rows.pack")
# What else run.spark_tasks imports starts threads.
_OF_HOST: Final = ("skyband.framework.streaming.bucket.calls",)


def prepare() -> None:
    """Import the modules that this daemon's workers need. Workers report modules that cannot be imported."""
    os.environ.update(THREADLESS)
    lean_arrow()
    of_host = os.environ.items() >= HOST.items()
    with suppress(ImportError):
        for module in (*_ALL, *(_OF_HOST if of_host else ())):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    prepare()
    run_daemon()
