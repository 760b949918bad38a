"""The section ``schedule`` of a spec: when and how Airflow runs the job."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from skyband.framework.base.units import WHOLE, PositiveDuration, Text
from skyband.framework.spec.models.base import Model


class Retries(Model):
    """How Airflow retries a run after a temporary failure: every wait is twice the previous one."""

    count: Annotated[int, Field(ge=0, le=100), WHOLE] = Field(default=2, description="Maximum number of retries.")
    wait: PositiveDuration = Field(
        default=60_000_000, description="Wait before the first retry; it doubles with every further one.",
        json_schema_extra={"default": "1 minute"},
    )  # fmt: skip
    longest: PositiveDuration = Field(
        default=3_600_000_000, description="Maximum wait.", json_schema_extra={"default": "1 hour"}
    )  # fmt: skip


class Schedule(Model):
    """When and how Airflow runs the job, in a DAG of its own. Use exactly one of ``cron`` and ``assets``."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["cron"]}, {"required": ["assets"]}]})

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)] | None = Field(
        default=None, description="Id of the DAG. Default: the job's name."
    )
    description: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="One-line description of the DAG."
    )
    owner: Annotated[str, Field(pattern=r"^[^,]+$", max_length=200)] = Field(default="skyband", description="Owner of the DAG.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(default=(), description="Tags of the DAG in Airflow.")
    cron: Text | None = Field(default=None, description="Five cron fields, UTC, or @hourly, @daily, @weekly, @monthly, @yearly.")
    assets: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Run when all of these assets were updated: <job>.<table> of another spec, or an asset's name or URI of any other DAG.",
    )
    retries: Retries = Field(default=Retries(), description="Retries after a temporary failure.")
    timeout: PositiveDuration | None = Field(default=None, description="Stop and retry a run that takes longer.")
    maintain: PositiveDuration = Field(
        default=86_400_000_000, description="How often to run skyband maintain on the tables, after a run.",
        json_schema_extra={"default": "1 day"},
    )  # fmt: skip
    connection: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=200)] | None = Field(
        default=None, description="Airflow connection (of type spark) to the cluster for the runs. Default: the local machine."
    )
    paused: bool = Field(default=False, description="Pause the DAG when Airflow first loads it.")
