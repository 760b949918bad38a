"""A sink that is the source, contains it or lies in it is refused before anything is looked at; so are names kept for Skyband."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyband.framework.spec.load import validate_file, validate_text
from skyband.framework.storage.location import overlap
from tests.framework.spec.examples import ENV, SENSORS


@pytest.mark.parametrize(
    "source, sink",
    [
        ("/data/in", "/data/in"),
        ("/data/in/", "/data/./in"),
        ("/data/in", "/data/in/out"),
        ("/data/in", "/data"),
        ("/data/in", "/data/in/../in/x"),
        ("file:///data/in", "/data/in/out"),
        ("file:/data/in", "file:///data/in"),
        ("in", "./in/out"),
        ("in", "."),
        ("/data/*/in", "/data/x/in/out"),
        ("/data/{in,more}", "/data/more"),
        ("s3://bucket/in", "s3://bucket/in/out"),
        ("/data/in", "/"),
        ("/data/in", "/../."),
        ("/data/in", "file:///"),
    ],
)
def test_a_sink_over_the_source_is_refused(source: str, sink: str) -> None:
    text = SENSORS.replace("${LANDING}/sensors/", source).replace("${WAREHOUSE}/sensor_anomalies", sink)
    _, errors = validate_text(text, ENV)
    assert [e.code for e in errors] == ["SKY-E119"]
    assert errors[0].where is not None and text.splitlines()[errors[0].where.line - 1].startswith("sink:")


@pytest.mark.parametrize(
    "source, sink",
    [
        ("/data/in", "/data/out"),
        ("/data/in", "/data/inside"),
        ("/data/in*/a", "/data/out"),
        ("s3://a/in", "/in"),
        ("/data/{a,b}", "/data/c"),
    ],
)
def test_a_sink_beside_the_source_is_taken(source: str, sink: str) -> None:
    assert not overlap(source, sink)


@pytest.mark.parametrize("name", ["_skyband", "_anomalies", "__x"])
def test_query_names_that_begin_with_an_underscore_are_refused(name: str) -> None:
    _, errors = validate_text(SENSORS.replace("  twins:  ", f"  {name}:  "), ENV)
    assert [(e.code, e.message) for e in errors] == [("SKY-E116", f"the query name '{name}' begins with _")]


@pytest.mark.parametrize(
    "odd, said", [("out [2024]", "[ ]"), ("a%25b", "%25"), ("a?b", "?"), ("{x}", "{ }"), ("a*", "*"), ("a|b^c", "| ^"), ("a\\b", "\\")]
)
def test_a_sink_whose_path_the_libraries_would_take_for_another_is_refused(odd: str, said: str, tmp_path: Path) -> None:
    text = SENSORS.replace('"${WAREHOUSE}/sensor_anomalies"', json.dumps(f"/{odd}"))
    errors = validate_text(text, ENV)[1]
    assert [e.code for e in errors] == ["SKY-E119"] and f"the sink's path contains {said}, which" in errors[0].message
    assert errors[0].where is not None and text.splitlines()[errors[0].where.line - 1].startswith("sink:")
    # The directory of the spec counts too.
    (tmp_path / odd).mkdir()
    (tmp_path / odd / "job.yaml").write_text(SENSORS.replace("${WAREHOUSE}/", "./"))
    assert [e.code for e in validate_file(tmp_path / odd / "job.yaml", ENV)[1]] == ["SKY-E119"]


@pytest.mark.parametrize("name", ["a b", "ä", "#1", "100%", "a%zz", "a:b", "a;b", "a&b", "(1)", "'", "~"])
def test_other_names_of_sinks_are_good(name: str) -> None:
    assert validate_text(SENSORS.replace('"${WAREHOUSE}/sensor_anomalies"', json.dumps(f"/out/{name}")), ENV)[1] == []
