"""Draw measurements as bars: an SVG of groups of bars on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

_COLOURS = ("#0b5f85", "#8894a1", "#c2571a", "#5a8f3d", "#7b5ea7", "#a8842c")
_BAR, _GAP, _LEFT, _WIDTH = 11, 16, 330, 560


def bars(groups: Sequence[tuple[str, Mapping[str, float]]], title: str) -> str:
    """Return an SVG with a group of bars for each of ``groups`` (its name, values by series), the lengths logarithmic."""
    series = list(dict.fromkeys(name for _, values in groups for name in values))
    every = [v for _, values in groups for v in values.values() if v > 0]
    low, high = floor(log10(min(every))), ceil(log10(max(every)))
    parts, y = [], 60
    for i, name in enumerate(series):
        colour = _COLOURS[i % len(_COLOURS)]
        parts.append(f'<rect x="{_LEFT + 110 * i}" y="28" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 16 + 110 * i}" y="38">{escape(name)}</text>')
    top = y
    for name, values in groups:
        middle = y + _BAR * len(values) / 2 + 4
        parts.append(f'<text x="{_LEFT - 8}" y="{middle:g}" text-anchor="end">{escape(name)}</text>')
        for one, value in values.items():
            length = _WIDTH * (log10(value) - low) / (high - low) if value > 0 else 0.0
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR - 1}" fill="{_COLOURS[series.index(one) % len(_COLOURS)]}">'
                f"<title>{escape(one)}: {value:,.0f}</title></rect>"
            )
            y += _BAR
        y += _GAP
    for power in range(low, high + 1):
        x = _LEFT + _WIDTH * (power - low) / (high - low)
        parts.append(f'<path d="M{x:g},{top - 8} V{y}" stroke="#b6c2cd" stroke-width="0.6"/>')
        parts.append(f'<text x="{x:g}" y="{y + 14}" text-anchor="middle">{10**power:,}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 60}" height="{y + 24}">'
    style = '<style>text{font:12px system-ui,sans-serif}</style><rect width="100%" height="100%" fill="#ffffff"/>'
    return f'{head}{style}<text x="8" y="18">{escape(title)}</text>{"".join(parts)}</svg>\n'
