"""A topic of Kafka: each record is a row, in JSON or CSV; where it stands (partition and offset) is its origin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skyband.framework.errors import SkybandError, did_you_mean, one_of
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.drop import Drop
from skyband.framework.sources.kafka_records import META, OF_KEY, taken
from skyband.framework.sources.protocol import Mistake, Section

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JAR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
ROWS: Final = "500000"
"""Records of a batch, unless the spec says otherwise: a batch is held in memory."""
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "value": ("json", "csv"), "key": ("text", "json"), "start": ("earliest", "latest"), "tls": ("true", "false"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
}  # fmt: skip
_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "servers": (r"[\w.\-\[\]:]+:\d{1,5}(,[\w.\-\[\]:]+:\d{1,5})*", "HOST:PORT of the brokers, separated by commas"),
    "topic": (r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "the name of one topic"),
    "rows": (r"[1-9]\d{0,8}", "a number of records, the most of one batch"),
    "user": (r"[^\x00-\x1f\x7f]{1,256}", "a text of at most 256 characters"),
    "password": (r"[^\x00-\x1f\x7f]{1,1000}", "a text of at most 1,000 characters"),
}
_OF_CSV: Final = ("sep", "quote", "escape", "nullValue", "dateFormat", "timestampFormat")
_OF_JSON: Final = ("dateFormat", "timestampFormat")
OPTIONS: Final = (*_TEXTS, *_CHOICES, *dict.fromkeys((*_OF_CSV, *_OF_JSON)))
_WHY_NOT: Final[Mapping[str, str]] = {
    "subscribe": "use topic", "subscribePattern": "use topic", "assign": "use topic", "startingOffsets": "use start",
    "maxOffsetsPerTrigger": "use rows", "failOnDataLoss": "rows would be lost without a word",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """Options are Skyband's own: of the client's none can be named, since some of them load classes."""

    jars: tuple[str, ...] = (JAR,)

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        if section.path is not None:
            yield Mistake("SKY-E119", "a topic has no path", ("path",), "source.options.topic names it", of_name=True)
        for name in ("servers", "topic"):
            if name not in section.options:
                yield Mistake("SKY-E111", f"source.options needs '{name}' for format kafka", ("options",), _TEXTS[name][1])
        for name, value in section.options.items():
            yield from self._option(name, value, section)
        yield from self._login(section)
        for column, (source_name, type_) in section.columns.items():
            wanted = META.get(source_name)
            if source_name.startswith("$") and wanted is None and not source_name.startswith(OF_KEY):
                hint = did_you_mean(source_name, META) or f"{one_of(list(META))}, or $key.NAME"
                yield Mistake("SKY-E114", f"'{source_name}' is nothing that a record has", ("schema", column, "from"), hint)
            elif wanted is not None and wanted != type_:
                yield Mistake("SKY-E114", f"{source_name} is {wanted}, not {type_}", ("schema", column), f"declare {wanted}")
            elif source_name.startswith(OF_KEY) and section.options.get("key") != "json":
                yield Mistake("SKY-E114", f"{source_name} needs keys in JSON", ("schema", column, "from"), "options: {key: json}")

    def _option(self, name: str, value: str, section: Section) -> Iterator[Mistake]:
        at = ("options", name)
        if name not in OPTIONS:
            hint = _WHY_NOT.get(name) or did_you_mean(name, OPTIONS) or f"options of kafka: {one_of(OPTIONS, 40)}"
            yield Mistake("SKY-E119", f"format kafka does not take the option '{name[:64]}'", at, hint, of_name=True)
        elif name in _CHOICES and value not in _CHOICES[name]:
            yield Mistake("SKY-E114", f"'{name}' is {one_of(_CHOICES[name])}", at)
        elif name in _TEXTS and re.fullmatch(_TEXTS[name][0], value) is None:
            yield Mistake("SKY-E114", f"'{name}' takes {_TEXTS[name][1]}", at)
        elif name in _OF_CSV and name not in _OF_JSON and section.options.get("value") != "csv":
            yield Mistake("SKY-E119", f"'{name}' is for values in CSV", at, "options: {value: csv}", of_name=True)
        elif name not in _CHOICES and name not in _TEXTS and (len(value) > 100 or "\0" in value):
            yield Mistake("SKY-E114", f"the value of '{name}' is longer than 100 characters, or not text", at)
        elif name == "password" and name not in section.secret:
            yield Mistake("SKY-E119", "a password does not stand in a spec", at, 'password: "${NAME}" takes it from the environment')

    def _login(self, section: Section) -> Iterator[Mistake]:
        given = {n for n in ("user", "password", "mechanism") if n in section.options}
        for name in ("user", "password"):
            if given and name not in given:
                yield Mistake("SKY-E111", f"source.options needs '{name}' as well", ("options",), "a login is user, password and mechanism")

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``."""
        return {"value": "json", "start": "earliest", "rows": ROWS, **options}

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """See ``SourceFormat.columns``."""
        return None

    def stream(
        self, spark: SparkSession, source: SourceNode, columns: list[str] | None, without: Sequence[str] = (), drop: Drop | None = None
    ) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources import kafka_reading

        return kafka_reading.stream(spark, source)

    def watch(self, source: SourceNode, columns: list[str] | None, home: Path) -> None:
        """See ``SourceFormat.watch``: the engine itself fails if records are gone."""

    def drops(self, source: SourceNode, columns: list[str] | None, home: Path) -> None:
        """See ``SourceFormat.drops``: a topic's records have an order."""

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Path) -> DataFrame:
        """See ``SourceFormat.again``: for as long as the topic holds the records."""
        from skyband.framework.sources import kafka_reading

        first, after = taken(checkpoint)
        return kafka_reading.between(spark, source, first, after)

    def failure(self, said: str, columns: list[str] | None) -> SkybandError | None:
        """See ``SourceFormat.failure``: records that are gone, brokers that do not answer."""
        if re.search(r"KAFKA_DATA_LOSS|data may have been lost|OffsetOutOfRange|STARTING_OFFSET_DOES_NOT_MATCH", said):
            hint = "they were deleted before the job came to them: see the topic's retention; start again with skyband rebuild SPEC"
            return SkybandError("SKY-E301", "records that the job has not read are no longer in the topic", hint=hint)
        if re.search(r"UnknownTopicOrPartition", said):
            return SkybandError("SKY-E301", "there is no such topic", hint="make it, or mend source.options.topic")
        if re.search(r"SaslAuthentication|AuthorizationException|Authentication failed", said):
            return SkybandError("SKY-E301", "the brokers refuse the login", hint="see user, password and mechanism of source.options")
        if re.search(r"No resolvable bootstrap urls|kafka.*TimeoutException|TimeoutException.*(topic|node|partition)", said, re.DOTALL):
            return SkybandError("SKY-E301", "no broker answers", hint="are they running? source.options.servers names them")
        return None
