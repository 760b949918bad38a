"""What pydantic says of a model as a JSON schema, made fit for specs: no nulls, ``${NAME}`` in every value, words for hovering."""

from __future__ import annotations

from typing import Any, Final

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
