"""Write the report as one HTML file that loads nothing and runs no code from the data.

The template escapes texts, and the JSON of the charts contains no ``<``. As a second line of defence, the page's content security policy
allows only its two scripts, by their hashes, and forbids loading anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from skyband.framework.base.counts import agree, counted, number_text
from skyband.framework.base.errors import printable, redacted
from skyband.framework.base.extras import extra
from skyband.framework.base.items import ItemColumn
from skyband.framework.base.reasons import REASONS
from skyband.framework.base.types import readable_as_text
from skyband.framework.base.units import format_duration
from skyband.framework.plan.explain import explain
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.tables.render import instant_text, values_of
from skyband.framework.tables.schemas import changes_name, now_name, stream_columns
from skyband.framework.tables.sql.statements import Statements
from skyband.framework.tables.sql.views import views

# The parts of a report: figures, each with its numbers as a table and, where useful, a chart.

CELL: Final = 120
"""The most characters of a text that are shown."""

_NUMBER: Final = re.compile(r"-?(\d[\d,]*(\.\d+)?(e[+-]\d+)?|inf)|nan")

Chart = dict[str, Any]
"""A chart as a Vega-Lite specification. No expression in it comes from a table."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure. ``said``: one sentence that describes it. ``left_out``: what the limits omit. ``text``: preformatted lines."""

    title: str
    said: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    chart: Chart | None = None
    left_out: str = ""
    text: str = ""

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return for each column of the rows whether all that it has is numbers."""
        return tuple(all(not c or _NUMBER.fullmatch(c) for c in column) for column in zip(*self.rows, strict=True))


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with the figures below it."""

    title: str
    said: str
    figures: list[Figure] = field(default_factory=list)


