"""The message from the server to the edges: what the queries read of a row, and the border of each result. A line of JSON.

Every value is checked before it is used: an edge trusts no file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from skyband.edge.errors import EdgeError

VERSION: Final = 1
LARGEST: Final = 2**62
"""Instants lie within so many microseconds of 1970."""
LONGEST: Final = 16 * 2**20
"""The longest message that is read, in characters."""


@dataclass(frozen=True, slots=True)
class Border:
    """At least k objects of the key with the values ``key`` have the loyalty ``loyalty``, in microseconds, at the message's instant."""

    key: tuple[Any, ...]
    loyalty: int


@dataclass(frozen=True, slots=True)
class Query:
    """A query about loyalty over the last ``window`` microseconds: either the objects with ``at_least`` so many, or top-k with ``borders``.

    Keys without a border have fewer than k objects in the result.
    """

    name: str
    window: int
    at_least: int | None = None
    borders: tuple[Border, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """What the server sends: the job, the instant ``as_of`` of all borders, the columns of a row, and the queries.

    ``event_time``, ``object``, ``updates`` and ``held`` are names of columns of the source; ``order``: the columns that order the rows of
    one instant (tie breaks, then the id; none: as they are offered); ``partition_by``: those of the key.
    """

    job: str
    as_of: int
    event_time: str
    object: tuple[str, ...]
    updates: str
    held: str
    queries: tuple[Query, ...]
    order: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()

    def columns(self) -> tuple[Any, ...]:
        """Return everything but the borders and their instant: what must not change as long as an edge holds rows back."""
        queries = tuple((q.name, q.window, q.at_least) for q in self.queries)
        return self.job, self.event_time, self.object, self.updates, self.held, queries, self.order, self.partition_by


def write_message(message: Message, path: str | os.PathLike[str]) -> None:
    """Replace the file at ``path`` by the message, atomically: an edge reads the old message or the new one."""
    target = Path(path)
    # Nobody can have put a link under this name.
    partial = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
    with partial.open("x", encoding="utf-8") as out:
        out.write(text_of(message) + "\n")
    partial.replace(target)


def text_of(message: Message) -> str:
    """Return the message as a line of JSON."""
    return json.dumps({"skyband_edge": VERSION, **asdict(message)}, ensure_ascii=False)


def parse_message(text: str) -> Message:
    """Return the message in ``text``; of several lines the last one counts. Raise EdgeError SKY-E701 for anything else."""
    if len(text) > LONGEST:
        raise _refused(f"it has more than {LONGEST:,} characters")
    lines = text.strip().splitlines()
    try:
        value = json.loads(lines[-1], parse_constant=_no_constant) if lines else None
    except (ValueError, RecursionError) as error:
        raise _refused(f"it is no JSON ({error})") from None
    fields = _fields(value, "the message", {"skyband_edge", *Message.__dataclass_fields__})
    if fields["skyband_edge"] != VERSION or isinstance(fields["skyband_edge"], bool):
        raise _refused(f"it is of version {fields['skyband_edge']!r}, not {VERSION}")
    window_least = _whole(1, LARGEST)
    queries = []
    for item in _list(fields["queries"], "queries"):
        one = _fields(item, "a query", set(Query.__dataclass_fields__))
        window = window_least(one["window"], "window")
        at_least = None if one["at_least"] is None else _whole(1, window)(one["at_least"], "at_least")
        borders = tuple(_border(b, window, len(_list(fields["partition_by"], "partition_by"))) for b in _list(one["borders"], "borders"))
        queries.append(Query(_text(one["name"], "name"), window, at_least, borders))
    if not queries:
        raise _refused("it has no queries")
    names: dict[str, tuple[str, ...]] = {
        name: tuple(_text(v, name) for v in _list(fields[name], name)) for name in ("object", "order", "partition_by")
    }
    texts = {name: _text(fields[name], name) for name in ("job", "event_time", "updates", "held")}
    if not names["object"]:
        raise _refused("no column names the object")
    as_of = _whole(-LARGEST, LARGEST)(fields["as_of"], "as_of")
    return Message(as_of=as_of, queries=tuple(queries), **texts, **names)  # type: ignore[arg-type]


def _border(value: Any, window: int, width: int) -> Border:
    one = _fields(value, "a border", {"key", "loyalty"})
    key = tuple(_list(one["key"], "key"))
    if len(key) != width or any(not isinstance(v, str | int | float | bool | None) for v in key):
        raise _refused(f"the key {key!r} of a border is not the values of 'partition_by'")
    return Border(key, _whole(0, window)(one["loyalty"], "loyalty"))


def _fields(value: Any, what: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != names:
        raise _refused(f"{what} must be an object with the fields {', '.join(sorted(names))}")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise _refused(f"'{name}' must be a list")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise _refused(f"'{name}' must be a text")
    return value


def _whole(least: int, most: int) -> Callable[[Any, str], int]:
    def checked(value: Any, name: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _refused(f"'{name}' must be a whole number from {least} to {most}")
        return value

    return checked


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _refused(why: str) -> EdgeError:
    return EdgeError(
        "SKY-E701", f"this is no message for an edge: {why}", "take the file that 'skyband edge' writes; the edge sends all rows"
    )
