"""Infers the type of a sample's column and, if it holds event times, its instants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from skyband.framework.guess.sample import Column
from skyband.framework.quality.looks import fits_json, fits_text, looks_of
from skyband.framework.sources.columnar.column_types import declare

_TIMELY: Final = re.compile(r"time|date|stamp|epoch|(^|_)(ts|at|when|day|created|updated)($|_)|(ed|ing)_?at$", re.IGNORECASE)
_FORMAT: Final = re.compile(r'Format: "([^"]+)"')
_EPOCHS: Final = ((10, 1_000_000, "timestamp_seconds"), (13, 1000, "timestamp_millis"), (16, 1, "timestamp_micros"))
"""Digits of today since 1970, microseconds of a unit, Spark's function."""
_READ: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": lambda v: v.lower() == "true",
    "bigint": int,
    "double": lambda v: float(v.strip().rstrip("dDfF")),
}
_LONG: Final = re.compile(r"[+-]?\d{19,}")
"""A whole number that neither bigint nor double may hold."""
_RECENT: Final = (631_152_000_000_000, 4_102_444_800_000_000)
"""1990 to 2100 in microseconds."""


@dataclass(slots=True)
class Guess:
    """A column of the spec: ``source`` is its name in the source, ``name`` in the spec.

    ``micros``: its instants, if it has any. ``derive``: the expression that makes ``name``_time of it, where Spark does not read it as
    a timestamp. ``notes``: what one should know, or is not sure of.
    """

    source: str
    name: str
    type: str
    values: Sequence[Any]
    micros: list[int | None] | None = None
    derive: str | None = None
    nothing: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def timely(self) -> bool:
        """Return True if its name suggests an instant."""
        return _TIMELY.search(self.source) is not None

    @property
    def distinct(self) -> int:
        """Return the number of distinct values without null."""
        return len({_hashable(v) for v in self.values if v is not None})

    @property
    def nulls(self) -> int:
        """Return the number of nulls."""
        return sum(v is None for v in self.values)


def guess_column(column: Column, name: str, mark: str | None = None) -> Guess | None:
    """Return the column of the spec for ``column``, called ``name``; None if specs have no such type. O(values).

    ``mark``: the only text that may stand for null, if it is known; a source has one for all columns.
    """
    if column.kind is not None:
        return _of_arrow(column, name)
    if any(v is not None and not isinstance(v, str) for v in column.values):
        return _of_json(column, name)
    return _of_texts(column, name, cells=not column.json and not any(v is None for v in column.values), only=mark)


def _of_texts(column: Column, name: str, cells: bool, only: str | None = None) -> Guess:
    """A column of texts; an empty one is null in a CSV file (``cells``). In JSON a number in quotes is text to Spark."""
    values = [None if v is None or (cells and v == "") else v for v in column.values]
    made = Guess(column.name, name, "string", values)
    there = [v for v in values if v is not None]
    if not there:
        made.notes.append("no value in the rows looked at")
        return made
    marks = Counter(v for v in there if looks_of("double", column.name, v) and "nothing" in looks_of("double", column.name, v).like)  # type: ignore[union-attr]
    if cells and len(marks) == 1 and (mark := next(iter(marks))) and marks[mark] < len(there) and only in (None, mark):
        without = [None if v == mark else v for v in values]
        if _typed_texts(made, without):
            made.nothing = mark
            return made
    if not _typed_texts(made, values, numbers=not column.json) and cells:
        hint = looks_of("double", column.name, there[0])
        if hint is not None and hint.like in ("a number with commas between thousands", "a number with a decimal comma"):
            made.notes.append(f"{hint.like}: {hint.hint}")
    return made


def _typed_texts(made: Guess, values: Sequence[str | None], numbers: bool = True) -> bool:
    """Gives ``made`` the type that all texts fit, and these values; False if that is none but string. ``numbers``: they may be."""
    there = [v for v in values if v is not None]
    padded = any(re.fullmatch(r"[+-]?0\d+", v) for v in there)
    kind = next((t for t in _READ if numbers and not padded and all(fits_text(t, v) for v in there)), None)
    if kind == "double" and any(_LONG.fullmatch(v.strip()) for v in there):
        made.notes.append("numbers of more than 18 digits, which a double does not tell apart: read as text")
        return True
    if kind is not None:
        made.type, made.values = kind, [None if v is None else _READ[kind](v) for v in values]
        _epoch(made)
        return True
    if all(fits_text("timestamp", v) and "-" in v.strip()[4:] for v in there):
        made.micros = [_instant(v) for v in values]
        made.type = "date" if all(len(v.strip()) <= 10 for v in there) else "timestamp"
        return True
    form = _format(made.source, there)
    if form is not None:
        made.micros = [None if v is None else _formatted(v, form) for v in values]
        if any(m is None and v is not None for m, v in zip(made.micros, values, strict=True)):
            made.micros = None
            return False
        made.derive = f"try_to_timestamp({quoted(made.name)}, '{form}')"
        made.notes.append(f"read as {form}")
        return True
    return False


