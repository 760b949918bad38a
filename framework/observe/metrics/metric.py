"""One metric: its name for OpenTelemetry, and the name for Prometheus that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from skyband.framework.streaming.run.batch import Batch

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

JOB: Final = "skyband.job"
"""The label that every metric has first: the job of the spec."""
_SUFFIXES: Final[Mapping[str, str]] = {"s": "_seconds", "By": "_bytes"}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. ``name``: for OpenTelemetry. ``unit``: of UCUM, as OpenTelemetry has it. ``labels``: beside ``JOB``.

    ``read`` gives the metric's part of a batch by the values of its labels: what a counter rises by, a gauge's value, or what a histogram
    observes. None: the metric is not read from batches. ``bounds``: the upper bounds of a histogram's buckets.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    read: Callable[[Batch], Mapping[Labels, float]] | None = None
    bounds: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """Return the name for Prometheus, by the rule with which OpenTelemetry's own receivers translate names.

        Dots become underscores; the unit follows, if it is none in braces; counters end with ``_total``.
        """
        return plain(self.name) + _SUFFIXES.get(self.unit, "") + ("_total" if self.kind == "counter" else "")

    @property
    def prometheus_labels(self) -> tuple[str, ...]:
        """Return the names of all labels for Prometheus, the job's first."""
        return tuple(plain(label) for label in (JOB, *self.labels))


def plain(name: str) -> str:
    """Return an OpenTelemetry name as Prometheus spells it."""
    return name.replace(".", "_")


def version() -> str:
    """Return the version of Skyband, empty if it is not installed as a package."""
    try:
        return metadata.version("skyband")
    except metadata.PackageNotFoundError:
        return ""
