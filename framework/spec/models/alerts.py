"""The section ``alerts`` of a spec: changes of results that become messages to a channel, which the operator has configured by name."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from skyband.framework.base.units import WHOLE, Duration, ExactNumber, Name, Text
from skyband.framework.spec.models.base import Model

MOST_ALERTS: Final = 50
"""The largest number of alerts of a job: each has a thread."""
EVERY: Final = 10_000_000
"""The default of ``every`` in microseconds."""
When = Literal["enter", "leave", "value"]


class Alert(Model):
    """Messages about changes of results, at least once, to a channel of the operator. May change at any time, without a rebuild."""

    channel: Name = Field(description="Name of a channel in the file that SKYBAND_CHANNELS names.")
    queries: tuple[Name, ...] = Field(default=(), description="Queries whose results are watched. Default: all.")
    when: tuple[When, ...] = Field(
        default=("enter", "leave"),
        min_length=1,
        description="When to send a message: an item enters a result, leaves it, or its value passes `above` or `below`.",
    )
    above: ExactNumber | None = Field(default=None, description="For value: an item's value becomes greater than this.")
    below: ExactNumber | None = Field(default=None, description="For value: an item's value becomes smaller than this.")
    message: Text | None = Field(
        default=None,
        max_length=500,
        description="Text of a message; {name} inserts a value. Default: what happened, to which item, and when.",
    )
    history: bool = Field(
        default=False,
        description="Whether the job's first run also sends changes from before its start: those of the history that the source holds.",
    )
    batch: Annotated[int, Field(ge=1, le=1000), WHOLE] = Field(default=100, description="Maximum number of messages in one request.")
    every: Duration | None = Field(default=None, description="Minimum time between two requests. Default: 10 seconds.")
    at_most: Annotated[int, Field(ge=1, le=10_000), WHOLE] = Field(
        default=100, description="Maximum number of messages per minute. Further ones become one message with their number."
    )
