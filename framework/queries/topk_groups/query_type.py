"""Top-k of groups: the k groups with the greatest or smallest score, an expression over aggregates of their rows."""

from __future__ import annotations

from pathlib import Path as FilePath

from skyband.framework.queries.group_rows.groups_type import GroupsType
from skyband.framework.queries.topk_groups.model import TopKGroups


class TopKGroupsType(GroupsType):
    """See ``protocol.QueryType``."""

    name = "topk_groups"
    model = TopKGroups
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")


QUERY_TYPE = TopKGroupsType()
