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
