"""Where a job's tables go, and who else is sent their changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pydantic import Field

from skyband.framework.base.units import Name, Text
from skyband.framework.spec.models.base import Model

TOPIC: Final = "{job}.{query}.changes"
"""The name of a topic unless a spec says otherwise."""


class KafkaSink(Model):
    """Topics that every committed change is sent to, at least once."""

    servers: Text = Field(description="HOST:PORT of brokers, separated by commas.")
    topic: Text = Field(
        default=TOPIC, description="The topics' name; {job} and {query} stand for names. Without {query} there is one topic for all."
    )
    queries: tuple[Name, ...] = Field(default=(), description="The queries whose changes are sent; all if none is named.")
    user: Text | None = Field(default=None, description="User name of a login.")
    password: Text | None = Field(default=None, repr=False, description="Its password, from the environment: ${NAME}.")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How to log in; SCRAM-SHA-512 if a login is given."
    )
    tls: bool = Field(default=False, description="Whether the brokers are spoken to over TLS.")


class Sink(Model):
    """Where the tables go."""

    path: Text = Field(description="Directory of the job's Delta tables, from the directory of the spec; the checkpoint lives below it.")
    kafka: KafkaSink | None = Field(default=None, description="Topics of Kafka that the changes are sent to besides.")


def topics(kafka: KafkaSink, job: str, queries: Iterable[str]) -> list[tuple[str, str]]:
    """(query, topic) of the queries whose changes are sent; ``queries``: those of the spec."""
    return [(q, kafka.topic.replace("{job}", job).replace("{query}", q)) for q in kafka.queries or queries]
