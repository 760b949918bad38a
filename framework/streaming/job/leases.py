"""One run of a job at a time on object storage: the sink is held by lease, and its tables are fenced against the holder before."""

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
    """Holds the sink inside. When the lease is lost, Spark is killed, and whatever follows from that is told as what it is.

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
        # Who comes next waits for it to run out.
        with suppress(SkybandError):
            lease.give_back()


def _kill_jvm() -> None:
    for process in SPARK_JVM.pids():
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
