"""CSV files, with a header unless the spec says otherwise: all files have the header of those of the first run."""

from __future__ import annotations

import csv
import difflib
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.duckdb_sql import NEUTRAL, columns_of, list_of, text
from skyband.framework.sources.files.bad_files import first_line, separator_of
from skyband.framework.sources.files.format import FIX_FILE
from skyband.framework.sources.files.listing import listing, values_of
from skyband.framework.sources.files.preflight import ONE_NAME
from skyband.framework.sources.first_rows import FirstRows, Unparsed
from skyband.framework.sources.logs import local_path
from skyband.framework.sources.options import CSV, Options
from skyband.framework.sources.protocol import ArrowReader, ArrowRules, Columns, Mistake, Section
from skyband.framework.sources.text.format import TextFileFormat
from skyband.framework.sources.text.options import folded, skipped, slashed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARROW_SEPARATORS: Final = (",", ";", "|", ":", "~", "^")
"""Separators that no blank line contains."""


def _arrow_option(name: str, value: str) -> bool:
    """Return True if Arrow reads the same rows as Spark with the option."""
    if name == "header":
        return value.lower() == "true"
    if name in ("escape", "quote"):
        return value == '"'
    if name in ("encoding", "charset"):
        return value.lower() in ("utf-8", "utf8")
    if name in ("sep", "delimiter"):
        return value in _ARROW_SEPARATORS
    return name in ("skip_lines", "pathglobfilter", "recursivefilelookup")


_ARROW: Final = ArrowRules(option=_arrow_option, decimals=False, compiled=True, header=True)


