"""Reads the first rows of a file, column by column, and finds the options to read it with."""

from __future__ import annotations

import csv
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.types import readable
from skyband.framework.guess import csv_forms
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.columnar.column_types import twice
from skyband.framework.sources.columnar.files import READ_ERRORS, opened
from skyband.framework.sources.files.listing import RECURSIVE, listing, partition_values
from skyband.framework.sources.json import syntax
from skyband.framework.sources.looks import fits_text
from skyband.framework.sources.options import CSV
from skyband.framework.sources.text.lines import COMPRESSED, lines_of, open_text, whole_text

ROWS: Final = 10_000
"""Most rows that are read."""
_FILES: Final = 1_000
"""Most files of a directory that are read."""
_SEPARATORS: Final = ",;\t|"
_ENDINGS: Final = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_BINARY: Final = {".parquet": "parquet", ".orc": "orc"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its ``name`` in the source. ``values``: texts or JSON values; ``kind``: the Arrow type of a typed file;
    ``json``: they are JSON values."""

    name: str
    values: tuple[Any, ...]
    kind: Any = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a source. ``ending``: of the file's name, with its compression (``.csv.gz``); ``whole``: there are no more rows.

    ``files``: those looked at; ``of``: those of the directory, None if it is no directory. ``nulls``: JSON values null beside the rows."""

    format: str
    ending: str
    options: tuple[tuple[str, str | bool], ...]
    columns: tuple[Column, ...]
    rows: int
    whole: bool
    notes: tuple[str, ...] = ()
    files: int = 1
    of: int | None = None
    nulls: int = 0


def sample_of(path: Path, rows: int = ROWS) -> Sample:
    """Return the first ``rows`` rows of the file, directory of files or Delta table at ``path``.

    SkybandError SKY-E201 if it is not there, has no rows, or is nothing that can be read. O(``rows``); of a JSON document O(its size).
    """
    if (path / "_delta_log").is_dir():
        return _typed(path, "delta", "", rows)
    if not path.is_dir():
        if not path.is_file():
            raise SkybandError("SKY-E201", f"there is no file {path}", hint="name a file, or a directory of files")
        return _of_file(path, rows)
    files, options, said = _files_of(path)
    sample, problem = None, None
    for file in files[:_FILES]:
        try:
            one = _with_values(_of_file(file, rows - (sample.rows if sample else 0)), path, file)
        except SkybandError as e:
            problem = problem or e
            continue
        if sample is None:
            sample = one
        elif (one.format, one.options) == (sample.format, sample.options) and (
            any(c.json for c in one.columns) or [(c.name, c.kind) for c in one.columns] == [(c.name, c.kind) for c in sample.columns]
        ):
            sample = _joined(sample, one)
        if sample.rows >= rows:
            break
    if sample is None:
        raise problem or SkybandError("SKY-E201", f"the directory {path} has no files", hint="name a file, or a directory of files")
    whole = sample.whole and sample.files == len(files)
    return replace(sample, whole=whole, of=len(files), options=(*sample.options, *options), notes=(*sample.notes, *said))


def _files_of(path: Path) -> tuple[list[Path], list[tuple[str, str | bool]], list[str]]:
    """Return (the files of a directory, the options to read them with, notes)."""
    found = listing(SourceNode("csv", str(path), (), ()))
    assert found is not None
    if found.conflict or (found.unread and not found.files):
        found = listing(SourceNode("csv", str(path), ((RECURSIVE, "true"),), ()))
        assert found is not None
        return _there(found.files), [(RECURSIVE, True)], ["the files of all subdirectories are read"]
    n = len(found.unread)
    unread = f"{counted(n, 'file')} below {agree(n, 'is', 'are')} not read: set source.options {RECURSIVE}: true to read all directories"
    return _there(found.files), [], [unread] if found.unread else []


def _there(files: Sequence[str]) -> list[Path]:
    return [p for f in files if (p := Path(f)).is_file() and p.stat().st_size]


def _of_file(file: Path, rows: int) -> Sample:
    name, packed = file.name.lower(), ""
    for ending in COMPRESSED:
        if name.endswith(ending):
            name, packed = name.removesuffix(ending), ending
    ending = os.path.splitext(name)[1]
    try:
        if ending in _BINARY and not packed:
            return _typed(file, _BINARY[ending], ending, rows)
        if ending in _ENDINGS:
            read = _csv if _ENDINGS[ending] == "csv" else _json
            return read(file, ending + packed, rows)
    except RecursionError as e:
        raise _unreadable(file, "a value is nested too deeply") from e
    except (OSError, EOFError, zlib.error, ValueError, csv.Error) as e:
        raise _unreadable(file, str(e).splitlines()[0] if str(e) else type(e).__name__) from e
    hint = f"those end in {', '.join((*_ENDINGS, *_BINARY))} (texts may be packed: .gz, .bz2); or a directory of them, or a Delta table"
    raise SkybandError("SKY-E201", f"{file} is none of the files that can be looked at", hint=hint)


def _with_values(sample: Sample, root: Path, file: Path) -> Sample:
    """Return the sample with the partition columns of its directory."""
    held = {} if sample.columns == () else partition_values(str(root.absolute()), str(file.absolute()))
    more = tuple(Column(n, (v,) * sample.rows) for n, v in held.items() if n not in {c.name for c in sample.columns})
    return replace(sample, columns=(*sample.columns, *more))


def _joined(one: Sample, other: Sample) -> Sample:
    """Return both samples as one. Rows without a column, of JSON, have null there."""
    names = dict.fromkeys(c.name for c in (*one.columns, *other.columns))
    mine, theirs = ({c.name: c for c in s.columns} for s in (one, other))
    columns = tuple(
        replace(mine.get(n) or theirs[n], values=_values(mine.get(n), one.rows) + _values(theirs.get(n), other.rows)) for n in names
    )
    notes = tuple(dict.fromkeys((*one.notes, *other.notes)))
    rows, files, nulls = one.rows + other.rows, one.files + other.files, one.nulls + other.nulls
    return replace(one, columns=columns, rows=rows, whole=one.whole and other.whole, notes=notes, files=files, nulls=nulls)


def _values(column: Column | None, rows: int) -> tuple[Any, ...]:
    return (None,) * rows if column is None else column.values


def _unreadable(path: Path, why: str) -> SkybandError:
    return SkybandError("SKY-E201", f"{path} cannot be read: {why[:200]}", hint="name a file that can")


def _csv(file: Path, ending: str, most: int) -> Sample:
    for encoding in csv_forms.ENCODINGS:
        try:
            return _csv_in(file, encoding, ending, most)
        except UnicodeDecodeError:
            continue
    raise AssertionError("the last encoding reads any bytes")


def _csv_in(file: Path, encoding: str, ending: str, most: int) -> Sample:
    options: list[tuple[str, str | bool]] = []
    notes = [] if encoding == "utf-8-sig" else [f"the file is not UTF-8: it is read as {encoding}"]
    head = list(islice(lines_of(file, encoding), 100))
    separator = max(_SEPARATORS, key=lambda s: _agreement(head, s))
    skip = 0
    if "skip_lines" in CSV and _agreement(head, separator)[0] <= len(head) // 2:
        skip, separator = max((csv_forms.title_lines(head, s), s) for s in _SEPARATORS)
    slashed = "skip_lines" in CSV and csv_forms.slashed(head)
    lines = islice(lines_of(file, encoding), skip, None)
    read = csv.reader(lines, delimiter=separator, doublequote=not slashed, escapechar="\\" if slashed else None)
    rows = [r for r in islice(read, most + 1) if r]
    if not rows:
        raise _unreadable(file, "it is empty")
    whole = next(read, None) is None
    header = _is_header(rows)
    names = rows[0] if header else [f"column{i + 1}" for i in range(len(rows[0]))]
    if len({n.lower() for n in names}) < len(names):
        raise ValueError("its header has two columns of one name: give each a name of its own, Spark does not tell case apart")
    body = rows[1:] if header else rows[:most]
    if not body:
        raise _unreadable(file, "it has no rows below its header")
    odd = sum(len(r) != len(names) for r in body)
    if odd:
        notes.append(f"{odd:,} of {counted(len(body), 'row')} with another number of cells than the first: to be rejected")
    body = [r for r in body if len(r) == len(names)]
    columns = _columns(names, body)
    marks = csv_forms.number_marks([c.values for c in columns]) if "thousands" in CSV else {}
    if marks:
        columns = tuple(replace(c, values=_plain_numbers(c.values, marks)) for c in columns)
    options += [] if separator == "," else [("sep", separator)]
    options += [] if header else [("header", False)]
    options += [("encoding", encoding.upper() if encoding.startswith("iso") else encoding)] if notes and encoding != "utf-8-sig" else []
    options += [("skip_lines", str(skip))] if skip else []
    options += [("escape", "\\")] if slashed else []
    return Sample("csv", ending, (*options, *marks.items()), columns, len(body), whole, tuple(notes))


def _plain_numbers(values: Sequence[str], marks: dict[str, str]) -> tuple[str, ...]:
    """Return a column without marks if its values are numbers, but for null and a few bad ones; else unchanged."""
    made = tuple(csv_forms.plain_number(v, marks) for v in values)
    numbers = csv_forms.numbers_of(made)
    return made if numbers and all(fits_text("double", v) for v in numbers) else tuple(values)


def _agreement(head: Sequence[str], separator: str) -> tuple[int, int]:
    """(lines with as many cells as the first, cells of the first), if there are two or more: a separator makes many of both."""
    counts = [len(r) for r in csv.reader(head, delimiter=separator) if r]
    if not counts or counts[0] < 2:
        return 0, 0
    return counts.count(counts[0]), counts[0]


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if no cell of the first row is a number, a date or empty."""
    first = [c.strip() for c in rows[0]]
    plain = not any(fits_text("double", c) or (fits_text("timestamp", c) and "-" in c) for c in first if c)
    return plain and all(first)


def _json(file: Path, ending: str, most: int) -> Sample:
    with open_text(file, "utf-8-sig") as f:
        begin = f.read(1024).lstrip()[:1]
    found, whole = (_array(file), True) if begin == "[" else (None, False)
    if found is not None:
        options: tuple[tuple[str, str | bool], ...] = (("multiLine", True),)
        rows, whole = found[:most], len(found) <= most
    else:
        options, lines = (), (line for line in lines_of(file, "utf-8-sig") if line.strip())
        rows = [row for line in islice(lines, most) for row in _rows(syntax.value(line))]
        whole = next(lines, None) is None
    nulls = sum(r is None for r in rows)
    rows = [_flat(r) for r in rows if isinstance(r, dict) and _is_text(r)]
    if not rows:
        raise _unreadable(file, "it has no rows that are JSON objects")
    names = list(dict.fromkeys(n for r in rows for n in r))
    columns = _columns(names, [[r.get(n) for n in names] for r in rows], json=True)
    return Sample("json", ending, options, columns, len(rows), whole, nulls=nulls)


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]], json: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, tuple(r[i] for r in rows), json=json) for i, name in enumerate(names))


def _array(file: Path) -> list[Any] | None:
    """Return the elements of a file that is one array; None if it holds several values."""
    text = whole_text(file)
    try:
        return list(syntax.value(text))
    except ValueError:
        first = text.strip().partition("\n")[0]
        if syntax.rows(first) is None:
            raise
        return None


def _is_text(row: dict[str, Any]) -> bool:
    """Return False for a row with half a character, which runs reject."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the members of objects as columns: ``user.score``."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and value and "." not in name:
            flat |= {f"{name}.{n}": v for n, v in _flat(value).items() if n and "." not in name}
        else:
            flat[name] = value
    return flat


def _typed(path: Path, kind: str, ending: str, most: int) -> Sample:
    """Return the sample of a Parquet file, an ORC file or a Delta table."""
    try:
        file = opened(kind, str(path))
        rows = file.head(most + 1)
    except READ_ERRORS as e:
        raise _unreadable(path, str(e).splitlines()[0] if str(e) else type(e).__name__) from e
    if not rows.num_rows:
        raise _unreadable(path, "it has no rows")
    if repeated := twice(rows.column_names):
        raise _unreadable(path, f"it has two columns of one name: {', '.join(next(iter(repeated.values())))}")
    whole, rows = rows.num_rows <= most, readable(rows.slice(0, most))
    while any(str(t).startswith("struct") for t in rows.schema.types):
        rows = rows.flatten()
    columns = tuple(Column(f.name, tuple(_plain(rows[i])), f.type) for i, f in enumerate(rows.schema))
    return Sample(kind, ending, (), columns, rows.num_rows, whole)


def _plain(column: Any) -> list[Any]:
    """Return the values of a typed column as Python objects, instants in microseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return list(pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz), safe=False), pa.int64()).to_pylist())
    return list(column.to_pylist())
