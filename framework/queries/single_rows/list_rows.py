"""What the cells of a table of queries mean: one ``QueryRow`` a row, and everything that is wrong with them.

Columns: ``name`` (needed), ``k``, ``window``, ``where``, the bounds of the query type, ``weight_<column>`` (a linear function of its own),
``min_<column>`` and ``max_<column>`` (a constraint on a weighted column), ``direction``, and, with ``scoring``, the parameters it uses.
An empty cell is what the spec says, or nothing; an empty weight is 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.units import format_duration, parse_window
from skyband.framework.queries.single_rows.cells import Cells, shown
from skyband.framework.queries.single_rows.model import ScoredRows
from skyband.operators.base import Kind, Window

MAX_WHERE: Final = 62
"""Different ``where`` of one table: each is a compiled predicate."""
_MAX_K: Final = 1_000_000
_PLAIN: Final = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*|\s*[-+]?(nan|inf|infinity)\s*", re.IGNORECASE)
"""A number as every program reads it: no underscores, no digits of other scripts."""


@dataclass(frozen=True, slots=True)
class QueryRow:
    """One query of a table. ``window`` has the entry's or job's filled in; ``box``: (column, least, most), None for no bound."""

    name: str
    k: int | None
    window: Window
    where: str | None
    bounds: Mapping[str, float | None]
    weights: tuple[tuple[str, float], ...]
    box: tuple[tuple[str, float | None, float | None], ...]
    parameters: tuple[tuple[str, float], ...]
    direction: Literal["min", "max"] | None = None


@dataclass(slots=True)
class QueryRows:
    """``rows`` (none if something is wrong), the parameters' names, and ``problems``: (message, hint) each."""

    rows: list[QueryRow] = field(default_factory=list)
    parameters: tuple[str, ...] = ()
    problems: list[tuple[str, str | None]] = field(default_factory=list)


def interpret(cells: Cells, query: ScoredRows, kinds: Mapping[str, Kind | None], window: Window) -> QueryRows:
    """The queries of a table for the spec's entry ``query``; ``kinds`` of the stream's columns, ``window`` of the entry. Raises nothing."""
    out = QueryRows()
    source = query.queries_from
    ignored = set(source.ignore) if source is not None else set()
    out.problems += [(f"ignore names '{c}', which is not a column of the table", None) for c in sorted(ignored - set(cells.columns))]
    cells = Cells({c: values for c, values in cells.columns.items() if c not in ignored}, cells.places, cells.heads)
    names = list(cells.columns)
    if "name" not in names:
        why = "every query needs a name; it stands in the column 'query' of the results"
        out.problems.append(
            (f"it has no column 'name'{_it_has(names, query, kinds)}", did_you_mean("name", [c for c in names if len(c) < 9]) or why)
        )
        return out
    if source is not None and source.direction is not None and query.scoring is not None:
        out.problems.append(("queries_from has a direction, and so has the scoring function", "leave it out of queries_from"))
    shape = _Shape.of(cells, query, kinds, out)
    if out.problems:
        return out
    out.parameters = shape.parameters
    seen: dict[str, str] = {}
    rows = [_row(cells, i, query, shape, window, seen, out.problems) for i in range(len(cells.places))]
    wheres = {r.where for r in rows if r is not None and r.where is not None}
    if query.scoring is None and len(wheres) > MAX_WHERE:
        hint = "constrain weighted columns by min_<column> and max_<column>, which may differ in every row"
        out.problems.append((f"it has {len(wheres)} different 'where'; at most {MAX_WHERE} are possible", hint))
    if not out.problems:
        out.rows = [r for r in rows if r is not None]
    return out


def _it_has(names: list[str], query: ScoredRows, kinds: Mapping[str, Kind | None]) -> str:
    """The columns that mean something: others may not be a table of queries' at all, and are not shown."""
    of_weights = {f"{p}_{c}" for c in kinds for p in ("weight", "min", "max")}
    known = [repr(c) for c in names if c in of_weights | {"k", "window", "where", "direction", *query.bounds}]
    return f" (it has {one_of(known, 10)})" if known else ""


