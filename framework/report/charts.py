"""Build charts as Vega-Lite specifications. Times are UTC. The page sets the colours, for light and dark mode."""

from __future__ import annotations

from typing import Any, Final

from skyband.framework.report.figures import Chart

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
