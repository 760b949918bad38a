"""The entry of a spec: all groups above a bound."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skyband.framework.base.units import ExactNumber
from skyband.framework.queries.group_rows.model import GroupRows


class ThresholdGroups(GroupRows):
    """All groups with a score above a bound."""

    type: Literal["threshold_groups"]
    above: ExactNumber = Field(description="A group enters when its score is above this.")
    below: ExactNumber | None = Field(
        default=None, description="A group that is in leaves when its score is below this. Default: as soon as it is not above 'above'."
    )
