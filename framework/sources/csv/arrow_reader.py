"""Reads plain CSV files with Arrow, which gives the same values as Spark's reader. Imports no Spark.

As many cells in every line as in the header, lines that end with a line feed (a carriage return may be before it), UTF-8, cells that
``cells`` reads, and quotes only around a whole cell that is not empty: inside of it none, or doubled ones where RFC 4180 holds. Where a
backslash escapes quotes there is none. Every other file raises UnsupportedFile.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from skyband.framework.plan.model import Field
from skyband.framework.sources.csv import cells
from skyband.framework.sources.files.arrow import PACKED, UnsupportedFile, local_file
from skyband.operators.jit import HAVE_NUMBA

_PIECE: Final = 8 << 20
"""Bytes read at a time, plus the rest of a line."""
_FULL: Final = re.compile(rb"[^\r\n]")
_MARK: Final = b"\xef\xbb\xbf"
_SPECIAL: Final = (b"\r", b"\0", _MARK)


@dataclass(frozen=True, slots=True)
class CsvArrowReader:
    """Reads files with the header ``header`` after ``skip`` lines in the directory ``root``; ``below``: in its subdirectories too.

    ``doubled``: a quote within quotes is doubled, and a backslash is a character like others.
    """

    root: str
    below: bool
    fields: tuple[Field, ...]
    header: tuple[str, ...]
    separator: str
    doubled: bool = False
    skip: int = 0

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file by its URL, in its order, with the names and types of the fields. Raises UnsupportedFile."""
        path = local_file(url, self.root, self.below)
        if path.endswith(PACKED):
            raise UnsupportedFile("files are packed")
        if len(self.header) < 2 or len(set(self.header)) < len(self.header):
            raise UnsupportedFile("the header has one column, or one twice")
        try:
            with open(path, "rb") as file:
                if any(b"\r" in file.readline(_PIECE).removesuffix(b"\n").removesuffix(b"\r") for _ in range(self.skip)):
                    raise UnsupportedFile("a file has lone carriage returns")
                first = file.readline(_PIECE)
                if not self.skip:
                    first = first.removeprefix(_MARK)
                if not self._is_header(first):
                    raise UnsupportedFile(
                        "a header is spelled otherwise", lasting=bool(first) and any(s in first for s in (b'"', b"\\", *_SPECIAL))
                    )
                for piece in _pieces(file):
                    yield self._table(piece)
        except OSError as e:
            raise UnsupportedFile(f"a file cannot be read ({type(e).__name__})", lasting=False) from e

    def _is_header(self, line: bytes) -> bool:
        try:
            names = line.decode().removesuffix("\n").removesuffix("\r").split(self.separator)
        except UnicodeDecodeError:
            return False
        return tuple(n[1:-1] if len(n) > 2 and n[0] == n[-1] == '"' else n for n in names) == self.header

    def _table(self, piece: bytes) -> pa.Table:
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n")
        if any(mark in piece for mark in _SPECIAL) or (not self.doubled and b"\\" in piece):
            raise UnsupportedFile("a file has backslashes, lone carriage returns, zeros or byte order marks")
        quotes = b'"' in piece
        if quotes and not self._plain(piece):
            raise UnsupportedFile("a file has quotes that are not around a whole cell, or around nothing")
        wanted = [str(f.source_name) for f in self.fields]
        try:
            found = pa.csv.read_csv(
                io.BytesIO(piece),
                pa.csv.ReadOptions(use_threads=False, block_size=_PIECE * 2, column_names=list(self.header)),
                pa.csv.ParseOptions(
                    delimiter=self.separator, quote_char='"' if quotes else False, double_quote=self.doubled, escape_char=False,
                    newlines_in_values=False,
                ),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()), include_columns=list(dict.fromkeys(wanted)), null_values=[""],
                    strings_can_be_null=True,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid as e:
            raise UnsupportedFile("a line has too few cells or too many, or is not UTF-8") from e
        return pa.table([self._column(found[n], f) for n, f in zip(wanted, self.fields, strict=True)], [f.name for f in self.fields])

    def _plain(self, piece: bytes) -> bool:
        if len(piece) < cells.LEAST or not HAVE_NUMBA:
            end = f"[{re.escape(self.separator)}\\n]"
            inside = r'(?:[^"\n]|"")+' if self.doubled else r'[^"\n]+'
            return b'"' not in re.sub(rf'(?:\A|(?<={end}))"{inside}"(?={end}|\Z)'.encode(), b"", piece)
        from skyband.framework.sources.csv.quote_kernel import plain_quotes

        return bool(plain_quotes(np.frombuffer(piece, np.uint8), ord(self.separator), self.doubled))

    def _column(self, texts: pa.ChunkedArray, f: Field) -> pa.Array:
        column = cells.read(pa.concat_arrays(texts.chunks), f.type)
        if column is None:
            raise UnsupportedFile(f"column {f.name} has cells that are no plain {f.type}")
        return column


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines."""
    while piece := file.read(_PIECE):
        if not piece.endswith(b"\n"):
            piece += file.readline()
        if _FULL.search(piece):
            yield piece
