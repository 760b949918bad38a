"""Pages of documentation with every field of a spec: ``python -m skyband.framework.spec.reference`` writes them.

The pages come from the JSON schema of the models, so types, defaults, bounds and descriptions are stated once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skyband.framework.spec.schema.json_schema import model_schema

REFERENCE_DIRECTORY: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
"""The directory of the pages in the repository."""

_NOTE: Final = (
    "Generated from the models that check a spec, by `python -m skyband.framework.spec.reference`. A field in bold is required.\n"
)
_PAGES: Final = {
    "spec.md": "# Spec fields: job, quality, window, schedule\n\n"
    "Every field of a spec except [source, sources and lookups](spec-source.md), [scoring, tokens and statistics](spec-scoring.md),\n"
    "[queries](spec-queries.md), and [sink and alerts](spec-sink.md).\n"
    "[Write a spec](../how-to/write-a-spec.md) shows the fields in use.\n\n"
    "```sh\nskyband render specs/flights.yaml    # a spec with all defaults\n```\n",
    "spec-source.md": "# Spec fields: source, sources and lookups\n\n"
    "Where the rows of a job come from, and the tables whose columns they take. [Read files](../how-to/read-files.md) and\n"
    "[Look up columns](../how-to/lookups.md) show the fields in use.\n\n"
    "```sh\nskyband explain specs/flights.yaml\n```\n",
    "spec-scoring.md": "# Spec fields: scoring, tokens and statistics\n\n"
    "The entries of `scoring`, `tokens` and `stats`, which [queries](spec-queries.md) name. "
    "[Expressions](expressions.md)\nhas the language of scores.\n\n```sh\nskyband explain specs/itineraries.yaml\n```\n",
    "spec-sink.md": "# Spec fields: sink and alerts\n\n"
    "Where the tables of a job are, who else gets its changes, and what messages are sent. [Query results](../how-to/query-results.md)\n"
    "shows the tables in use.\n\n```sh\nskyband explain specs/flights.yaml\n```\n",
    "spec-queries.md": "# Spec fields: queries\n\n"
    "The entries of `queries` about rows, one section per query type. [Pairs](spec-queries-pairs.md) and [objects and\n"
    "groups](spec-queries-objects.md) have pages of their own, and [Spec fields](spec.md) the other sections of a spec.\n\n"
    "```sh\nskyband explain specs/topk_flights.yaml\n```\n",
    "spec-queries-pairs.md": "# Spec fields: queries about pairs\n\n"
    "The entries of `queries` about pairs of rows and similar sets, one section per query type. "
    "[Spec fields: queries](spec-queries.md)\nhas the others.\n\n"
    "```sh\nskyband explain specs/itineraries.yaml\n```\n",
    "spec-queries-objects.md": "# Spec fields: queries about objects and groups\n\n"
    "The entries of `queries` about what many rows report on or make up, one section per query type. "
    "[Spec fields: queries](spec-queries.md)\nhas the others.\n\n"
    "```sh\nskyband explain specs/groups_flights.yaml\n```\n",
}
_SOURCE: Final = ("Source", "OneOfSources", "SourceColumn", "EventTime", "Operations", "Lookup", "Validity")
_SCORING: Final = ("ExpressionScoring", "Keep", "GlobalScoring", "Term", "LinearScoring", "FunctionScoring", "Tokens", "Statistics")
_SINK: Final = ("Sink", "KafkaSink", "Alert")
_QUERIES: Final = ("QueryWindow", "Hop", "QueriesFrom", "SortKey")
_SECTIONS: Final = {"Job": "The top level"}
_KINDS: Final = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`", "null": "nothing"}

Schema = Mapping[str, Any]


def reference_pages() -> dict[str, str]:
    """Return the text of every page by its file name. O(fields)."""
    schema = model_schema()
    models = {"Job": schema, **{name: model for name, model in schema["$defs"].items() if "properties" in model}}
    pages = {page: [f"{head}\n{_NOTE}"] for page, head in _PAGES.items()}
    for name in _in_order_of_use(models):
        page = _page(name, models[name])
        lines = pages[page]
        description = _one_line(models[name].get("description", ""))
        lines += [f"## {_title(name, models[name])}", "", description, "", *_table(models[name], models, page)]
        if models[name].get("additionalProperties") not in (False, None):
            lines += ["", "Other fields are its arguments."]
        lines.append("")
    return {page: "\n".join(lines).rstrip() + "\n" for page, lines in pages.items()}


def _page(name: str, model: Schema) -> str:
    """Return the file name of the page with the section of a model."""
    if name in _SOURCE:
        return "spec-source.md"
    if name in _SINK:
        return "spec-sink.md"
    if name in _SCORING:
        return "spec-scoring.md"
    if {"object", "group"} & set(model["properties"]):
        return "spec-queries-objects.md"
    if name == "Between" or "between" in model["properties"]:
        return "spec-queries-pairs.md"
    return "spec-queries.md" if name in _QUERIES or _title(name, model).startswith("Query type ") else "spec.md"


def _in_order_of_use(models: Mapping[str, Schema]) -> list[str]:
    """Return the names of the models, each after the first model that refers to it."""
    found: list[str] = []

    def visit(name: str) -> None:
        if name not in found and name in models:
            found.append(name)
            for part in models[name]["properties"].values():
                for inner in _referred(part):
                    visit(inner)

    visit("Job")
    return found


def _referred(part: Any) -> Iterator[str]:
    """Yield the names of the models that a part of the schema refers to."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key == "$ref":
                yield value.rsplit("/", 1)[-1]
            elif key not in ("default", "examples", "discriminator"):
                yield from _referred(value)
    elif isinstance(part, list):
        for value in part:
            yield from _referred(value)


