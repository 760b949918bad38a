"""The JSON schema of a spec, generated from the models, for editors: ``skyband schema`` prints it.

A schema has to accept whatever ``validate`` accepts, or editors would mark good specs: so every value may also be text with ``${NAME}``
in it, and every other spelling of a value is in its pattern. What it does not say is left to ``validate``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Union

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from skyband.framework.base.units import Name
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.models.job import Job

# What pydantic says of a model as a JSON schema, made fit for specs: no nulls, ``${NAME}`` in every value, words for hovering.

_VARIABLE: Final = r"\$\{"
_KEPT: Final = ("title", "description", "default", "examples")
"""What is said of a field, whatever its values are."""
_TEXTS: Final = {
    "integer": (r"^\s*[-+]?[0-9][0-9_.]*\s*$|\$\{", 'a whole number, or "${NAME}"'),
    "number": (r"^\s*[-+]?[0-9.][0-9_.eE+-]*\s*$|\$\{", 'a number, or "${NAME}"'),
    "boolean": (r"^([Tt](rue)?|TRUE|[Ff](alse)?|FALSE|[Yy](es)?|YES|[Nn]o?|NO|[Oo](n|ff)|ON|OFF|1|0)$|\$\{", 'true or false, or "${NAME}"'),
    "array": (r"^\s*\$\{[A-Za-z0-9_]+\}\s*$", 'a list, such as [a, b], or a parameter that is one, as "${name}"'),
    "object": (r"^\s*\$\{[A-Za-z0-9_]+\}\s*$", 'fields, such as {name: value}, or a parameter that has them, as "${name}"'),
}
"""Text that is taken for a value of the type, and what an editor says of other text."""


def for_editors(schema: Any) -> Any:
    """The schema with all of this in it; the one given stays as it is. O(its size)."""
    if isinstance(schema, list):
        return [for_editors(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: for_editors(s) for key, s in schema.items()}
    return _with_words(_named(_with_variables(_any_of(_without_null(result)))))


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the nulls pydantic allows in optional fields: a field without a value is left out of a spec. Without the defaults of
    sections, too, which are not spelled as a spec does.
    """
    result = {key: s for key, s in schema.items() if key != "default" or (s is not None and not isinstance(s, dict))}
    values = [s for s in result.get("anyOf", []) if s != {"type": "null"}]
    if len(values) == 1:
        del result["anyOf"]
        return {**values[0], **result}
    return {**result, "anyOf": values} if values else result


def _any_of(schema: dict[str, Any]) -> dict[str, Any]:
    """With ``anyOf`` for kinds of values: text with a parameter in it may be of several."""
    if "oneOf" not in schema or all(set(s) == {"required"} for s in schema["oneOf"]):
        return schema
    return {"anyOf" if key == "oneOf" else key: s for key, s in schema.items() if key != "discriminator"}


def _with_variables(schema: dict[str, Any]) -> dict[str, Any]:
    """With text that has ``${NAME}`` in it as a further spelling of a plain value."""
    type_ = schema.get("type")
    if isinstance(type_, str) and type_ in _TEXTS:
        pattern, what = _TEXTS[type_]
        made = {**schema, "type": [type_, "string"], "pattern": pattern, "patternErrorMessage": what}
        rules = {key: made.pop(key) for key in ("oneOf", "not") if key in made}  # on which fields go together: text has none
        return {**made, "if": {"type": type_}, "then": rules} if rules else made
    if isinstance(schema.get("pattern"), str):
        # The length of what a variable stands for is not that of its name.
        return {key: s for key, s in schema.items() if key != "maxLength"} | {"pattern": f"{schema['pattern']}|{_VARIABLE}"}
    if "enum" in schema and type_ == "string":
        said = {key: s for key, s in schema.items() if key in _KEPT}
        values = {key: s for key, s in schema.items() if key not in said}
        return {**said, "anyOf": [values, {"type": "string", "pattern": _VARIABLE}]}
    return schema


def _named(schema: dict[str, Any]) -> dict[str, Any]:
    """A mapping by names with the names' pattern said apart: editors complete its values then, and mark other names."""
    if len(schema.get("patternProperties", {})) != 1:
        return schema
    ((pattern, value),) = schema["patternProperties"].items()
    rest = {key: s for key, s in schema.items() if key != "patternProperties"}
    return {**rest, "propertyNames": {**rest.get("propertyNames", {}), "pattern": pattern}, "additionalProperties": value}


def _with_words(schema: dict[str, Any]) -> dict[str, Any]:
    """With the model's words for the field that tells it from others, such as ``type`` of a query."""
    fields = schema.get("properties")
    if not isinstance(fields, dict) or "description" not in schema:
        return schema
    described = {
        name: {**field, "description": f"{field['const']}: {schema['description']}"}
        for name, field in fields.items()
        if "const" in field and "description" not in field
    }
    return {**schema, "properties": {**fields, **described}}


# Extend the JSON schema of a job to specs with included files, profiles and parameters.
#
# A part of a spec (a profile, an included file, or a spec that has them) may lack fields that other parts have. So its schema is that of a
# job without required fields.

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


SCHEMA_PATH: Final = Path(__file__).resolve().parents[3] / "specs" / "job.schema.json"
"""Where the generated schema is kept in the repository."""

_TITLE: Final = "Skyband job"


def model_schema() -> dict[str, Any]:
    """The models' own schema: of specs without variables, in the spellings that are written, with the query types of this installation."""
    models = tuple(kind.model for kind in QUERY_TYPES.all().values())
    queries = dict[Name, Annotated[Union[models], Field(discriminator="type")]]  # type: ignore[valid-type]  # noqa: UP007
    described = FieldInfo.merge_field_infos(Job.model_fields["queries"], annotation=queries)
    whole = create_model("Job", __base__=Job, __doc__=Job.__doc__, queries=(queries, described))
    return whole.model_json_schema(by_alias=True)


def job_schema() -> dict[str, Any]:
    """The schema of a whole spec (JSON Schema 2020-12), with the query types and source formats of this installation."""
    schema = of_specs(for_editors(model_schema()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": _TITLE}


def fragment_schema() -> dict[str, Any]:
    """The schema of a file that specs include."""
    whole = job_schema()
    return {"$schema": whole["$schema"], "$defs": whole["$defs"], "$ref": FRAGMENT, "title": _TITLE}


def schema_text(fragment: bool = False) -> str:
    """The schema of a spec, or of a file that specs include, as the file holds it."""
    return json.dumps(fragment_schema() if fragment else job_schema(), indent=2, sort_keys=False) + "\n"


def is_schema(text: str) -> bool:
    """Whether ``text`` is such a schema, of this version or another."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("title") == _TITLE
