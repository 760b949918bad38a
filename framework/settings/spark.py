"""Settings for starting Spark and the number of tasks. They come from the user who runs a job, never from its spec. Standard library only.

Precedence: options of the command, environment variables, the project's file (``project_file``), defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import conceal
from skyband.framework.settings.project_file import read, setting_problem
from skyband.framework.spec.parsing.positions import is_secret

MASTER: Final = "SKYBAND_MASTER"
CONF: Final = "SKYBAND_CONF"
"""The environment variable with settings, one ``NAME=VALUE`` per line: for those that must not be on a command line."""
DEFAULT: Final = "local[*]"
PROFILE: Final = "SKYBAND_PROFILE"

_MEMORY: Final = "spark.driver.memory"
_LOCAL: Final = re.compile(r"local(\[(\*|\d{1,5})(,\d{1,5})?\])?")
_MASTER: Final = re.compile(r"spark://[^\s/,@]+:\d{1,5}(,[^\s/,@]+:\d{1,5})*|yarn|k8s://\S+")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The master, and the user's Spark settings by name, which override Skyband's own."""

    master: str
    conf: Mapping[str, str]

    @property
    def local(self) -> bool:
        """Return True if Spark runs its tasks in the driver's JVM."""
        return _LOCAL.fullmatch(self.master) is not None

    def secrets(self) -> list[str]:
        """Return the settings whose names say that they are secrets."""
        return [name for name in self.conf if is_secret((name,))]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The command's options for Spark. ``alone``: the command is not about a user's job, so it runs locally whatever is configured."""

    master: str | None = None
    conf: tuple[str, ...] = ()
    alone: bool = False


_process_options = SparkOptions()


def set_process_options(options: SparkOptions) -> None:
    """Make ``options`` the options of this process. Raise as ``spark_settings``, so that mistakes are reported at once."""
    global _process_options
    spark_settings(options)
    _process_options = options


def spark_settings(options: SparkOptions | None = None, env: Mapping[str, str] = os.environ) -> SparkSettings:
    """Return the effective settings, and conceal the values of secrets from now on.

    Raise SkybandError SKY-E610 or SKY-E611 (see ``project_file.read``); SKY-E611 for an option or a variable that may not be given.
    """
    options = options or _process_options
    memory = {_MEMORY: env["SKYBAND_DRIVER_MEMORY"]} if "SKYBAND_DRIVER_MEMORY" in env else {}
    if options.alone:
        return SparkSettings(env[MASTER] if _LOCAL.fullmatch(env.get(MASTER, "")) else DEFAULT, memory)
    master, conf = read(env, env.get(PROFILE))
    lines = (line.strip() for line in env.get(CONF, "").splitlines())
    conf |= memory | _pairs(CONF, (line for line in lines if line)) | _pairs("--conf", options.conf)
    for name, value in conf.items():
        if is_secret((name,)):
            conceal(name, value)
    chosen = options.master or env.get(MASTER) or master or DEFAULT
    if not (_LOCAL.fullmatch(chosen) or _MASTER.fullmatch(chosen)):
        hint = "use local[N], spark://HOST:PORT, yarn or k8s://...; for several masters spark://HOST:PORT,HOST:PORT"
        raise SkybandError("SKY-E611", f"{chosen!r} is not a master", hint)
    return SparkSettings(chosen, conf)


def seconds(name: str, default: str, env: Mapping[str, str] = os.environ) -> float:
    """Return the seconds in the environment variable ``name``. Raise SkybandError SKY-E201 if it is not a number."""
    text = env.get(name, default)
    try:
        return max(0.0, float(text))
    except ValueError:
        raise SkybandError("SKY-E201", f"{name} is not a number of seconds: {text!r}") from None


def _pairs(origin: str, given: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise SkybandError("SKY-E611", f"{origin} takes NAME=VALUE", "such as spark.executor.memory=4g")
        if wrong := setting_problem(name.strip()):
            raise SkybandError("SKY-E611", f"{origin}: {wrong}")
        found[name.strip()] = value.strip()
    return found


IMPLEMENTATION: Final = "spark.sql.catalogImplementation"
"""Spark's setting of its session catalog: ``hive`` for a Hive metastore."""
_METASTORE: Final = {
    "spark.hadoop.hive.metastore.client.socket.timeout": "10s",
    "spark.hadoop.hive.metastore.connect.retries": "1",
    "spark.hadoop.hive.metastore.failure.retries": "0",
    "spark.hadoop.hive.metastore.client.connect.retry.delay": "1s",
}


def metastore_limits(conf: Mapping[str, str]) -> Mapping[str, str]:
    """Return settings that bound how long Spark waits for the Hive metastore, if ``conf``, the user's settings, choose one."""
    return _METASTORE if conf.get(IMPLEMENTATION) == "hive" else {}


TASKS: Final = "SKYBAND_SHUFFLE_PARTITIONS"
"""The environment variable with the number of tasks."""
DEFAULT_TASKS: Final = 2
"""The number of tasks of a first run by default."""


def requested_tasks(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the requested number of tasks, None if it is not set. Raise SkybandError SKY-E201 if it is invalid."""
    said = environ.get(TASKS)
    if not said:
        return None
    if not (said.isascii() and said.isdecimal() and len(said) <= 6 and int(said) > 0):
        raise SkybandError("SKY-E201", f"{TASKS} is not a number of tasks", hint="set it to a whole number from 1 to 999999")
    return int(said)
