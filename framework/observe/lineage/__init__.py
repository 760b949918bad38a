"""OpenLineage: events of runs with their datasets, columns and checks. Off unless who runs the job names a receiver."""

from __future__ import annotations

from collections.abc import Mapping

from skyband.framework.base.errors import SkybandError
from skyband.framework.console.receivers import NotDelivered
from skyband.framework.observe.observers import Observer, StartedRun


class Unavailable(Observer):
    """Stands for an observer that cannot be made: no run fails for that, but its end reports why."""

    name = "OpenLineage"

    def __init__(self, why: str) -> None:
        self.why = why

    def started(self, run: StartedRun) -> None:
        """Raise NotDelivered."""
        raise NotDelivered(self.why)


def observer_of(env: Mapping[str, str]) -> Observer:
    """Return the observer that ``env`` configures. Imports all that it needs: its thread must not import what the run imports."""
    try:
        from skyband.framework.observe.lineage.client import connect
        from skyband.framework.observe.lineage.observer import Lineage
        from skyband.framework.observe.lineage.parent import parent_facet

        return Lineage(connect(env), env.get("OPENLINEAGE_NAMESPACE") or "skyband", parent_facet(env))
    except SkybandError as e:
        return Unavailable(f"{e.message}: {e.hint}")
    except NotDelivered as e:
        return Unavailable(str(e))
