"""Write the report as one HTML file that loads nothing and runs no code from the data.

The template escapes texts, and the JSON of the charts contains no ``<``. As a second line of defence, the page's content security policy
allows only its two scripts, by their hashes, and forbids loading anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import printable
from skyband.framework.base.extras import extra
from skyband.framework.plan.model import Plan
from skyband.framework.report import job_figures
from skyband.framework.report.figures import Section, text
from skyband.framework.report.query_figures import QueryFigures
from skyband.framework.tables.sql.statements import Statements

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
    sections += [job_figures.runs(statements), job_figures.quality(statements), job_figures.plan_section(plan)]
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
