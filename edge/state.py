"""The state of a filter as text: what is held back, and what is known of each object. Read as strictly as a message."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, NamedTuple

from skyband.edge.errors import EdgeError
from skyband.edge.line import Line
from skyband.edge.message import LARGEST, Message, parse_message, text_of

VERSION: Final = 1
_DATETIME: Final = "$datetime"


class Saved(NamedTuple):
    """A state: ``settings`` (numbers by name), the message, [query, key, height] of each border, the objects, and the last spare row."""

    settings: dict[str, int]
    message: Message | None
    heights: list[Any]
    lines: dict[Hashable, Line]
    spare: tuple[int, dict[str, Any]] | None


def saved_text(saved: Saved) -> str:
    """Return the state as JSON. Raise EdgeError SKY-E702 for rows with other values than JSON's and datetimes."""
    lines = [[*map(list, name), _packed(asdict(line))] for name, line in saved.lines.items()]  # type: ignore[call-overload]
    message = None if saved.message is None else text_of(saved.message)
    value = {"skyband_edge_state": VERSION, "settings": saved.settings, "message": message, "heights": saved.heights, "lines": lines}
    try:
        return json.dumps(value | {"spare": _packed(saved.spare)}, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise EdgeError(
            "SKY-E702", f"a row cannot be saved: {error}", "offer rows of numbers, texts, booleans, nulls and datetimes"
        ) from None


def saved_of(text: str) -> Saved:
    """Return the state in ``text``. Raise EdgeError SKY-E702 if it is none."""
    try:
        value = json.loads(text)
        if value["skyband_edge_state"] != VERSION:
            raise ValueError(f"version {value['skyband_edge_state']!r}")
        settings = {str(name): _whole(number) for name, number in value["settings"].items()}
        message = None if value["message"] is None else parse_message(value["message"])
        heights = [[_whole(i), tuple(key), _whole(height)] for i, key, height in value["heights"]]
        lines: dict[Hashable, Line] = {(tuple(key), tuple(name)): _line(_unpacked(fields)) for key, name, fields in value["lines"]}
        spare = None if value["spare"] is None else (_whole(value["spare"][0]), dict(_unpacked(value["spare"][1])))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, EdgeError) as error:
        raise EdgeError("SKY-E702", f"this is no state of an edge filter ({error})", "begin with a new filter, which sends more") from None
    return Saved(settings, message, heights, lines, spare)


def _line(fields: Mapping[str, Any]) -> Line:
    line = Line(**fields)
    line.due = LARGEST
    line.order = tuple((_whole(rank), value.encode() if isinstance(value, str) else value) for rank, value in line.order)
    numbers = [line.held, line.time, line.safe, line.first, *line.switches]
    if any(_whole(n) != n for n in numbers) or not 0 <= line.held <= len(line.switches) or sorted(line.switches) != line.switches:
        raise ValueError("an object's switches")
    if not all(isinstance(flag, bool) for flag in (line.on, line.sent, line.dated)) or (line.held > 0 and not isinstance(line.row, dict)):
        raise ValueError("an object's row")
    return line


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value


def _packed(value: Any) -> Any:
    """Return ``value`` with datetimes, and the bytes by which texts are ordered, as JSON."""
    if isinstance(value, Mapping):
        return {name: _packed(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(v) for v in value]
    if isinstance(value, datetime):
        return {_DATETIME: value.isoformat()}
    return value.decode() if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(v) for v in value]
    if isinstance(value, dict):
        if set(value) == {_DATETIME}:
            return datetime.fromisoformat(value[_DATETIME])
        return {name: _unpacked(v) for name, v in value.items()}
    return value
