"""Find rows of the source again by their position, for jobs with ``source.id: position``. Uses the readers of ``skyband preview``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from skyband.framework.plan.model import SourceNode
from skyband.framework.rehearsal.rows import arrow_table
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.position import FILE, ROW, FileNames, position_values
from skyband.framework.sources.registry import source_format


def numbered_rows(source: SourceNode, files: Sequence[str], keys: pa.Table) -> pa.Table:
    """Return the rows at the positions in ``keys``, with the source's columns and those of the position. O(rows before the last one).

    ``files``: local paths. Only those that ``keys`` name are read, each to the last row that is needed. Rows that only Spark reads, and
    rows that do not parse, are left out. Raises SkybandError and the errors of ``SourceFormat.first_rows``.
    """
    wanted: dict[str, set[int]] = defaultdict(set)
    columns = {f.source_name: keys[f.name].to_pylist() for f in source.position}
    for file, row in zip(columns[FILE], columns[ROW], strict=True):
        wanted[file].add(row)
    names, made = FileNames.of(source), list[dict[str, Any]]()
    for path in files:
        name = names.name(path)
        if name in wanted:
            found = FirstRows()
            source_format(source.format).first_rows(source, path, max(wanted[name]), found)
            made += [
                {**row, **position_values(source.position, name, number)}
                for row, number, reason in zip(found.rows, found.numbers, found.reasons, strict=True)
                if reason is None and number in wanted[name]
            ]
    return arrow_table(made, (*source.fields, *source.position))
