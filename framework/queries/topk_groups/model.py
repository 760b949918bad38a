"""The entry of a spec: the k first groups."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.queries.group_rows.model import GroupRows
from skyband.framework.queries.models import K


class TopKGroups(GroupRows):
    """The k groups with the greatest (or smallest) score."""

    type: Literal["topk_groups"]
    k: K = Field(description="How many groups.")
    direction: Literal["min", "max"] = Field(default="max", description="Which scores rank first.")
    ties: Literal["name", "include"] = Field(
        default="name", description="Groups that equal the k-th: the first by name count, or all of them (include)."
    )
