"""Lists in Parquet files that Arrow reads: with nulls, empty, of texts and numbers; what Spark reads in another way is left to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.framework.base.types import arrow_type
from skyband.framework.plan.model import Field
from skyband.framework.sources.files.arrow import UnsupportedFile
from skyband.framework.sources.parquet.arrow_reader import ParquetArrowReader

VALUES: dict[str, list[Any]] = {
    "array<string>": [["a", None, "\u00e9"], None, [], [None], [""]],
    "array<float>": [[0.5, None, -0.0], None, [], [float("inf")], [1.0]],
    "array<double>": [[0.1], None, [], [None], [-1e300]],
    "array<int>": [[1, None], None, [], [-(2**31)], [7]],
    "array<bigint>": [[1, None], None, [], [-(2**63)], [7]],
}


def read(directory: Path, column: pa.Array, type_: str) -> pa.ChunkedArray:
    pq.write_table(pa.table({"l": column}), directory / "f")
    reader = ParquetArrowReader(str(directory), False, (Field("l", type_, "list", "l"),))
    return pa.concat_tables(reader.tables((directory / "f").as_uri()))["l"]


@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize("name", ["element", "item"])
def test_values_come_back(tmp_path: Path, type_: str, name: str) -> None:
    wanted = arrow_type(type_)
    made = read(tmp_path, pa.array(VALUES[type_], pa.list_(pa.field(name, wanted.value_type))), type_)
    assert made.type == wanted and made.to_pylist() == VALUES[type_]


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (pa.array([["a"]]), "array<bigint>"),
        (pa.array([[1]], pa.list_(pa.int32())), "array<bigint>"),
        (pa.array([[1.5]], pa.list_(pa.float32())), "array<double>"),
        (pa.array(["a"]), "array<string>"),
        (pa.array([["a"]]), "string"),
        (pa.array([["a"]], pa.large_list(pa.large_string())), "array<string>"),
    ],
)
def test_other_types_are_left_to_spark(tmp_path: Path, column: pa.Array, type_: str) -> None:
    with pytest.raises(UnsupportedFile, match="a file has "):
        read(tmp_path, column, type_)


def test_bytes_that_are_no_text_are_left_to_spark(tmp_path: Path) -> None:
    texts = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xff")])
    column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), texts)
    with pytest.raises(UnsupportedFile, match="bytes that are no text"):
        read(tmp_path, column, "array<string>")
