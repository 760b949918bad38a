"""Infers the type of a sample's column and, if it holds event times, its instants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from skyband.framework.base.columns import FIXED_COLUMNS, HEAD_COLUMNS
from skyband.framework.base.counts import agree, counted
from skyband.framework.base.table_names import QUERY_COLUMN
from skyband.framework.guess.csv_forms import GROUPS, few
from skyband.framework.guess.sample import Column
from skyband.framework.sources.columnar.column_types import declare
from skyband.framework.sources.looks import fits_json, fits_text, looks_of, stands_for_null
from skyband.framework.sources.text.options import number_form
from skyband.framework.sql_without_spark.rules import Unclear, of_text, reader

TAKEN: Final = frozenset((*FIXED_COLUMNS, *HEAD_COLUMNS, QUERY_COLUMN, "seq", "time"))
"""Names that a key or id may not have because the tables use them."""
_TIMELY: Final = re.compile(r"time|date|stamp|epoch|(^|_)(ts|at|when|day|created|updated)($|_)|(ed|ing)_?at$", re.IGNORECASE)
_FORMAT: Final = re.compile(r'Format: "([^"]+)"')
_EPOCHS: Final = ((10, 1_000_000, "timestamp_seconds"), (13, 1000, "timestamp_millis"), (16, 1, "timestamp_micros"))
"""Digits of today since 1970, microseconds of a unit, Spark's function."""
_COMPACT: Final = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
"""Matches a date without dashes, in a column whose name says so: 20240131."""
_READ: Final[dict[str, Callable[[str], Any]]] = {"boolean": lambda v: v.lower() == "true", "bigint": int}
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MONEY: Final = frozenset((
    "price", "preis", "amount", "betrag", "cost", "kosten", "fee", "revenue", "umsatz", "salary", "wage", "charge", "fare", "tip", "toll",
    "payment", "rent", "turnover", "refund", "usd", "eur", "gbp", "chf", "jpy", "dollar", "euro",
))  # fmt: skip
"""Words for money, without the s of the plural."""
_SUMS: Final = frozenset((
    "total", "subtotal", "sum", "summe", "net", "netto", "gross", "brutto", "balance", "saldo", "value", "wert", "paid", "due", "sale",
    "income", "spend", "discount", "rabatt", "tax", "vat", "credit", "debit",
))  # fmt: skip
"""Words for money where all values have exactly two digits after the point."""
_PRICED: Final = re.compile(r"[a-z]+(price|preis|amount|betrag|cost|kosten|umsatz|summe)s?")
"""Words for money that are one with another: ``unitprice``, ``Gesamtbetrag``."""
_RATIOS: Final = frozenset((
    "rate", "ratio", "pct", "percent", "percentage", "share", "change", "index", "log", "score", "count", "mean", "avg", "average", "std",
    "stddev", "factor",
))  # fmt: skip
"""Words for what is computed from money and has no smallest unit."""
_CENTS: Final = re.compile(r"[+-]?\d{1,12}(\.\d{1,4})?")
"""Matches an amount of money. Prices of a litre or a share have up to four digits after the point."""
_WHOLE_CENTS: Final = re.compile(r"[+-]?\d{1,12}(\.\d{1,2})?")
_AMOUNT: Final = 18
"""Digits of a decimal for money. Groups and statistics add up to 18 digits exactly."""
_SIGNED: Final = re.compile(r"([+-]?)([^\d+-]{0,5}?)([+-]?[\d.][\d.,' _\u2019\u00a0\u202f]*?)([^\d+-]{0,5})")
"""Matches a number with what stands around it: the sign, what comes before, the number, what comes after."""
_CURRENCIES: Final = frozenset(("$", "\u20ac", "\u00a3", "\u00a5", "\u20b9", "USD", "EUR", "GBP", "CHF", "JPY", "INR", "US$"))
_MARKS: Final = ((".", None), (".", ","), (",", None), *((",", g) for g in GROUPS))
"""Decimal and thousands marks in the order in which they are tried."""
_SWAP: Final = str.maketrans("dM", "Md")
_LONG: Final = re.compile(r"[+-]?\d{19,}")
"""A whole number that neither bigint nor double may hold."""
_RECENT: Final = (631_152_000_000_000, 4_102_444_800_000_000)
"""1990 to 2100 in microseconds."""


