"""Thresholds of groups: all groups whose score, an expression over aggregates of their rows, is above a bound."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path as FilePath
from typing import Literal

from pydantic import Field

from skyband.framework.base.counts import number_text
from skyband.framework.base.units import ExactNumber
from skyband.framework.queries.group_rows.compile import GroupRows
from skyband.framework.queries.group_rows.groups_type import GroupsType
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path

# The entry of a spec: all groups above a bound.


class ThresholdGroups(GroupRows):
    """All groups with a score above a bound."""

    type: Literal["threshold_groups"]
    above: ExactNumber = Field(description="A group enters when its score is above this.")
    below: ExactNumber | None = Field(
        default=None, description="A group that is in leaves when its score is below this. Default: as soon as it is not above 'above'."
    )


class ThresholdGroupsType(GroupsType):
    """See ``protocol.QueryType``."""

    name = "threshold_groups"
    model = ThresholdGroups
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    shows_k = False

    def check(self, scope: Scope, path: Path, query: ThresholdGroups) -> None:
        """Check what all groups have, and that ``below`` is not greater than ``above``."""
        super().check(scope, path, query)
        at = (*path, "below")
        if query.below is not None and Fraction(repr(query.below)) > Fraction(repr(query.above)) and not scope.doc.bad(at):
            message = "'below' is greater than 'above': a group would leave where it enters"
            scope.doc.add("SKY-E117", message, scope.doc.where_value(at), f"at most {number_text(query.above)}")


QUERY_TYPE = ThresholdGroupsType()
