"""The report as one HTML file: nothing is loaded from anywhere, and nothing that stands in the data runs.

Texts are escaped by the template; the charts' numbers are JSON in which no ``<`` is left. Should anything get past that, the page's own
policy runs only the two scripts that it names by their hashes, and loads nothing.
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
"""Queries that have a section, the first of the spec."""

_HERE: Final = Path(__file__).parent
_FIRST: Final = b"<!doctype html>"
_LINK: Final = b'<a class="skip" href="#main">Skip to the results</a>'
"""What every report begins with and holds, those of earlier versions too."""


def report(plan: Plan, now: datetime) -> str:
    """The page about ``plan``'s tables as they are; ``now`` is when. O(rows of the tables) in time; the page is bounded.

    SkybandError SKY-E400 if a table is not there.
    """
    statements = Statements(plan)
    shown = plan.queries[:QUERIES]
    sections = [QueryFigures(plan, q, statements).section() for q in shown]
    if len(shown) < len(plan.queries):
        left = f"The report has the first {len(shown)} of {counted(len(plan.queries), 'query', 'queries')}; the others are left out."
        sections.append(Section("Left out", left))
    sections += [job_figures.runs(statements), job_figures.quality(statements), job_figures.plan_section(plan)]
    complete = statements.ask("select max(frontier) as at from runs")["at"][0].as_py()
    said = f"Made {text(now.astimezone(UTC).replace(microsecond=0))} UTC. All instants are event times in UTC"
    said += f"; all events before {text(complete)} have been processed." if complete is not None else "."
    return html(f"Job {plan.job}", said, sections)


def is_report(content: bytes) -> bool:
    """Whether a file's content is a report, or nothing."""
    return not content or (content.startswith(_FIRST) and _LINK in content)


def html(title: str, said: str, sections: list[Section]) -> str:
    """Sections as a page."""
    # vegaEmbed is all that the page calls.
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    # Two kinds of text that are safe by what they are: own files, and JSON without a "<".
    whole = {name: Markup(content) for name, content in (("library", _closed(library)), ("script", script))}
    policy = "; ".join(
        [
            "default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", "base-uri 'none'", "form-action 'none'",
            f"script-src {' '.join(_hash(s) for s in whole.values())}",
        ]
    )  # fmt: skip
    template = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined).get_template("page.html")
    return template.render(
        title=title, said=said, sections=sections, policy=policy, **whole,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        charts=Markup(_json(dict(_charts(sections)))),
        footer="Made by skyband report. Charts are drawn by Vega-Lite, whose code is in this file; without scripts the tables remain.",
    )  # fmt: skip


def _charts(sections: list[Section]) -> Iterator[tuple[str, object]]:
    for i, section in enumerate(sections, 1):
        for j, figure in enumerate(section.figures, 1):
            if figure.chart is not None:
                # What a screen reader says of the picture; the numbers are in the table beside it.
                described = f"{figure.title} of {section.title}. {figure.said}"
                yield f"{i}-{j}", {"description": printable(described), **figure.chart}


def _json(value: object) -> str:
    """JSON that may stand inside of a script element; NaN and infinities, which it lacks, are null."""
    plain = json.dumps(_finite(value), allow_nan=False)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and value - value != 0 else value


def _closed(code: str) -> str:
    """Code of a library as it may stand inside of a script element: a ``</script`` or ``<!--`` in one of its texts would end it."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