def text(value: Any) -> str:
    """Return a value as text for a cell: one line, no control characters, at most ``CELL`` characters."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    # Cut long texts first.
    shown = " ".join(printable(str(value)[: 2 * CELL]).split())
    return shown if len(shown) <= CELL else shown[: CELL - 1] + "…"


def cells(rows: pa.Table) -> tuple[tuple[str, ...], ...]:
    """Return all rows as cells."""
    return tuple(tuple(text(v) for v in row) for row in zip(*(values_of(c) for c in rows.columns), strict=True)) if rows.num_columns else ()


def few_of(shown: int, total: int, what: str) -> str:
    """Return a note if not everything is shown."""
    return f"Shown are {shown:,} of {total:,} {what}." if shown < total else ""


def millis(at: datetime | None) -> float | None:
    """Return an instant in milliseconds since 1970, for charts."""
    return None if at is None else at.timestamp() * 1000


# Build charts as Vega-Lite specifications. Times are UTC. The page sets the colours, for light and dark mode.

Values = list[dict[str, Any]]

_DAY: Final = 86_400_000
_CURRENT: Final = {"field": "now", "type": "nominal", "scale": {"domain": ["in the result", "left"], "range": ["accent", "faint"]}}
"""The page replaces the names in ``range`` by its own colours."""


def _chart(values: Values, height: int | dict[str, int], **parts: Any) -> Chart:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "data": {"values": values},
        **parts,
    }


def _time(values: Values) -> dict[str, Any]:
    """Return the axis of times in UTC, with as much of a date as its ticks need."""
    known = [v[c] for v in values for c in ("from", "to") if v.get(c) is not None]
    days = (max(known) - min(known)) / _DAY if known else 0
    form = "%Y-%m" if days > 700 else "%Y-%m-%d" if days > 8 else "%m-%d %H:%M" if days > 0.1 else "%H:%M:%S"
    axis = {"format": form, "tickCount": 8, "labelOverlap": "greedy", "labelSeparation": 10}
    return {"field": "from", "type": "temporal", "scale": {"type": "utc"}, "title": None, "axis": axis}


def _shown(*fields: str) -> list[dict[str, str]]:
    return [{"field": f, "type": "nominal", "title": f} for f in fields]


def bump(values: Values, best: int) -> Chart:
    """Return ranks over time: ``from``, ``rank``, ``line`` (number of a stay), ``item``, ``now``; a line ends where its item left."""
    y = {"field": "rank", "type": "quantitative", "scale": {"domain": [best + 0.5, 0.5], "nice": False, "zero": False}, "title": "rank"}
    y["axis"] = {"values": list(range(1, best + 1)) if best <= 20 else None, "grid": True, "format": "d"}
    encoding = {"x": _time(values), "y": y, "detail": {"field": "line"}, "color": {"field": "item", "type": "nominal", "legend": None}}
    encoding["opacity"] = {"condition": {"test": {"field": "now", "equal": "in the result"}, "value": 1}, "value": 0.45}
    line = {"mark": {"type": "line", "interpolate": "monotone", "strokeWidth": 3}, "encoding": encoding}
    dots = {
        "transform": [{"filter": {"field": "end", "equal": False}}],
        "mark": {"type": "point", "filled": True, "size": 40},
        "encoding": {**encoding, "tooltip": _shown("item", "rank", "score", "since")},
    }
    return _chart(values, max(160, min(420, 26 * best)), layer=[line, dots])


def stays(values: Values, count: int) -> Chart:
    """Return a chart of intervals as bars, ``count`` items one below the other: ``item``, ``from``, ``to``, ``now``."""
    axis = {"labelLimit": 280, "labelFontSize": 9, "labelOverlap": False, "ticks": False}
    y = {"field": "item", "type": "nominal", "sort": None, "title": None, "axis": axis}
    encoding = {
        "x": _time(values), "x2": {"field": "to"}, "y": y,
        "color": {**_CURRENT, "legend": {"title": None, "orient": "top"}}, "tooltip": _shown("item", "score", "since", "until"),
    }  # fmt: skip
    return _chart(values, max(120, 13 * count), mark={"type": "bar", "minBandSize": 3, "cornerRadius": 2}, encoding=encoding)


def steps(values: Values, title: str) -> Chart:
    """Return a chart of one number over time, constant between its changes: ``from``, ``value``."""
    y = {"field": "value", "type": "quantitative", "title": title, "scale": {"zero": False}}
    encoding = {"x": _time(values), "y": y}
    return _chart(values, 200, mark={"type": "line", "interpolate": "step-after", "strokeWidth": 2, "point": False}, encoding=encoding)


def bars(values: Values, title: str, by: str | None = None) -> Chart:
    """Return a chart of a number per batch: ``batch``, ``value``; stacked by column ``by``."""
    encoding: dict[str, Any] = {
        "x": {"field": "batch", "type": "ordinal", "title": "batch", "axis": {"labelOverlap": True, "labelAngle": 0}},
        "y": {"field": "value", "type": "quantitative", "title": title},
        "tooltip": _shown("batch", "value", *([by] if by else [])),
    }
    if by:
        encoding["color"] = {"field": by, "type": "nominal", "legend": {"title": None, "orient": "top"}}
    return _chart(values, 200, mark={"type": "bar"}, encoding=encoding)


def graph(nodes: Values, edges: Values, stages: list[str], rows: int) -> Chart:
    """Return a graph with nodes in columns. Nodes: ``stage``, ``row``, ``name``; edges: ``stage``, ``row``, ``stage2``, ``row2``."""
    x = {"field": "stage", "type": "ordinal", "sort": stages, "scale": {"domain": stages, "type": "point", "padding": 0.6}}
    x |= {"axis": {"orient": "top", "labelAngle": 0, "title": None, "domain": False, "ticks": False}}
    y = {"field": "row", "type": "quantitative", "axis": None, "scale": {"domain": [rows - 0.4, -0.6], "nice": False, "zero": False}}
    lines = {
        "data": {"values": edges},
        "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.5},
        "encoding": {"x": x, "x2": {"field": "stage2"}, "y": y, "y2": {"field": "row2"}},
    }
    dots = {
        "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
        "encoding": {"x": x, "y": y, "tooltip": _shown("name", "said")},
    }
    names = {
        "mark": {"type": "text", "dy": -11, "fontSize": 11, "limit": 150},
        "encoding": {"x": x, "y": y, "text": {"field": "name"}},
    }
    return _chart(nodes, max(140, 40 * rows), layer=[lines, dots, names])


# Figures about the job: its batches, rejected rows, outcomes of checks, and the plan as a graph.

BATCHES: Final = 120
"""The number of newest batches that are shown."""
CHECKS: Final = 200
"""The number of newest outcomes of checks that are shown."""
EXAMPLES: Final = 30
"""The number of reasons that are shown, the most frequent."""


def runs(statements: Statements) -> Section:
    """Return figures about throughput and rejected rows."""
    found = statements.ask(f"select *, count(*) over () as of_all from runs order by batch_id desc limit {BATCHES}").to_pylist()[::-1]
    total = found[0]["of_all"] if found else 0
    left = few_of(len(found), total, "batches, the newest")
    speed = [{"batch": r["batch_id"], "value": round(1000 * r["rows_in"] / r["batch_ms"]) if r["batch_ms"] else 0} for r in found]
    columns = ("batch_id", "batch_time", "rows_in", "filtered", "rejected", "accepted", "pending", "changes", "batch_ms", "frontier")
    table = tuple(tuple(text(r[c]) for c in columns) for r in found[::-1])
    chart = bars(speed, "rows a second") if found else None
    throughput = Figure("Throughput", "Rows read per second in each batch.", columns, table, chart, left)
    said = f"{counted(total, 'batch', 'batches')} {agree(total, 'was', 'were')} run."
    return Section("Runs", said, [throughput, _rejected_by_batch(found, left), _reasons(statements)])


def _rejected_by_batch(found: list[dict[str, object]], left: str) -> Figure:
    names = [(c.name, f"rejected_{c.name}") for c in REASONS]
    values = [{"batch": r["batch_id"], "value": r[column], "reason": name} for r in found for name, column in names if r[column]]
    rows = tuple((text(v["batch"]), str(v["reason"]), text(v["value"])) for v in values[::-1])
    said = "Rows that were late, or rejected for another reason." if values else "No row of these batches was rejected."
    return Figure(
        "Rejected and late rows", said, ("batch", "reason", "rows"), rows, bars(values, "rows", "reason") if values else None, left
    )


def _reasons(statements: Statements) -> Figure:
    found = statements.ask('select reason, count(*) as "rows" from rejected group by reason order by 2 desc, 1')
    shown = found.slice(0, EXAMPLES)
    left = few_of(shown.num_rows, found.num_rows, "reasons, the most frequent")
    return Figure("Reasons", "Why rows were rejected, since the first run.", ("reason", "rows"), cells(shown), left_out=left)


def quality(statements: Statements) -> Section:
    """Return the outcomes of the checks of ``quality.tables``."""
    found = statements.ask(
        "select checked_at, table_name, expectation, severity, success, unexpected, rows_checked, error, count(*) over () as of_all "
        f"from checks order by checked_at desc, success, table_name, expectation limit {CHECKS}"
    )
    total = found["of_all"][0].as_py() if found.num_rows else 0
    shown = found.drop_columns(["of_all"])
    failed = sum(not ok for ok in shown["success"].to_pylist())
    said = f"{failed:,} of the {counted(shown.num_rows, 'outcome')} shown failed."
    said = said if total else "The spec has no checks, or none has run."
    left = few_of(shown.num_rows, total, "outcomes, the newest")
    return Section(
        "Quality", "Outcomes of the checks of the tables.", [Figure("Checks", said, tuple(shown.column_names), cells(shown), left_out=left)]
    )


def plan_section(plan: Plan) -> Section:
    """Return the plan as a graph, and as the output of ``skyband explain``."""
    stages = ["source", "intake", "window", "state", "queries"]
    bounds = [f"{counted(plan.window.count, 'row')}" if plan.window.count is not None else ""]
    bounds += [format_duration(plan.window.micros) if plan.window.micros is not None else ""]
    steps = [f"{counted(len(plan.intake.transforms), 'transform')}", f"{counted(len(plan.intake.rules), 'rule')}"]
    nodes: Values = [
        {"stage": "source", "name": plan.source.shown, "said": f"{counted(len(plan.source.fields), 'column')}"},
        {"stage": "intake", "name": "parse, check, order", "said": ", ".join(steps)},
        {
            "stage": "window",
            "name": " and ".join(b for b in bounds if b),
            "said": "of each key" if plan.intake.partition_by else "of the stream",
        },
    ]
    nodes = [n | {"row": 0.0} for n in nodes]
    edges: Values = [{"stage": a, "row": 0.0, "stage2": b, "row2": 0.0} for a, b in (("source", "intake"), ("intake", "window"))]
    row, places = 0, dict[str, float]()
    for part, taken in [(plan, ""), *((one.plan, one.of) for one in plan.streams)]:
        # A query over a result is a stage to the right of the query that it takes.
        state, result = _stages(plan, taken)
        stages += [stage for stage in (state, result) if stage not in stages]
        begin = ("window", 0.0) if not taken else (_stages(plan, taken, -1)[1], places[taken])
        for operator in part.operators:
            mine = [q for q in part.queries if part.operators[q.operator].name == operator.name]
            middle = row + (len(mine) - 1) / 2
            nodes.append({"stage": state, "name": operator.name, "said": type(operator.inner).__name__, "row": middle})
            edges.append({"stage": begin[0], "row": begin[1], "stage2": state, "row2": middle})
            for q in mine:
                places[q.name] = float(row)
                nodes.append({"stage": result, "name": q.name, "said": q.type, "row": float(row)})
                edges.append({"stage": state, "row": middle, "stage2": result, "row2": float(row)})
                row += 1
    table = tuple((str(n["stage"]), text(redacted(str(n["name"]))), text(redacted(str(n["said"])))) for n in nodes)
    said = "Rows flow from left to right. Each state is kept once and answers the queries to its right."
    said += " The results of queries flow on to the queries that take them." if plan.streams else ""
    shown = Figure("Graph", said, ("stage", "name", "what"), table, graph(nodes, edges, stages, max(1, row)))
    return Section(
        "Plan", "What the job does.", [shown, Figure("In words", "The output of skyband explain.", text=redacted(explain(plan)))]
    )


def _stages(plan: Plan, taken: str, further: int = 0) -> tuple[str, str]:
    """Return the stages of the state and of the queries over the result ``taken``, or of its own (``further`` -1)."""
    depth = further
    while taken:
        depth += 1
        taken = next((s.of for s in plan.streams if any(q.name == taken for q in s.plan.queries)), "")
    return ("state", "queries") if depth == 0 else (f"state {depth + 1}", f"queries {depth + 1}")


# Figures about one query: its current result, ranks and stays over time, and the score needed to be in it.

NOW: Final = 50
"""The most rows of the current result that are shown."""
STRETCHES: Final = 150
"""The number of newest spans of constant rank that are drawn."""
STAYS: Final = 60
"""The number of newest stays in the result that are drawn."""
STEPS: Final = 1000
"""The number of newest steps of a number over time that are drawn."""
_ALL: Final = "#all"
"""The column with the total number of rows; no column of a table has such a name."""


class QueryFigures:
    """The figures of ``query`` of the job ``plan``. If the job has keys, charts show the key with the most stays."""

    def __init__(self, plan: Plan, query: QueryNode, statements: Statements) -> None:
        self.plan, self.query = plan.of(query.name), query
        self._statements = statements
        self.streams = stream_columns(plan, query)
        self.made = {v.name for v in views(plan)}
        self.type = query.type + _taken(plan, query)

    def ask(self, statement: str) -> pa.Table:
        """Return the rows of a statement; columns with dates that Python has not are texts."""
        return readable_as_text(self._statements.ask(statement))

    def section(self) -> Section:
        """Return all figures of the query."""
        if not self.query.item.lasting:
            said = f"Reports every item once, at the arrival that brings it ({self.type})."
            return Section(self.query.name, said, [self._newest_reports()])
        return Section(self.query.name, f"Results of query {self.query.name} ({self.type}).", [self._now(), *self._over_time()])

    def _over_time(self) -> Iterator[Figure]:
        whose = self._whose()
        if f"{self.query.name}_ranks" in self.made:
            yield self._ranks(whose)
        yield self._stays(whose)
        if f"{self.query.name}_ranks" in self.made and self.query.item.scored and self.query.k is not None and not self.query.members:
            yield self._last(self.query.k, whose)

    def _now(self) -> Figure:
        order = ", ".join(f'"{c}"' for c in (*self.streams, "rank"))
        found = self.ask(f'select *, count(*) over () as "{_ALL}" from "{now_name(self.query.name)}" order by {order} limit {NOW}')
        total = found[_ALL][0].as_py() if found.num_rows else 0
        shown = self._readable(found.drop_columns([_ALL]))
        said = f"{counted(total, 'item')} {agree(total, 'is', 'are')} in the result."
        return Figure("Now", said, tuple(shown.column_names), cells(shown), left_out=few_of(shown.num_rows, total, "rows"))

    def _newest_reports(self) -> Figure:
        name = changes_name(self.query.name)
        found = self.ask(f'select *, count(*) over () as "{_ALL}" from "{name}" order by changed_at desc, step desc, pos limit {NOW}')
        total = found[_ALL][0].as_py() if found.num_rows else 0
        shown = self._readable(found.drop_columns([_ALL]))
        left = few_of(shown.num_rows, total, "rows, the newest")
        said = f"{counted(total, 'item')} {agree(total, 'was', 'were')} reported."
        return Figure("The newest", said, tuple(shown.column_names), cells(shown), left_out=left)

    def _readable(self, rows: pa.Table) -> pa.Table:
        """Return ``rows`` with the most useful columns first: key, rank and score, the names of the item, carried columns."""
        of_item = self.query.item.columns(self.plan.intake.id, self.query.carry, self.plan.intake.partition_by)
        named = [c.name for what in (("id", "object"), ("carry",), ("time",)) for c in of_item if c.what in what]
        first = [*self.streams, "rank", "changed_at", *(v.name for v in self.query.item.values), *named]
        return rows.select([c for c in dict.fromkeys([*first, *rows.column_names]) if c in rows.column_names])

    def _whose(self) -> str:
        """Return the key that charts are about, in words."""
        if not self.streams:
            return ""
        rows = self.ask(f"select {self._keys()} from {self._chosen()} c").to_pylist()
        return " Of " + ", ".join(f"{n} {text(v)}" for n, v in rows[0].items()) + ", the key with the most stays." if rows else ""

    def _keys(self) -> str:
        return ", ".join(f'"{c}"' for c in self.streams)

    def _chosen(self) -> str:
        return f'(select {self._keys()} from "{self.query.name}" group by {self._keys()} order by count(*) desc, {self._keys()} limit 1)'

    def _of_one(self, view: str, limit: int, where: str = "true") -> tuple[list[dict[str, Any]], int]:
        """Return (the newest rows of a view for one key, oldest first; the total number)."""
        of = f" semi join {self._chosen()} c using ({self._keys()})" if self.streams else ""
        statement = f'select *, count(*) over () as "{_ALL}" from (select * from "{view}" where {where}) v{of}'
        found = self.ask(f"{statement} order by valid_from desc limit {limit}")
        rows = found.to_pylist()[::-1]
        return rows, rows[0][_ALL] if rows else 0

    def _label(self, row: dict[str, Any]) -> str:
        """Return a label for the item: the names of each part and, in brackets, carried texts."""
        columns = self.query.item.columns(self.plan.intake.id, self.query.carry, ())
        return " & ".join(_part_label(row, [c for c in columns if c.part == n]) for n in range(len(self.query.item.parts)))

    def _score(self, row: dict[str, Any]) -> str:
        return ", ".join(text(row[v.name]) for v in self.query.item.values if v.name in row)

    def _ranks(self, whose: str) -> Figure:
        rows, total = self._of_one(f"{self.query.name}_ranks", STRETCHES)
        end = max((r["valid_to"] or r["valid_from"] for r in rows), default=None)
        named = (*self.streams, *self.query.item.identity(self.plan.intake.partition_by))
        line, last, values = {}, {}, []  # type: ignore[var-annotated]
        for row in rows:
            item = tuple(row[c] for c in named)
            continues = item in last and last[item]["valid_to"] == row["valid_from"]
            line[item] = line.get(item, len(values)) if continues else len(values)
            now = "in the result" if row["valid_to"] is None else "left"
            point = {"line": line[item], "item": self._label(row), "rank": row["rank"], "score": self._score(row), "now": now}
            point |= {"since": text(row["valid_from"])}
            values.append({**point, "from": millis(row["valid_from"]), "end": False})
            values.append({**point, "from": millis(row["valid_to"] or end), "end": True})
            last[item] = row
        # The last point decides the colour of a line.
        ends = {v["line"]: v["now"] for v in values}
        values = [{**v, "now": ends[v["line"]]} for v in values]
        table = tuple((text(r["valid_from"]), text(r["valid_to"]), text(r["rank"]), self._label(r), self._score(r)) for r in rows[::-1])
        head = ("from", "to", "rank", "item", "score")
        best = max((r["rank"] for r in rows), default=1)
        said = f"The rank of each item over time. A line ends where its item leaves the result; items still in it are drawn boldly.{whose}"
        left = few_of(len(rows), total, "spans of constant rank, the newest")
        return Figure("Ranks over time", said, head, table, bump(values, best) if rows else None, left)

    def _stays(self, whose: str) -> Figure:
        rows, total = self._of_one(f"{self.query.name}_history" if f"{self.query.name}_history" in self.made else self.query.name, STAYS)
        end = max((r["valid_to"] or r["valid_from"] for r in rows), default=None)
        values = [
            {
                "item": self._label(r),
                "score": self._score(r),
                "from": millis(r["valid_from"]),
                "to": millis(r["valid_to"] or end),
                "since": text(r["valid_from"]),
                "until": text(r["valid_to"]),
                "now": "in the result" if r["valid_to"] is None else "left",
            }
            for r in rows
        ]
        table = tuple((self._label(r), text(r["valid_from"]), text(r["valid_to"]), self._score(r)) for r in rows[::-1])
        said = f"One bar for every stay in the result.{whose}"
        chart = stays(values, len({v["item"] for v in values})) if rows else None
        return Figure(
            "Stays in the result", said, ("item", "from", "to", "score"), table, chart, few_of(len(rows), total, "stays, the newest")
        )

    def _last(self, k: int, whose: str) -> Figure:
        rows, total = self._of_one(f"{self.query.name}_ranks", STEPS, f'"rank" = {k}')
        values: list[dict[str, Any]] = []
        for before, row in zip([None, *rows], rows, strict=False):
            if before is not None and before["valid_to"] != row["valid_from"]:
                values.append({"from": millis(before["valid_to"]), "value": None})
            values.append({"from": millis(row["valid_from"]), "value": row["score"]})
        if rows:
            values.append({"from": millis(rows[-1]["valid_to"] or rows[-1]["valid_from"]), "value": rows[-1]["score"]})
        table = tuple((text(r["valid_from"]), text(r["valid_to"]), text(r["score"]), self._label(r)) for r in rows[::-1])
        said = f"The score at rank {k}, which an item needs to be in the result.{whose}"
        chart = steps(values, f"score at rank {k}") if rows else None
        left = few_of(len(rows), total, "spans, the newest")
        return Figure(f"Score of the {k}th" if k > 3 else f"Score at rank {k}", said, ("from", "to", "score", "item"), table, chart, left)


def _taken(plan: Plan, query: QueryNode) -> str:
    """Return which result the query takes, in words; "" if it takes the source's rows."""
    found = next((s for s in plan.streams if any(q.name == query.name for q in s.plan.queries)), None)
    return "" if found is None else f" {'from' if found.takes == 'entries' else 'of'} {found.of}"


