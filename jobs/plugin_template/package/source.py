"""A source format: files of cells separated by tabs.

A format that is not in files, or that Spark does not read, subclasses ``SourceFormat`` of ``skyband.framework.sources.protocol`` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skyband.framework.sources.csv.format import CsvFormat


@dataclass(frozen=True, slots=True)
class TsvFiles(CsvFormat):
    """CSV files (to Spark, too) but for what separates their cells; a spec may still say otherwise."""

    engine: str | None = "csv"

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """The spec's options, and a tab."""
        given = CsvFormat.options(self, options)
        return given if any(name.lower() in ("sep", "delimiter") for name in given) else {**given, "sep": "\t"}


TSV: Final = TsvFiles()
