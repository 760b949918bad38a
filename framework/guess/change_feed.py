"""Recognize a change feed as Debezium writes it in JSON, and guess the columns, the id and the order of its changes."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any, Final

from skyband.framework.base.counts import agree, counted
from skyband.framework.guess.columns import Guess, free_name, guess_column, quoted, spec_name
from skyband.framework.guess.roles import MINUTE, Roles, disorder, identifies, score_of, span, tokens_of
from skyband.framework.guess.sample import Column, Sample

_OPERATIONS: Final = frozenset("crudmt")
"""Create, read (of a snapshot), update, delete, message, truncate."""
_ORDERS: Final = (
    ("source.lsn",), ("source.file", "source.pos", "source.row"), ("source.change_lsn", "source.event_serial_no"), ("ts_ns",), ("ts_us",),
    ("source.ts_ns",), ("source.ts_us",),
)  # fmt: skip
"""Columns that order the changes of one millisecond: PostgreSQL, MySQL and MariaDB, SQL Server, any."""
_MONTH: Final = 30 * 1440 * MINUTE
_DAYS: Final = (3_650, 47_500)
"""1980 to 2100 in days."""
_DAY_NAMES: Final = re.compile(r"date|(^|_)(day|due|dob|birth|birthday|expires?|expiry)($|_)|_on$", re.IGNORECASE)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_INSTANTS: Final = {
    "io.debezium.time.Timestamp": "timestamp_millis({})", "io.debezium.time.MicroTimestamp": "timestamp_micros({})",
    "io.debezium.time.NanoTimestamp": "timestamp_micros({} div 1000)", "org.apache.kafka.connect.data.Timestamp": "timestamp_millis({})",
}  # fmt: skip
_DATES: Final = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_PRECISION: Final = 18
"""Digits of decimals that 8 bytes hold."""


@dataclass(frozen=True, slots=True)
class Feed:
    """How a draft reads a change feed.

    ``columns``: those of the source. ``op``: the column with the kind of change. ``types``: those of derived columns, where their
    expressions do not say them. ``tombstones``: the number of nulls beside the rows. ``notes``: what one should know.
    """

    columns: list[Guess]
    roles: Roles
    op: str
    types: dict[str, str]
    tombstones: int
    notes: list[str] = field(default_factory=list)

    @property
    def data(self) -> list[Guess]:
        """Return the columns of the table that changes, without its key."""
        return [
            c for c in self.columns if re.match(r"(payload\.)?after\.", c.source) and c.name.removesuffix("_after") not in self.roles.id
        ]


def feed_of(sample: Sample) -> Feed | None:
    """Return how to read the change feed that ``sample`` is from; None if it is none. O(rows * columns)."""
    by = {c.name: c for c in sample.columns}
    prefix = next((p for p in ("", "payload.") if _is_envelope(by, p)), None)
    return None if prefix is None else _Reader(sample, by, prefix).feed()


def _is_envelope(by: Mapping[str, Column], prefix: str) -> bool:
    if f"{prefix}op" not in by or f"{prefix}ts_ms" not in by or not any(n.startswith(f"{prefix}after.") for n in by):
        return False
    operations, times = by[f"{prefix}op"].values, by[f"{prefix}ts_ms"].values
    return (
        by[f"{prefix}op"].json
        and all(isinstance(o, str) and o in _OPERATIONS for o in operations if o is not None)
        and all(isinstance(t, int) for t in times if t is not None)
    )


class _Reader:
    """Makes a Feed column by column. ``used``: names of the spec in lower case."""

    def __init__(self, sample: Sample, by: Mapping[str, Column], prefix: str) -> None:
        self.sample, self.by, self.prefix = sample, by, prefix
        self.used: set[str] = set()
        self.columns: list[Guess] = []
        self.derive: list[tuple[str, str]] = []
        self.types: dict[str, str] = {}
        self.notes: list[str] = []
        self.logical = _logical_types(by.get("schema.fields"))

    def feed(self) -> Feed:
        """Return the feed."""
        op = self._column(f"{self.prefix}op", "op", "string").name
        at = self._column(f"{self.prefix}ts_ms", "ts_ms", "bigint")
        micros = [None if v is None else v * 1000 for v in at.values]
        order = next((o for o in _ORDERS if all(self._there(f"{self.prefix}{n}") for n in o)), ())
        tie_break = [self._guessed(f"{self.prefix}{n}", n.rpartition(".")[2]).name for n in order]
        if not tie_break:
            self.notes.append("event_time: no column orders the changes of one millisecond (tie_break)")
        after = [n.removeprefix(f"{self.prefix}after.") for n in self.by if n.startswith(f"{self.prefix}after.")]
        found = self._key_of(after)
        sure, keys = found is not None, found or sorted(after, key=_like_a_key)[:1]
        id_ = [self._key(key) for key in keys]
        numbers = [self._data(name) for name in after if name not in keys]
        time = self._free("at")
        self.derive.append((time, f"timestamp_millis({quoted(at.name)})"))
        roles = Roles(time, micros, self.derive, id_, None, 0, None, tie_break=tie_break)
        roles.score = score_of(roles, [c for c in numbers if c is not None])
        if roles.score is None:
            roles.score = self._free("score_of_row")
            self.derive.append((roles.score, f"unix_micros({quoted(time)})"))
            roles.note("scoring", "no column has numbers but such as name something")
        feed = Feed(self.columns, roles, op, self.types, self.sample.nulls, self.notes)
        roles.tokens = tokens_of(roles, feed.data)
        roles.watermark = max(MINUTE, disorder(roles))
        roles.span = max(_MONTH, span(roles) or 0)
        if not sure:
            roles.note("id", "no columns tell the inserted rows apart: name those of the table's key")
        if feed.tombstones:
            said = f"{counted(feed.tombstones, 'tombstone')} (null) {agree(feed.tombstones, 'is', 'are')} rejected as parse"
            self.notes.append(f"{said}; with tombstones.on.delete: false, the connector writes none")
        return feed

    def _free(self, name: str) -> str:
        found = free_name(name, self.used)
        self.used.add(found.lower())
        return found

    def _there(self, name: str) -> bool:
        return name in self.by and any(v is not None for v in self.by[name].values)

    def _column(self, source: str, name: str, type_: str) -> Guess:
        """Add a column of the source whose type is known."""
        made = Guess(source, spec_name(name, self.used), type_, self.by[source].values)
        self.used.add(made.name.lower())
        self.columns.append(made)
        return made

    def _guessed(self, source: str, name: str) -> Guess:
        """Add a column of the source whose type is guessed; one that specs cannot have is text."""
        values = self.by[source].values
        made = guess_column(Column(name, values, json=True), spec_name(name, self.used))
        if made is None:
            texts = [None if v is None else json.dumps(v) for v in values]
            made = Guess(source, spec_name(name, self.used), "string", texts, notes=["objects or lists, which are no text"])
        made.source = source
        self.used.add(made.name.lower())
        self.columns.append(made)
        return made

    def _image(self, name: str) -> list[Any]:
        """Return the values of a column after the change, or before it where there is none after it."""
        none = (None,) * self.sample.rows
        before = self.by.get(f"{self.prefix}before.{name}")
        return [
            b if a is None else a
            for a, b in zip(self.by[f"{self.prefix}after.{name}"].values, before.values if before else none, strict=True)
        ]

    def _key_of(self, names: Sequence[str]) -> list[str] | None:
        """Return the columns that identify an object: every change has them, none changes them, and insertions differ in them.

        Deletions often have nothing but the key. None if there are no such columns.
        """
        operations = self.by[f"{self.prefix}op"].values
        changes = [i for i, o in enumerate(operations) if o not in ("m", "t", None)]
        images = {n: self._image(n) for n in names}
        can = [n for n in names if all(_is_key(images[n][i]) for i in changes) and not self._changes(n)]
        ordered = sorted(can, key=_like_a_key)[:8]
        for size in (1, 2, 3):
            for some in combinations(ordered, size):
                if _tells_apart([(operations[i], tuple(images[n][i] for n in some)) for i in changes]):
                    return list(some)
        return None

    def _changes(self, name: str) -> bool:
        """Return True if a change gives the column another value."""
        old, new = (self.by.get(f"{self.prefix}{when}.{name}") for when in ("before", "after"))
        pairs = zip(old.values, new.values, strict=True) if old and new else ()
        return any(a is not None and b is not None and a != b for a, b in pairs)

    def _key(self, name: str) -> str:
        """Add a column of the key: that after the change or, of a deletion, before it. Return its name."""
        after, before = f"{self.prefix}after.{name}", f"{self.prefix}before.{name}"
        type_ = "bigint" if all(v is None or isinstance(v, int) for v in self._image(name)) else "string"
        if before not in self.by:
            found = self._column(after, name, type_)
            self.notes.append(f"{found.name}: no row looked at has values before a change, so a deletion would have no id")
            return found.name
        key = self._free(spec_name(name, self.used))
        old, new = (self._column(source, f"{key}_{when}", type_) for source, when in ((before, "before"), (after, "after")))
        self.derive.append((key, f"coalesce({quoted(new.name)}, {quoted(old.name)})"))
        self.types[key] = type_
        return key

    def _data(self, name: str) -> Guess | None:
        """Add a column of the table, and the one that is derived from it if its values have a form of Debezium. Return numbers."""
        source = f"{self.prefix}after.{name}"
        logical, parameters = self.logical.get(name, (None, {}))
        values = [v for v in self.by[source].values if v is not None]
        if logical == _DECIMAL and all(isinstance(v, str) for v in values):
            return self._decimal(source, name, str(parameters.get("scale", "")))
        if not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            logical = None
        if logical in _DATES or (logical is None and _are_days(name, values)):
            made = self._column(source, name, "int")
            self._derived(made, "date", f"date_from_unix_date({quoted(made.name)})", "date")
            made.notes.append("days since 1970")
            return None
        if logical in _INSTANTS:
            made = self._column(source, name, "bigint")
            self._derived(made, "time", _INSTANTS[logical].format(quoted(made.name)), "timestamp")
            return None
        made = self._guessed(source, name)
        if made.type == "string" and made.derive is None and values and _are_base64(values):
            made.notes.append(
                f"may be decimals as bytes in base64: with decimal.handling.mode: string, or {_bytes_to_number(made.name, 2)}"
            )
        if made.derive is not None:
            self._derived(made, "time", made.derive, "timestamp")
            return None
        if made.amount is not None:
            made.amount.name = self._free(f"{made.name}_number")
            self.derive.append((made.amount.name, str(made.amount.derive)))
            return made.amount
        return made

    def _decimal(self, source: str, name: str, scale: str) -> Guess:
        """Add a column of decimals as bytes in base64, and the number that is derived from it. Return that."""
        made = self._column(source, name, "string")
        places = int(scale) if re.fullmatch(r"\d{1,2}", scale) and int(scale) <= _PRECISION else 0
        number = Guess(source, "", f"decimal({_PRECISION},{places})", [_decoded(v, places) for v in made.values])
        number.name = self._derived(made, "number", _bytes_to_number(made.name, places), number.type)
        made.notes.append(
            f"decimals as bytes in base64, null beyond {_PRECISION} digits; only Spark reads them (preview --engine): "
            "decimal.handling.mode: string in the connector avoids that"
        )
        return number

    def _derived(self, made: Guess, what: str, expression: str, type_: str) -> str:
        name = self._free(f"{made.name}_{what}")
        self.derive.append((name, expression))
        self.types[name] = type_
        return name


def _like_a_key(name: str) -> tuple[bool, bool]:
    return name.lower() != "id", not identifies(name)


def _is_key(value: Any) -> bool:
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _tells_apart(changes: Sequence[tuple[Any, tuple[Any, ...]]]) -> bool:
    """Return True if no object is inserted twice without being deleted, and there are two objects or more."""
    there: set[tuple[Any, ...]] = set()
    for operation, key in changes:
        if operation == "d":
            there.discard(key)
        elif operation == "c" and key in there:
            return False
        else:
            there.add(key)
    return len({key for _, key in changes}) > 1 or len(changes) <= 1


def _are_days(name: str, values: Sequence[Any]) -> bool:
    whole = values and all(isinstance(v, int) and not isinstance(v, bool) and _DAYS[0] <= v <= _DAYS[1] for v in values)
    return bool(whole) and _DAY_NAMES.search(name) is not None


def _are_base64(values: Sequence[Any]) -> bool:
    return all(isinstance(v, str) and 0 < len(v) <= 24 and _BASE64.fullmatch(v) for v in values) and any(v.endswith("=") for v in values)


def _decoded(text: str | None, places: int) -> Decimal | None:
    try:
        bytes_ = b64decode(text or "", validate=True)
    except ValueError:
        return None
    return Decimal(int.from_bytes(bytes_, "big", signed=True)).scaleb(-places) if bytes_ else None


def _bytes_to_number(name: str, places: int) -> str:
    """Return Spark SQL that reads the bytes of a whole number with sign, and divides it by ten to the ``places``. Null beyond 8 bytes."""
    digits = f"hex(unbase64({quoted(name)}))"
    whole = f"cast(conv(lpad({digits}, 16, if({digits} >= '8', 'F', '0')), 16, -10) as decimal(20,0))"
    exact = f"cast({whole} * {'1' if not places else '0.' + '0' * (places - 1) + '1'} as decimal({_PRECISION},{places}))"
    return f"if(length({digits}) <= 16, {exact}, null)"


def _logical_types(fields: Column | None) -> dict[str, tuple[str | None, Mapping[str, Any]]]:
    """Return column -> (its logical type, its parameters) of the schema that a message brings along; empty if it brings none."""
    found = next((v for v in fields.values if isinstance(v, list)), []) if fields is not None else []
    rows = next((f.get("fields") for f in found if isinstance(f, dict) and f.get("field") == "after"), None)
    return {
        str(f["field"]): (
            f["name"] if isinstance(f.get("name"), str) else None,
            f["parameters"] if isinstance(f.get("parameters"), dict) else {},
        )
        for f in (rows if isinstance(rows, list) else [])
        if isinstance(f, dict) and "field" in f
    }