def _format(name: str, texts: Sequence[str]) -> str | None:
    """The one pattern that all ``texts`` are dates of; of day and month the order that only one of the two allows, else the day first."""
    found = Counter(_pattern(name, v) for v in texts)
    if None in found or len(found) > 2:
        return None
    forms = {str(f) for f in found}
    if len(forms) == 1:
        return forms.pop()
    month_first = {f for f in forms if f.startswith("MM")}
    swapped = {f.replace("MM", "?").replace("dd", "MM").replace("?", "dd") for f in month_first}
    if forms - month_first != swapped or any(int(re.split(r"\D", v.strip(), maxsplit=1)[0]) > 12 for v in texts):
        return None
    return month_first.pop()


def _pattern(name: str, text: str) -> str | None:
    looks = looks_of("timestamp", name, text)
    m = _FORMAT.search(looks.hint) if looks is not None else None
    return m[1] if m else None


def _formatted(text: str, form: str) -> int | None:
    python = form
    for java, own in (("yyyy", "%Y"), ("yy", "%y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S")):
        python = python.replace(java, own)
    try:
        return _micros(datetime.strptime(text.strip(), python).replace(tzinfo=UTC))
    except ValueError:
        return None


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(re.sub(r"\s*(UTC|GMT)$", "Z", text.strip()))
    except ValueError:
        return None
    return _micros(at if at.tzinfo is not None else at.replace(tzinfo=UTC))


def _micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _epoch(made: Guess) -> None:
    """Treat numbers as instants if their name or size suggests it."""
    there = [v for v in made.values if v is not None]
    if made.type not in ("bigint", "double") or not made.timely or not there:
        return
    for digits, unit, function in _EPOCHS:
        if all(_RECENT[0] <= v * unit <= _RECENT[1] for v in there) and len(str(int(max(there)))) <= digits:
            made.micros = [None if v is None else int(v * unit) for v in made.values]
            whole = made.type == "bigint" or function == "timestamp_seconds"
            made.derive = f"{function}({quoted(made.name)})" if whole else f"{function}(cast({quoted(made.name)} as bigint))"
            made.notes.append(f"{function.removeprefix('timestamp_')} since 1970")
            return


def _of_json(column: Column, name: str) -> Guess | None:
    there = [v for v in column.values if v is not None]
    order = ("boolean", "bigint", "double", "array<bigint>", "array<string>", "string")
    kind = next((t for t in order if all(fits_json(t, v) for v in there)), None)
    if kind is None or any(isinstance(v, dict) or (isinstance(v, list) and any(isinstance(x, (dict, list)) for x in v)) for v in there):
        return None
    if kind == "string" and not all(isinstance(v, str) for v in there):
        return Guess(column.name, name, "string", [None if v is None else str(v) for v in column.values], notes=["values of several kinds"])
    if kind == "double" and any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in there):
        note = "numbers of more than 18 digits, which a double does not tell apart: read as text"
        return Guess(column.name, name, "string", [None if v is None else str(v) for v in column.values], notes=[note])
    made = Guess(column.name, name, kind, column.values)
    _epoch(made)
    return made


def _of_arrow(column: Column, name: str) -> Guess | None:
    import pyarrow as pa

    kind = column.kind
    declared = declare(kind)
    if declared is None:
        return None
    made = Guess(column.name, name, declared, column.values)
    if pa.types.is_timestamp(kind):
        made.micros = list(column.values)
        if kind.unit == "ns":
            made.derive = f"timestamp_micros({quoted(name)} div 1000)"
            made.notes.append("nanoseconds since 1970: Spark reads them as whole numbers")
    elif pa.types.is_date(kind):
        made.micros = [None if v is None else _micros(datetime(v.year, v.month, v.day, tzinfo=UTC)) for v in column.values]
    else:
        _epoch(made)
    return made


def quoted(name: str) -> str:
    """Return a column's name in Spark SQL, in backquotes if it is a keyword."""
    from sqlglot.dialects.spark import Spark

    word = Spark.Tokenizer.KEYWORDS.get(name.upper())
    return f"`{name}`" if word is not None and word not in Spark.Parser.ID_VAR_TOKENS else name


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value.isoformat() if isinstance(value, date) else value
