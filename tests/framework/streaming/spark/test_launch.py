"""How Spark's process is started: what is known of earlier starts is used only while it is true."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from skyband.framework.streaming.spark import launch

SETTINGS = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": '-Xss16m "-Djava.io.tmpdir=/a b"'}
ASKED = ["/spark/bin/spark-submit", "--conf", "spark.master=local[2]", "pyspark-shell"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark's directory with two jar files, and its machine learning; the cache is the test's own."""
    for name in launch._OTHERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launch, "cache_directory", lambda: tmp_path)
    (tmp_path / "spark" / "jars" / "folder").mkdir(parents=True)
    for name in ("spark/jars/core-4.2.0.jar", "spark/jars/a.jar", "spark/jars/spark-mllib_2.13-4.2.0.jar", "delta.jar"):
        (tmp_path / name).write_text(name)
    return tmp_path


def remembered(place: Path) -> launch.Known:
    launch.remember(place / "spark", ["delta:1"], ["x:y"], [str(place / "delta.jar")], ["--add-opens=a"])
    known = launch.known(place / "spark", ["delta:1"], ["x:y"])
    assert known is not None
    return known


def test_what_a_start_found_is_known_to_the_next_one(place: Path) -> None:
    assert launch.known(place / "spark", ["delta:1"], ["x:y"]) is None
    known = remembered(place)
    assert known.paths() == [str(place / "delta.jar")] and known.options == ["--add-opens=a"]


@pytest.mark.parametrize("packages, excludes", [(["delta:2"], ["x:y"]), (["delta:1"], []), (["delta:1", "kafka:1"], ["x:y"])])
def test_other_packages_are_not_known(place: Path, packages: list[str], excludes: list[str]) -> None:
    remembered(place)
    assert launch.known(place / "spark", packages, excludes) is None


def test_another_spark_is_not_known(place: Path) -> None:
    remembered(place)
    (place / "spark" / "jars" / "core-4.2.0.jar").rename(place / "spark" / "jars" / "core-4.3.0.jar")
    assert launch.known(place / "spark", ["delta:1"], ["x:y"]) is None


@pytest.mark.parametrize("damage", ["gone", "other bytes", "other time", "record"])
def test_a_jar_file_that_is_gone_or_another_is_looked_for_again(place: Path, damage: str) -> None:
    remembered(place)
    jar = place / "delta.jar"
    if damage == "gone":
        jar.unlink()
    elif damage == "other bytes":
        jar.write_text("longer than before")
    elif damage == "other time":
        os.utime(jar, (1, 1))
    else:
        (record,) = (place / "engine").glob("start-*.json")
        record.write_text(json.dumps({"jars": 3}))
    assert launch.known(place / "spark", ["delta:1"], ["x:y"]) is None


@pytest.mark.parametrize("name", launch._OTHERS)
def test_where_the_environment_says_how_spark_is_started_nothing_is_known(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered(place)
    monkeypatch.setenv(name, "something")
    assert launch.known(place / "spark", ["delta:1"], ["x:y"]) is None


def test_the_command_line(place: Path) -> None:
    known, java = remembered(place), place / "java"
    said = launch.command(ASKED, SETTINGS, java, place / "spark", known, None)
    own = [str(place / "spark" / "jars" / name) for name in ("a.jar", "core-4.2.0.jar")]
    assert said[:4] == [str(java / "bin" / "java"), "-cp", os.pathsep.join([*own, str(place / "delta.jar")]), "-Xmx2g"]
    assert said[4] == "--add-opens=a" and said[6:8] == ["-Xss16m", "-Djava.io.tmpdir=/a b"]
    assert Path(said[5].removeprefix("-Dlog4j2.configurationFile=")).read_text().startswith("rootLogger")
    assert said[8:] == ["org.apache.spark.deploy.SparkSubmit", *ASKED[1:]]


def test_classes_come_from_an_archive_of_this_java_and_class_path(place: Path) -> None:
    known, java = remembered(place), place / "java"
    java.mkdir()
    (java / "release").write_text('JAVA_VERSION="17"')
    made = launch.archive(java, place / "spark", known)
    assert f"-XX:ArchiveClassesAtExit={place / 'new'}" in launch.command(ASKED, SETTINGS, java, place / "spark", known, place / "new")
    assert not [w for w in launch.command(ASKED, SETTINGS, java, place / "spark", known, None) if "Archive" in w]
    made.write_text("classes")
    assert f"-XX:SharedArchiveFile={made}" in launch.command(ASKED, SETTINGS, java, place / "spark", known, None)
    (java / "release").write_text('JAVA_VERSION="21"')
    assert launch.archive(java, place / "spark", known) != made


def test_the_environment_is_what_sparks_script_makes_of_it() -> None:
    other = {"A": "b", "PYSPARK_PYTHON": "/usr/bin/other"}
    assert launch.environment({**other, "PYTHONHASHSEED": "7"}, Path("/spark")) == {**other, "SPARK_HOME": "/spark", "PYTHONHASHSEED": "0"}


def test_workers_of_this_python_import_its_own_pyspark() -> None:
    own = {"PYSPARK_PYTHON": sys.executable}
    assert launch.environment(own, Path("/spark")) == {**own, "PYTHONHASHSEED": "0"}