def _part_label(row: dict[str, Any], columns: Sequence[ItemColumn]) -> str:
    named = [row.get(c.name) for c in columns if c.what in ("id", "object")]
    carried = [row.get(c.name) for c in columns if c.what == "carry"]
    said = " ".join(text(v) for v in named if v is not None)
    labels = ", ".join(text(v) for v in carried if isinstance(v, str) and v)
    return f"{said} ({labels})" if labels else said


with extra("report", "a report"):
    import vl_convert
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

QUERIES: Final = 20
"""The most queries that get a section, in the order of the spec; those over results come last."""

_HERE: Final = Path(__file__).parent
_FIRST: Final = b"<!doctype html>"
_LINK: Final = b'<a class="skip" href="#main">Skip to the results</a>'
"""Bytes at the beginning and inside of every report, also of earlier versions."""


def report(plan: Plan, now: datetime) -> str:
    """Return the page about the tables of ``plan`` at ``now``. O(rows of the tables) in time; the size of the page is bounded.

    SkybandError SKY-E400 if a table does not exist.
    """
    statements = Statements(plan)
    every = plan.every_query
    shown = every[:QUERIES]
    sections = [QueryFigures(plan, q, statements).section() for q in shown]
    if len(shown) < len(every):
        left = f"The report has the first {len(shown)} of {counted(len(every), 'query', 'queries')}; the others are left out."
        sections.append(Section("Left out", left))
    sections += [runs(statements), quality(statements), plan_section(plan)]
    complete = statements.ask("select max(frontier) as at from runs")["at"][0].as_py()
    said = f"Made {text(now.astimezone(UTC).replace(microsecond=0))} UTC. All instants are event times in UTC"
    said += f"; all events before {text(complete)} have been processed." if complete is not None else "."
    return html(f"Job {plan.job}", said, sections)


