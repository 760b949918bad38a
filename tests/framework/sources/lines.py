"""A source format that is not Skyband's: lines of text, each a row of values with a separator that the spec has to name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files.format import files_taken
from skyband.framework.sources.protocol import Mistake, Section, SourceFormat
from skyband.framework.sources.watermark_caps import WatermarkCaps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Lines(SourceFormat):
    jars: tuple[str, ...] = ("example:lines:1",)

    def check(self, section: Section) -> Iterator[Mistake]:
        if "directory" not in section.options:
            yield Mistake("SKY-E111", "lines need the option 'directory'", ("options", "directory"))
        if section.path is not None:
            yield Mistake("SKY-E117", f"format {section.format} has no path", ("path",), "leave it out", of_name=True)
        if len(section.options.get("separator", "|")) != 1:
            yield Mistake("SKY-E114", "a separator is one character", ("options", "separator"))
        for name, (named, type_) in section.columns.items():
            if type_ == "float":
                yield Mistake("SKY-E126", f"lines have no floats, such as {named}", ("schema", name))

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {"separator": "|", **options}

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        return [str(f.source_name) for f in source.fields]

    def stream(
        self,
        spark: SparkSession,
        source: SourceNode,
        columns: list[str] | None,
        without: Sequence[str] = (),
        caps: WatermarkCaps | None = None,
    ) -> DataFrame:
        return _rows(spark.readStream.text(dict(source.options)["directory"]), source, columns)

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Path) -> DataFrame:
        return _rows(spark.read.text(files_taken(checkpoint)), source, columns)

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        return SkybandError("SKY-E301", "a line is torn") if "torn" in said else None


def _rows(frame: DataFrame, source: SourceNode, columns: list[str] | None) -> DataFrame:
    from pyspark.sql import functions as F

    from skyband.framework.sources.files.spark_reader import rows

    cells = F.split("value", f"[{dict(source.options)['separator']}]")
    named = [cells[i].alias(n) for i, n in enumerate(columns or [])]
    torn = F.when(F.size(cells) != len(named), F.col("value")).alias("torn")
    return rows(frame.select(*named, torn, F.col("_metadata.file_name").alias("file")), source, F.col("file"), F.col("torn"))


LINES = Lines()
