"""Translate errors of DuckDB and Arrow to PostgreSQL's: an SQLSTATE, and a sentence of ours before the library's text."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from skyband.framework.base.errors import SkybandError, printable, redacted
from skyband.framework.base.extras import extra
from skyband.framework.base.system_failures import one_line
from skyband.framework.serve.protocol.wire import Refused

with extra("sql", "the server of a job's tables"):
    import duckdb

_STATES: Final[tuple[tuple[str, str, str], ...]] = (
    ("InterruptException", "57014", "the statement was interrupted"),
    ("OutOfMemoryException", "53200", "the statement needs more memory than it may have"),
    ("ParserException", "42601", "the statement is not understood"),
    ("SyntaxException", "42601", "the statement is not understood"),
    ("BinderException", "42703", "the statement does not fit the tables"),
    ("CatalogException", "42704", "the statement names something that does not exist"),
    ("ConversionException", "22P02", "a value cannot be converted"),
    ("OutOfRangeException", "22003", "a value is out of range"),
    ("TypeMismatchException", "42804", "the types do not fit"),
    ("InvalidTypeException", "42704", "there is no such type"),
    ("InvalidInputException", "22023", "a value cannot be used there"),
    ("PermissionException", "42501", "the statement asks for what it may not have"),
    ("NotImplementedException", "0A000", "the statement asks for what DuckDB does not have"),
    ("IOException", "58030", "the files of a table cannot be read; ask again: a rebuild may have replaced them"),
)


def refused(e: BaseException, memory_mb: int) -> Refused:
    """Return the error that a client sees for ``e``."""
    if isinstance(e, Refused):
        return e
    if isinstance(e, SkybandError):
        return Refused(
            "58030" if e.code == "SKY-E301" else "42P01", f"{e.code} {printable(redacted(e.message))}", redacted(e.hint) if e.hint else None
        )
    text = printable(one_line(e))[:500]
    kind = type(e).__name__
    if (
        isinstance(e, (MemoryError, pa.ArrowMemoryError))
        or "bad_alloc" in text
        or "Out of Memory Error" in text
        or kind == "OutOfMemoryException"
    ):
        return Refused(
            "53200", f"the statement needs more than the {memory_mb} MB that it may have", "ask for less, or start with --memory MB"
        )
    for name, state, said in _STATES:
        if kind == name:
            return Refused(state, f"{said}: {text}")
    if isinstance(e, duckdb.Error):
        return Refused("XX000", f"DuckDB could not answer: {text}")
    return Refused("XX000", f"the answer could not be made: {text}")
