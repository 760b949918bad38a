"""From the data of a document to a `Job`: pydantic's verdicts as errors with places and plain words.

What is wrong is reported, marked as poisoned and mended with a stand-in, so that the rest of the spec can still be checked in the same run.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from skyband.framework.errors import closest, one_of
from skyband.framework.spec import models, queries
from skyband.framework.spec.document import Document, Path
from skyband.framework.spec.model_tree import (
    MODELS,
    STAND_IN,
    TYPES_ELSEWHERE,
    describe,
    field_names,
    kind_name,
    model_at,
    path_name,
    section_name,
    value_at,
)
from skyband.framework.spec.units import DURATION_HINT

_ROUNDS: Final = 8


def shape(doc: Document) -> models.Job | None:
    """The job of ``doc``. Errors are added to it; a job with stand-ins comes back if it can be mended, None if nothing can be said."""
    if doc.bad(()):
        return None
    data = copy.deepcopy(doc.data)
    for lost in [p for p in doc.poisoned if len(p) == 1 and p[0] in STAND_IN]:
        data[str(lost[0])] = copy.deepcopy(STAND_IN[str(lost[0])])
    for _ in range(_ROUNDS):
        try:
            job = models.Job.model_validate(data)
            _empty_fields(doc, doc.data, ())
            return job
        except ValidationError as e:
            problems = e.errors(include_url=False, include_input=False, include_context=True)
            seen: set[Path] = set()
            # A misspelled field is one mistake, not an unknown field and a missing one.
            unknown = [_path(data, p["loc"], p["type"])[0] for p in problems if p["type"] == "extra_forbidden"]
            guesses = {u: _guess(data, u) for u in unknown}
            guessed = {(*u[:-1], g) for u, g in guesses.items() if g}
            paths = [_path(data, p["loc"], p["type"]) for p in problems]
            doc.poisoned.update([path for path, _ in paths if _split_value(doc, data, path)])
            for p, (path, is_key) in zip(problems, paths, strict=True):
                if path in seen:
                    continue
                seen.add(path)
                if p["type"] == "missing" and path in guessed:
                    doc.poisoned.add(path)
                if not doc.bad(path):
                    if p["type"] == "extra_forbidden":
                        _unknown_field(doc, data, path, guesses.get(path))
                    else:
                        _report(doc, data, path, is_key=is_key, kind=p["type"], ctx=p.get("ctx", {}))
                    doc.poisoned.add(path)
                _mend(data, path, is_key, p["type"])
    doc.poisoned.add(())
    return None


def _empty_fields(doc: Document, value: Any, path: Path) -> None:
    """An optional field without a value (``where:``) would pass for one that is not there; say so instead."""
    if isinstance(value, dict):
        for name, inner in value.items():
            at: Path = (*path, name)
            if inner is None and not doc.bad(at) and at[:2] != ("quality", "tables"):
                doc.add("SKY-E112", f"'{name}' has no value", doc.where_key(at), "give it one, or leave the field out")
                doc.poisoned.add(at)
            _empty_fields(doc, inner, at)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _empty_fields(doc, inner, (*path, i))


def _path(data: Any, loc: tuple[int | str, ...], kind: str) -> tuple[Path, bool]:
    """Pydantic's location without the tags of unions; whether it is about the key itself."""
    path: list[int | str] = []
    at: Any = data
    for n, part in enumerate(loc):
        if part == "[key]":
            return tuple(path), True
        if isinstance(at, dict) and part in at:
            # A union's tag can be spelled like a field; the tag comes first and is followed by more of the location.
            path.append(part)
            at = at[part]
        elif isinstance(at, list) and isinstance(part, int) and part < len(at):
            path.append(part)
            at = at[part]
        elif n == len(loc) - 1 and kind == "missing":
            path.append(part)
    return tuple(path), kind == "extra_forbidden"


