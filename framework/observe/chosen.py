"""The observers that who runs a job has chosen, by the environment and the command line; never by a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyband.framework.observe.observers import Observer, Observers

LINEAGE: Final = ("SKYBAND_OPENLINEAGE_URL", "OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
"""Variables that turn on OpenLineage, beside those that begin with ``OPENLINEAGE__TRANSPORT``: Skyband's own, and the client's."""


def chosen(env: Mapping[str, str], metrics_port: int | None = None) -> Observers:
    """Return the observers of a run. Imports nothing of those that are not chosen.

    ``metrics_port``: the port of the metrics for Prometheus. Raises SkybandError SKY-E675 if it cannot be had, SKY-E200 if the library
    is missing.
    """
    found: list[Observer] = []
    notes: list[str] = []
    if sends_lineage(env):
        from skyband.framework.observe.lineage import observer_of

        found.append(observer_of(env))
    if metrics_port is not None or any(name.startswith("OTEL_") for name in env):
        from skyband.framework.observe.metrics.chosen import telemetry

        found += telemetry(env, metrics_port, notes)
    return Observers(found, notes=notes)


def sends_lineage(env: Mapping[str, str]) -> bool:
    """Return whether the environment turns on OpenLineage."""
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(env.get(name) for name in LINEAGE) or any(name.startswith("OPENLINEAGE__TRANSPORT") for name in env)
