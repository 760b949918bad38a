"""Number the rows of files that Spark reads, for ``source.id: position``.

Spark may split a file among tasks, none of which knows the rows of the others. So files are read whole here, each by one task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.files.numbered_files import numbered
from skyband.framework.sources.position import FileNames
from skyband.framework.spark_adapter.driver import type_of_ddl

_COST: Final = 1 << 44
"""Bytes that a file counts for beside its own, 16 TB: more than a file has, so that none is larger than what a task gets."""
_WHOLE: Final = {"spark.sql.files.maxPartitionBytes": str(1 << 62), "spark.sql.files.openCostInBytes": str(_COST)}


def read_files_whole(spark: SparkSession) -> None:
    """Have the session's queries that start from now on split no file. Tasks get equal numbers of files."""
    for name, value in _WHOLE.items():
        spark.conf.set(name, value)


def with_position(frame: DataFrame, source: SourceNode, url: str) -> DataFrame:
    """Return ``frame``, whose rows have the URL of their file in the column ``url``, with the columns ``source.position``.

    The rows of a file have to follow each other in its order: see ``read_files_whole``.
    """
    schema = StructType([*frame.schema.fields, *(StructField(f.name, type_of_ddl(f.type)) for f in source.position)])
    return frame.mapInArrow(NumberRows(FileNames.of(source), source.position, url), schema)


@dataclass(frozen=True, slots=True)
class NumberRows:
    """The function for ``mapInArrow``: returns each batch with the columns ``position``."""

    names: FileNames
    position: tuple[Field, ...]
    url: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the rows of each file from 1."""
        file, before = None, 0
        for batch in batches:
            if not batch.num_rows:
                continue
            rows, runs = pa.Table.from_batches([batch]), pc.run_end_encode(batch[self.url])
            ends = runs.run_ends.to_numpy()
            for url, begin, end in zip(runs.values.to_pylist(), np.append(0, ends[:-1]), ends, strict=True):
                if url != file:
                    file, before = url, 0
                yield from numbered(rows.slice(begin, end - begin), self.position, self.names.name(url), before).to_batches()
                before += int(end - begin)
