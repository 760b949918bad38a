"""Which of two versions of a package Spark starts with: decided by what resolves, and told."""

from __future__ import annotations

from pathlib import Path

from skyband.framework.base.java import find_java_home
from skyband.framework.sources.kafka.client import JAR
from skyband.framework.streaming.spark.packages import OLDER, PROVIDER, Resolve, resolver, with_provider

OWN = f"{PROVIDER}:4.2.0"
SETTINGS = {"spark.jars.packages": f"io.delta:x:1,{JAR}", "spark.jars.excludes": "a:b", "spark.x": "1"}


def told(there: set[str], asked: list[str]) -> Resolve:
    """A resolver that has these packages, and notes what it is asked."""

    def resolve(coordinates: str) -> Path | None:
        asked.append(coordinates)
        return Path("/cache/it.jar") if coordinates in there else None

    return resolve


def test_sparks_own_version_where_it_resolves() -> None:
    asked: list[str] = []
    said: list[str] = []
    assert with_provider(SETTINGS, told({OWN, f"{PROVIDER}:{OLDER}"}, asked), said.append) == SETTINGS
    assert asked == [OWN] and said == [] and JAR.endswith(":4.2.0")


def test_the_older_one_where_it_does_not() -> None:
    said: list[str] = []
    made = with_provider(SETTINGS, told({f"{PROVIDER}:{OLDER}"}, []), said.append)
    assert made == {**SETTINGS, "spark.jars": "/cache/it.jar", "spark.jars.excludes": f"a:b,{PROVIDER}"}
    assert len(said) == 1 and OWN in said[0] and OLDER in said[0]
    mine = with_provider({**SETTINGS, "spark.jars": "/own.jar"}, told({f"{PROVIDER}:{OLDER}"}, []), said.append)
    assert mine["spark.jars"] == "/own.jar,/cache/it.jar"


def test_nothing_is_resolved_without_kafka_and_nothing_changed_where_neither_resolves() -> None:
    asked: list[str] = []
    without = {**SETTINGS, "spark.jars.packages": "io.delta:x:1"}
    assert with_provider(without, told(set(), asked), asked.append) == without and asked == []
    assert with_provider({"spark.x": "1"}, told(set(), asked), asked.append) == {"spark.x": "1"} and asked == []
    said: list[str] = []
    assert with_provider(SETTINGS, told(set(), []), said.append) == SETTINGS and said == []


def test_a_resolver_that_cannot_run_has_nothing(tmp_path: Path) -> None:
    java = find_java_home()
    assert java is not None
    assert resolver(tmp_path, tmp_path)(OWN) is None
    # No such library.
    assert resolver(java, tmp_path)("org.example:absent:0") is None
