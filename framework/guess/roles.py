"""Guesses the roles of a sample's columns: event time, id, key and score."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import combinations
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.guess.columns import Guess, quoted, words

_PARTS: Final = ("year", "month", "day", "hour", "minute", "second")
_OFTEN: Final = ("event_time", "ts", "timestamp", "time", "datetime", "date", "created_at", "updated_at")
_WHOLE: Final = ("bigint", "int")
_FRACTIONS: Final = ("double", "float", "decimal")
MINUTE: Final = 60_000_000
_DAY: Final = 1440 * MINUTE
_ID_WORDS: Final = frozenset(("id", "uuid", "guid", "key", "number", "no", "nr", "nummer", "numero", "identifier", "kennung"))
_THINGS: Final = (
    "account", "article", "artikel", "bestell", "client", "customer", "cust", "device", "employee", "invoice", "item", "konto", "kunde",
    "kunden", "member", "merchant", "order", "patient", "person", "product", "rechnung", "rechnungs", "record", "row", "sensor", "session",
    "shop", "station", "store", "supplier", "ticket", "transaction", "trip", "txn", "user", "vendor",
)  # fmt: skip
"""Words for things that are numbered. Their number tells them apart and is no quantity."""
_JOINED: Final = re.compile(rf"({'|'.join(_THINGS)})(id|no|nr|num|number|nummer|key|code)|[a-z]{{3,}}nummer")
_LABELS: Final = frozenset((*_THINGS, "code", "zip", "zipcode", "postcode", "postal", "plz", "phone", "isbn", "ean", "sku", "iban", "vin"))
"""Words for numbers that name something, even where they do not tell rows apart."""
_DIGITS: Final = 5
"""Whole numbers of this many digits or more, all of one length, look like numbers of things."""
_WAITS: Final = (MINUTE, 10 * MINUTE, 60 * MINUTE, 360 * MINUTE, 1440 * MINUTE, 7 * 1440 * MINUTE, 30 * 1440 * MINUTE)
_SPANS: Final = (*_WAITS, 365 * 1440 * MINUTE)
_HELD: Final = 1000
"""Approximate number of rows in the window of a first spec."""
_WORDS: Final = 3
"""Mean number of words from which a text is compared by them."""
_VARIED: Final = 0.2
"""Texts are compared by their words if at least this share of them is different; of labels less is."""
_TRIED: Final = 12
"""Most columns whose pairs and triples are tried as an id."""


@dataclass(slots=True)
class Roles:
    """``time``: the column with the instants, under the name it has in the spec; ``derive``: (name, expression) in front of everything.

    ``micros``: the instants of the rows, None where there is none. ``watermark``, ``span``: microseconds; ``span`` None: the rows say
    nothing of time, the window is ``_HELD`` rows. ``id``: empty if nothing but its position identifies a row. ``tokens``: a column of
    lists, or of texts with words, and the text between two tokens if that is no blank.
    """

    time: str
    micros: list[int | None]
    derive: list[tuple[str, str]]
    id: list[str]
    score: str | None
    watermark: int
    span: int | None
    keys: list[str] = field(default_factory=list)
    tie_break: list[str] = field(default_factory=list)
    tokens: tuple[str, str | None] | None = None
    notes: dict[str, list[str]] = field(default_factory=dict)

    def note(self, about: str, text: str) -> None:
        """Add a note about an uncertain guess at the field ``about``."""
        self.notes.setdefault(about, []).append(text)


def roles_of(columns: Sequence[Guess], free: Any, positions: bool) -> Roles | None:
    """Return the roles of ``columns``; None if none is an event time. ``free`` makes a name that no column has.

    ``positions``: whether rows may be identified by their position.

    O(rows * columns), and up to ``_TRIED``^2 passes over the rows if no column alone tells rows apart.
    """
    made = _time(columns, free)
    if made is None:
        return None
    own = next((c for c in columns if c.name == made.time), None)
    rest = [c for c in columns if c is not own and not (made.derive and c.derive is not None and made.derive[0][1] == c.derive)]
    _identify(made, rest, positions)
    made.score = score_of(made, rest)
    made.keys = [
        c.name for c in rest if c.type == "string" and 1 < c.distinct <= len(c.values) / 20 and not c.nulls and c.name not in made.id
    ]
    made.tokens = tokens_of(made, columns)
    made.watermark = disorder(made)
    made.span = span(made)
    return made


def _time(columns: Sequence[Guess], free: Any) -> Roles | None:
    can = [c for c in columns if c.micros is not None and any(m is not None for m in c.micros)]
    if not can:
        return _of_parts(columns, free)

    def rank(c: Guess) -> tuple[Any, ...]:
        often = _OFTEN.index(c.source.lower()) if c.source.lower() in _OFTEN else len(_OFTEN)
        days = all(m is None or m % _DAY == 0 for m in c.micros or ())
        return c.missing > 0, c.derive is not None and not c.timely, days, often, not c.timely, -c.distinct

    best = min(can, key=rank)
    derive: list[tuple[str, str]] = []
    name = best.name
    if best.derive is not None:
        name = free(f"{best.name}_time")
        derive.append((name, best.derive))
    elif best.type == "date":
        best.type = "timestamp"
    made = Roles(name, list(best.micros or []), derive, [], None, 0, None)
    others = [c.name for c in can if c is not best]
    if others:
        made.note("event_time", f"or {', '.join(others[:5])}")
    if best.missing:
        made.note("event_time", f"{best.missing:,} of {counted(len(best.values), 'row')} without one: to be rejected")
    return made


def _of_parts(columns: Sequence[Guess], free: Any) -> Roles | None:
    """Return an instant made of columns year, month, day and so on."""
    by = {c.source.lower(): c for c in columns if c.type in ("bigint", "int") and not c.nulls}
    there = [p for p in _PARTS if p in by]
    if there[:3] != list(_PARTS[:3]) or there != list(_PARTS[: len(there)]):
        return None
    try:
        micros: list[int | None] = [_whole(values) for values in zip(*(by[p].values for p in there), strict=True)]
    except ValueError:
        return None
    said = [quoted(by[p].name) if p in by else "0" for p in _PARTS]
    name = free("event_time")
    made = Roles(name, micros, [(name, f"make_timestamp({', '.join(said)})")], [], None, 0, None)
    made.note("event_time", f"put together from {', '.join(by[p].name for p in there)}")
    return made


def _whole(parts: Sequence[int]) -> int:
    year, month, day, *clock = parts
    seconds = sum(n * size for n, size in zip(clock, (3600, 60, 1), strict=False))
    return ((date(year, month, day) - date(1970, 1, 1)).days * 86_400 + seconds) * 1_000_000


def _identify(made: Roles, rest: Sequence[Guess], positions: bool) -> None:
    """Set the fewest columns that identify every row: by name first, then any, then with the event time; else its position."""
    rows = len(made.micros)
    timed = [i for i, m in enumerate(made.micros) if m is not None]
    can = [c for c in rest if c.type in ("string", "bigint", "int", "date", "boolean") and not c.nulls]
    named = [c for c in can if identifies(c.source)]
    first = [c for c in can[:1] if c.type in ("bigint", "int")]
    for c in [*named, *first, *(c for c in can if c not in named)]:
        if c.distinct == rows and (c in (*named, *first) or c.type == "string"):
            made.id = [c.name]
            if c not in named:
                made.note("id", "no two rows looked at have the same")
            return
    ordered = sorted(can, key=lambda c: (c not in named, c.type != "string", c.distinct == 1, -c.distinct))[:_TRIED]
    for size in (0, 1, 2):
        for some in combinations([c for c in ordered if c.distinct > 1], size):
            if len({(made.micros[i], *(c.values[i] for c in some)) for i in timed}) == len(timed):
                made.id = [*(c.name for c in some), made.time]
                beside = "; position is for data without an id" if positions else ""
                made.note("id", f"{'no column identifies a row; ' if not some else ''}no two rows looked at have the same{beside}")
                return
    if positions:
        made.note("id", "nothing identifies a row but its file and its number in it: files must not be rewritten or renamed")
        return
    made.id = [*(c.name for c in can), made.time]
    said = "nothing identifies a row: rows looked at repeat in these columns, and the later ones would be rejected as duplicates"
    made.note("id", said)


def _is(c: Guess, *types: str) -> bool:
    return c.type.partition("(")[0] in types


def identifies(name: str) -> bool:
    """Return True if a column's name says that it identifies something: ``id``, ``Customer ID``, ``order_no``, ``custid``."""
    found = words(name)
    if not found:
        return False
    return found[-1] in _ID_WORDS or found[0] == "id" or any(_JOINED.fullmatch("".join(found[-n:])) for n in (1, 2))