def _title(name: str, model: Schema) -> str:
    """Return the heading of a model; a query type is named by its word in a spec."""
    type_ = model["properties"].get("type", {}).get("const")
    return _SECTIONS.get(name) or (f"Query type {type_}" if type_ else name)


def _table(model: Schema, models: Mapping[str, Schema], page: str) -> Iterator[str]:
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    needed = model.get("required", ())
    for name, field in model["properties"].items():
        shown = f"**`{name}`**" if name in needed else f"`{name}`"
        default = f"`{_plain(field['default'])}`" if field.get("default") not in (None, [], {}) else ""
        # A mapping as default is the defaults of that section, which its own table lists.
        default = "" if isinstance(field.get("default"), dict) else default
        meaning = field.get("description") or models.get(next(_referred(field), ""), {}).get("description", "")
        meaning = meaning or ("Chooses the type." if "const" in field else "")
        cells = (shown, _kind(field, models, page), default, _one_line(meaning))
        yield "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _kind(part: Schema, models: Mapping[str, Schema], page: str) -> str:
    """Return the type of a value in words, with links as seen from ``page``."""
    if "$ref" in part:
        name: str = part["$ref"].rsplit("/", 1)[-1]
        if name not in models:
            return name
        title = _title(name, models[name])
        target = _page(name, models[name])
        return f"[{title}]({'' if target == page else target}#{title.lower().replace(' ', '-')})"
    if "const" in part:
        return f"`{_plain(part['const'])}`"
    if "enum" in part:
        return _any_of([f"`{_plain(v)}`" for v in part["enum"]])
    for several in ("anyOf", "oneOf"):
        if several in part and not all(set(p) <= {"required"} for p in part[several]):
            return _any_of(list(dict.fromkeys(_kind(p, models, page) for p in part[several] if p.get("type") != "null")))
    types = part.get("type", "string")
    if isinstance(types, list):
        return _any_of([_KINDS[t] for t in types]) + _example(part)
    if types == "array":
        return f"list of {_kind(part.get('items', {}), models, page)}"
    if types == "object":
        # The schema states a rule for names as a pattern.
        inner: Schema | bool = next(iter(part.get("patternProperties", {}).values()), part.get("additionalProperties", True))
        return f"mapping: name to {_kind(inner, models, page) if isinstance(inner, Mapping) else 'any value'}"
    return _KINDS[types] + _bounds(part) + _example(part)


def _any_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _bounds(part: Schema) -> str:
    least, most = part.get("minimum"), part.get("maximum")
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    if least is not None:
        return f" from {least:,}"
    if most is not None:
        return f" up to {most:,}"
    return f" above {part['exclusiveMinimum']:,}" if "exclusiveMinimum" in part else ""


def _example(part: Schema) -> str:
    examples = part.get("examples")
    return f", such as {_any_of([f'`{_plain(e)}`' for e in examples])}" if examples else ""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _one_line(text: str) -> str:
    """Return a description as one line, with ``<`` escaped for Markdown."""
    return " ".join(text.split()).replace("<", "&lt;")


if __name__ == "__main__":
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE_DIRECTORY
    for file, text in reference_pages().items():
        (directory / file).write_text(text, encoding="utf-8")
