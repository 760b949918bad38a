"""The run that has started this one, as schedulers and dbt give it: ``OPENLINEAGE_PARENT_ID`` is namespace/job/run id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from skyband.framework.base.extras import extra

with extra("lineage", "OpenLineage"):
    from openlineage.client.facet_v2 import parent_run

PARENT = "OPENLINEAGE_PARENT_ID"
ROOT = "OPENLINEAGE_ROOT_PARENT_ID"


class _Run(NamedTuple):
    namespace: str
    job: str
    id: str


def parent_facet(env: Mapping[str, str]) -> parent_run.ParentRunFacet | None:
    """Return the parent, and the root of all parents if it is given; None if there is none, or it is not written so."""
    parent, root = _run(env.get(PARENT)), _run(env.get(ROOT))
    if parent is None:
        return None
    above = None if root is None else parent_run.Root(parent_run.RootRun(root.id), parent_run.RootJob(root.namespace, root.job))
    return parent_run.ParentRunFacet(parent_run.Run(parent.id), parent_run.Job(parent.namespace, parent.job), above)


def _run(text: str | None) -> _Run | None:
    """Return the parts of ``namespace/job/run id``. A namespace may have slashes itself."""
    parts = (text or "").strip().rsplit("/", 2)
    if len(parts) != 3 or not all(parts):
        return None
    try:
        UUID(parts[2])
    except ValueError:
        return None
    return _Run(*parts)
