"""The format ``json``: an object or an array of objects per line or, with ``multiLine``, any number of them per file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.options import JSON, Options
from skyband.framework.sources.protocol import Unparsed
from skyband.framework.sources.text.format import TextFileFormat


@dataclass(frozen=True, slots=True)
class JsonFormat(TextFileFormat):
    """Reads JSON files by Spark."""

    takes: Options = field(default_factory=lambda: JSON)
    export_ending: ClassVar[str | None] = ".jsonl"

    def unparsed(self, source: SourceNode, columns: Sequence[str] | None, text: str) -> Unparsed | None:
        """See ``SourceFormat.unparsed``."""
        from skyband.framework.sources.json.unparsed import unparsed

        return unparsed(source, text)

    def count_rows(self, source: SourceNode, path: str, header: bool) -> int | None:
        """See ``SourceFormat.count_rows``."""
        from skyband.framework.sources.text.row_count import count_json

        return count_json(source, path)
