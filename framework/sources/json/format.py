"""The format ``json``: an object or an array of objects per line or, with ``multiLine``, any number of them per file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.duckdb_sql import NEUTRAL, columns_of, list_of, text
from skyband.framework.sources.first_rows import FirstRows, Unparsed
from skyband.framework.sources.nested import paths_of
from skyband.framework.sources.options import JSON, LISTING, Options
from skyband.framework.sources.protocol import ArrowReader, ArrowRules
from skyband.framework.sources.text.format import TextFileFormat


def _arrow_option(name: str, value: str) -> bool:
    return name in LISTING or (name in ("encoding", "charset") and value.lower() in ("utf-8", "utf8"))


_ARROW: Final = ArrowRules(option=_arrow_option, decimals=False, compiled=True)


@dataclass(frozen=True, slots=True)
class JsonFormat(TextFileFormat):
    """Reads JSON files, by Arrow where that gives the rows that Spark gives."""

    takes: Options = field(default_factory=lambda: JSON)
    preview_options: ClassVar[frozenset[str] | None] = frozenset(
        {"pathglobfilter", "recursivefilelookup", "encoding", "charset", "multiline"}
    )
    columns_per_row: ClassVar[bool] = True
    export_ending: ClassVar[str | None] = ".jsonl"
    duckdb_options: ClassVar[frozenset[str] | None] = NEUTRAL | {"encoding", "charset", "timezone"}

    def arrow_rules(self) -> ArrowRules | None:
        """See ``SourceFormat.arrow_rules``."""
        return _ARROW if type(self) is JsonFormat else None

    def arrow_reader(self, source: SourceNode, root: str, below: bool, fields: tuple[Field, ...], header: tuple[str, ...]) -> ArrowReader:
        """See ``SourceFormat.arrow_reader``."""
        from skyband.framework.sources.json.arrow_reader import JsonArrowReader

        return JsonArrowReader(root, below, source, fields)

    def unparsed(self, source: SourceNode, columns: Sequence[str] | None, text: str) -> Unparsed | None:
        """See ``SourceFormat.unparsed``."""
        from skyband.framework.sources.json.unparsed import unparsed

        return unparsed(source, text)

    def first_rows(self, source: SourceNode, path: str, most: int, found: FirstRows) -> None:
        """See ``SourceFormat.first_rows``."""
        from skyband.framework.sources.json.preview import first_rows

        first_rows(source, path, most, found)

    def count_rows(self, source: SourceNode, path: str, header: bool) -> int | None:
        """See ``SourceFormat.count_rows``."""
        from skyband.framework.sources.text.row_count import count_json

        return count_json(source, path)

    def duckdb_call(self, source: SourceNode, files: Sequence[str], header: Sequence[str] | None) -> str | None:
        """See ``SourceFormat.duckdb_call``."""
        objects = {path[0]: "JSON" for path, _ in paths_of(source)}
        columns = columns_of(source, [str(f.source_name) for f in source.fields], objects)
        return f"read_json({list_of(files)}, format = 'newline_delimited', columns = {columns}, ignore_errors = true)"

    def duckdb_member(self, column: str, path: Sequence[str]) -> str:
        """See ``SourceFormat.duckdb_member``: objects are read as JSON."""
        return f"{column} ->> {text('$' + ''.join('.' + json.dumps(name, ensure_ascii=False) for name in path))}"
