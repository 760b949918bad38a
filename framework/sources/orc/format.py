"""The format ``orc``: files that state the types of their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.columnar.file_columns import orc_columns
from skyband.framework.sources.duckdb_sql import NEUTRAL
from skyband.framework.sources.files.format import FileFormat
from skyband.framework.sources.first_rows import FirstRows
from skyband.framework.sources.options import LISTING, ORC, Options
from skyband.framework.sources.protocol import ArrowReader, ArrowRules, Columns

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

_HIVE: Final = re.compile(r"_col\d+")
_ARROW: Final = ArrowRules(option=lambda name, value: name in LISTING)


@dataclass(frozen=True, slots=True)
class OrcFormat(FileFormat):
    """Reads ORC files, by Arrow where that gives the values that Spark gives."""

    takes: Options = field(default_factory=lambda: ORC)
    preview_options: ClassVar[frozenset[str] | None] = frozenset({"pathglobfilter", "recursivefilelookup", "mergeschema"})
    duckdb_options: ClassVar[frozenset[str] | None] = NEUTRAL

    def arrow_rules(self) -> ArrowRules | None:
        """See ``SourceFormat.arrow_rules``."""
        return _ARROW if type(self) is OrcFormat else None

    def arrow_reader(self, source: SourceNode, root: str, below: bool, fields: tuple[Field, ...], header: tuple[str, ...]) -> ArrowReader:
        """See ``SourceFormat.arrow_reader``."""
        from skyband.framework.sources.orc.arrow_reader import OrcArrowReader

        return OrcArrowReader(root, below, fields)

    def first_rows(self, source: SourceNode, path: str, most: int, found: FirstRows) -> None:
        """See ``SourceFormat.first_rows``."""
        from skyband.framework.sources.columnar.preview import first_rows

        first_rows(source, path, most, found)

    def file_columns(self, source: SourceNode, path: str) -> Columns | None:
        """See ``SourceFormat.file_columns``: the schema in the footer."""
        return orc_columns(path)

    def columns_unnamed(self, found: Columns) -> bool:
        """See ``SourceFormat.columns_unnamed``: old versions of Hive name columns by number, and Spark takes these by position."""
        return bool(found) and all(_HIVE.fullmatch(name) for name in found)

    def dataset(self, source: SourceNode, files: Sequence[str]) -> Dataset:
        """See ``SourceFormat.dataset``."""
        import pyarrow.dataset as ds

        return ds.dataset(list(files), format="orc")

    def spark_relation(self, path: str) -> str | None:
        """See ``SourceFormat.spark_relation``."""
        return f"orc.`{path.replace('`', '``')}`"