def _report(doc: Document, data: Any, path: Path, *, is_key: bool, kind: str, ctx: Mapping[str, Any]) -> None:
    name = str(path[-1]) if path else ""
    at = doc.where_value(path)
    shown = doc.shown(path)
    place = doc.places.get(path)
    field = f"'{name}'" if isinstance(path[-1] if path else "", str) else "an item"
    if kind == "missing":
        parent = doc.where_key(path[:-1]) if path[:-1] else doc.where_value(())
        of = path_name(path[:-1])
        doc.add("SKY-E111", f"{of} needs the field '{name}'", parent, describe(path))
    elif kind in {"string_type", "string_sub_type"}:
        value = value_at(data, path)
        if isinstance(value, bool) and place is not None:
            means = "true" if value else "false"
            doc.add("SKY-E104", f"YAML reads {shown} as the truth value {means}; {field} takes text", at, f'quote it: "{place.raw}"')
        elif value is None:
            doc.add("SKY-E112", f"{field} has no value", at, describe(path))
        elif isinstance(value, (int, float)):
            doc.add("SKY-E104", f"YAML reads {shown} as a number; {field} takes text", at, f'quote it: "{place.raw if place else ""}"')
        else:
            doc.add("SKY-E112", f"{field} takes text, not {kind_name(value)}", at, describe(path))
    elif kind in {"literal_error", "union_tag_invalid", "union_tag_not_found"}:
        _not_allowed(doc, data, path, kind, ctx)
    elif kind == "duration":
        why = str(ctx.get("why", "a number and a unit are needed"))
        doc.add(
            "SKY-E115",
            f"{shown} is not a usable duration: {why}" if place and not place.variables else f"not a usable duration for {field}",
            at,
            DURATION_HINT,
        )
    elif kind == "size":
        doc.add("SKY-E115", f"{shown} is not a size", at, "write a number and b, k, m or g, such as 256m")
    elif kind == "column_type":
        value = str(value_at(data, path)).lower()
        guess = TYPES_ELSEWHERE.get(value) or closest(value, models.TYPES)
        hint = f"did you mean {guess!r}?" if guess else f"types: {one_of([*models.TYPES, 'decimal(p,s)'])}"
        doc.add("SKY-E113", f"{shown} is not a column type", at, hint)
    elif kind in {"int_type", "int_parsing", "int_from_float", "float_type", "float_parsing", "bool_type", "bool_parsing", "finite_number"}:
        value = value_at(data, path)
        what = "a whole number" if kind.startswith("int") else "true or false" if kind.startswith("bool") else "a number"
        doc.add(
            "SKY-E112", f"{field} takes {what}, not {shown if place and place.raw else kind_name(value_at(data, path))}", at, describe(path)
        )
    elif kind in {"greater_than_equal", "greater_than", "less_than_equal", "less_than"}:
        bound = next((v for k, v in ctx.items() if k in {"ge", "gt", "le", "lt"}), "")
        words = {"greater_than_equal": "at least", "greater_than": "more than", "less_than_equal": "at most", "less_than": "less than"}[
            kind
        ]
        bound = f"{bound:,}" if isinstance(bound, int) else bound
        doc.add("SKY-E114", f"{field} must be {words} {bound}, not {shown}", at)
    elif kind == "string_pattern_mismatch":
        where = doc.where_key(path) if is_key else at
        if name == "expectation":
            doc.add(
                "SKY-E113",
                f"{shown} is not the name of an expectation",
                at,
                "names begin with expect_, such as expect_column_values_to_not_be_null",
            )
            return
        what = f"'{name}'" if is_key else shown
        hint = "use letters, digits and _, not a digit first" + (
            "; 'from:' names the column in the source" if path[:2] == ("source", "schema") else ""
        )
        doc.add("SKY-E116", f"{what} cannot be used as a name", where, hint)
    elif kind in {"string_too_long", "string_too_short", "too_short"}:
        where = doc.where_key(path) if is_key else at
        empty = (
            f"{field} must not be empty"
            if kind != "string_too_long"
            else f"'{name if is_key else shown}' is longer than {ctx.get('max_length', 64)} characters"
        )
        doc.add("SKY-E116" if is_key else "SKY-E114", empty, where, None if is_key else describe(path))
    elif kind in {"dict_type", "model_type", "model_attributes_type", "tuple_type", "list_type"}:
        what = "a list, such as [a, b]" if kind in {"tuple_type", "list_type"} else "fields, such as {name: value}"
        doc.add("SKY-E112", f"{field if path else 'a spec'} takes {what}, not {kind_name(value_at(data, path))}", at, describe(path))
    else:
        doc.add("SKY-E112", f"{field} has a value of the wrong kind ({shown})", at, describe(path))


def _split_value(doc: Document, data: Any, path: Path) -> bool:
    """Whether the field at ``path`` is the rest of an unquoted value with a comma, as in ``{price: decimal(10,2)}``; says so once."""
    siblings = value_at(data, path[:-1])
    if not isinstance(siblings, dict) or siblings.get(path[-1], "") is not None:
        return False
    names = list(siblings)
    at = names.index(path[-1]) - 1
    while at > 0 and siblings[names[at]] is None:
        at -= 1
    before = (*path[:-1], names[at])
    place = doc.places.get(before)
    if at < 0 or place is None or place.style or place.raw.count("(") <= place.raw.count(")"):
        return False
    if not doc.bad(before):
        whole = ", ".join([place.raw, *(str(n) for n in names[at + 1 : names.index(path[-1]) + 1])])
        whole = "***" if place.secret else whole
        doc.add("SKY-E104", "inside braces, YAML ends a value without quotes at the comma", doc.where_value(before), f'quote it: "{whole}"')
        doc.poisoned.add(before)
    return True


