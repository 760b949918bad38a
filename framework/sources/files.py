"""Files in a folder, in one of the engine's own file formats: each file is read once, in the order of modification."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from skyband.framework.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.forgetting import FORGOTTEN, forgotten
from skyband.framework.sources.options import Options, unsafe
from skyband.framework.sources.protocol import Mistake, Section

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def path_needed(section: Section) -> Iterator[Mistake]:
    """The mistake of a source that has to have a path and has none."""
    if section.path is None:
        yield Mistake("SKY-E111", f"source needs the field 'path' for format {section.format}", ("path",), "the folder of the files")


def files_taken(checkpoint: Path) -> list[str]:
    """The source files the checkpoint says have been taken (the engine's own log of them), as URLs."""
    found: dict[str, None] = {}
    log = checkpoint / "sources" / "0"
    for entry in sorted(log.glob("*")) if log.is_dir() else []:
        if entry.name.startswith("."):
            continue
        for line in entry.read_text().splitlines():
            if line.startswith("{") and not (path := json.loads(line)["path"]).startswith(FORGOTTEN):
                found[path] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class Files:
    """``takes``: the options a spec may give. ``text``: rows are text and may fail to parse. A row's origin is the name of its file."""

    takes: Options
    text: bool = False
    jars: tuple[str, ...] = ()

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``."""
        yield from path_needed(section)
        yield from unsafe(section, self.takes)

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``."""
        return options

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """See ``SourceFormat.columns``."""
        return None

    def stream(self, spark: SparkSession, source: SourceNode, columns: list[str] | None) -> DataFrame:
        """See ``SourceFormat.stream``."""
        from skyband.framework.sources import reading

        return reading.files(spark, source, columns, self.text, None)

    def again(self, spark: SparkSession, source: SourceNode, columns: list[str] | None, checkpoint: Path) -> DataFrame:
        """See ``SourceFormat.again``: SKY-E301 if files are gone."""
        from skyband.framework.sources import reading

        files = files_taken(checkpoint)
        gone = [f for f in files if not Path(unquote(urlparse(f).path)).exists()]
        dropped = forgotten(checkpoint)
        if gone or dropped:
            named = [f"first: {gone[0]}"] if gone else []
            named += [f"of {dropped:,} the names are no longer kept either: run.keep"] if dropped else []
            raise SkybandError(
                "SKY-E301",
                f"{len(gone) + dropped} of the {len(files) + dropped} source files are gone ({'; '.join(named)})",
                hint="without them only the replay can be verified",
            )
        return reading.files(spark, source, columns, self.text, [unquote(f) for f in files])

    def failure(self, said: str, columns: list[str] | None) -> SkybandError | None:
        """See ``SourceFormat.failure``."""
        return None
