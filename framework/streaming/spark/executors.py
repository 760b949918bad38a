"""Executors of a cluster: they are there, have what the driver has, and see the directories that it sees.

All of them are asked before the first batch; those that come later look for themselves (``as_the_driver``).
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
from skyband.framework.storage.locations import is_object, location
from skyband.framework.storage.settings import reached_by_tasks

COMPARED: Final = ("pyarrow", "numpy", "numba")
"""Libraries whose versions are compared: what is computed, and in which order, may depend on them."""
WAIT: Final = "SKYBAND_EXECUTOR_WAIT"
"""Seconds without any executor that are too many."""
DRIVER: Final = "SKYBAND_DRIVER"
"""The environment variable in which executors find the driver's versions."""
_STEP: Final = 0.2
_OBJECTS: Final = "give executors credentials where Python looks for them (docs/how-to/object-storage.md), then run again"

Found = tuple[str, dict[str, str], list[str]]
"""A machine, its versions, the files it does not see."""


def versions() -> dict[str, str]:
    """The versions of Python, Skyband (with a hash of its code) and its libraries here; ``none`` for what is not there."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in COMPARED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found | {"skyband": _code()}


@cache
def as_the_driver() -> None:
    """SkybandError SKY-E612 if this process is an executor's and has other versions than the driver. O(code), once a process."""
    said = os.environ.get(DRIVER)
    if said is not None and (other := _differences(versions(), json.loads(said))):
        raise _another(platform.node(), other)


def told_by_executor(said: str) -> SkybandError | None:
    """The error of ``as_the_driver``, or of object storage, in what Spark says of a task."""
    found = re.search(r"SKY-E612 the environment of executors on (\S+) is another: ([^\n]+)", said)
    if found is not None:
        return _another(found[1], found[2])
    stored = re.search(r"SkybandError: SKY-E630 ([^\n]+)", said)
    return None if stored is None else SkybandError("SKY-E630", f"in a task: {stored[1]}", _OBJECTS)


def _differences(theirs: Mapping[str, str], driver: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {theirs.get(name, 'none')} (here {own})" for name, own in driver.items() if theirs.get(name) != own)


def _another(host: str, differences: str) -> SkybandError:
    hint = "install the same environment there (PYSPARK_PYTHON or --conf spark.pyspark.python=... names its Python)"
    return SkybandError("SKY-E612", f"the environment of executors on {host} is another: {differences}", hint)


def _code() -> str:
    """The hash of all code that workers may run: a version's number says nothing of a checkout."""
    spec = find_spec("skyband")
    if spec is None or spec.origin is None:
        return "none"
    root = Path(spec.origin).parent
    digest = hashlib.sha256()
    for part in ("framework", "operators"):
        for file in sorted((root / part).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def check(spark: SparkSession, home: Path | None) -> None:
    """SkybandError SKY-E614 if no executor comes, SKY-E612 if one has other versions than the driver, SKY-E613 if it does not see ``home``.

    One small job over all executors that are there; ``home``, a sink's own directory (or one of objects), is written to and looked at.
    """
    _await(spark)
    with contextlib.ExitStack() as stack:
        # An earlier command's directory may be one that this user can only read; credentials of a JVM's settings are not for Python there.
        mark = None
        if home is not None and reached_by_tasks(str(home)):
            with contextlib.suppress(OSError, SkybandError):
                mark = stack.enter_context(_marked(home))
        found = _ask(spark, [] if mark is None else [mark])
    own = versions()
    for host, theirs, unseen in found:
        if other := _differences(theirs, own):
            raise _another(host, other)
        if unseen and home is not None:
            _refuse_unseen("the sink", str(home.parent), host)


def see(spark: SparkSession, path: str) -> None:
    """SkybandError SKY-E613 if an executor does not see the local ``path`` that the driver sees."""
    local = local_path(path)
    if local is None or not os.path.exists(local):
        return
    for host, _, unseen in _ask(spark, [local]):
        if unseen:
            _refuse_unseen("the source", path, host)


def _refuse_unseen(what: str, path: str, host: str) -> None:
    hint = _OBJECTS if is_object(path) else "source, sink and checkpoint must be on a file system that all machines see at the same path"
    raise SkybandError("SKY-E613", f"{what} {path} is not seen by executors on {host}", hint)


def unseen(paths: Sequence[str]) -> list[str]:
    """Those of the files and objects that are not seen here, for whatever reason."""

    def there(path: str) -> bool:
        try:
            return location(path).exists()
        except (SkybandError, OSError):
            return False

    return [p for p in paths if not there(p)]


@contextlib.contextmanager
def _marked(home: Path) -> Iterator[str]:
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
        """Whether there is one (or none is needed). SkybandError SKY-E614 if there has been none for ``$SKYBAND_EXECUTOR_WAIT`` seconds."""
        # The driver counts as one.
        there = self._context is None or self._context.getExecutorMemoryStatus().size() > 1
        if there:
            self._since = clock.monotonic()
        elif clock.monotonic() - self._since > self._limit or self._context.isStopped():
            hint = f"has the cluster workers, with the cores and the memory that spark.executor.* asks for? {WAIT} says how long to wait"
            raise SkybandError("SKY-E614", f"there has been no executor for {self._limit:g} s", hint)
        return there


def _await(spark: SparkSession) -> None:
    watch = Watch(spark)
    while not watch.look():
        clock.sleep(_STEP)


def _ask(spark: SparkSession, paths: Sequence[str]) -> list[Found]:
    context = spark.sparkContext
    many = max(4, 2 * context.defaultParallelism)
    asked = _question(list(paths))
    try:
        answers = context.parallelize(range(many), many).mapPartitions(asked).collect()
    except Exception as e:
        told = _without_python(str(e))
        if told is None:
            raise
        raise told from e
    return sorted({host: (host, theirs, unseen) for host, theirs, unseen in answers}.values(), key=lambda f: f[0])


def _without_python(said: str) -> SkybandError | None:
    """SKY-E612 if what Spark says is that executors' Python is another one, or none."""
    hint = "PYSPARK_PYTHON, or --conf spark.pyspark.python=..., names a Python that all machines have, with Skyband"
    if differs := re.search(r"PYTHON_VERSION_MISMATCH\][^:]*: *([0-9.]+)[^0-9]*([0-9.]+)", said):
        return SkybandError("SKY-E612", f"the Python of executors is {differs[1]}, the driver's {differs[2]}", hint)
    if missing := re.search(r'Cannot run program "([^"]+)"', said):
        return SkybandError("SKY-E612", f"executors have no Python {missing[1]}", hint)
    return None


def _question(paths: list[str]) -> Any:
    """What executors run. Sent by value: they may have no Skyband to take it from, and that is an answer, too."""

    def answer(_: Iterable[int]) -> Iterator[Found]:
        import platform

        try:
            from skyband.framework.streaming.spark.executors import unseen, versions
        except ImportError as e:
            yield platform.node(), {"skyband": f"none: {e}"}, []
        else:
            yield platform.node(), versions(), unseen(paths)

    return answer
