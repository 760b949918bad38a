"""The process that Spark forks its Python workers from: what they import, it has imported, once for all of them.

Spark's own daemon imports nothing, as what is imported may start threads, which do not survive a fork. What is imported here starts none
(``THREADLESS``; a test counts them). Objects that are there before the fork are frozen: the garbage collector, which Spark has every
worker run after every task, passes them over.
"""

from __future__ import annotations

import gc
import importlib
import os
from contextlib import suppress
from typing import Final

from skyband.framework.base.lean_arrow import lean_arrow
from skyband.framework.spark_adapter.workers import STATEFUL_MODULES, WORKER_MODULES, run_daemon
from skyband.framework.streaming.spark.worker_pools import HOST
from skyband.operators.jit import load_compiler

THREADLESS: Final = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Of the environment: libraries that are loaded start no threads (BLAS; the allocator in Arrow that is not used)."""

_ALL: Final = (*WORKER_MODULES, "skyband.framework.streaming.rows.pack")
_OF_HOST: Final = (*STATEFUL_MODULES, "skyband.framework.streaming.bucket.processor", "skyband.framework.streaming.bucket.kept_bucket")


def prepare() -> None:
    """Imports what this daemon's workers need. What cannot be imported is for the workers to tell of."""
    os.environ.update(THREADLESS)
    lean_arrow()
    of_host = os.environ.items() >= HOST.items()
    with suppress(ImportError):
        for module in (*_ALL, *(_OF_HOST if of_host else ())):
            importlib.import_module(module)
        if of_host:
            load_compiler()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    prepare()
    run_daemon()
