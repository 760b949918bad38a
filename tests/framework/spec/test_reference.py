"""The pages of spec fields are current and complete."""

from __future__ import annotations

import re

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.reference import REFERENCE_DIRECTORY, reference_pages
from skyband.framework.spec.schema.json_schema import model_schema


def test_the_pages_are_current() -> None:
    pages = reference_pages()
    kept = {name: (REFERENCE_DIRECTORY / name).read_text(encoding="utf-8") for name in pages}
    assert kept == pages, "run: python -m skyband.framework.spec.reference"


def test_every_field_of_every_model_has_a_row_that_says_what_it_is() -> None:
    page = "\n".join(reference_pages().values())
    models = [model_schema(), *(m for m in model_schema()["$defs"].values() if "properties" in m)]
    wanted = sorted(name for model in models for name in model["properties"])
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith(("| `", "| **`"))]
    assert sorted(re.sub(r"[`* ]", "", row[0]) for row in rows) == wanted and len(wanted) > 150
    assert all(len(row) == 4 and row[1].strip() and row[3].strip() for row in rows), [
        r for r in rows if not (r[1].strip() and r[3].strip())
    ]
    assert {f"Query type {name}" for name in QUERY_TYPES.all()} <= set(re.findall(r"^## (.*)$", page, re.MULTILINE))


def test_links_lead_to_sections() -> None:
    pages = reference_pages()
    sections = {(name, h.lower().replace(" ", "-")) for name, page in pages.items() for h in re.findall(r"^## (.*)$", page, re.MULTILINE)}
    links = {(file or name, anchor) for name, page in pages.items() for file, anchor in re.findall(r"\(([\w.-]*)#([^)]*)\)", page)}
    assert links and links <= sections
