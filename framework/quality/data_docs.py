"""What checks found as Great Expectations' Data Docs: a page a table and one that lists them, as files that need nothing else.

The library's pages load scripts, styles and pictures from half a dozen hosts, and put values into them as they are. Here values are
escaped before it sees them, what would be loaded is taken out, and a policy in every page forbids a browser to load or run anything.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import redacted
from skyband.framework.base.extras import extra
from skyband.framework.storage import durable
from skyband.framework.tables.outcome import Outcome, describe

Found = Sequence[tuple[Outcome, Any]]

_POLICY: Final = (
    '<meta charset="UTF-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">"
)
_LOADS: Final = re.compile(r"<script\b.*?</script\s*>|<iframe\b.*?</iframe\s*>|<link\b[^>]*>|<img\b[^>]*>", re.IGNORECASE | re.DOTALL)
_ELSEWHERE: Final = re.compile(r'\b(href|src|action)\s*=\s*(["\'])(?!#|[a-z0-9_]+\.html\2).*?\2', re.IGNORECASE)
_STYLE: Final = "body{font-family:sans-serif;margin:2em}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}"


def write(directory: Path, job: str, found: Found) -> list[Path]:
    """Write ``index.html`` and ``<table>.html`` for every table of which the library has results. Raises OSError.

    ``found``: the outcomes, each with the library's own result, if it has one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    pages = {}
    for table in dict.fromkeys(o.table for o, _ in found):
        results = [r for o, r in found if o.table == table and r is not None]
        if results:
            pages[f"{table}.html"] = _page(table, results)
    pages["index.html"] = _index(job, found, pages)
    for name, text in pages.items():
        durable.replace(directory / name, redacted(text))
    return [directory / name for name in pages]


def _page(table: str, results: Sequence[Any]) -> str:
    """Return the library's page about one table."""
    with extra("quality", "Data Docs"):
        from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult, ExpectationValidationResult
        from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
        from great_expectations.render.view.view import DefaultJinjaPageView

    safe = [ExpectationValidationResult(**_escaped(_fields(r))) for r in results]
    right = sum(bool(r.success) for r in safe)
    counts = {
        "evaluated_expectations": len(safe), "successful_expectations": right, "unsuccessful_expectations": len(safe) - right,
        "success_percent": 100 * right / len(safe),
    }  # fmt: skip
    run = {"run_id": {"run_name": table, "run_time": datetime.now(UTC).isoformat(timespec="seconds")}}
    suite = ExpectationSuiteValidationResult(
        success=right == len(safe), results=safe, suite_name=table, statistics=counts, meta=run
    )  # fmt: skip
    view: Any = DefaultJinjaPageView()
    return without_network(str(view.render(ValidationResultsPageRenderer(run_info_at_end=True).render(suite))))


def _fields(result: Any) -> dict[str, Any]:
    return {
        "success": result.success, "expectation_config": result.expectation_config, "result": result.result, "meta": result.meta,
        "exception_info": result.exception_info,
    }  # fmt: skip


def _escaped(value: Any) -> Any:
    """Return ``value`` with its texts (of lists, mappings and expectations) escaped for HTML."""
    if isinstance(value, str):
        return html.escape(value)
    if isinstance(value, Mapping):
        return {_escaped(k): _escaped(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(v) for v in value]
    if hasattr(value, "kwargs") and hasattr(value, "type"):
        return type(value)(type=value.type, kwargs=_escaped(value.kwargs), meta=value.meta)
    return value


def without_network(page: str) -> str:
    """Return the page without anything that loads or runs. O(length)."""
    bare = _ELSEWHERE.sub("", _LOADS.sub("", page))
    return re.sub(r"<head[^>]*>", lambda m: m[0] + _POLICY, bare, count=1)


def _index(job: str, found: Found, pages: Mapping[str, str]) -> str:
    lines = []
    for o, _ in found:
        link = f'<a href="{o.table}.html">{o.table}</a>' if f"{o.table}.html" in pages else o.table
        state = "ok" if o.success else f"FAILED ({o.severity})"
        lines.append(f"<tr><td>{link}</td><td>{state}</td><td>{html.escape(describe(o.row('', 0)))}</td></tr>")
    title = f"Data quality of {html.escape(job)}"
    return (
        f"<!DOCTYPE html><html><head>{_POLICY}<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC</p><table><tr><th>table</th><th>outcome</th><th>check and result</th></tr>"
        + "\n".join(lines) + "</table></body></html>\n"
    )  # fmt: skip
