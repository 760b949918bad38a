"""Draw the picture of the dashboard in the docs: its panels, from ``dashboard.json``, with the data of a Prometheus.

``python -m scripts.dashboard_picture URL MINUTES`` asks the Prometheus at URL for the last MINUTES, and writes docs/images/dashboard.png.
Vega-Lite draws it from the file that Grafana imports; it is no screenshot of Grafana. Needs the packages vl-convert-python and Pillow.
"""

from __future__ import annotations

import io
import json
import re
import sys
import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import vl_convert
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "framework" / "observe" / "metrics" / "dashboard.json"
PICTURE = ROOT / "docs" / "images" / "dashboard.png"
POINTS: Final = 180
CELL: Final = (58, 26)
"""Width and height of a cell of the grid, in pixels."""
UNITS: Final = {"s": "s", "rowsps": "rows/s", "percentunit": "", "bytes": "B", "short": ""}


def main(url: str, minutes: float) -> None:
    """Write the picture."""
    found = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    rows: dict[int, list[dict[str, Any]]] = {}
    for panel in found["panels"]:
        rows.setdefault(panel["gridPos"]["y"], []).append(panel)
    apart = {"scale": {"color": "independent"}, "legend": {"color": "independent"}}
    drawn = [{"hconcat": [draw(panel, url, minutes) for panel in row], "spacing": 14, "resolve": apart} for _, row in sorted(rows.items())]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "#ffffff",
        "padding": 14,
        "vconcat": drawn,
        "spacing": 14,
        "resolve": apart,
        "config": {"view": {"stroke": "#d8dde2"}, "font": "Liberation Sans, sans-serif", "title": {"anchor": "start", "fontSize": 13}},
    }
    # Few colours make a small file.
    Image.open(io.BytesIO(vl_convert.vegalite_to_png(spec, scale=1.25))).convert("RGB").quantize(96).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


def draw(panel: dict[str, Any], url: str, minutes: float) -> dict[str, Any]:
    """Return the panel as a chart."""
    place, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    values = [row for target in panel["targets"] for row in ask(url, target, minutes)]
    if panel["type"] == "stat":
        last = values[-1]["value"] if values else None
        return {
            "title": {"text": panel["title"], "fontSize": 12},
            "width": place["w"] * CELL[0] - 42,
            "height": 44,
            "data": {"values": [{"text": shown(last, unit)}]},
            "mark": {"type": "text", "fontSize": 24, "color": "#1a7f37", "fontWeight": "bold"},
            "encoding": {"text": {"field": "text", "type": "nominal"}},
        }
    stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    axis = {"title": UNITS[unit] or None, "tickCount": 4, "labelFontSize": 10, "format": "~s"}
    return {
        "title": panel["title"],
        "width": place["w"] * CELL[0] - 200,
        "height": place["h"] * CELL[1] - 90,
        "data": {"values": values},
        "mark": {"type": "area", "opacity": 0.75} if stacked else {"type": "line", "strokeWidth": 1.6},
        "encoding": {
            "x": {"field": "at", "type": "temporal", "title": None, "axis": {"format": "%H:%M", "tickCount": 6, "labelFontSize": 10}},
            "y": {"field": "value", "type": "quantitative", "stack": "zero" if stacked else None, "axis": axis},
            "color": {
                "field": "series", "type": "nominal", "title": None,
                "legend": {"orient": "right", "labelFontSize": 10, "labelLimit": 130}, "scale": {"scheme": "tableau10"},
            },
        },
    }  # fmt: skip


def ask(url: str, target: dict[str, Any], minutes: float) -> list[dict[str, Any]]:
    """Return the points of a query, with the names of their series as the dashboard has them."""
    end = time.time()
    step = max(5.0, 60 * minutes / POINTS)
    query = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".+")
    asked = urllib.parse.urlencode({"query": query, "start": end - 60 * minutes, "end": end, "step": step})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{asked}", timeout=60) as response:
        result = json.load(response)["data"]["result"]
    rows = []
    for series in result:
        labels = series["metric"]
        name = re.sub(r"\{\{(\w+)\}\}", lambda m, labels=labels: labels.get(m.group(1), ""), target["legendFormat"])
        rows += [
            {"at": datetime.fromtimestamp(at, UTC).isoformat(), "value": round(float(value), 4), "series": name}
            for at, value in series["values"]
            if value not in ("NaN", "+Inf")
        ]
    return rows


def shown(value: float | None, unit: str) -> str:
    """Return a number as a stat panel shows it."""
    if value is None:
        return "no data"
    if unit == "percentunit":
        return f"{100 * value:.2g} %"
    return f"{value:,.3g} {UNITS[unit]}".strip()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
