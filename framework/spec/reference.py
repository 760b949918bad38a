"""Every field of a spec as a page of documentation, from the models: ``python -m skyband.framework.spec.reference`` writes it.

It is read off the JSON schema, which is the models' own: types, defaults, bounds and descriptions are said once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skyband.framework.spec.schema import model_schema

REFERENCE_PATH: Final = Path(__file__).resolve().parents[2] / "docs" / "reference.md"
"""Where the page is kept in the repository."""

_HEAD: Final = """\
# Every field of a spec

Made from the models that check a spec (`python -m skyband.framework.spec.reference`), as is the
JSON schema for editors, `specs/job.schema.json`. How fields are used is in [authors.md](authors.md). A field in bold has to be given.
"""
_SECTIONS: Final = {"Job": "The top level"}
_KINDS: Final = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`", "null": "nothing"}

Schema = Mapping[str, Any]


def reference_text() -> str:
    """The page as the file holds it. O(fields)."""
    schema = model_schema()
    models = {"Job": schema, **{name: model for name, model in schema["$defs"].items() if "properties" in model}}
    lines = [_HEAD]
    for name in _in_order_of_use(models):
        lines += [f"## {_title(name, models[name])}", "", _one_line(models[name].get("description", "")), "", *_table(models[name], models)]
        if models[name].get("additionalProperties") not in (False, None):
            lines += ["", "Further fields are its arguments."]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _in_order_of_use(models: Mapping[str, Schema]) -> list[str]:
    """Names of the models, each after the first that names it."""
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
    """Names of the models that a part of the schema refers to."""
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
    """A heading: of a query type the word a spec has for it."""
    type_ = model["properties"].get("type", {}).get("const")
    return _SECTIONS.get(name) or (f"Query type {type_}" if type_ else name)


def _table(model: Schema, models: Mapping[str, Schema]) -> Iterator[str]:
    yield "| field | what it is | default | meaning |"
    yield "|---|---|---|---|"
    needed = model.get("required", ())
    for name, field in model["properties"].items():
        shown = f"**`{name}`**" if name in needed else f"`{name}`"
        default = f"`{_plain(field['default'])}`" if field.get("default") not in (None, [], {}) else ""
        # What stands for a whole section by default is that section's defaults.
        default = "" if isinstance(field.get("default"), dict) else default
        meaning = field.get("description") or models.get(next(_referred(field), ""), {}).get("description", "")
        meaning = meaning or ("Chooses the type." if "const" in field else "")
        cells = (shown, _kind(field, models), default, _one_line(meaning))
        yield "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _kind(part: Schema, models: Mapping[str, Schema]) -> str:
    """What a value is, in words."""
    if "$ref" in part:
        name: str = part["$ref"].rsplit("/", 1)[-1]
        if name not in models:
            return name
        title = _title(name, models[name])
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if "const" in part:
        return f"`{_plain(part['const'])}`"
    if "enum" in part:
        return _any_of([f"`{_plain(v)}`" for v in part["enum"]])
    for several in ("anyOf", "oneOf"):
        if several in part and not all(set(p) <= {"required"} for p in part[several]):
            return _any_of(list(dict.fromkeys(_kind(p, models) for p in part[several] if p.get("type") != "null")))
    types = part.get("type", "string")
    if isinstance(types, list):
        return _any_of([_KINDS[t] for t in types]) + _example(part)
    if types == "array":
        return f"list of {_kind(part.get('items', {}), models)}"
    if types == "object":
        # Names that have to look like names stand in the schema as a pattern.
        inner: Schema | bool = next(iter(part.get("patternProperties", {}).values()), part.get("additionalProperties", True))
        return f"mapping: name to {_kind(inner, models) if isinstance(inner, Mapping) else 'any value'}"
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
    """A description without line breaks, and nothing in it that Markdown would take for a tag."""
    return " ".join(text.split()).replace("<", "&lt;")


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE_PATH).write_text(reference_text(), encoding="utf-8")
