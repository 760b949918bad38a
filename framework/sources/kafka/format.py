"""The format ``kafka``: each record of a topic is a row, in JSON, CSV or Avro. Its partition and offset are its origin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.kafka.avro_schema import columns, rebuilt
from skyband.framework.sources.kafka.client import AVRO, JAR, MECHANISMS, NO_PASSWORD, TEXTS, TOPIC, lacking, refused
from skyband.framework.sources.kafka.records import META, OF_KEY, taken
from skyband.framework.sources.position import OF_RECORDS, PositionColumn
from skyband.framework.sources.protocol import Mistake, Section, SourceFormat
from skyband.framework.sources.watermark_caps import WatermarkCaps
from skyband.framework.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = "500000"
"""Default number of records of a batch, which has to fit into memory."""
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "value": ("json", "csv", "avro"), "framing": ("none", "confluent"),
    "key": ("text", "json"), "start": ("earliest", "latest"), "tls": ("true", "false"),
    "mechanism": MECHANISMS,
}  # fmt: skip
_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    **TEXTS,
    "topic": (TOPIC, "the name of one topic"),
    "rows": (r"[1-9]\d{0,8}", "a number of records, the most of one batch"),
}
_OF_CSV: Final = ("sep", "quote", "escape", "nullValue", "dateFormat", "timestampFormat")
_OF_JSON: Final = ("dateFormat", "timestampFormat")
_OF_AVRO: Final = ("avro_schema", "framing")
OPTIONS: Final = (*_TEXTS, *_CHOICES, "avro_schema", *dict.fromkeys((*_OF_CSV, *_OF_JSON)))
_WHY_NOT: Final[Mapping[str, str]] = {
    "subscribe": "use topic", "subscribePattern": "use topic", "assign": "use topic", "startingOffsets": "use start",
    "maxOffsetsPerTrigger": "use rows", "failOnDataLoss": "rows would be lost without a word",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KafkaFormat(SourceFormat):
    """Reads a topic. A spec cannot name the client's own options, since some of them load classes."""

    jars: tuple[str, ...] = (JAR,)
    position: ClassVar[tuple[PositionColumn, ...]] = OF_RECORDS

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
        if section.options.get("value") == "avro":
            yield from self._avro(section)
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
        elif name in _OF_AVRO and section.options.get("value") != "avro":
            yield Mistake("SKY-E119", f"'{name}' is for values in Avro", at, "options: {value: avro}", of_name=True)
        elif name in _CHOICES and value not in _CHOICES[name]:
            yield Mistake("SKY-E114", f"'{name}' is {one_of(_CHOICES[name])}", at)
        elif name in _TEXTS and re.fullmatch(_TEXTS[name][0], value) is None:
            yield Mistake("SKY-E114", f"'{name}' takes {_TEXTS[name][1]}", at)
        elif name in _OF_CSV and name not in _OF_JSON and section.options.get("value") != "csv":
            yield Mistake("SKY-E119", f"'{name}' is for values in CSV", at, "options: {value: csv}", of_name=True)
        elif name not in (*_CHOICES, *_TEXTS, *_OF_AVRO) and (len(value) > 100 or "\0" in value):
            yield Mistake("SKY-E114", f"the value of '{name}' is longer than 100 characters, or not text", at)
        elif name == "password" and name not in section.secret:
            yield Mistake("SKY-E119", NO_PASSWORD[0], at, NO_PASSWORD[1])

    def _avro(self, section: Section) -> Iterator[Mistake]:
        at = ("options", "avro_schema")
        if "avro_schema" not in section.options:
            said = "source.options needs 'avro_schema' for values in Avro"
            yield Mistake("SKY-E111", said, ("options",), "the schema of the record, in JSON")
            return
        try:
            fields = columns(rebuilt(section.options["avro_schema"]))
        except ValueError as e:
            yield Mistake("SKY-E114", f"this is no schema of Avro for a record: {e}", at)
            return
        for column, (source_name, type_) in section.columns.items():
            if source_name.startswith("$"):
                continue
            if source_name not in fields:
                hint = did_you_mean(source_name, fields) or f"fields: {one_of(list(fields), 20)}"
                yield Mistake("SKY-E114", f"the schema has no field '{source_name}'", ("schema", column), hint)
            elif type_ not in fields[source_name]:
                hint = f"declare {one_of(fields[source_name])}" if fields[source_name] else "no column can be made of it"
                yield Mistake("SKY-E114", f"the field '{source_name}' cannot be read as {type_}", ("schema", column), hint)

    def _login(self, section: Section) -> Iterator[Mistake]:
        for name in lacking(set(section.options)):
            yield Mistake("SKY-E111", f"source.options needs '{name}' as well", ("options",), "a login needs user, password and mechanism")

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``."""
        return {"value": "json", "start": "earliest", "rows": ROWS, **options}

    def packages(self, source: SourceNode) -> tuple[str, ...]:
        """See ``SourceFormat.packages``: values in Avro need another one."""
        return (*self.jars, AVRO) if dict(source.options).get("value") == "avro" else self.jars

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources.kafka import spark_reader

        return spark_reader.stream(spark, source)

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Location) -> DataFrame:
        """See ``SourceFormat.again``: for as long as the topic holds the records."""
        from skyband.framework.sources.kafka import spark_reader

        first, after = taken(checkpoint)
        return spark_reader.between(spark, source, first, after)

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """See ``SourceFormat.failure``: records that are gone, brokers that do not answer."""
        if re.search(r"KAFKA_DATA_LOSS|data may have been lost|OffsetOutOfRange|STARTING_OFFSET_DOES_NOT_MATCH", said):
            hint = "they were deleted before the job came to them: see the topic's retention; start again with skyband rebuild SPEC"
            return SkybandError("SKY-E301", "records that the job has not read are no longer in the topic", hint=hint)
        known = refused(said)
        return None if known is None else SkybandError("SKY-E301", known[0], hint=f"{known[1]}: see source.options")
