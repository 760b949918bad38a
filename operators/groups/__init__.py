"""Groups of rows by exact aggregates."""

from skyband.operators.groups.configuration import GroupsConfiguration, GroupsQuery
from skyband.operators.groups.operator import Groups

__all__ = ["Groups", "GroupsConfiguration", "GroupsQuery"]
