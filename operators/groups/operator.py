"""Groups: the first k by an expression over aggregates, and those above a bound (docs/algorithms D7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.operators.base import State
from skyband.operators.groups.configuration import GroupsConfiguration

if TYPE_CHECKING:
    from skyband.operators.groups.logic import GroupsLogic


class Groups(GroupsConfiguration):
    """The operator of a ``GroupsConfiguration``: one state for all queries of the same groups, score and window."""

    def build(self, state: State | None) -> GroupsLogic:
        """Return a logic that continues ``state`` bit for bit, or starts empty."""
        from skyband.operators.groups.logic import GroupsLogic

        return GroupsLogic(self, state)
