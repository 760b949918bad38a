"""The section ``sink`` of a spec: the directory of the job's tables, and the Kafka sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from skyband.framework.base.units import Name, Text
from skyband.framework.spec.models.base import Model

TOPIC: Final = "{job}.{query}.changes"
"""The default name of a topic."""


class KafkaSink(Model):
    """The Kafka sink: topics that receive every committed change at least once."""

    servers: Text = Field(description="HOST:PORT of the brokers, comma-separated.")
    topic: Text = Field(
        default=TOPIC,
        description="Name of the topics, in which {job} and {query} insert names. Without {query} all queries share one topic.",
    )
    queries: tuple[Name, ...] = Field(default=(), description="Queries whose changes are sent. Default: all.")
    user: Text | None = Field(default=None, description="User name of the login.")
    password: Text | None = Field(default=None, repr=False, description="Password of the login, from the environment: ${NAME}.")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="Mechanism of the login. Default: SCRAM-SHA-512 if a login is given."
    )
    tls: bool = Field(default=False, description="Connect to the brokers over TLS.")


def _feed(value: Any) -> Any:
    return "<queries>" if isinstance(value, (list, tuple)) else "<all>"


Feed = Annotated[Annotated[bool, Tag("<all>")] | Annotated[tuple[Name, ...], Tag("<queries>")], Discriminator(_feed)]


class Sink(Model):
    """Where the job writes its tables."""

    path: Text = Field(description="Directory of the job's Delta tables and its checkpoint, relative to the spec's directory.")
    catalog: Text | None = Field(
        default=None, description="Schema of a catalog in which all tables are registered: CATALOG.SCHEMA of Unity Catalog, or SCHEMA of "
        "the Hive metastore. Who runs the job configures where the catalog is.",
    )  # fmt: skip
    kafka: KafkaSink | None = Field(default=None, description="Also send the changes to Kafka topics.")
    iceberg: bool = Field(
        default=False, description="Also write Iceberg metadata over the same Parquet files whenever results are published, below _iceberg."
    )
    change_data_feed: Feed = Field(
        default=False, description="Keep Delta's change data feed for the tables of results: of all queries, or of the listed ones."
    )


def with_feed(sink: Sink, queries: Iterable[str]) -> tuple[str, ...]:
    """Return the queries whose tables of results have a change data feed; ``queries`` are those of the spec."""
    if isinstance(sink.change_data_feed, tuple):
        return sink.change_data_feed
    return tuple(queries) if sink.change_data_feed else ()


def topics(kafka: KafkaSink, job: str, queries: Iterable[str]) -> list[tuple[str, str]]:
    """Return (query, topic) of the queries whose changes are sent; ``queries`` are those of the spec."""
    return [(q, kafka.topic.replace("{job}", job).replace("{query}", q)) for q in kafka.queries or queries]
