"""Functions of texts and of sets through the whole job: cuts and restarts leave no trace, and results are the definition's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.framework.verify.test_text_functions import QUERIES, SECTIONS
from tests.spark.cuts import stream, verified, whole_and_in_parts
from tests.spark.jobs import changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
def test_files_restarts_and_partitions_leave_no_trace(spark: SparkSession, tmp_path: Path, keyed: bool) -> None:
    whole, parts = whole_and_in_parts(spark, tmp_path, stream(23, n=240), keyed, queries=QUERIES, scoring=SECTIONS)
    for name in ("nearest", "sides", "spread", "similar", "hourly", "shortest"):
        expected = changes(whole, name, ("grp",) if keyed else ())
        assert expected.num_rows > 10, name
        assert changes(parts, name, ("grp",) if keyed else ()).equals(expected), name
    assert verified(whole / "spec.yaml") and verified(parts / "spec.yaml")