@dataclass(frozen=True, slots=True)
class CsvFormat(TextFileFormat):
    """See ``FileFormat``."""

    takes: Options = field(default_factory=lambda: CSV)
    columns_by_position: ClassVar[bool] = True
    preview_options: ClassVar[frozenset[str] | None] = frozenset({
        "pathglobfilter", "recursivefilelookup", "encoding", "charset",
        "header", "sep", "delimiter", "quote", "escape", "nullvalue", "decimal",
        "thousands", "skip_lines",
    })  # fmt: skip
    export_ending: ClassVar[str | None] = ".csv"
    duckdb_options: ClassVar[frozenset[str] | None] = NEUTRAL | {
        "header", "sep", "delimiter", "quote", "escape", "nullvalue", "multiline", "encoding", "charset", "timezone", "skip_lines"
    }  # fmt: skip

    def check(self, section: Section) -> Iterator[Mistake]:
        """See ``SourceFormat.check``: a file of text has no lists."""
        yield from TextFileFormat.check(self, section)
        for name, (column, type_) in section.columns.items():
            if type_.startswith("array<"):
                hint = "declare it as string; 'tokens:' takes a text apart at a separator"
                yield Mistake("SKY-E126", f"a column of CSV files is no list ({column!r} is {type_})", ("schema", name), hint)

    def options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """See ``SourceFormat.options``: files have a header, and a quote within quotes is doubled (RFC 4180)."""
        given = folded(options)
        defaults = {"header": "true", "escape": given.get("quote", '"')}
        return {**options, **{name: value for name, value in defaults.items() if value and name not in given}}

    def options_of_job(self, source: SourceNode, given: Collection[str], escape: str | None) -> SourceNode:
        """See ``SourceFormat.options_of_job``: RFC 4180 is the default of new jobs; before that it was Spark's, a backslash."""
        if "escape" in given or escape != "\\":
            return source
        return replace(source, options=tuple((name, value) for name, value in source.options if name.lower() != "escape"))

    def explain(self, source: SourceNode) -> list[str]:
        """See ``SourceFormat.explain``."""
        if folded(source.options).get("header", "true").lower() == "true":
            return ["the first line of a file names its columns"]
        return ["files have no header: their columns are the schema's, in its order"]

    def columns(self, spark: SparkSession, source: SourceNode) -> list[str] | None:
        """See ``SourceFormat.columns``: SKY-E301 if there are no files yet, or if a column of the schema is not in their header.

        The first file decides; where bad files are set aside, the first that has the columns.
        """
        if {k.lower(): v for k, v in source.options}.get("header", "false").lower() != "true":
            return None
        wrong: SkybandError | None = None
        for where, names in _headers(spark, source):
            mistake = names if isinstance(names, SkybandError) else _lacking(source, where, names)
            if mistake is None:
                return list(names)  # type: ignore[arg-type]
            if source.on_bad_file == "stop":
                raise mistake
            wrong = wrong or mistake
        raise wrong or SkybandError(
            "SKY-E301", f"no files to read in {source.path}", hint="the directory must hold at least one file when the job runs first"
        )

    def arrow_rules(self) -> ArrowRules | None:
        """See ``SourceFormat.arrow_rules``."""
        return _ARROW if type(self) is CsvFormat else None

    def arrow_reader(self, source: SourceNode, root: str, below: bool, fields: tuple[Field, ...], header: tuple[str, ...]) -> ArrowReader:
        """See ``SourceFormat.arrow_reader``."""
        from skyband.framework.sources.csv.arrow_reader import CsvArrowReader

        options = folded(source.options)
        separator = next((v for n, v in source.options if n.lower() in ("sep", "delimiter")), ",")
        return CsvArrowReader(root, below, fields, header, separator, options.get("escape") == '"', skipped(options))

    def file_columns(self, source: SourceNode, path: str) -> Columns | None:
        """See ``SourceFormat.file_columns``: the names in the header."""
        options = folded(source.options)
        simple = len(separator_of(options)) == 1 and not {"ignoreleadingwhitespace", "comment"} & set(options)
        if options.get("header", "false").lower() != "true" or not simple:
            return None
        try:
            names = first_line(path, options)
        except (OSError, EOFError, zlib.error, csv.Error, LookupError, UnicodeError):
            return None
        return dict.fromkeys([*names, *values_of(source, path)], "") if names else None

    def unparsed(self, source: SourceNode, columns: Sequence[str] | None, text: str) -> Unparsed | None:
        """See ``SourceFormat.unparsed``."""
        from skyband.framework.sources.csv.unparsed import unparsed

        return unparsed(source, columns, text)

    def csv_options(self, source: SourceNode) -> Mapping[str, str]:
        """See ``SourceFormat.csv_options``."""
        return folded(source.options)

    def count_rows(self, source: SourceNode, path: str, header: bool) -> int | None:
        """See ``SourceFormat.count_rows``."""
        from skyband.framework.sources.text.row_count import count_csv

        return count_csv(source, path, header)

    def duckdb_call(self, source: SourceNode, files: Sequence[str], header: Sequence[str] | None) -> str | None:
        """See ``SourceFormat.duckdb_call``."""
        options = folded(source.options)
        columns = columns_of(source, header if header is not None else [str(f.source_name) for f in source.fields])
        nulls = ", ".join(map(text, dict.fromkeys(["", options.get("nullvalue", "")])))
        quote = options.get("quote", '"')
        escape = quote if slashed(options) else options["escape"]
        headed = "true" if options.get("header", "").lower() == "true" else "false"
        return (
            f"read_csv({list_of(files)}, auto_detect = false, header = {headed}, columns = {columns}, "
            f"delim = {text(separator_of(options))}, quote = {text(quote)}, "
            f"escape = {text(escape)}, skip = {skipped(options)}, nullstr = [{nulls}], allow_quoted_nulls = false, ignore_errors = true)"
        )

    def duckdb_condition(self, source: SourceNode, columns: Sequence[str]) -> str:
        """See ``SourceFormat.duckdb_condition``.

        Only DuckDB lets a cell go on in the next line, unless ``multiLine`` is set. If a backslash is the escape character, the two differ
        in cells with a backslash or with a quote inside.
        """
        options = folded(source.options)
        marks = "" if options.get("multiline", "false").lower() == "true" else "\\r\\n"
        if slashed(options):
            marks += "\\\\" + "".join(f"\\{c}" for c in options.get("quote", '"'))
        if not marks:
            return ""
        quoted = ('"' + c.replace('"', '""') + '"' for c in columns)
        return " where not " + " and not ".join(f"coalesce(regexp_matches({c}, {text(f'[{marks}]')}), false)" for c in quoted)

    def null_text(self, source: SourceNode) -> str:
        """See ``SourceFormat.null_text``."""
        return folded(source.options).get("nullvalue", "")

    def first_rows(self, source: SourceNode, path: str, most: int, found: FirstRows) -> None:
        """See ``SourceFormat.first_rows``."""
        from skyband.framework.sources.csv.preview import first_rows

        first_rows(source, path, most, found)

    def failure(self, said: str, columns: list[str] | None, path: str | None = None) -> SkybandError | None:
        """See ``SourceFormat.failure``: a file whose header is another one, or that cannot be read."""
        if "CSV header does not conform" not in said and "Number of column in CSV header is not equal" not in said:
            return TextFileFormat.failure(self, said, columns, path)
        where = next((line.strip() for line in said.splitlines() if line.strip().startswith("CSV file:")), "a file")
        gone = _gone(where.removeprefix("CSV file:").strip(), columns or [])
        if gone:
            hint = f"give it the columns of the other files under the same file name, then run again: {', '.join(columns or [])}"
            return SkybandError("SKY-E301", f"the header lacks {', '.join(map(repr, gone))} ({where})", hint=hint)
        hint = f"put its columns in this order under the same file name, then run again: {', '.join(columns or [])}"
        return SkybandError("SKY-E301", f"the header is not that of the other files ({where})", hint=hint)


