"""Ensure that one run of a job writes at a time, by two lock files in ``<sink>/_skyband/``: ``lock`` (driver) and ``engine.lock`` (JVM).

The operating system releases each lock when its process ends. The driver takes its lock before it starts a JVM. The JVM's lock covers a JVM
that outlives its driver for a moment: it may still write to the checkpoint, so the next driver waits until it has ended. On object storage
one lease replaces both locks (``leased``).
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.settings.spark import seconds
from skyband.framework.spark_adapter import jvm
from skyband.framework.storage.epochs import lease_lost
from skyband.framework.storage.location import Location, is_object
from skyband.framework.storage.sinks import reject_links
from skyband.framework.streaming.job.generations import settle
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.spark.jvm import SPARK_JVM
from skyband.framework.tables.delta.commits import raise_fences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT: Final = "SKYBAND_ENGINE_WAIT"
"""The environment variable with the seconds to wait for the JVM of an earlier run to end."""
_STEP_SECONDS = 0.2

Notice = Callable[[str], None]

_holders: set[tuple[Location, int]] = set()
"""(path, thread) of the locks that this process holds: the same thread may take a lock again."""


@contextmanager
def one_run(layout: Layout, job: str, notice: Notice = lambda text: None) -> Iterator[None]:
    """Hold the job's lock inside the block, and complete an interrupted swap of generations first.

    ``notice`` gets a message if the run has to wait for a JVM, or completed a swap.

    Raise SkybandError SKY-E302 (another run is active, or a JVM of an earlier one does not end), SKY-E203 (the sink cannot be
    written or locked), SKY-E518 (a link in the sink), SKY-E303 (a journal that no swap has written); as ``leased`` on object storage.
    """
    mine = (layout.home.resolve(), threading.get_ident())
    if mine in _holders:
        yield
        return
    if is_object(layout.home):
        with leased(layout, notice), _holding(mine):
            yield
        return
    # Opening a lock that is a link would empty the file it points to.
    reject_links(layout.root)
    with _opened(layout, "lock") as held:
        if not _flocked(held, layout):
            whose = _pid(layout.home / "lock")
            raise SkybandError(
                "SKY-E302", f"another run of job {job!r} is writing to this sink{whose}", hint="wait for it to end, or stop it"
            )
        held.truncate(0)
        held.write(str(os.getpid()))
        held.flush()
        _await_jvm(layout, job, notice)
        if settle(layout):
            notice(f"a new generation of job {job!r} was being swapped in when the command was interrupted: the swap is complete now")
        with _holding(mine):
            yield


@contextmanager
def _holding(mine: tuple[Location, int]) -> Iterator[None]:
    """Note inside the block that this thread holds the lock."""
    _holders.add(mine)
    try:
        failpoint("run.locked")
        yield
    finally:
        _holders.discard(mine)


@contextmanager
def jvm_lock(spark: SparkSession, layout: Layout) -> Iterator[None]:
    """Have the JVM lock the sink inside the block. Raise SkybandError SKY-E302 if another JVM holds the lock."""
    if is_object(layout.home):
        # The lease covers both processes: a JVM that outlives its driver cannot commit.
        yield
        return
    # A process loses a record lock when it closes *any* handle of the file, so only the JVM keeps the file open.
    file = jvm.open_file(spark, layout.home / "engine.lock")
    try:
        try:
            held = file.getChannel().tryLock()
        except Exception as e:
            raise _jvm_active(layout, str(e).splitlines()[0]) from e
        if held is None:
            raise _jvm_active(layout, "it started in the meantime")
        file.setLength(0)
        file.writeBytes(str(jvm.process_id(spark)))
        yield
    finally:
        # A JVM that has ended has closed the file already.
        with suppress(Exception):
            file.close()


def _await_jvm(layout: Layout, job: str, notice: Notice) -> None:
    limit = seconds(WAIT, "60")
    until = clock.monotonic() + limit
    waiting_reported = False
    while True:
        with _opened(layout, "engine.lock") as held:
            try:
                fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
            except OSError as e:
                raise _not_lockable(layout, e) from e
        if not waiting_reported:
            notice(f"waiting for Spark of an earlier run of job {job!r} to end{_pid(layout.home / 'engine.lock')}")
            waiting_reported = True
        if clock.monotonic() >= until:
            raise _jvm_active(layout, f"it did not end within {limit:g} s")
        clock.sleep(_STEP_SECONDS)


def _opened(layout: Layout, name: str) -> IO[str]:
    try:
        layout.home.mkdir(parents=True, exist_ok=True)
        return open(str(layout.home / name), "a")
    except OSError as e:
        raise SkybandError(
            "SKY-E203", f"the sink {layout.root} cannot be written: {e.strerror}", hint="check the path and its permissions"
        ) from e


def _flocked(held: IO[str], layout: Layout) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        raise _not_lockable(layout, e) from e
    return True


def _not_lockable(layout: Layout, e: OSError) -> SkybandError:
    return SkybandError("SKY-E203", f"the sink {layout.root} cannot be locked: {e.strerror}", hint="use a file system that supports locks")


def _jvm_active(layout: Layout, why: str) -> SkybandError:
    whose = _pid(layout.home / "engine.lock")
    return SkybandError(
        "SKY-E302", f"Spark of an earlier run is still writing to this sink{whose}: {why}", hint="wait for it to end, or kill it"
    )


def _pid(file: Location) -> str:
    """`` (process 123)`` if the file names one."""
    with suppress(OSError):
        text = file.read_text(errors="replace").strip()
        if text.isdigit():
            return f" (process {text})"
    return ""


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
