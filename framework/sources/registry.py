"""The source formats by name: those built in, and those of other packages (entry points ``skyband.sources``). Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyband.framework.base.plugins import Registry
from skyband.framework.sources.csv_files import CsvFiles
from skyband.framework.sources.delta_table import DeltaTable
from skyband.framework.sources.files import Files
from skyband.framework.sources.json_files import JsonFiles
from skyband.framework.sources.kafka import KafkaTopic
from skyband.framework.sources.options import ORC, PARQUET
from skyband.framework.sources.protocol import SourceFormat
from skyband.framework.sources.rate import Rate


def _built_in() -> Mapping[str, SourceFormat]:
    return {
        "csv": CsvFiles(),
        "json": JsonFiles(),
        "parquet": Files(PARQUET),
        "orc": Files(ORC),
        "delta": DeltaTable(),
        "kafka": KafkaTopic(),
        "rate": Rate(),
    }


SOURCES: Final[Registry[SourceFormat]] = Registry(
    "skyband.sources",
    "source format",
    _built_in,
    needs=("jars", "check", "options", "columns", "stream", "watch", "drops", "again", "failure"),
)
"""What a spec's ``source.format`` may name. An entry point names an object that is a ``SourceFormat``."""


def source_format(name: str) -> SourceFormat:
    """The format called ``name``. KeyError if there is none: a spec that names it has been refused."""
    return SOURCES.all()[name]