def _unknown_field(doc: Document, data: Any, path: Path, guess: str | None) -> None:
    name = str(path[-1])
    model = model_at(data, path[:-1])
    known = field_names(model) if model is not None else []
    hint = f"did you mean '{guess}'?" if guess else f"known fields: {one_of(known, 20)}" if known else None
    if value_at(data, path) is None and any(c in name for c in "()+-*/<>=. ,'\""):
        hint = "if this belongs to the value before it, quote that value"
    elif path[:-1] == ("transform",) or guess is None:
        home = next((section_name(m) for m in MODELS if name in field_names(m) and m is not model), None)
        hint = f"'{name}' belongs under {home}" if home else hint
    doc.add("SKY-E110", f"unknown field '{name}' in {path_name(path[:-1])}", doc.where_key(path), hint)


def _guess(data: Any, path: Path) -> str | None:
    """The field that an unknown one at ``path`` was probably meant to be."""
    model = model_at(data, path[:-1])
    there = value_at(data, path[:-1])
    return (
        closest(str(path[-1]), [f for f in field_names(model) if f not in there]) if model is not None and isinstance(there, dict) else None
    )


def _not_allowed(doc: Document, data: Any, path: Path, kind: str, ctx: Mapping[str, Any]) -> None:
    if kind == "union_tag_not_found":
        doc.add("SKY-E111", f"{path_name(path)} needs the field 'type'", doc.where_key(path), f"types: {one_of(queries.QUERY_TYPES)}")
        return
    if kind == "union_tag_invalid":
        path = (*path, "type")
        allowed: list[str] = list(queries.QUERY_TYPES)
    else:
        expected = str(ctx.get("expected", ""))
        allowed = [x.strip("'") for x in expected.replace(" or ", ", ").split(", ")]
    value = value_at(data, path)
    place = doc.places.get(path)
    if isinstance(value, bool) and place is not None:
        hint: str | None = f'quote it: "{place.raw}"' if place.raw in allowed else f"allowed: {one_of(allowed)}"
        doc.add("SKY-E104", f"YAML reads {doc.shown(path)} as the truth value {str(value).lower()}", doc.where_value(path), hint)
        return
    guess = closest(str(value), allowed) if isinstance(value, str) else None
    hint = f"did you mean '{guess}'?" if guess else f"allowed: {one_of(allowed)}"
    doc.add("SKY-E113", f"'{path[-1]}' cannot be {doc.shown(path) if value is not None else 'empty'}", doc.where_value(path), hint)


def _mend(data: Any, path: Path, is_key: bool, kind: str) -> None:
    """Remove or replace what is wrong in ``data``, in place."""
    if not path:
        return
    if kind in {"union_tag_invalid", "union_tag_not_found"} or (
        kind in {"dict_type", "model_type", "model_attributes_type"} and path[0] == "queries"
    ):
        parent = value_at(data, path[:-1])
        if isinstance(parent, dict) and path[0] == "queries" and len(path) == 2 and len(parent) > 1:
            del parent[path[-1]]
        else:
            parent[path[-1]] = {"type": "topk", "scoring": "x", "k": 1}
        return
    parent = value_at(data, path[:-1])
    name = path[-1]
    if isinstance(parent, list) and isinstance(name, int):
        # Items keep their places: positions of later items would move.
        parent[name] = _item(path)
    elif isinstance(parent, dict):
        if is_key or kind == "extra_forbidden":
            value = parent.pop(name, None)
            if is_key and kind != "extra_forbidden" and not parent:
                parent["x"] = value
        elif kind == "missing" or (name in STAND_IN and name in parent and _required(data, path)):
            parent[str(name)] = copy.deepcopy(STAND_IN.get(str(name)))
        elif path[:2] == ("source", "schema") or (len(path) > 2 and path[-2] == "derive"):
            parent[str(name)] = "double" if path[0] == "source" else "x"
        elif path[-2:-1] == ("dimensions",):
            parent[str(name)] = "min"
        elif path[-2:-1] == ("linear",):
            parent[str(name)] = 1
        elif path[:-1] == ("scoring",):
            parent[str(name)] = {"expression": "0"}
        else:
            parent.pop(name, None)


def _item(path: Path) -> Any:
    at = path[-2] if len(path) > 1 else ""
    if at == "transform":
        return {"where": "true"}
    if path[:2] == ("quality", "rows"):
        return {"name": "x", "expect": "true"}
    if path[:2] == ("quality", "tables"):
        return {"table": "x", "expectation": "expect_x"}
    return {"sum": "x"} if at == "terms" else "x"


def _required(data: Any, path: Path) -> bool:
    model = model_at(data, path[:-1])
    if model is None:
        return True
    for name, f in model.model_fields.items():
        if (f.alias or name) == path[-1]:
            return f.is_required()
    return True
