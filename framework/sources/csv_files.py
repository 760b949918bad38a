"""CSV files, with a header unless the spec says otherwise: all files have the header of those of the first run."""

from __future__ import annotations

import csv
import difflib
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.files import Files
from skyband.framework.sources.options import CSV, Options
from skyband.framework.sources.protocol import Mistake, Section

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CsvFiles(Files):
    """See ``Files``."""

    takes: Options = field(default_factory=lambda: CSV)
    text: bool = True

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``: a file of text has no lists."""
        yield from Files.check(self, section)
        for name, (column, type_) in section.columns.items():
            if type_.startswith("array<"):
                hint = "declare it as string; 'tokens:' takes a text apart at a separator"
                yield Mistake("SKY-E126", f"a column of CSV files is no list ({column!r} is {type_})", ("schema", name), hint)

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``: files have a header."""
        return options if any(name.lower() == "header" for name in options) else {**options, "header": "true"}

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """See ``SourceFormat.columns``: SKY-E301 if there are no files yet, or if a column of the schema is not in their header."""
        if {k.lower(): v for k, v in source.options}.get("header", "false").lower() != "true":
            return None
        names = _header(spark, source)
        if not names:
            raise SkybandError(
                "SKY-E301", f"no files to read in {source.path}", hint="the folder must hold at least one file when the job runs first"
            )
        for f in source.fields:
            if f.source_name not in names:
                close = difflib.get_close_matches(str(f.source_name), names, 1)
                hint = f"did you mean {close[0]!r}?" if close else "columns there: " + ", ".join(names)
                raise SkybandError("SKY-E301", f"column {f.source_name!r} is not in the header of the files in {source.path}", hint=hint)
        return list(names)

    def failure(self, said: str, columns: list[str] | None) -> SkybandError | None:
        """See ``SourceFormat.failure``: a file whose header is another one."""
        if "CSV header does not conform" not in said:
            return None
        where = next((line.strip() for line in said.splitlines() if line.strip().startswith("CSV file:")), "a file")
        hint = f"put its columns in this order under the same file name, then run again: {', '.join(columns or [])}"
        return SkybandError("SKY-E301", f"the header is not that of the other files ({where})", hint=hint)


def _header(spark: SparkSession, source: SourceNode) -> list[str]:
    """The first line of the first file that has one, read without waking the engine where that is simple; [] if there is none."""
    options = {k.lower(): v for k, v in source.options}
    separator = {"\\t": "\t"}.get(options.get("sep", options.get("delimiter", ",")), options.get("sep", options.get("delimiter", ",")))
    root = Path(str(source.path).removeprefix("file://"))
    files = sorted(root.iterdir()) if root.is_dir() else sorted(Path(f) for f in glob(str(root)))
    visible = [f for f in files if f.is_file() and not f.name.startswith(("_", "."))]
    simple = all(f.suffix in ("", ".csv", ".txt", ".tsv", ".gz") for f in visible) and len(separator) == 1
    if "://" in str(root) or not simple or "ignoreleadingwhitespace" in options or (root.is_dir() and not visible):
        from skyband.framework.sources import reading

        return reading.csv_header(spark, source)
    for file in visible:
        opener = gzip.open if file.suffix == ".gz" else open
        encoding = options.get("encoding", options.get("charset", "utf-8-sig"))
        with opener(file, "rt", encoding=encoding, errors="replace", newline="") as f:
            names = next(csv.reader(f, delimiter=separator, quotechar=options.get("quote", '"') or None), [])
        if names:
            return names
    return []
