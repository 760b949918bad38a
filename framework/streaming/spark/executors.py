"""Check the executors of a cluster: there is one, it has the driver's versions, and it sees the driver's directories.

The driver checks all executors before the first batch. Executors that start later check themselves (``require_driver_versions``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import secrets
import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from skyband.framework.base.errors import SkybandError
from skyband.framework.settings.spark import seconds
from skyband.framework.sources.logs import local_path
from skyband.framework.spark_adapter.jvm import scala_context
from skyband.framework.storage.location import Location, is_object, location
from skyband.framework.storage.settings import reached_by_tasks

COMPARED: Final = ("pyarrow", "numpy", "numba")
"""Libraries whose versions must be equal, because results and their order may depend on them."""
WAIT: Final = "SKYBAND_EXECUTOR_WAIT"
"""The environment variable with the seconds for which a run goes on without an executor."""
DRIVER: Final = "SKYBAND_DRIVER"
"""The environment variable in which executors find the driver's versions."""
_STEP: Final = 0.2
_OBJECTS: Final = "give executors credentials where Python looks for them (docs/how-to/object-storage.md), then run again"

Found = tuple[str, dict[str, str], list[str]]
"""A host, its versions, and the files that it does not see."""


def versions() -> dict[str, str]:
    """Return the versions of Python, Skyband (a hash of its code) and its libraries in this process; ``none`` for what is not installed."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in COMPARED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found | {"skyband": _code()}


@cache
def require_driver_versions() -> None:
    """Raise SkybandError SKY-E612 if this is an executor's process and its versions differ from the driver's. O(code), once per process."""
    said = os.environ.get(DRIVER)
    if said is not None and (other := _differences(versions(), json.loads(said))):
        raise _another(platform.node(), other)


def error_from_executor(said: str) -> SkybandError | None:
    """Return the error of ``require_driver_versions``, or of object storage, that Spark's message about a task contains; else None."""
    found = re.search(r"SKY-E612 the environment of executors on (\S+) differs: ([^\n]+)", said)
    if found is not None:
        return _another(found[1], found[2])
    stored = re.search(r"SkybandError: SKY-E630 ([^\n]+)", said)
    return None if stored is None else SkybandError("SKY-E630", f"in a task: {stored[1]}", _OBJECTS)


