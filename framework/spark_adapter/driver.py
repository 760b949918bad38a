"""Private parts of PySpark in the driver's process: how it starts the JVM, its context, the causes of its exceptions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import RDD
    from pyspark.sql.types import DataType

CONNECTION_FILE: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The environment variable in which PySpark names the file where the JVM writes its port and secret."""


def has_gateway() -> bool:
    """Return True if PySpark is connected to a JVM, or would connect to one that another program has started.

    PySpark has one JVM per process, and no public way to ask for it. Does not import PySpark.
    """
    return "PYSPARK_GATEWAY_PORT" in os.environ or _context_attribute("_gateway") is not None


def has_context() -> bool:
    """Return True if this process has an active SparkContext. Does not import PySpark."""
    return _context_attribute("_active_spark_context") is not None


def _context_attribute(name: str) -> Any:
    return getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), name, None)


@contextmanager
def jvm_started_by(start: Callable[..., Any]) -> Iterator[None]:
    """Have PySpark start its JVM by ``start`` instead of ``subprocess.Popen``, with the same arguments.

    PySpark calls ``Popen`` by its name in ``java_gateway`` and offers no hook. It only needs the returned process's ``poll`` and pipes.
    """
    from pyspark import java_gateway

    module: Any = java_gateway
    original, module.Popen = module.Popen, start
    try:
        yield
    finally:
        module.Popen = original


def find_spark_home() -> Path:
    """Return Spark's directory as PySpark's own scripts find it."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def java_cause(error: BaseException) -> BaseException | None:
    """Return the cause of an exception that PySpark converted from Java: PySpark does not set ``__cause__``."""
    cause: BaseException | None = getattr(error, "_cause", None)
    return cause


def serialize_function(rdd: RDD[Any]) -> Any:
    """Serialize the function of ``rdd`` now instead of at the first action, and return Scala's RDD.

    The function keeps the environment that the context has at this moment, which decides on the pool of Python workers.
    """
    private: Any = rdd
    return private._jrdd.rdd()


def type_of_ddl(ddl: str) -> DataType:
    """Return the Spark type that ``ddl`` spells. PySpark's public ``DataType.fromDDL`` makes and analyzes a query for every type."""
    from pyspark.sql.types import _parse_datatype_string

    return _parse_datatype_string(ddl)


def spark_type(type_: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type. PySpark converts types only together with data."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(type_)
