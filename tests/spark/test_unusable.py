"""Rows that Spark's own readers find and that are rejected as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.local.test_unusable import assert_no_later_row_is_late

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_a_row_that_is_rejected_as_it_is_read_makes_no_later_row_late(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    """Tasks read CSV by Arrow, Spark reads JSON: both have one rule for what moves the watermark."""
    assert_no_later_row_is_late(tmp_path, format_)
