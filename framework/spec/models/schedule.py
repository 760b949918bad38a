"""The spec's part ``schedule``, field by field: when and how Airflow runs the job."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from skyband.framework.base.units import WHOLE, PositiveDuration, Text
from skyband.framework.spec.models.base import Model


class Retries(Model):
    """How often Airflow tries a run again that failed for what may pass: every wait is twice the one before."""

    count: Annotated[int, Field(ge=0, le=100), WHOLE] = Field(default=2, description="Most further tries.")
    wait: PositiveDuration = Field(
        default=60_000_000, description="Before the first further try; doubled for every one after it.",
        json_schema_extra={"default": "1 minute"},
    )  # fmt: skip
    longest: PositiveDuration = Field(
        default=3_600_000_000, description="No wait is longer.", json_schema_extra={"default": "1 hour"}
    )  # fmt: skip


class Schedule(Model):
    """When and how Airflow runs the job: a DAG of its own. Exactly one of ``cron`` and ``assets``."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["cron"]}, {"required": ["assets"]}]})

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)] | None = Field(
        default=None, description="The DAG's id; default: the job's name."
    )
    description: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="What the DAG is for, in a line."
    )
    owner: Annotated[str, Field(pattern=r"^[^,]+$", max_length=200)] = Field(default="skyband", description="Who looks after it.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        default=(), description="Labels to find it by in Airflow."
    )
    cron: Text | None = Field(default=None, description="Five cron fields, UTC, or @hourly, @daily, @weekly, @monthly, @yearly.")
    assets: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Run when all of these have news: <job>.<table> of another spec, or an asset's name or URI in any other DAG.",
    )
    retries: Retries = Field(default=Retries(), description="What happens after a run that failed for what may pass.")
    timeout: PositiveDuration | None = Field(default=None, description="A run that takes longer is stopped, and tried again.")
    maintain: PositiveDuration = Field(
        default=86_400_000_000, description="How often the tables are tidied (skyband maintain), after a run.",
        json_schema_extra={"default": "1 day"},
    )  # fmt: skip
    connection: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)] | None = Field(
        default=None, description="The Airflow connection (of type spark) to the cluster that runs compute on; default: the machine itself."
    )
    paused: bool = Field(default=False, description="Whether the DAG is paused when Airflow first sees it.")