def _differences(theirs: Mapping[str, str], driver: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {theirs.get(name, 'none')} (here {own})" for name, own in driver.items() if theirs.get(name) != own)


def _another(host: str, differences: str) -> SkybandError:
    hint = "install the same environment there (PYSPARK_PYTHON or --conf spark.pyspark.python=... names its Python)"
    return SkybandError("SKY-E612", f"the environment of executors on {host} differs: {differences}", hint)


def _code() -> str:
    """Return the hash of all code that workers may run: the version number of a checkout does not identify its code."""
    spec = find_spec("skyband")
    if spec is None or spec.origin is None:
        return "none"
    root = Path(spec.origin).parent
    digest = hashlib.sha256()
    for part in ("framework", "operators"):
        for file in sorted((root / part).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def check(spark: SparkSession, home: Location | None) -> None:
    """Check all executors by one small job, which looks for a file that the driver writes to ``home``, the sink's own directory.

    Raise SkybandError SKY-E614 if no executor starts, SKY-E612 if one has other versions than the driver, SKY-E613 if it does not see
    ``home``.
    """
    _await(spark)
    with contextlib.ExitStack() as stack:
        # An earlier command's directory may be read-only for this user; Python on executors has no credentials from Spark's settings.
        mark = None
        if home is not None and reached_by_tasks(str(home)):
            with contextlib.suppress(OSError, SkybandError):
                mark = stack.enter_context(_marked(home))
        found = _reports(spark, [] if mark is None else [mark])
    own = versions()
    for host, theirs, unseen in found:
        if other := _differences(theirs, own):
            raise _another(host, other)
        if unseen and home is not None:
            _refuse_unseen("the sink", str(home.parent), host)


def see(spark: SparkSession, path: str) -> None:
    """Raise SkybandError SKY-E613 if an executor does not see the local ``path`` that the driver sees."""
    local = local_path(path)
    if local is None or not os.path.exists(local):
        return
    for host, _, unseen in _reports(spark, [local]):
        if unseen:
            _refuse_unseen("the source", path, host)


def _refuse_unseen(what: str, path: str, host: str) -> None:
    hint = _OBJECTS if is_object(path) else "source, sink and checkpoint must be on a file system that all machines see at the same path"
    raise SkybandError("SKY-E613", f"{what} {path} is not seen by executors on {host}", hint)


def unseen(paths: Sequence[str]) -> list[str]:
    """Return the files and objects that this process does not see, for whatever reason."""

    def visible(path: str) -> bool:
        try:
            return location(path).exists()
        except (SkybandError, OSError):
            return False

    return [p for p in paths if not visible(p)]


@contextlib.contextmanager
def _marked(home: Location) -> Iterator[str]:
    """A file of this moment's in ``home``: another machine's directory of that name has none."""
    mark = home / f"seen-{secrets.token_hex(8)}"
    mark.write_bytes(b"seen")
    try:
        yield str(mark)
    finally:
        mark.unlink(missing_ok=True)


class Watch:
    """Looks again and again whether there are executors; never on one machine, where Spark is its own."""

    def __init__(self, spark: SparkSession) -> None:
        local = (spark.sparkContext.master or "").startswith("local")
        self._context: Any = None if local else scala_context(spark)
        self._limit = seconds(WAIT, "120")
        self._since = clock.monotonic()

    def look(self) -> bool:
        """Return True if there is an executor, or none is needed. Raise SKY-E614 after ``$SKYBAND_EXECUTOR_WAIT`` seconds."""
        # Spark counts the driver as one.
        present = self._context is None or self._context.getExecutorMemoryStatus().size() > 1
        if present:
            self._since = clock.monotonic()
        elif clock.monotonic() - self._since > self._limit or self._context.isStopped():
            hint = f"check that the cluster has workers with the cores and memory of spark.executor.*; {WAIT} sets how long to wait"
            raise SkybandError("SKY-E614", f"there has been no executor for {self._limit:g} s", hint)
        return present


def _await(spark: SparkSession) -> None:
    watch = Watch(spark)
    while not watch.look():
        clock.sleep(_STEP)


def _reports(spark: SparkSession, paths: Sequence[str]) -> list[Found]:
    context = spark.sparkContext
    many = max(4, 2 * context.defaultParallelism)
    task = _report_of(list(paths))
    try:
        answers = context.parallelize(range(many), many).mapPartitions(task).collect()
    except Exception as e:
        unusable = _python_error(str(e))
        if unusable is None:
            raise
        raise unusable from e
    return sorted({host: (host, theirs, unseen) for host, theirs, unseen in answers}.values(), key=lambda f: f[0])


def _python_error(said: str) -> SkybandError | None:
    """Return SKY-E612 if Spark's message says that executors have another version of Python, or none; else None."""
    hint = "PYSPARK_PYTHON, or --conf spark.pyspark.python=..., names a Python that all machines have, with Skyband"
    if differs := re.search(r"PYTHON_VERSION_MISMATCH\][^:]*: *([0-9.]+)[^0-9]*([0-9.]+)", said):
        return SkybandError("SKY-E612", f"the Python of executors is {differs[1]}, the driver's {differs[2]}", hint)
    if missing := re.search(r'Cannot run program "([^"]+)"', said):
        return SkybandError("SKY-E612", f"executors have no Python {missing[1]}", hint)
    return None


def _report_of(paths: list[str]) -> Any:
    """Return the function that executors run. It is pickled by value, because executors may lack Skyband; the function reports that too."""

    def answer(_: Iterable[int]) -> Iterator[Found]:
        import platform

        try:
            from skyband.framework.streaming.spark.executors import unseen, versions
        except ImportError as e:
            yield platform.node(), {"skyband": f"none: {e}"}, []
        else:
            yield platform.node(), versions(), unseen(paths)

    return answer
