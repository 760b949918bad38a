"""PySpark keeps the causes of a Java exception where ``causes`` looks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import SparkSession

from skyband.framework.spark_adapter.failures import system_failure_error

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded", "Read-only file system", "Too many open files"])
def test_the_machines_refusal_is_found_below_sparks_own_words(spark: SparkSession, words: str) -> None:
    jvm: Any = spark._jvm
    cause = jvm.java.io.IOException(words)
    middle = jvm.java.util.concurrent.ExecutionException("the upload failed", cause)
    outer = convert_exception(jvm.org.apache.spark.SparkException("Error writing state store files", middle))
    assert words not in str(outer), "Spark's own message does not have it"
    found = system_failure_error(outer, Path("/data/checkpoint"), None)
    assert found is not None and found.code == "SKY-E306" and words.lower() in found.message


def test_another_cause_is_no_refusal_of_the_machine(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    outer = convert_exception(jvm.org.apache.spark.SparkException("x", jvm.java.io.IOException("Permission denied")))
    assert system_failure_error(outer, Path("/data/checkpoint"), None) is None