def _gone(url: str, columns: list[str]) -> list[str]:
    """Which of ``columns`` the header of the file at ``url`` lacks, whatever separates its cells; [] if that cannot be seen."""
    path = local_path(url)
    try:
        line = ",".join(first_line(path, {})) if path else ""
    except (OSError, EOFError, zlib.error, csv.Error):
        return []
    names = {c.strip().strip('"').lower() for c in re.split(r"[,;\t|]", line)}
    return [c for c in columns if c.strip().lower() not in names] if line else []


def _lacking(source: SourceNode, where: str, names: list[str]) -> SkybandError | None:
    """The mistake of a header without one of the spec's columns, or with two of one name."""
    repeated = [n for n in names if n and [m.lower() for m in names].count(n.lower()) > 1]
    if repeated:
        said = f"the header of the files in {source.path} has two columns of one name: {', '.join(map(repr, dict.fromkeys(repeated)))}"
        return SkybandError("SKY-E301", f"{said} (read from {where})", hint=ONE_NAME)
    for f in source.fields:
        if f.source_name not in names:
            close = difflib.get_close_matches(str(f.source_name), names, 1)
            hint = f"did you mean {close[0]!r}?" if close else "columns there: " + ", ".join(names)[:200]
            return SkybandError(
                "SKY-E301", f"column {f.source_name!r} is not in the header of the files in {source.path} (read from {where})", hint=hint
            )
    return None


def _headers(spark: SparkSession, source: SourceNode) -> Iterator[tuple[str, list[str] | SkybandError]]:
    """(where, the first line) of every file that has one, or why it cannot be read; without waking Spark where that is simple."""
    options = {k.lower(): v for k, v in source.options}
    found = listing(source)
    visible = [Path(f) for f in found.files] if found is not None else []
    plain = len(separator_of(options)) == 1 and "ignoreleadingwhitespace" not in options
    whole = found is None or not plain
    for where in [str(source.path)] if whole else visible:
        try:
            if isinstance(where, str) or where.suffix not in ("", ".csv", ".txt", ".tsv", ".gz"):
                from skyband.framework.sources.files import spark_reader

                names = spark_reader.csv_header(spark, source, str(where))
            else:
                names = first_line(str(where), options)
        except SkybandError as e:
            yield Path(where).name, e
        except (OSError, EOFError, zlib.error, csv.Error, LookupError) as e:
            yield Path(where).name, SkybandError("SKY-E301", f"the file {where} cannot be read: {e}", hint=FIX_FILE)
        else:
            if names:
                yield Path(where).name, [*names, *(n for n in values_of(source, str(where)) if n not in names)]