def _quoted(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(slots=True)
class _Shape:
    """Which columns mean what."""

    bounds: tuple[str, ...]
    weights: tuple[str, ...]
    box: tuple[str, ...]
    parameters: tuple[str, ...]
    kinds: Mapping[str, Kind | None]

    @classmethod
    def of(cls, cells: Cells, query: ScoredRows, kinds: Mapping[str, Kind | None], out: QueryRows) -> _Shape:
        names = list(cells.columns)
        fixed = {"name", "window", "where", *query.bounds, *(("k",) if query.ranked else ())}
        if query.ranked and query.scoring is None:
            fixed.add("direction")
        weights: list[str] = []
        for c in names:
            if c.startswith("weight_") and c not in fixed:
                column = c.removeprefix("weight_")
                weights.append(column)
                if query.scoring is not None:
                    out.problems.append(
                        (f"{cells.column(c)} is a weight, but the query has 'scoring'", "leave 'scoring' out, or the weights")
                    )
                elif column not in kinds:
                    hint = did_you_mean(column, kinds) or f"columns: {one_of(list(kinds), 20)}"
                    out.problems.append((f"{cells.column(c)} weights {shown(column)}, which is not a column of the stream", hint))
                elif kinds[column] in {"text", "bool", "time"}:
                    out.problems.append((f"{cells.column(c)} weights {shown(column)}, which is not a number", None))
        if query.scoring is None and not weights:
            hint = "add a column weight_<column> for every column that counts, or name a scoring function with 'scoring'"
            out.problems.append(("it has no weights, and the query no 'scoring'", hint))
        for c in ("min_score", "max_score"):
            if c in query.bounds and c in names and "score" in weights:
                hint = "give the stream's column another name with 'from:'"
                out.problems.append((f"{cells.column(c)} could be a bound of the score or of the column 'score'", hint))
        box, parameters = [], []
        for c in names:
            if c in fixed or c.startswith("weight_"):
                continue
            if c[:4] in {"min_", "max_"} and c[4:] in weights:
                box.append(c)
            elif query.scoring is None:
                known = [*sorted(fixed), *(f"weight_{k}" for k in kinds), *(f"{m}_{w}" for w in weights for m in ("min", "max"))]
                hint = (
                    did_you_mean(c, known)
                    or f"known: {one_of(sorted(fixed))}, weight_<column>, min_<column>, max_<column>; or ignore: [{c}]"
                )
                out.problems.append((f"{cells.column(c)} means nothing", hint))
            elif c in kinds:
                out.problems.append((f"{cells.column(c)} is called like a column of the stream", "give the parameter another name"))
            else:
                parameters.append(c)
        return cls(query.bounds, tuple(weights), tuple(box), tuple(parameters), kinds)


class _Wrong(ValueError):
    """A cell that cannot be used; the message is for the user."""


def _row(
    cells: Cells,
    i: int,
    query: ScoredRows,
    shape: _Shape,
    window: Window,
    seen: dict[str, str],
    problems: list[tuple[str, str | None]],
) -> QueryRow | None:
    place = cells.places[i]
    before = len(problems)

    def read(column: str, parse: Any, default: Any = None) -> Any:
        cell = cells.columns[column][i] if column in cells.columns else None
        if cell is None:
            return default
        try:
            return parse(cell)
        except ValueError as e:
            problems.append((f"{place}, {column}: {e}", None))
            return default

    name = read("name", _text)
    if name is None:
        problems.append((f"{place} has no name", None))
    elif name in seen:
        problems.append((f"{place}: a second query named {_quoted(name)}, the first in {seen[name]}", "rename or remove one of them"))
    else:
        seen[name] = place
    k = read("k", _k, getattr(query, "k", None)) if query.ranked else None
    if query.ranked and k is None and len(problems) == before:
        problems.append((f"{place} ({_quoted(name)}) has no k", "fill the column k, or give the query a k for all rows"))
    bounds = {b: read(b, _number, getattr(query, b)) for b in shape.bounds}
    why = query.bad_bounds(bounds)
    if why is not None and len(problems) == before:
        problems.append((f"{place} ({_quoted(name)}) {why}", None))
    box = tuple(
        (c, read(f"min_{c}", bound), read(f"max_{c}", bound))
        for c in shape.weights
        if {f"min_{c}", f"max_{c}"} & set(shape.box)
        for bound in (_exact if shape.kinds[c] == "int" else _number,)
    )
    problems += [
        (f"{place}: nothing is between min_{c} and max_{c}", None) for c, lo, hi in box if lo is not None and hi is not None and lo > hi
    ]
    return QueryRow(
        name=str(name), k=k, window=read("window", lambda cell: _window(cell, window), window),
        where=_both(query.where, read("where", _text)),
        bounds=bounds, weights=tuple((c, read(f"weight_{c}", _number, 0.0)) for c in shape.weights),
        box=box,
        parameters=tuple((p, _needed(read(p, _number), place, p, problems)) for p in shape.parameters),
        direction=None if query.scoring is not None or not query.ranked else read("direction", _direction),
    )  # fmt: skip


def _needed(value: float | None, place: str, column: str, problems: list[tuple[str, str | None]]) -> float:
    if value is None and not (problems and problems[-1][0].startswith(f"{place}, {column}:")):
        problems.append((f"{place} has no value of the parameter '{column}'", None))
    return math.nan if value is None else value


def _both(a: str | None, b: str | None) -> str | None:
    """Two constraints as one: the entry's and the row's own."""
    return a if b is None else b if a is None else f"({a}) and ({b})"


def _text(cell: Any) -> str:
    if not isinstance(cell, str):
        raise _Wrong(f"takes text, not {_quoted(cell)}")
    if not cell.strip():
        raise _Wrong("is empty")
    return cell.strip()


def _direction(cell: Any) -> Literal["min", "max"]:
    text = cell.strip().lower() if isinstance(cell, str) else ""
    if text == "min":
        return "min"
    if text == "max":
        return "max"
    raise _Wrong(f"takes min or max, not {_quoted(cell)}")


def _number(cell: Any) -> float:
    if isinstance(cell, bool) or not isinstance(cell, str | int | float | Decimal):
        raise _Wrong(f"takes a number, not {_quoted(cell)}")
    try:
        if isinstance(cell, str) and not _PLAIN.fullmatch(cell):
            raise ValueError
        value = float(cell)
    except (ValueError, OverflowError):
        raise _Wrong(f"takes a number, not {_quoted(cell)}") from None
    if not math.isfinite(value):
        raise _Wrong(f"takes a finite number, not {_quoted(cell)}")
    return value


def _exact(cell: Any) -> float:
    """A bound of a whole-number column: floats must tell it from its neighbours."""
    value = _number(cell)
    if abs(value) >= 2**53:
        raise _Wrong(f"{_quoted(cell)} is too large to compare exactly: say it with 'where'")
    return value


def _k(cell: Any) -> int:
    value = _number(cell)
    if value != int(value):
        raise _Wrong(f"takes a whole number, not {_quoted(cell)}")
    if not 1 <= value <= _MAX_K:
        raise _Wrong(f"must be at least 1, not {int(value)}" if value < 1 else f"must be at most {_MAX_K:,}, not {int(value):,}")
    return int(value)


def _window(cell: Any, most: Window) -> Window:
    """A cell such as ``1 day`` or ``500 rows``, no larger than ``most``, of a kind it has."""
    own = parse_window(_text(cell))
    for kind, asked, largest in own.misfits(most):
        if largest is None:
            raise _Wrong(f"the window of the query has no {kind}")
        spelled = f"{counted(largest, 'row')}" if kind == "count" else format_duration(largest)
        raise _Wrong(
            f"{_quoted(cell)} is larger than the query's window ({spelled})" if asked > 0 else "a window must be larger than nothing"
        )
    return own.within(most)
