"""A sink that is the source, contains it or lies in it is refused before anything is looked at; so are names kept for Skyband."""

from __future__ import annotations

import pytest

from skyband.framework.spec.load import validate_text
from skyband.framework.spec.places import overlap
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
