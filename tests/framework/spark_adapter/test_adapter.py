"""The private parts of PySpark and Spark that the adapter uses exist. Each failed check says what to do."""

from __future__ import annotations

import importlib
import inspect
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from skyband.framework.spark_adapter import driver, jvm, workers

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_pyspark_starts_its_jvm_by_popen() -> None:
    from pyspark import java_gateway

    source = inspect.getsource(java_gateway)
    assert "proc = Popen(command, **popen_kwargs)" in source, "find how PySpark starts the JVM now, and change driver.jvm_started_by"
    assert driver.CONNECTION_FILE in source, "find how the JVM reports its port to PySpark now, and change driver.CONNECTION_FILE"
    assert "PYSPARK_GATEWAY_PORT" in source, "find the variable of a JVM that another program started, and change driver.has_gateway"
    with driver.jvm_started_by(print):
        assert cast(Any, java_gateway).Popen is print
    assert cast(Any, java_gateway).Popen is not print


def test_the_context_has_the_attributes_that_the_driver_looks_at() -> None:
    from pyspark import SparkContext

    for name in ("_gateway", "_active_spark_context"):
        assert hasattr(SparkContext, name), f"SparkContext.{name} is gone: find its new name, and change driver.has_gateway or has_context"
    source = inspect.getsource(SparkContext)
    assert "self.environment = " in source, "find where the context keeps the workers' environment, and change spark/worker_pools.py"


def test_spark_home_is_found_by_pyspark() -> None:
    assert (driver.find_spark_home() / "jars").is_dir(), "find PySpark's own search for Spark, and change driver.find_spark_home"


def test_causes_of_java_exceptions_are_kept_in_an_attribute() -> None:
    from pyspark.errors.exceptions import captured

    advice = "find where PySpark keeps the cause of a Java exception, and change driver.java_cause"
    assert "self._cause" in inspect.getsource(captured.CapturedException), advice


def test_arrow_types_are_converted() -> None:
    advice = "find PySpark's conversion of Arrow types, and change driver.spark_type"
    assert driver.spark_type(pa.int64()).simpleString() == "bigint", advice
    assert driver.spark_type(pa.list_(pa.string())).simpleString() == "array<string>", advice


@pytest.mark.spark
def test_types_are_parsed_as_in_a_schema(spark: SparkSession) -> None:
    advice = "find PySpark's parser of types, and change driver.type_of_ddl (DataType.fromDDL is the public, slower one)"
    ddl = "struct<a: array<bigint>, b: decimal(20, 3), c: timestamp>"
    assert driver.type_of_ddl(ddl) == spark.createDataFrame([], f"x {ddl}").schema["x"].dataType, advice


@pytest.mark.parametrize("module", workers.WORKER_MODULES)
def test_modules_of_workers_exist(module: str) -> None:
    assert find_spec(module) is not None, f"{module} is gone: find the module that workers import now, and change workers.py"


def test_the_daemon_has_its_entry_point() -> None:
    daemon = importlib.import_module("pyspark.daemon")
    assert not inspect.signature(daemon.manager).parameters, "find the daemon's main function, and change workers.run_daemon"


@pytest.mark.spark
def test_each_use_of_the_jvm(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a call fails here Spark has moved a class or a method: find it in Spark's sources, and change the function in jvm.py."""
    file = jvm.open_file(spark, tmp_path / "lock")
    assert file.getChannel().tryLock() is not None
    file.close()
    assert jvm.process_id(spark) > 0
    (tmp_path / "some").mkdir()
    monkeypatch.setattr(jvm, "is_object", lambda path: True)
    jvm.delete_objects(spark, tmp_path / "some")
    assert not (tmp_path / "some").exists()
    assert jvm.scala_context(spark).getExecutorMemoryStatus().size() == 1
    assert any(option.startswith("--add-opens") for option in jvm.module_options(spark))
    assert driver.serialize_function(spark.sparkContext.parallelize([1], 1)).count() == 1
    assert driver.has_context() and driver.has_gateway()


@pytest.mark.spark
def test_no_cause_is_found_in_an_exception_of_python() -> None:
    assert driver.java_cause(ValueError("x")) is None
    assert driver.java_cause(cast(Any, SimpleNamespace(_cause=None))) is None
