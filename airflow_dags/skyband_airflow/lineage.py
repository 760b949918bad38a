"""Tell Skyband's command which task has started it, for OpenLineage: the run is then shown below the task of Airflow's provider."""

from __future__ import annotations

import logging
from typing import Any, Final

PARENT: Final = "OPENLINEAGE_PARENT_ID"
ROOT: Final = "OPENLINEAGE_ROOT_PARENT_ID"


def parents(task_instance: Any) -> dict[str, str]:
    """Return the variables with the task and its DAG run, as dbt reads them too; none if the provider is not installed, or is off.

    What the provider raises fails no run: it is logged, and the run has no parent.
    """
    try:
        from airflow.providers.openlineage import conf
        from airflow.providers.openlineage.plugins import macros
    except ImportError:
        return {}
    try:
        if conf.is_disabled():
            return {}
        return {PARENT: macros.lineage_parent_id(task_instance), ROOT: macros.lineage_root_parent_id(task_instance)}
    except Exception as e:
        logging.getLogger(__name__).warning("OpenLineage's provider did not name the task: %s: %s", type(e).__name__, e)
        return {}
