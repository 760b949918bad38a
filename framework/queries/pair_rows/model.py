"""The two sides of a pair, as part of an entry."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, model_validator

from skyband.framework.base.items import SCORE_VALUE, ItemShape, Part, by_score
from skyband.framework.base.units import Name
from skyband.framework.queries.models import QueryModel, QueryPart
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import NEVER


def _or_sources(schema: dict[str, Any]) -> None:
    sides = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    schema["properties"]["source"] = sides | {"description": "Two of several sources, side a first: short for column, a and b."}
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["source"]}]


class Between(QueryPart):
    """Pairs only between two sides of the stream; other values pair with nothing.

    Of several sources, ``{source: [asks, bids]}`` is short for the column ``source`` with these values.
    """

    model_config = ConfigDict(json_schema_extra=_or_sources)

    column: Name = Field(description="The column that says which side a row is on; of several sources, the column source does.")
    a: str | int | float | bool = Field(description="Value of side a.")
    b: str | int | float | bool = Field(description="Value of side b.")

    @model_validator(mode="before")
    @classmethod
    def _of_sources(cls, given: Any) -> Any:
        if isinstance(given, dict) and isinstance(sides := given.get("source"), list) and len(given) == 1 and len(sides) == 2:
            return {"column": "source", "a": sides[0], "b": sides[1]}
        return given


_BY_AGE = (Part("older", "the older object of the pair"), Part("newer", "the newer object of the pair"))
_BY_SIDE = (Part("a", "side a of the pair"), Part("b", "side b of the pair"))


def pair_of(between: Between | None) -> ItemShape:
    """Two rows, by age or by side, and their score."""
    parts = _BY_AGE if between is None else _BY_SIDE
    return ItemShape(parts, by_score(parts), (SCORE_VALUE,))


# What can be wrong with any entry about pairs: its sides, a window too small for a pair.


def check_room(s: Scope, path: Path, query: QueryModel) -> None:
    """A window of one row holds no pair."""
    own, job, at = query.window.count if query.window is not None else None, s.job.window.count, (*path, "window")
    least = min((n for n in (own, job) if n is not None), default=None)
    if least is None or least >= 2 or s.doc.bad_below(at) or s.doc.bad_below(("window",)):
        return
    where = s.doc.where_value((*at, "count")) if own is not None else s.doc.where_value(("window", "count"))
    s.doc.add("SKY-E143", "a window of 1 row holds no pair", where)


def check_between(s: Scope, path: Path, between: Between) -> None:
    """The sides must be two values of the column's type."""
    doc = s.doc
    if not s.column((*path, "column"), between.column):
        return
    type_ = s.types[between.column]
    if type_ is not None and type_ not in {"string", "boolean", "int", "bigint"}:
        if all(doc.bad((*path, side)) for side in ("a", "b")):
            return
        said = f"sides come from a text, whole number or boolean column, '{between.column}' is {type_}"
        doc.add("SKY-E126", said, doc.where_value((*path, "column")))
        return
    for side in ("a", "b"):
        _check_side(s, (*path, side), between.column, type_, getattr(between, side))
    if between.a == between.b and type(between.a) is type(between.b) and not doc.bad_below(path):
        doc.add("SKY-E117", "both sides are the same value", doc.where_value((*path, "b")), "leave 'between' out for pairs of one stream")


def _check_side(s: Scope, at: Path, column: str, type_: str | None, value: object) -> None:
    doc = s.doc
    if type_ is None or doc.bad(at):
        return
    if type_ == "string" and not isinstance(value, str):
        reads = "a truth value" if isinstance(value, bool) else "a number"
        place = doc.places.get(at)
        said = f"YAML reads {doc.shown(at)} as {reads}, '{column}' is text"
        doc.add("SKY-E104", said, doc.where_value(at), f'quote it: "{place.raw if place else value}"')
    elif type_ == "boolean" and not isinstance(value, bool):
        doc.add("SKY-E126", f"'{column}' is true or false", doc.where_value(at))
    elif type_ in {"int", "bigint"} and (isinstance(value, bool) or not isinstance(value, int)):
        doc.add("SKY-E126", f"'{column}' is a whole number", doc.where_value(at))
    elif type_ in {"int", "bigint"} and isinstance(value, int) and abs(value) > NEVER:
        doc.add("SKY-E126", f"whole numbers go from -{NEVER:,} to {NEVER:,}", doc.where_value(at))
