"""The format ``orc``: files that state the types of their columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.columnar.file_columns import orc_columns
from skyband.framework.sources.files.format import FileFormat
from skyband.framework.sources.options import ORC, Options
from skyband.framework.sources.protocol import Columns

_HIVE: Final = re.compile(r"_col\d+")


@dataclass(frozen=True, slots=True)
class OrcFormat(FileFormat):
    """Reads ORC files by Spark."""

    takes: Options = field(default_factory=lambda: ORC)

    def file_columns(self, source: SourceNode, path: str) -> Columns | None:
        """See ``SourceFormat.file_columns``: the schema in the footer."""
        return orc_columns(path)

    def columns_unnamed(self, found: Columns) -> bool:
        """See ``SourceFormat.columns_unnamed``: old versions of Hive name columns by number, and Spark takes these by position."""
        return bool(found) and all(_HIVE.fullmatch(name) for name in found)
