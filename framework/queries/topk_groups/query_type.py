"""Top-k of groups: the k groups with the greatest or smallest score, an expression over aggregates of their rows."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Literal

from pydantic import Field

from skyband.framework.queries.group_rows.compile import GroupRows
from skyband.framework.queries.group_rows.groups_type import GroupsType
from skyband.framework.queries.models import K

# The entry of a spec: the k first groups.


class TopKGroups(GroupRows):
    """The k groups with the greatest (or smallest) score."""

    type: Literal["topk_groups"]
    k: K = Field(description="How many groups.")
    direction: Literal["min", "max"] = Field(default="max", description="Which scores rank first.")
    ties: Literal["name", "include"] = Field(
        default="name", description="Groups that equal the k-th: the first by name count, or all of them (include)."
    )


class TopKGroupsType(GroupsType):
    """See ``protocol.QueryType``."""

    name = "topk_groups"
    model = TopKGroups
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")


QUERY_TYPE = TopKGroupsType()