def _labels(c: Guess) -> bool:
    """Return True if whole numbers name something, by the column's name: ``customer``, ``zip_code``, but not ``cost_per_order``."""
    found = words(c.source)
    return bool(found) and found[-1] in _LABELS and "per" not in found and all(v is None or v == v // 1 for v in c.values)


def _numbered(c: Guess) -> bool:
    """Return True if the values look like numbers of things: whole, positive, of five digits or more and all of one length."""
    there = [v for v in c.values if v is not None]
    if not there or not all(v >= 10 ** (_DIGITS - 1) and v == v // 1 for v in there):
        return False
    return len({len(str(int(v))) for v in there}) == 1


def score_of(made: Roles, rest: Sequence[Guess]) -> str | None:
    """Return the column whose numbers are most likely quantities; None if all numbers name something. Notes alternatives."""
    can = [
        c for c in rest if _is(c, *_WHOLE, *_FRACTIONS) and c.name not in made.id and c.micros is None and c.source.lower() not in _PARTS
    ]
    can = [c for c in can if not (identifies(c.source) or _labels(c))]
    best = max(can, key=lambda c: (c.distinct > 1, not _numbered(c), _is(c, *_FRACTIONS), c.distinct), default=None)
    if best is None:
        return None
    if _numbered(best):
        made.note("scoring", f"the values of {best.name} may be numbers of things: then score by something else")
    others = [c.name for c in can if c is not best]
    if others:
        made.note("scoring", f"any number is a score, and so is what you make of them: {', '.join(others[:5])}")
    return best.name


def tokens_of(made: Roles, columns: Sequence[Guess]) -> tuple[str, str | None] | None:
    """Return the column whose sets of tokens queries compare, and its separator: lists first, then the texts with most words."""
    lists = [c for c in columns if c.type in ("array<string>", "array<int>", "array<bigint>") and c.distinct > 1]
    if lists:
        return max(lists, key=lambda c: c.distinct).name, None
    found: list[tuple[float, str, str | None]] = []
    for c in columns:
        texts = [v for v in c.values if v is not None]
        if c.type != "string" or c.derive is not None or c.amount is not None or identifies(c.source) or c.name in made.keys:
            continue
        if c.distinct <= 1 or c.distinct < _VARIED * len(texts) or not all(isinstance(v, str) for v in texts):
            continue
        separator = next((s for s in "|;," if 2 * sum(s in v and f"{s} " not in v for v in texts) > len(texts)), None)
        many = sum(len(v.split(separator)) for v in texts) / len(texts)
        if many >= _WORDS:
            found.append((many, c.name, separator))
    if not found:
        return None
    _, name, separator = max(found, key=lambda f: f[0])
    return name, separator


def _instants(made: Roles) -> Iterator[int]:
    return (m for m in made.micros if m is not None)


def disorder(made: Roles) -> int:
    """Return the largest lateness of a row, rounded up; 0 if the rows are in order."""
    newest, most = None, 0
    for m in _instants(made):
        newest = m if newest is None else max(newest, m)
        most = max(most, newest - m)
    if not most:
        return 0
    wait = next((w for w in _WAITS if w >= most), _WAITS[-1])
    if wait > 1440 * MINUTE or most > wait:
        made.note("watermark", "the rows looked at are far from being in order")
    return wait


def span(made: Roles) -> int | None:
    """Return a duration that covers about ``_HELD`` rows."""
    there = sorted(_instants(made))
    if len(there) < 2 or there[0] == there[-1]:
        return None
    every = (there[-1] - there[0]) / (len(there) - 1)
    return next((s for s in _SPANS if s >= every * _HELD), _SPANS[-1])
