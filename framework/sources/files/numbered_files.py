"""Number the rows of files that Arrow reads, for ``source.id: position``. Imports no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skyband.framework.plan.model import Field
from skyband.framework.sources.position import FILE, ROW, FileNames
from skyband.framework.sources.protocol import ArrowReader


@dataclass(frozen=True, slots=True)
class NumberedFiles:
    """Reads files by ``reader``, with the columns ``position`` behind those of the reader."""

    reader: ArrowReader
    names: FileNames
    position: tuple[Field, ...]

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file in its order. Raises UnsupportedFile."""
        before = 0
        for rows in self.reader.tables(url):
            yield numbered(rows, self.position, self.names.name(url), before)
            before += rows.num_rows


def numbered(rows: pa.Table, position: tuple[Field, ...], file: str, before: int) -> pa.Table:
    """Return ``rows`` of ``file``, which has ``before`` rows before them, with the columns ``position``. O(rows)."""
    values = {
        FILE: pa.repeat(pa.scalar(file, pa.string()), rows.num_rows),
        ROW: pa.array(np.arange(before + 1, before + 1 + rows.num_rows, dtype=np.int64)),
    }
    for f in position:
        rows = rows.append_column(f.name, values[str(f.source_name)])
    return rows
