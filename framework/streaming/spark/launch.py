"""How Spark's process is started: as Spark's own script does it or, where that is known from an earlier start, by ``java`` itself.

Spark's script starts a JVM that finds out how Spark's JVM is to be started, and that one resolves packages before it begins. Both
find the same at every start, so it is kept (``Known``) beside the compiled kernels, in a directory that is this user's alone. On one class
path the JVM can also take its classes from an archive (``skyband warm`` makes it): verified and parsed once, mapped at every start.

Where the environment says how Spark is to be started (``SPARK_HOME`` and others of ``_OTHERS``), Spark's script has its way. Imports no
Spark. Measured in docs/reference/benchmarks-start.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.plain_json import mapping
from skyband.framework.spark_adapter.driver import find_spark_home
from skyband.framework.storage import durable
from skyband.operators.jit import cache_directory

_OTHERS: Final = ("SPARK_HOME", "SPARK_SUBMIT_OPTS", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS")
"""Variables of the environment that Spark's script heeds and we do not."""

QUICK: Final = "-XX:TieredStopAtLevel=1"
"""The JVM's first compiler alone: it compiles faster, code that runs up to some times slower. For what is over in a minute."""


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier start found out: jar files of packages as [path, bytes, time of modification in ns], and the options that Spark
    wants its JVM to have."""

    jars: list[list[Any]]
    options: list[str]

    def paths(self) -> list[str]:
        """The jar files' paths."""
        return [str(path) for path, _, _ in self.jars]

    def fits(self) -> bool:
        """Whether all jar files are as they were."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return all(_state(path) == [path, size, modified] for path, size, modified in self.jars)
        return False


def known(spark_home: Path, packages: Sequence[str], excludes: Sequence[str]) -> Known | None:
    """What is known of starts of the Spark in ``spark_home`` with these packages; None if nothing is, or a jar file is gone or another."""
    if any(os.environ.get(name) for name in _OTHERS):
        return None
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = Known(**mapping(_record(spark_home, packages, excludes).read_text()))
        return found if found.fits() else None
    return None


def remember(spark_home: Path, packages: Sequence[str], excludes: Sequence[str], jars: Sequence[str], options: Sequence[str]) -> None:
    """Keeps what a start found out; where it cannot be kept, later starts find out again."""
    if any(os.environ.get(name) for name in _OTHERS):
        return
    with contextlib.suppress(OSError):
        record = _record(spark_home, packages, excludes)
        record.parent.mkdir(mode=0o700, exist_ok=True)
        durable.replace(record, json.dumps(asdict(Known([_state(j) for j in jars], list(options)))))


def archive(java: Path, spark_home: Path, found: Known) -> Path:
    """Where the archive of classes is, or would be, for this Java and this class path. The JVM itself refuses one that does not fit."""
    with contextlib.suppress(OSError):
        release = (java / "release").read_text(errors="replace")
        return kept() / f"classes-{_hash(str(java), release, class_path(spark_home, found))}.jsa"
    return kept() / "classes-none.jsa"


def spark_home() -> Path:
    """Where Spark is: ``SPARK_HOME``, else in PySpark's own directory (which is found without importing it)."""
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    found = find_spec("pyspark")
    for directory in (found.submodule_search_locations or []) if found else []:
        if (Path(directory) / "jars").is_dir():
            return Path(directory)
    return find_spark_home()


def class_path(spark_home: Path, found: Known) -> str:
    """Spark's own jar files and those of packages. No directories: with one, the JVM uses no archive."""
    return os.pathsep.join([*_own(spark_home), *found.paths()])


def command(asked: Sequence[str], settings: Mapping[str, Any], java: Path, spark_home: Path, found: Known, make: Path | None) -> list[str]:
    """Spark's command line, in place of ``asked``: Spark's script and its arguments. ``make``: the archive to make at its end.

    ``settings``: Spark's, of which memory and options concern the JVM.
    """
    shared = archive(java, spark_home, found)
    classes = [f"-XX:ArchiveClassesAtExit={make}"] if make else [f"-XX:SharedArchiveFile={shared}"] if shared.exists() else []
    return [
        str(java / "bin" / "java"),
        "-cp",
        class_path(spark_home, found),
        f"-Xmx{settings['spark.driver.memory']}",
        *found.options,
        f"-Dlog4j2.configurationFile={Path(__file__).parent / 'conf' / 'log4j2.properties'}",
        *shlex.split(settings["spark.driver.extraJavaOptions"]),
        *classes,
        "org.apache.spark.deploy.SparkSubmit",
        *asked[1:],
    ]


def environment(of: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """``of``, with what Spark's script adds to it.

    Without ``SPARK_HOME`` where workers run this very Python, which has PySpark already: they would import it from Spark's archive of
    sources, compiling all of it anew, which takes each process that Spark starts a second.
    """
    home = {} if of.get("PYSPARK_PYTHON") == sys.executable else {"SPARK_HOME": str(spark_home)}
    return {**of, **home, "PYTHONHASHSEED": "0"}


def _record(spark_home: Path, packages: Sequence[str], excludes: Sequence[str]) -> Path:
    return kept() / f"start-{_hash(*_own(spark_home), *packages, *excludes)}.json"


def _own(spark_home: Path) -> list[str]:
    """Spark's own jar files; their names tell its version. Without its machine learning, which registers functions with every session:
    half a second of Scala's reflection at every start."""
    return sorted(str(p) for p in (spark_home / "jars").iterdir() if p.suffix == ".jar" and not p.name.startswith("spark-mllib_"))


def kept() -> Path:
    """The directory, this user's alone, of what earlier starts leave for later ones."""
    return cache_directory() / "engine"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _state(path: str) -> list[Any]:
    there = os.stat(path)
    return [path, there.st_size, there.st_mtime_ns]
