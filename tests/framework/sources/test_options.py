"""Options of readers: only those on the format's list reach Spark, whatever the case of their letters."""

from __future__ import annotations

import pytest

from skyband.framework.sources.options import CSV, DELTA, JSON, ORC, PARQUET, WHY_NOT
from skyband.framework.spec.load import validate_text
from tests.framework.spec.examples import ENV, SENSORS

ALLOWED = {"csv": CSV, "json": JSON, "parquet": PARQUET, "orc": ORC, "delta": DELTA}


def found(format_: str, options: str) -> list[tuple[str, str, str | None]]:
    text = SENSORS.replace("format: csv ", f"format: {format_} ").replace("{header: true}", options)
    return [(e.code, e.message, e.hint) for e in validate_text(text, ENV)[1]]


@pytest.mark.parametrize("format_", list(ALLOWED))
@pytest.mark.parametrize(
    "option",
    [
        "cleanSource: delete", "cleansource: delete", "CLEANSOURCE: archive", "sourceArchiveDir: /tmp/x", "ignoreCorruptFiles: true",
        "ignoreMissingFiles: true", "rowValidationXSDPath: /etc/passwd", "path: /etc", "paths: /etc", "mode: DROPMALFORMED",
        "columnNameOfCorruptRecord: temp", "maxFileAge: 1s", "modifiedAfter: '2024-01-01'", "modifiedBefore: '2024-01-01'",
        "skipChangeCommits: true", "failOnDataLoss: 'false'", "excludeRegex: .*", "fs.s3a.endpoint: evil.example", "fs.file.impl: Evil",
        "parquet.crypto.factory.class: Evil", "io.compression.codecs: Evil", "latestFirst: true", "fileNameOnly: true",
    ],
)  # fmt: skip
def test_options_that_delete_move_lose_or_reach_elsewhere_are_refused(format_: str, option: str) -> None:
    name = option.split(":")[0]
    (only,) = found(format_, "{" + option + "}")
    assert only[:2] == ("SKY-E119", f"format {format_} does not take the option '{name}'")
    assert only[2]


def test_a_misspelled_option_is_pointed_at() -> None:
    assert found("csv", "{heder: true}") == [("SKY-E119", "format csv does not take the option 'heder'", "did you mean 'header'?")]
    assert found("csv", "{cleanSource: delete}")[0][2] == "it would delete or move the source's files"


def test_an_option_twice_in_another_case_and_a_long_value_are_refused() -> None:
    assert [f[0] for f in found("csv", "{header: true, HEADER: 'false'}")] == ["SKY-E102"]
    assert [f[0] for f in found("csv", "{header: true, nullValue: " + "x" * 2000 + "}")] == ["SKY-E114"]


def test_what_readers_need_is_still_taken() -> None:
    assert found("csv", "{Header: true, SEP: ';', pathGlobFilter: '*.csv', recursiveFileLookup: true, nullValue: NA}") == []
    assert found("json", "{multiLine: true, timestampFormat: yyyy}") == []


@pytest.mark.parametrize("format_", list(ALLOWED))
def test_every_option_on_a_list_has_its_reason(format_: str) -> None:
    assert all(ALLOWED[format_].values())
    refused = {name.lower() for name in WHY_NOT}
    assert not refused & {name.lower() for name in ALLOWED[format_]}


@pytest.mark.parametrize(
    ("format_", "option", "takes"),
    [
        ("csv", "header: maybe", "true or false"),
        ("csv", "header: 'yes'", "true or false"),
        ("json", "MULTILINE: 1", "true or false"),
        ("parquet", "mergeSchema: ja", "true or false"),
        ("csv", "timeZone: Mars/X", "the name of a time zone"),
        ("json", "timezone: localtime", "the name of a time zone"),
        ("json", "timeZone: ''", "the name of a time zone"),
        ("json", "timeZone: ../../etc/passwd", "the name of a time zone"),
        ("csv", "timeZone: '+25:00'", "the name of a time zone"),
        ("csv", "maxColumns: many", "a whole number from 1"),
        ("json", "maxNestingDepth: -1", "a whole number from 1"),
        ("json", "maxStringLen: 99999999999", "a whole number from 1"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_named(format_: str, option: str, takes: str) -> None:
    ((code, message, hint),) = found(format_, "{" + option + "}")
    assert (code, message) == ("SKY-E113", f"the option '{option.partition(':')[0]}' takes {takes}") and hint


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Z", "+01:00", "GMT+1", "UTC-08:30", "EST5EDT", "PST"])
def test_time_zones_that_spark_takes_are_taken(zone: str) -> None:
    assert found("csv", f"{{header: true, timeZone: '{zone}'}}") == []


def of_path(path: str, format_: str) -> list[tuple[str, str]]:
    text = SENSORS.replace("format: csv ", f"format: {format_} ").replace("{header: true}", "{}")
    written = next(line for line in text.splitlines() if line.strip().startswith("path:"))
    return [(e.code, e.message) for e in validate_text(text.replace(written, f"{written.partition('path:')[0]}path: {path}", 1), ENV)[1]]


@pytest.mark.parametrize("format_", ["csv", "parquet", "delta"])
@pytest.mark.parametrize(
    "path", ["http://host/x", "HTTPS://host/x", "ftp://host/x", "jar://file:/a.jar!/b", "har://x/y", "s3n://x/y", "a+b://x"]
)
def test_paths_of_other_systems_are_refused(path: str, format_: str) -> None:
    scheme = path.partition(":")[0].lower()
    assert of_path(path, format_) == [("SKY-E113", f"sources are not read from {scheme}: paths")]


@pytest.mark.parametrize(
    "path", ["in", "/data/in", "file:///data/in", "file:/data/in", "s3://bucket/in", "s3a://bucket/in", "hdfs://host/in", "a:b"]
)
def test_paths_of_supported_systems_are_taken(path: str) -> None:
    assert of_path(path, "csv") == []
