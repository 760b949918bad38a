"""Ensure that one run of a job writes at a time on object storage: hold a lease, and fence the tables against the former holder."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.epochs import lease_lost
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.tables.delta.fence import raise_fences


@contextmanager
def leased(layout: Layout, notice: Callable[[str], object]) -> Iterator[None]:
    """Hold the sink inside the block. Kill the JVM if the lease is lost, and report the resulting errors as the loss of the lease.

    Raises SkybandError SKY-E302 (another run has it), SKY-E630 (the store cannot be used), SKY-E631 (another run has taken over).
    """
    # Needs a library that is not always there.
    from skyband.framework.storage.lease import Lease

    lease = Lease(layout.root, _kill_jvm)
    lease.take(notice)
    try:
        if lease.after_crash:
            raise_fences(layout.root)
        yield
    except Exception as e:
        if lease.lost:
            raise lease_lost(layout.root) from e
        raise
    finally:
        # The next run waits until the lease expires.
        with suppress(SkybandError):
            lease.give_back()


def _kill_jvm() -> None:
    for process in SPARK_JVM.pids():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
