"""The scoring functions of a spec."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from skyband.framework.base.units import WHOLE, Name, Number, PositiveDuration, Text
from skyband.framework.spec.models.base import Model


class Keep(Model):
    """State to keep beyond the needs of the queries."""

    k: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = Field(description="The largest k of snapshots that are requested later.")


class ExpressionScoring(Model):
    """A score by any expression over a.<column> and b.<column> (pairs) or <column> (single rows)."""

    expression: Text = Field(description="The score. a is the older row of a pair, b the newer one.")
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


TERM_FUNCTIONS: Final = ("abs_difference", "squared_difference", "sum", "average", "product", "min", "max")


class Term(Model):
    """A local score of one column, times a weight. Use exactly one of the functions, or an expression."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [f]} for f in (*TERM_FUNCTIONS, "expression")]})

    abs_difference: Name | None = Field(default=None, description="abs(a.x - b.x)")
    squared_difference: Name | None = Field(default=None, description="(a.x - b.x) squared")
    sum: Name | None = Field(default=None, description="a.x + b.x")
    average: Name | None = Field(default=None, description="(a.x + b.x) / 2")
    product: Name | None = Field(default=None, description="a.x * b.x")
    min: Name | None = Field(default=None, description="min(a.x, b.x)")
    max: Name | None = Field(default=None, description="max(a.x, b.x)")
    expression: Text | None = Field(default=None, description="Any expression over a.<column> and b.<column> of one column.")
    monotone: bool = Field(
        default=False,
        description="Declare that the expression is loosely monotone, where that is not proven: for every value of one row, it rises or "
        "falls all the way as the other row's value moves away from it, upwards or downwards.",
    )
    weight: Number = Field(default=1.0, description="Factor of the term. A negative one turns the order round.")


class GlobalScoring(Model):
    """A monotone combination of per-attribute scores of a pair."""

    combine: Literal["sum", "product", "min", "max"] = Field(description="How the terms combine into one score.")
    terms: tuple[Term, ...] = Field(min_length=1, description="The terms.")
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


class LinearScoring(Model):
    """A weighted sum of columns of a single row."""

    linear: dict[Name, Number] = Field(min_length=1, description="Mapping: column to weight.")
    direction: Literal["min", "max"] = Field(default="max", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


class FunctionScoring(Model):
    """A scoring function of an installed package, over columns."""

    function: Name = Field(description="Name under which the package registers the function.")
    columns: dict[Name, Name] = Field(
        default_factory=dict, description="Mapping: parameter of the function to column. Default: the column with the parameter's name."
    )
    direction: Literal["min", "max"] = Field(default="min", description="Which scores rank first.")
    keep: Keep | None = Field(default=None, description="State to keep beyond the needs of the queries.")


def scoring_kind(value: Any) -> str:
    """Return the tag of the scoring model that a value is meant to be."""
    if isinstance(value, GlobalScoring) or (isinstance(value, dict) and ("combine" in value or "terms" in value)):
        return "<global>"
    if isinstance(value, LinearScoring) or (isinstance(value, dict) and "linear" in value):
        return "<linear>"
    if isinstance(value, FunctionScoring) or (isinstance(value, dict) and "function" in value):
        return "<function>"
    return "<expression>"


Scoring = Annotated[
    Annotated[ExpressionScoring, Tag("<expression>")]
    | Annotated[GlobalScoring, Tag("<global>")]
    | Annotated[LinearScoring, Tag("<linear>")]
    | Annotated[FunctionScoring, Tag("<function>")],
    Discriminator(scoring_kind),
]


# The window of a spec.


class WindowSpec(Model):
    """A sliding window: the most recent ``count`` rows, ``time``, or both (whichever ends first)."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["count"]}, {"required": ["time"]}]})

    count: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(default=None, description="The most recent N rows of a key.")
    time: PositiveDuration | None = Field(default=None, description="Rows no older than this.")
