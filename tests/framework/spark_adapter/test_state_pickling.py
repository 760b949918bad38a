"""How values of the state are spelled for Spark: as PySpark does it, without what PySpark looks for in them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import StructType

from skyband.framework.spark_adapter.workers import pickle_state_plainly
from skyband.framework.streaming.bucket.processor import _DATA, _MARK, _NAME
from tests.framework.base.test_loaded_modules import said

INT, LONG = st.integers(-(1 << 31), (1 << 31) - 1), st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.one_of(
    st.tuples(st.just(_MARK), st.tuples(st.text(), LONG)),
    st.tuples(st.just(_NAME), st.tuples(st.text(), INT)),
    st.tuples(st.just(_DATA), st.tuples(st.binary())),
)


def client() -> Any:
    """One that is connected to nobody."""
    made: Any = object.__new__(StatefulProcessorApiClient)
    made.pickleSer = CPickleSerializer()
    return made


@given(VALUES)
def test_the_same_bytes_as_pysparks(both: tuple[StructType, tuple[Any, ...]]) -> None:
    schema, values = both
    plain = client()
    pickle_state_plainly(SimpleNamespace(_statefulProcessorApiClient=plain))  # type: ignore[arg-type]
    assert plain._serialize_to_bytes(schema, values) == client()._serialize_to_bytes(schema, values)


@pytest.mark.parametrize("plainly", [True, False])
def test_nothing_is_imported_for_it(root: Path, plainly: bool) -> None:
    code = f"""
from types import SimpleNamespace
from skyband.framework.streaming.spark.daemon import prepare
os.environ["SKYBAND_STEP"] = "host"
prepare()
from tests.framework.spark_adapter.test_state_pickling import client
from skyband.framework.spark_adapter.workers import pickle_state_plainly
from skyband.framework.streaming.bucket.processor import _NAME
one = client()
if {plainly}:
    pickle_state_plainly(SimpleNamespace(_statefulProcessorApiClient=one))
before = set(sys.modules)
one._serialize_to_bytes(_NAME, ("core", 0))
print("pyspark.testing.utils" in set(sys.modules) - before)
"""
    assert said(root, code) == [str(not plainly)]