@dataclass(slots=True)
class Guess:
    """A column of the spec: ``source`` is its name in the source, ``name`` in the spec.

    ``micros``: its instants, if it has any. ``derive``: the expression that makes ``name``_time of it, where Spark does not read it as
    a timestamp, or the numbers. ``amount``: the numbers in texts such as ``12,50 EUR``, as a column that its ``derive`` makes.
    ``notes``: what one should know, or is not sure of.
    """

    source: str
    name: str
    type: str
    values: Sequence[Any]
    micros: list[int | None] | None = None
    derive: str | None = None
    amount: Guess | None = None
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
        """Return the number of nulls. Values that the type does not take are among them, as their rows are rejected."""
        return sum(v is None for v in self.values)

    @property
    def missing(self) -> int:
        """Return the number of rows that have no instant, of a column of instants."""
        return self.nulls if self.derive is None else sum(m is None for m in self.micros or ())


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
    marks = Counter(v for v in there if stands_for_null(v))
    if cells and len(marks) == 1 and (mark := next(iter(marks))) and marks[mark] < len(there) and only in (None, mark):
        without = [None if v == mark else v for v in values]
        if _typed_texts(made, without):
            made.nothing = mark
            return made
    _typed_texts(made, values, quoted=column.json)
    return made


def _typed_texts(made: Guess, values: Sequence[str | None], quoted: bool = False) -> bool:
    """Give ``made`` the type that all texts fit but a few, and these values; return False if that is none but string.

    ``quoted``: the texts are strings of JSON, which Spark takes for numbers only as decimals.
    """
    there = [v for v in values if v is not None]
    compact = made.timely and sum(_COMPACT.fullmatch(v) is not None for v in there) >= len(there) - few(there)
    if not compact and not any(re.fullmatch(r"[+-]?0\d+", v) for v in there) and _numbers(made, values, there, quoted):
        return True
    dashed = {v for v in there if fits_text("timestamp", v) and "-" in v.strip()[4:]}
    if dashed and sum(v not in dashed for v in there) <= few(there):
        made.micros = [_instant(v) if v in dashed else None for v in values]
        made.type = "date" if all(len(v.strip()) <= 10 for v in dashed) else "timestamp"
        _keep(made, values, dashed, "a date" if made.type == "date" else "an instant")
        return True
    return _formatted(made, values, there) or _amounts(made, values, there)


def _numbers(made: Guess, values: Sequence[str | None], there: Sequence[str], quoted: bool) -> bool:
    """Make ``made`` a column of numbers or truth values if all texts are. Of numbers with fractions, a few texts may be none."""
    kind = next((t for t in _READ if not quoted and all(fits_text(t, v) for v in there)), None)
    if kind is not None:
        made.type, made.values = kind, [None if v is None else _READ[kind](v) for v in values]
        _epoch(made)
        return True
    good = {v for v in there if fits_text("double", v)}
    bad = sum(v not in good for v in there)
    if not good or (bad and (bad > few(there) or 2 * sum("." in v for v in there if v in good) < len(there))):
        return False
    if any(_LONG.fullmatch(v.strip()) for v in good):
        if not quoted:
            made.notes.append("numbers of more than 18 digits, which a double does not tell apart: read as text")
        return True
    if not _money(made, good) and quoted:
        return False
    _keep(made, values, good, "a number")
    if made.type == "string":
        made.type = "double"
        made.values = [None if v is None else float(v) for v in made.values]
        _epoch(made)
    else:
        made.values = [None if v is None else Decimal(v.strip()) for v in made.values]
    return True


def _keep(made: Guess, values: Sequence[str | None], good: set[str], what: str) -> None:
    """Set the values of ``made``, null for those that are not ``good``, and note how many these are."""
    made.values = [v if v in good else None for v in values]
    _tell_bad(made, values, good, what, rejected=True)


def _tell_bad(made: Guess, values: Sequence[str | None], good: set[str], what: str, rejected: bool = False) -> None:
    """Note how many values are not ``good``, and what becomes of them: their rows are rejected, or the derived column is null."""
    bad = [v for v in values if v is not None and v not in good]
    if bad:
        shown = ", ".join(repr(v[:20]) for v in list(dict.fromkeys(bad))[:5])
        outcome = f"{agree(len(bad), 'its row is', 'their rows are')} rejected" if rejected else "null"
        of = f"{len(bad):,} of {counted(len(values), 'value')} {agree(len(bad), 'is', 'are')}"
        made.notes.append(f"{of} not read as {what} ({shown}): {outcome}")


def words(name: str) -> list[str]:
    """Return the words of a column's name in lower case: ``unitPrice``, ``Unit Price`` and ``unit_price`` have two."""
    return [w.lower() for w in _WORD.findall(name)]


