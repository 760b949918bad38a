"""The registry of source formats: the built-in ones, and those of other packages (entry points ``skyband.sources``). Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyband.framework.base.plugins import Registry
from skyband.framework.sources.csv.format import CsvFormat
from skyband.framework.sources.delta.format import DeltaFormat
from skyband.framework.sources.json.format import JsonFormat
from skyband.framework.sources.kafka.format import KafkaFormat
from skyband.framework.sources.orc.format import OrcFormat
from skyband.framework.sources.parquet.format import ParquetFormat
from skyband.framework.sources.protocol import SourceFormat
from skyband.framework.sources.rate.format import RateFormat
from skyband.framework.sources.several.format import SEVERAL, SeveralSources


def _built_in() -> Mapping[str, SourceFormat]:
    return {
        "csv": CsvFormat(),
        "json": JsonFormat(),
        "parquet": ParquetFormat(),
        "orc": OrcFormat(),
        "delta": DeltaFormat(),
        "kafka": KafkaFormat(),
        "rate": RateFormat(),
    }


SOURCES: Final[Registry[SourceFormat]] = Registry(
    "skyband.sources",
    "source format",
    _built_in,
    needs=tuple(name for name in vars(SourceFormat) if not name.startswith("_")),
)
"""The formats that ``source.format`` of a spec may name. An entry point names an instance of a subclass of ``SourceFormat``."""


def source_format(name: str) -> SourceFormat:
    """Return the format called ``name``. Raises KeyError if there is none; the check of a spec refuses such names."""
    return _SEVERAL if name == SEVERAL else SOURCES.all()[name]


_SEVERAL: Final = SeveralSources(source_format, lambda: SOURCES.all().values())
