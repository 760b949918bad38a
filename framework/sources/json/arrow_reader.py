"""Reads JSON lines without Spark, with the same values as Spark's exact reader. Imports no Spark.

Each line is one object or blank, in UTF-8, and every declared column has a value of its own kind: a text, a number, ``true`` or ``false``,
null or nothing at all. Instants, days and numbers are spelled as ``csv.cells`` reads them. Every other file raises UnsupportedFile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.framework.plan.model import Field, SourceNode
from skyband.framework.sources.csv import cells
from skyband.framework.sources.files.arrow import PACKED, UnsupportedFile, local_file
from skyband.framework.sources.json.plain import is_text
from skyband.framework.sources.nested import path_of

_PIECE: Final = 8 << 20
"""Bytes read at a time, plus the rest of a line."""
_LARGEST: Final = 1 << 30
"""Bytes of a piece that offsets of 32 bits can count."""
_ROWS: Final = 65_536
"""Rows of a table."""
_MARK: Final = b"\xef\xbb\xbf"


class Names(NamedTuple):
    """The names that are read: each with the number of the object that it is a member of (-1: the row) and its kind (``row_kernel``).

    ``columns``: the column that each stands for, or leads to. The first are those of the columns themselves, in their order.
    """

    spelled: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    parents: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class JsonArrowReader:
    """Reads the columns ``fields`` of ``source`` from files in the directory ``root``; ``below``: in its subdirectories too."""

    root: str
    below: bool
    source: SourceNode
    fields: tuple[Field, ...]

    def tables(self, url: str) -> Iterator[pa.Table]:
        """Yield the rows of a file by its URL, in its order, with the names and types of the fields. Raises UnsupportedFile."""
        path = local_file(url, self.root, self.below)
        if path.endswith(PACKED):
            raise UnsupportedFile("files are packed")
        names = names_of(self.source, self.fields)
        try:
            with open(path, "rb") as file:
                first = True
                while piece := file.read(_PIECE):
                    piece += file.readline() if not piece.endswith(b"\n") else b""
                    yield from self.rows(piece.removeprefix(_MARK) if first else piece, names)
                    first = False
        except OSError as e:
            raise UnsupportedFile(f"a file cannot be read ({type(e).__name__})", lasting=False) from e

    def rows(self, piece: bytes, names: Names) -> Iterator[pa.Table]:
        """Yield the rows of a piece of whole lines, at most 65,536 at a time. Raises UnsupportedFile."""
        from skyband.framework.sources.json.row_kernel import ODD_LINE, find_rows

        if len(piece) > _LARGEST or not is_text(piece):
            raise UnsupportedFile("a file has bytes that are no UTF-8, or a very long line")
        data = np.frombuffer(piece, np.uint8)
        most = min(_ROWS, piece.count(b"\n") + 1)
        begins, stops = np.empty((2, len(names.kinds), most), np.int64)
        at = 0
        while at < len(data):
            rows, at = find_rows(data, at, names.spelled, names.ends, names.parents, names.kinds, begins, stops)
            if rows == ODD_LINE:
                raise UnsupportedFile("a file has lines that are not one plain object")
            if rows < 0:
                raise _odd(names.columns[-2 - rows])
            if rows:
                columns = [self._column(data, begins[n, :rows], stops[n, :rows], f) for n, f in enumerate(self.fields)]
                yield pa.table(columns, [f.name for f in self.fields])

    def _column(self, data: npt.NDArray[np.uint8], begins: npt.NDArray[Any], stops: npt.NDArray[Any], f: Field) -> pa.Array:
        column = cells.read(_texts(data, begins, stops), f.type)
        if column is None:
            raise _odd(f)
        return column


def _odd(f: Field) -> UnsupportedFile:
    return UnsupportedFile(f"column {f.name} has values that are no plain {f.type}")


def _texts(data: npt.NDArray[np.uint8], begins: npt.NDArray[Any], stops: npt.NDArray[Any]) -> pa.Array:
    """Return the texts of a column; null where ``begins`` is negative. O(bytes)."""
    from skyband.framework.sources.json.row_kernel import copy_texts

    there, rows = begins >= 0, len(begins)
    out = np.empty(int((stops - begins)[there].sum()), np.uint8)
    offsets = np.zeros(rows + 1, np.int32)
    size = copy_texts(data, begins, stops, offsets, out)
    nulls = rows - int(there.sum())
    valid = pa.py_buffer(np.packbits(there, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(pa.string(), rows, [valid, pa.py_buffer(offsets), pa.py_buffer(out[:size])], nulls)


def names_of(source: SourceNode, fields: Sequence[Field]) -> Names:
    """Return the names by which the columns ``fields`` are found. Raises UnsupportedFile for columns that share a name."""
    from skyband.framework.sources.json import row_kernel

    kinds = {"string": row_kernel.TEXT, "timestamp": row_kernel.PLAIN, "date": row_kernel.PLAIN, "boolean": row_kernel.SWITCH} | {
        "int": row_kernel.WHOLE, "bigint": row_kernel.WHOLE, "float": row_kernel.FRACTION, "double": row_kernel.FRACTION,
    }  # fmt: skip
    paths = [(path_of(source, str(f.source_name)), str(f.source_name)) for f in fields]
    found: list[tuple[str, int, int, Field]] = [
        (name if path is None else path[-1], -1, kinds[f.type], f) for (path, name), f in zip(paths, fields, strict=True)
    ]
    objects: dict[tuple[str, ...], int] = {}
    for number, ((path, name), f) in enumerate(zip(paths, fields, strict=True)):
        if path is None:
            continue
        # A column whose own name is ``user.score`` comes before the member: Spark finds out.
        found.append((name, -1, row_kernel.NOTHING, f))
        parent = -1
        for depth in range(1, len(path)):
            if path[:depth] not in objects:
                objects[path[:depth]] = len(found)
                found.append((path[depth - 1], parent, row_kernel.OBJECT, f))
            parent = objects[path[:depth]]
        found[number] = (path[-1], parent, found[number][2], f)
    if len({(name, parent) for name, parent, _, _ in found}) < len(found):
        raise UnsupportedFile("two columns have one name")
    spelled = [name.encode() for name, *_ in found]
    return Names(
        np.frombuffer(b"".join(spelled) or b" ", np.uint8),
        np.cumsum([0, *map(len, spelled)]).astype(np.int64),
        np.array([parent for _, parent, _, _ in found], np.int64),
        np.array([kind for _, _, kind, _ in found], np.int64),
        tuple(f for *_, f in found),
    )