def _money(made: Guess, texts: Collection[str]) -> bool:
    """Make ``made`` a decimal column if its name says money and all ``texts`` are amounts, some with a fraction. Else return False."""
    there = [v.strip() for v in texts]
    if not all(_CENTS.fullmatch(v) for v in there):
        return False
    places = {len(v.partition(".")[2]) for v in there}
    named = {form for w in words(made.source) for form in (w, w.removesuffix("s"))}
    said = named & _MONEY or any(_PRICED.fullmatch(w) for w in named) or (named & _SUMS and places == {2})
    if not said or named & _RATIOS or not max(places, default=0):
        return False
    made.type = f"decimal({_AMOUNT},{max(2, *places)})"
    made.notes.append(f"money, exact to {max(2, *places)} digits after the point: more are rounded")
    return True


def _amounts(made: Guess, values: Sequence[str | None], there: Sequence[str]) -> bool:
    """Propose the numbers of texts with a currency, or with marks that options of the source do not read. ``made`` stays text."""
    found = {v: m for v in set(there) if (m := _SIGNED.fullmatch(v.strip())) and not (m[1] and m[3][0] in "+-")}
    around = {m[2] or m[4] for m in found.values()} - {""}
    if sum(v not in found for v in there) > few(there) or len(around) > 1 or any(m[2] and m[4] for m in found.values()):
        return False
    mark = next(iter(around), "")
    bare = {v: m[1] + m[3] for v, m in found.items()}
    if mark and mark.strip() not in _CURRENCIES:
        return False
    for point, group in _MARKS:
        form = re.compile(number_form(point, group))
        good = {v for v, number in bare.items() if form.fullmatch(number)}
        if good and sum(v not in good for v in there) <= few(there):
            break
    else:
        return False
    if not mark and (point, group) == (".", None):
        return False
    plain = {v: (bare[v].replace(group, "") if group else bare[v]).replace(point, ".") for v in good}
    expression = quoted(made.name)
    for old, new in ((mark, ""), (group, ""), (point, ".")):
        if old and old != new:
            expression = f"replace({expression}, '{_sql(old)}', '{new}')"
    number = Guess(made.source, made.name, "string", [])
    if not _money(number, plain.values()):
        number.type = f"decimal({_AMOUNT},2)" if mark and all(_WHOLE_CENTS.fullmatch(p) for p in plain.values()) else "double"
    read: Callable[[str], Any] = float if number.type == "double" else Decimal
    number.values = [read(plain[v]) if v in good else None for v in values]
    number.derive = f"cast({expression} as {number.type})"
    made.amount = number
    made.notes.append("numbers in a spelling of their own: derived below")
    _tell_bad(made, values, good, "a number")
    return True


