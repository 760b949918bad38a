"""Build the command line of Spark's JVM from what an earlier start found out, so that Spark's own script need not run.

Spark's script starts one JVM to compute the command line, and the second JVM resolves packages before it begins. The results are the same
at every start. They are kept (``Known``) beside the compiled kernels, in a directory of this user alone. With an unchanged class path the
JVM can also map its classes from an archive (``skyband warm`` makes it) instead of parsing and verifying them.

If the environment configures Spark's start (``SPARK_HOME`` and others of ``_OTHERS``), Spark's script runs as usual. Does not import
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
"""Environment variables that Spark's script respects and this module does not."""

QUICK: Final = "-XX:TieredStopAtLevel=1"
"""Use the JVM's first compiler only, which compiles faster, to slower code: for runs that end within a minute."""


@dataclass(frozen=True, slots=True)
class Known:
    """The results of an earlier start: jar files of packages as [path, bytes, modification time in ns], and the JVM options of
    Spark's launcher."""

    jars: list[list[Any]]
    options: list[str]

    def paths(self) -> list[str]:
        """Return the paths of the jar files."""
        return [str(path) for path, _, _ in self.jars]

    def fits(self) -> bool:
        """Return True if no jar file has changed."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return all(_state(path) == [path, size, modified] for path, size, modified in self.jars)
        return False


def known(spark_home: Path, packages: Sequence[str], excludes: Sequence[str]) -> Known | None:
    """Return the results of an earlier start with these packages; None if there was none or a jar file has changed."""
    if any(os.environ.get(name) for name in _OTHERS):
        return None
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = Known(**mapping(_record(spark_home, packages, excludes).read_text()))
        return found if found.fits() else None
    return None


def remember(spark_home: Path, packages: Sequence[str], excludes: Sequence[str], jars: Sequence[str], options: Sequence[str]) -> None:
    """Keep the results of a start. If they cannot be written, later starts find them out again."""
    if any(os.environ.get(name) for name in _OTHERS):
        return
    with contextlib.suppress(OSError):
        record = _record(spark_home, packages, excludes)
        record.parent.mkdir(mode=0o700, exist_ok=True)
        durable.replace(record, json.dumps(asdict(Known([_state(j) for j in jars], list(options)))))


def archive(java: Path, spark_home: Path, found: Known) -> Path:
    """Return the path of the archive of classes for this Java and class path. The JVM ignores an archive that does not fit."""
    with contextlib.suppress(OSError):
        release = (java / "release").read_text(errors="replace")
        return kept() / f"classes-{_hash(str(java), release, class_path(spark_home, found))}.jsa"
    return kept() / "classes-none.jsa"


def spark_home() -> Path:
    """Return Spark's directory: ``SPARK_HOME``, else PySpark's own directory, which is found without importing PySpark."""
    if os.environ.get("SPARK_HOME"):
        return Path(os.environ["SPARK_HOME"])
    found = find_spec("pyspark")
    for directory in (found.submodule_search_locations or []) if found else []:
        if (Path(directory) / "jars").is_dir():
            return Path(directory)
    return find_spark_home()


def class_path(spark_home: Path, found: Known) -> str:
    """Return the class path: Spark's jar files and those of packages. It has no directories, because with one the JVM uses no archive."""
    return os.pathsep.join([*_own(spark_home), *found.paths()])


def command(script: Sequence[str], settings: Mapping[str, Any], java: Path, spark_home: Path, found: Known, make: Path | None) -> list[str]:
    """Return the ``java`` command line that replaces ``script``, the command line of Spark's script.

    ``settings``: Spark's settings, of which memory and options concern the JVM; ``make``: the archive of classes to write when it ends.
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
        *script[1:],
    ]


def environment(of: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    """Return the environment ``of`` with the variables that Spark's script adds.

    ``SPARK_HOME`` is left out if workers run this Python, which has PySpark: they would import PySpark from Spark's archive of sources,
    and compile it again, which takes a second per process.
    """
    home = {} if of.get("PYSPARK_PYTHON") == sys.executable else {"SPARK_HOME": str(spark_home)}
    return {**of, **home, "PYTHONHASHSEED": "0"}


def _record(spark_home: Path, packages: Sequence[str], excludes: Sequence[str]) -> Path:
    return kept() / f"start-{_hash(*_own(spark_home), *packages, *excludes)}.json"


def _own(spark_home: Path) -> list[str]:
    """Return Spark's own jar files, whose names contain its version, without MLlib: it registers functions with every session, which
    takes half a second at every start."""
    return sorted(str(p) for p in (spark_home / "jars").iterdir() if p.suffix == ".jar" and not p.name.startswith("spark-mllib_"))


def kept() -> Path:
    """Return the directory, of this user alone, in which starts leave notes for later ones."""
    return cache_directory() / "engine"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _state(path: str) -> list[Any]:
    found = os.stat(path)
    return [path, found.st_size, found.st_mtime_ns]
