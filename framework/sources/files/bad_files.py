"""Finds unreadable files and the reason: from Spark's error, and by a quick check of the files of the same batch."""

from __future__ import annotations

import bz2
import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.text.options import codec_of, skipped

_NAMED = re.compile(r"while reading file (\S+)\.(?:\s|$)")
_OTHER_TYPE = re.compile(r"column: \[(?P<column>[^\]]*)\], physicalType: (?P<there>\w+), logicalType: (?P<declared>[\w(),]+)")
_DECLARE = {"INT32": "int", "INT64": "bigint", "FLOAT": "float", "DOUBLE": "double", "BOOLEAN": "boolean", "BINARY": "string"}
"""Physical types of Parquet -> column types."""
_PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
_BLOCK = 1 << 20
_LONGEST_HEADER = 1 << 20
"""Most characters of a line that may be a header."""
LONGEST = 300
"""Characters of a reason."""


def named_in(said: str) -> list[str]:
    """Return the URLs of the files that Spark's error ``said`` is about."""
    return list(dict.fromkeys(_NAMED.findall(said)))


def plain(url: str) -> str:
    """Return one spelling of a file's URL: Spark writes ``file:/x`` and ``file:///x``."""
    return "file:///" + url.removeprefix("file:").lstrip("/") if url.startswith("file:") else url


def why(said: str) -> str:
    """Return what is wrong with a file: the innermost cause of Spark's error in one line of at most ``LONGEST`` characters."""
    lines = [line.strip() for line in said.splitlines()]
    header = next((line for line in lines if line.startswith("Header:")), None)
    if "CSV header does not conform" in said or "Number of column in CSV header" in said:
        text = "its header is not that of the other files" + (
            f" (it begins: {header.removeprefix('Header:').strip()[:100]})" if header else ""
        )
        return _short(text)
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith("Caused by:")]
    last = causes[-1] if causes else next((line for line in lines if line), "unknown")
    if "FAILED_READ_FILE" in last:
        # There is no deeper cause: what follows the file's name says it.
        last = _NAMED.sub("", last.partition("]")[2]).replace("Encountered error ", "").strip() or last
    return _short(re.sub(r"^([a-zA-Z_$0-9]+\.)+", "", re.sub(r"file:/\S*/", "", last)))


def other_type(said: str) -> tuple[str, str, str, str | None] | None:
    """Return (column, type in the Parquet file, declared type, type to declare) if Spark's error is about that, else None."""
    m = _OTHER_TYPE.search(said)
    return None if m is None else (m["column"], m["there"], m["declared"], _DECLARE.get(m["there"]))


def _short(text: str) -> str:
    text = re.sub(r"\s*SQLSTATE: \w+", "", text)
    printed = "".join(c if c.isprintable() else "?" for c in text)
    return printed if len(printed) <= LONGEST else printed[: LONGEST - 3] + "..."


def suspects(source: SourceNode, columns: Sequence[str] | None, files: Mapping[str, str]) -> list[str]:
    """Return those of ``files`` (URL -> local path) that Spark probably cannot read.

    Packed files are unpacked, O(bytes); of others the end (Parquet, ORC) or the first line is looked at.
    """
    options = {k.lower(): v for k, v in source.options}
    return [url for url, path in files.items() if _looks_bad(source.format, options, columns, path)]


def _looks_bad(kind: str, options: Mapping[str, str], columns: Sequence[str] | None, path: str) -> bool:
    try:
        if kind in ("parquet", "orc"):
            return _without_footer(kind, path)
        if path.endswith(tuple(_PACKED)):
            with _opener(path)(path, "rb") as f:
                while f.read(_BLOCK):
                    pass
        if columns is not None and kind == "csv":
            return _other_header(options, columns, path)
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error, LookupError):
        return True
    return False


def _without_footer(kind: str, path: str) -> bool:
    # Checking a spec, which imports this module, stays light.
    import pyarrow as pa
    import pyarrow.orc
    import pyarrow.parquet

    try:
        if kind == "parquet":
            pyarrow.parquet.ParquetFile(path).close()
        else:
            pyarrow.orc.ORCFile(path)
    except (OSError, pa.ArrowException):
        return True
    return False


def _other_header(options: Mapping[str, str], columns: Sequence[str], path: str) -> bool:
    first = first_line(path, options)
    return bool(first) and [c.strip().lower() for c in first] != [c.strip().lower() for c in columns]


def _opener(path: str) -> Any:
    return next((opener for ending, opener in _PACKED.items() if path.endswith(ending)), open)


def opened(path: str) -> IO[bytes]:
    """Open a file for its bytes, decompressed."""
    made: IO[bytes] = _opener(path)(path, "rb")
    return made


def separator_of(options: Mapping[str, str]) -> str:
    """Return the separator of CSV cells, by options in lower case."""
    given = options.get("sep", options.get("delimiter", ","))
    return {"\\t": "\t"}.get(given, given)


def _short_lines(file: IO[str]) -> Iterator[str]:
    while line := file.readline(_LONGEST_HEADER):
        if len(line) == _LONGEST_HEADER:
            raise csv.Error("its first line is longer than a megabyte")
        yield line


def first_line(path: str, options: Mapping[str, str]) -> list[str]:
    """Return the cells of a CSV file's header or first row, [] if there is none. Raises OSError, EOFError, zlib.error, csv.Error."""
    opener = _opener(path)
    with opener(path, "rt", encoding=codec_of(options), errors="replace", newline="") as f:
        for _ in range(skipped(options)):
            f.readline(_LONGEST_HEADER)
        rows = csv.reader(_short_lines(f), delimiter=separator_of(options)[:1] or ",", quotechar=options.get("quote", '"') or None)
        return next((row for row in rows if any(cell.strip() for cell in row)), [])