def _sql(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _formatted(made: Guess, values: Sequence[str | None], there: Sequence[str]) -> bool:
    """Make ``made`` a column of texts with dates in one format if all but a few are. Else return False."""
    found = _format(made.source, there)
    if found is None:
        return False
    form, other = found
    read = reader(form)
    made.micros = [None if v is None else read(v) for v in values]
    made.derive = f"try_to_timestamp({quoted(made.name)}, '{form}')"
    made.notes.append(f"read as {form}{f', or {other}' if other else ''}")
    _tell_bad(made, values, {v for v, m in zip(values, made.micros, strict=True) if v is not None and m is not None}, "a date")
    return True


def _format(name: str, texts: Sequence[str]) -> tuple[str, str | None] | None:
    """Return (the pattern of which all ``texts`` are dates but a few, another one that reads them all).

    None if there is none. Of day and month the order is that which fits more; if both fit all, the day is first. If each fails for some,
    and neither for fewer, none is certain.
    """
    counts = Counter(texts)
    found = Counter[str | None]()
    for text, n in counts.items():
        found[_pattern(name, text)] += n
    if found.pop(None, 0) > few(texts) or not found:
        return None
    forms = [str(f) for f, _ in found.most_common(4)]
    if any(re.search(r"(?<!d)d(?!d)", f) for f in map(str, found)):
        forms = [f.replace("MM", "M").replace("dd", "d") for f in forms]
    if any(re.search(r"(?<!H)H(?!H)", f) for f in map(str, found)):
        forms = [f.replace("HH", "H") for f in forms]
    swapped = [re.sub("M+|d+", lambda m: m[0].translate(_SWAP), f) for f in forms if f[0] != "y"]
    unread = {f: sum(n for v, n in counts.items() if reader(f)(v) is None) for f in {*forms, *swapped}}
    best, *others = sorted(unread, key=lambda f: (unread[f], f.startswith("M"), f))
    if unread[best] > few(texts) or (unread[best] and any(unread[f] == unread[best] for f in others)):
        return None
    return best, next((f for f in others if not unread[f]), None)


def _pattern(name: str, text: str) -> str | None:
    looks = looks_of("timestamp", name, text)
    m = _FORMAT.search(looks.hint) if looks is not None else None
    return m[1] if m else None


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(re.sub(r"\s*(UTC|GMT)$", "Z", text.strip()))
    except ValueError:
        try:
            found: int | None = of_text("timestamp")(text)
        except Unclear:
            return None
        return found
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
    order = ("boolean", "bigint", "double", "array<bigint>", "array<double>", "array<string>", "string")
    kind = next((t for t in order if all(fits_json(t, v) for v in there)), None)
    if kind is None or any(isinstance(v, dict) or (isinstance(v, list) and any(isinstance(x, (dict, list)) for x in v)) for v in there):
        return None
    if kind == "string" and not all(isinstance(v, str) for v in there):
        return Guess(column.name, name, "string", [None if v is None else str(v) for v in column.values], notes=["values of several kinds"])
    if kind == "double" and any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in there):
        note = "numbers of more than 18 digits, which a double does not tell apart: read as text"
        return Guess(column.name, name, "string", [None if v is None else str(v) for v in column.values], notes=[note])
    # Strings such as "NaN" are numbers to Spark.
    values = [float(v) if kind == "double" and isinstance(v, str) else v for v in column.values]
    made = Guess(column.name, name, kind, values)
    if kind == "double" and not any(isinstance(v, str) for v in there) and _money(made, {_shortest(v) for v in there}):
        made.values = [None if v is None else Decimal(_shortest(v)) for v in column.values]
        return made
    _epoch(made)
    return made


def _shortest(value: float) -> str:
    """Return the text of a number with two digits after the point, with more if it has more."""
    return f"{value:.2f}" if float(f"{value:.2f}") == value else repr(value)


def _of_arrow(column: Column, name: str) -> Guess | None:
    import pyarrow as pa

    kind = column.kind
    declared = declare(kind)
    if declared is None:
        return None
    # Bytes of a typed file are read as texts.
    values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in column.values]
    made = Guess(column.name, name, declared, values)
    if pa.types.is_timestamp(kind):
        made.micros = list(column.values)
        if kind.unit == "ns":
            made.derive = f"timestamp_micros({quoted(name)} div 1000)"
            made.notes.append("nanoseconds since 1970: Spark reads them as whole numbers")
    elif pa.types.is_date(kind):
        made.micros = [None if v is None else _micros(datetime(v.year, v.month, v.day, tzinfo=UTC)) for v in column.values]
    elif declared == "string":
        _text_dates(made)
    else:
        _epoch(made)
    return made


def _text_dates(made: Guess) -> None:
    """Treat texts of a typed file as instants if all but a few are dates."""
    there = [v for v in made.values if v is not None]
    if not there or _formatted(made, made.values, there):
        return
    dashed = {v for v in there if fits_text("timestamp", v) and "-" in v.strip()[4:]}
    if dashed and sum(v not in dashed for v in there) <= few(there):
        made.micros = [_instant(v) if v in dashed else None for v in made.values]
        made.derive = f"cast({quoted(made.name)} as timestamp)"
        _tell_bad(made, made.values, dashed, "an instant")


def spec_name(name: str, used: Collection[str]) -> str:
    """Return a name that a spec may have for the source's column ``name``; none of ``used``, which are in lower case."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII)[:50] or "column"
    # Names that begin with two underscores are Skyband's own.
    return free_name(name if re.match(r"_?[A-Za-z]", name) else f"c_{name.lstrip('_')}", used)


def free_name(name: str, used: Collection[str]) -> str:
    """Return ``name``, with underscores behind it if it is one of ``used``, which are in lower case, or of the tables' own columns."""
    while name.lower() in used or name.lower() in TAKEN:
        name += "_"
    return name


def quoted(name: str) -> str:
    """Return a column's name in Spark SQL, in backquotes if it is a keyword."""
    from sqlglot.dialects.spark import Spark

    word = Spark.Tokenizer.KEYWORDS.get(name.upper())
    return f"`{name}`" if word is not None and word not in Spark.Parser.ID_VAR_TOKENS else name


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value.isoformat() if isinstance(value, date) else value
