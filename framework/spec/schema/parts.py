"""Extend the JSON schema of a job to specs with included files, profiles and parameters.

A part of a spec (a profile, an included file, or a spec that has them) may lack fields that other parts have. So its schema is that of a
job without required fields.
"""

from __future__ import annotations

from typing import Any, Final

_PART: Final = "Part"
_REF: Final = "#/$defs/"
FRAGMENT: Final = f"{_REF}Fragment"
"""The schema of an included file, within that of specs."""
_NAMES: Final = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 64}
_FILE: Final = {"type": "string", "pattern": r"\.ya?ml$", "patternErrorMessage": "a .yaml file below the directory of the spec"}
_FIELDS: Final[dict[str, Any]] = {
    "include": {
        "title": "Include",
        "description": "A file or a list of files, below the spec's directory, with default values of fields. A later file overrides an "
        "earlier one, and the spec overrides all.",
        "anyOf": [_FILE, {"type": "array", "items": _FILE, "maxItems": 20}],
    },
    "parameters": {
        "title": "Parameters",
        "description": "Values that replace ${name} in the spec and its included files.",
        "type": "object",
        "propertyNames": _NAMES,
    },
    "profiles": {
        "title": "Profiles",
        "description": "Fields that override those of the spec in the profile that --profile or SKYBAND_PROFILE selects.",
        "type": "object",
        "propertyNames": _NAMES,
        "additionalProperties": {"anyOf": [{"$ref": f"{_REF}Profile"}, {"type": "null"}]},
    },
}


def of_specs(job: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of specs: a whole job, or a part of one if it has includes or profiles. It contains ``FRAGMENT``."""
    sections = job["$defs"]
    whole = {key: s for key, s in job.items() if key not in ("$defs", "pattern", "patternErrorMessage")} | {"type": "object"}
    part = _partial(whole)
    profile = _with(part, "Fields that override those of the spec.", "parameters")
    fragment = _with(part, "Fields of specs that include this file.", "parameters", "profiles")
    parts = {f"{name}{_PART}": _partial(section) for name, section in sections.items()}
    return {
        "$defs": {**sections, **parts, "Profile": profile, "Fragment": fragment, "Whole": _with(whole, job["description"], *_FIELDS),
                  "Including": _with(part, job["description"], *_FIELDS)},
        "description": job["description"],
        "if": {"anyOf": [{"required": ["include"]}, {"required": ["profiles"]}]},
        "then": {"$ref": f"{_REF}Including"},
        "else": {"$ref": f"{_REF}Whole"},
    }  # fmt: skip


def _with(schema: dict[str, Any], description: str, *names: str) -> dict[str, Any]:
    return {**schema, "description": description, "properties": {**schema["properties"], **{n: _FIELDS[n] for n in names}}}


def _partial(schema: Any) -> Any:
    """Return the schema without what is required; of values that their fields distinguish, any of them. O(its size)."""
    if isinstance(schema, list):
        return [_partial(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if (key in ("required", "minProperties", "minItems", "discriminator", "default") and not isinstance(value, dict)) or key == "not":
            continue
        if key in ("oneOf", "anyOf") and all(set(s) == {"required"} for s in value):
            continue
        if key == "$ref":
            made[key] = f"{value}{_PART}"
        else:
            made["anyOf" if key == "oneOf" else key] = _partial(value)
    return made
