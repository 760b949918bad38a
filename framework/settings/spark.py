"""Settings for starting Spark and the number of tasks. They come from the user who runs a job, never from its spec. Standard library only.

Precedence: options of the command, environment variables, the project's file (``project_file``), defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, Where, did_you_mean, one_of
from skyband.framework.base.redaction import conceal
from skyband.framework.settings.toml_file import line_of, parse, read_text
from skyband.framework.spec.parsing.positions import is_secret

# Read ``skyband.toml``: the user's Spark settings, with profiles. Standard library only.
#
# It is the file that ``SKYBAND_CONFIG`` names, else the one in the working directory; never one beside a spec, whose author must not decide
# how Spark is started (docs/explanation/security.md).

# The Spark settings that users may change, and why they may not change the others. Standard library only.
#
# Of ``spark.sql.*`` and ``spark.databricks.*`` only listed settings may be changed: almost all others change the meaning of values (times,
# arithmetic, readers of files) or the state between batches, and results must not depend on who runs the job.

STARTS_SPARK: Final = "it is part of how Skyband starts Spark"
_OPEN: Final = (
    "spark.sql.autoBroadcastJoinThreshold", "spark.sql.broadcastTimeout", "spark.sql.debug.maxToStringFields",
    "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes",
    "spark.sql.files.minPartitionNum", "spark.sql.files.maxPartitionNum",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism", "spark.sql.warehouse.dir",
    "spark.sql.catalogImplementation", "spark.sql.hive.metastore.version", "spark.sql.hive.metastore.jars",
    "spark.sql.hive.metastore.jars.path", "spark.sql.hive.metastore.sharedPrefixes",
)  # fmt: skip
"""Settings of ``spark.sql`` for sizes, paths, times and the metastore, on which no value depends."""
_FIXED: Final = {
    "spark.sql.shuffle.partitions": "SKYBAND_SHUFFLE_PARTITIONS says how many tasks run buckets",
    "spark.sql.session.timeZone": "times are UTC",
    "spark.sql.ansi.": "what does not parse is rejected with its reason, not an error",
    "spark.sql.variable.": "texts of a spec could read the environment",
    "spark.sql.extensions": STARTS_SPARK,
    "spark.sql.catalog": STARTS_SPARK,
    "spark.sql.adaptive.": "the tasks of a query would be others from batch to batch",
    "spark.sql.streaming.": "what is kept between batches would be lost or read otherwise",
    "spark.sql.": "the values that Spark computes must not depend on who runs the job",
    "spark.databricks.": "commits of tables must not depend on who runs the job",
    "spark.jars.excludes": STARTS_SPARK,
    "spark.master": "--master says it",
    "spark.submit.deployMode": "the driver is the command's own process",
    "spark.remote": "the driver is the command's own process",
    "spark.api.mode": "the driver is the command's own process",
    "spark.app.name": "the job's name is",
    "spark.executorEnv.PYTHONSAFEPATH": "modules would be imported from the working directory",
    "spark.executorEnv.SKYBAND_DRIVER": STARTS_SPARK,
}
"""Setting, or prefix if it ends with a dot -> why it is fixed. The first match counts."""


def fixed_reason(name: str) -> str | None:
    """Return why the setting ``name`` may not be changed; None if it may."""
    if name in _OPEN:
        return None
    return next((why for fixed, why in _FIXED.items() if name == fixed or name.startswith(fixed.rstrip(".") + ".")), None)


CONFIG: Final = "SKYBAND_CONFIG"
"""The environment variable that names the file; empty: use no file."""
NAME: Final = "skyband.toml"
_KEYS: Final = ("master", "conf")

Settings = tuple[str | None, dict[str, str]]
"""The master, if the file names one, and Spark settings."""


def read(env: Mapping[str, str], profile: str | None) -> Settings:
    """Return the file's settings, with those of ``profile`` over the others; (None, {}) if there is no file.

    Raise SkybandError SKY-E610 for a file that cannot be used, SKY-E611 for a setting that may not be changed, both with the line.
    """
    path = _path(env)
    if path is None:
        return None, {}
    untrusted = None if CONFIG in env else f"it could start any program; if you trust it, name it by {CONFIG}"
    text = read_text(path, "SKY-E610", f"{CONFIG} names the file of Spark settings", untrusted)
    whole = parse(path, text, "SKY-E610")
    return _File(path, text).settings(whole, profile)


def _path(env: Mapping[str, str]) -> Path | None:
    if CONFIG in env:
        return Path(env[CONFIG]).absolute() if env[CONFIG] else None
    here = Path(NAME).absolute()
    return here if os.path.lexists(here) else None


class _File:
    """A parsed TOML file; checks its parts and returns their settings."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text

    def settings(self, whole: dict[str, Any], profile: str | None) -> Settings:
        """Return the settings, with those of ``profile`` over the others. Check all parts, including unused profiles."""
        self._only(whole, ("engine", "profile"), ())
        master, conf = self._engine(whole, ())
        profiles = self._table(whole, "profile", ())
        for name in profiles:
            place = ("profile", name)
            self._only(self._table(profiles, name, place[:1]), ("engine",), place)
            own, more = self._engine(profiles[name], place)
            if name == profile:
                master, conf = own or master, conf | more
        return master, conf

    def _engine(self, of: dict[str, Any], place: tuple[str, ...]) -> Settings:
        engine = self._table(of, "engine", place)
        place = (*place, "engine")
        self._only(engine, _KEYS, place)
        master = engine.get("master")
        if not isinstance(master, (str, type(None))):
            raise self._wrong("SKY-E610", 'master is a text, such as "spark://host:7077"', (*place, "master"))
        return master, dict(self._conf(self._table(engine, "conf", place), (*place, "conf"), ""))

    def _conf(self, table: dict[str, Any], place: tuple[str, ...], prefix: str) -> Iterator[tuple[str, str]]:
        """Yield settings by their full names, whether these are quoted keys or nested tables of TOML."""
        for key, value in table.items():
            name, at = prefix + key, (*place, key)
            if isinstance(value, dict):
                yield from self._conf(value, at, f"{name}.")
                continue
            if not isinstance(value, (str, int, float)):
                raise self._wrong("SKY-E610", f"{name} takes a text, a number, true or false", at)
            if wrong := setting_problem(name):
                raise self._wrong("SKY-E611", wrong, at)
            yield name, str(value).lower() if isinstance(value, bool) else str(value)

    def _table(self, of: dict[str, Any], name: str, place: tuple[str, ...]) -> dict[str, Any]:
        found = of.get(name, {})
        if not isinstance(found, dict):
            raise self._wrong("SKY-E610", f"{'.'.join((*place, name))} is a table: [{'.'.join((*place, name))}]", (*place, name))
        return found

    def _only(self, table: dict[str, Any], known: tuple[str, ...], place: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                inside = f" in [{'.'.join(place)}]" if place else ""
                hint = did_you_mean(key, known) or f"known: {one_of(known)}"
                raise self._wrong("SKY-E610", f"unknown key {key!r}{inside}", (*place, key), hint)

    def _wrong(self, code: str, said: str, place: tuple[str, ...], hint: str | None = None) -> SkybandError:
        return SkybandError(code, said, hint, Where(str(self.path), line_of(self.text, place), 1))


def setting_problem(name: str) -> str | None:
    """Return why the user may not set ``name``; None if the user may."""
    if not re.fullmatch(r"spark\.[A-Za-z0-9_.\-]{1,300}", name):
        return f"{name!r} is not a Spark setting: their names begin with spark."
    why = fixed_reason(name)
    return None if why is None else f"{name} may not be changed: {why}"


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
