"""Reads the first rows of a source without Spark, with the spec's types, where the result is certain to be the same.

A cell counts as Spark's parser would take it (``quality.looks``). What it might read otherwise is not guessed at: such options and
formats raise SKY-E531, and rows with such cells are counted (``doubtful``) and left out.
"""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Iterator, Sequence

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import SourceNode
from skyband.framework.sources.columnar.files import READ_ERRORS
from skyband.framework.sources.files import preflight
from skyband.framework.sources.first_rows import FirstRows, Unparsed
from skyband.framework.sources.position import FileNames, position_values
from skyband.framework.sources.registry import source_format


def first_rows(source: SourceNode, most: int, files: Sequence[str] | None = None) -> FirstRows:
    """Return the first ``most`` rows, file by file in the order of modification, or of ``files`` in their order. O(``most``).

    SkybandError SKY-E531 where only Spark knows how they are read, SKY-E206 if there are none, SKY-E201 if a file cannot be read.
    """
    format_ = source_format(source.format)
    known = format_.preview_options
    unknown = [name for name, _ in source.options if name.lower() not in (known or ())]
    if known is None or unknown:
        what = f"source.options.{unknown[0]}" if unknown else f"the format {source.shown}"
        raise SkybandError("SKY-E531", f"{what} is read by Spark alone", hint="skyband preview --engine shows its rows")
    gone = preflight.missing(source)
    if gone is not None:
        raise gone
    found = FirstRows(absent=[f.name for f in source.fields] if format_.columns_per_row else [])
    paths = [str(preflight.local_directory(str(source.path)))] if format_.of_table else files if files is not None else _by_age(source)
    found.many, names = len(paths), FileNames.of(source)
    if not paths:
        raise SkybandError(
            "SKY-E206", f"there are no files in {source.path} yet", hint="put one there; names that begin with _ or . are not read"
        )
    for path in paths:
        if found.read >= most:
            break
        found.files.append(path)
        before, kept = found.read, len(found.rows)
        try:
            format_.first_rows(source, path, most - found.read, found)
        except (*READ_ERRORS, EOFError, zlib.error, csv.Error, LookupError) as e:
            raise SkybandError("SKY-E201", f"the file {path} cannot be read: {str(e)[:200]}", hint="fix it, or move it away") from e
        for row, number in zip(found.rows[kept:], found.numbers[kept:], strict=True):
            row.update(position_values(source.position, names.name(path), number - before))
    return found


def _by_age(source: SourceNode) -> list[str]:
    return sorted(preflight.files(source), key=lambda p: (os.stat(p).st_mtime_ns, p))


def texts_of(rows: FirstRows) -> Iterator[str]:
    """Yield what is wrong with rows that do not parse, each kind once, with its number of rows."""
    kinds: dict[tuple[str, ...], list[Unparsed]] = {}
    for w in rows.why:
        kinds.setdefault(w.kind, []).append(w)
    for same in sorted(kinds.values(), key=len, reverse=True):
        first = same[0]
        yield f"{len(same):,} x {first.said}" + (f"; {first.hint}" if first.hint else "")