def is_report(content: bytes) -> bool:
    """Return True if the content of a file is a report, or empty."""
    return not content or (content.startswith(_FIRST) and _LINK in content)


def html(title: str, said: str, sections: list[Section]) -> str:
    """Return sections as a page."""
    # The page calls only vegaEmbed.
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    # Both are safe without escapes: code of libraries and own files.
    scripts = {name: Markup(content) for name, content in (("library", _closed(library)), ("script", script))}
    policy = "; ".join(
        [
            "default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", "base-uri 'none'", "form-action 'none'",
            f"script-src {' '.join(_hash(s) for s in scripts.values())}",
        ]
    )  # fmt: skip
    template = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined).get_template("page.html")
    return template.render(
        title=title, said=said, sections=sections, policy=policy, **scripts,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        charts=Markup(_json(dict(_charts(sections)))),
        footer="Made by skyband report. Charts are drawn by Vega-Lite, whose code is in this file; without scripts the tables remain.",
    )  # fmt: skip


def _charts(sections: list[Section]) -> Iterator[tuple[str, object]]:
    for i, section in enumerate(sections, 1):
        for j, figure in enumerate(section.figures, 1):
            if figure.chart is not None:
                # For screen readers; the numbers are in the table beside the chart.
                described = f"{figure.title} of {section.title}. {figure.said}"
                yield f"{i}-{j}", {"description": printable(described), **figure.chart}


def _json(value: object) -> str:
    """Return JSON that is safe inside of a script element; NaN and infinities become null."""
    plain = json.dumps(_finite(value), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and value - value != 0 else value


def _closed(code: str) -> str:
    """Return code that is safe inside of a script element, which ``</script`` or ``<!--`` in a text would end."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
