"""The Maven packages that a plan needs, and a replacement for one that some mirrors lack. Does not import Spark.

Kafka's reader needs ``spark-token-provider-kafka-0-10`` of Spark's own version. Where that does not resolve, an
earlier version is used as a jar file: Spark must not request the missing package, and an exclusion applies to all versions of a package.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from skyband.framework.plan.model import Plan
from skyband.framework.sources.kafka.client import JAR
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.settings import SPARK_JARS, scheme_of
from skyband.operators.jit import cache_directory

PROVIDER: Final = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
OLDER: Final = "4.0.0"
"""The version that replaces Spark's own: the class that Kafka's reader loads has not changed since."""
_JARS, _EXCLUDES = "spark.jars", "spark.jars.excludes"
_SECONDS: Final = 300

Resolve = Callable[[str], "Path | None"]
"""Maps a package's coordinates to its jar file; to None if it does not resolve."""


def packages(plan: Plan, alerts: bool = False) -> tuple[str, ...]:
    """Return the Maven coordinates for ``get_session``, without duplicates. ``alerts``: also those to send the job's alerts.

    Raises SkybandError SKY-E660 or SKY-E661 if the channels of ``alerts`` are not configured.
    """
    schemes = {scheme_of(path) for path in (*(part.path for _, part in plan.source.each), plan.sink) if path is not None}
    stored = (jar for scheme, jars in SPARK_JARS.items() if scheme in schemes for jar in jars)
    source, kafka = plan.source, [JAR] if plan.kafka is not None or (alerts and _alerts_use_kafka(plan)) else []
    return tuple(dict.fromkeys((*source_format(source.format).packages(source), *stored, *kafka)))


def _alerts_use_kafka(plan: Plan) -> bool:
    if not plan.alerts:
        return False
    from skyband.framework.alerts.channels import use_kafka

    return use_kafka(plan.job, plan.alerts)


def with_provider(settings: Mapping[str, Any], resolve: Resolve, warn: Callable[[str], None]) -> dict[str, Any]:
    """Return ``settings`` with the older token provider, and warn, if they have Kafka's package and its own provider does not resolve.

    Return them unchanged if neither resolves: Spark then reports which package is missing and where it has searched.
    """
    own = f"{PROVIDER}:{JAR.rpartition(':')[2]}"
    if JAR not in str(settings.get("spark.jars.packages", "")).split(",") or resolve(own) is not None:
        return dict(settings)
    older = resolve(f"{PROVIDER}:{OLDER}")
    if older is None:
        return dict(settings)
    warn(f"{own} does not resolve: {OLDER} is used instead")
    added = {_JARS: str(older), _EXCLUDES: PROVIDER}
    return {**settings, **{name: ",".join(filter(None, (settings.get(name), value))) for name, value in added.items()}}


def resolver(java: Path, spark_home: Path) -> Resolve:
    """Return a resolver that runs Ivy from Spark's jars, as Spark does; each call takes one or two seconds."""

    def resolve(coordinates: str) -> Path | None:
        group, artifact, version = coordinates.split(":")
        directory = cache_directory() / "engine" / "packages"
        words = ["-cache", str(directory / "ivy"), "-dependency", group, artifact, version, "-notransitive", "-confs", "default"]
        words += ["-retrieve", f"{directory}/[artifact]-[revision].[ext]"]
        found = directory / f"{artifact}-{version}.jar"
        try:
            command = [str(java / "bin" / "java"), "-cp", f"{spark_home}/jars/*", "org.apache.ivy.Main", *words]
            subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=_SECONDS)
        except (OSError, subprocess.SubprocessError):
            return None
        return found if found.exists() else None

    return resolve
