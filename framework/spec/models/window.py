"""The window of a spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from skyband.framework.base.units import WHOLE, PositiveDuration
from skyband.framework.spec.models.base import Model


class WindowSpec(Model):
    """A sliding window: the most recent ``count`` rows, ``time``, or both (whichever ends first)."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["count"]}, {"required": ["time"]}]})

    count: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(default=None, description="The most recent N rows of a key.")
    time: PositiveDuration | None = Field(default=None, description="Rows no older than this.")
