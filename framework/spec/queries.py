"""Models of the query types of a spec, told apart by ``type``."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from skyband.framework.spec.units import WHOLE, Duration, Name, Number, PositiveDuration, Text

K = Annotated[int, Field(ge=1, le=1_000_000), WHOLE]


class QueryWindow(BaseModel):
    """A window of a query: no larger than the job's and of a kind the job's window has."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    count: Annotated[int, Field(ge=1, le=2**40), WHOLE] | None = Field(default=None, description="The most recent n rows of a key.")
    time: PositiveDuration | None = Field(default=None, description="Rows no older than this.")


class Between(BaseModel):
    """Pairs only between two sides of the stream; other values pair with nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    column: Name = Field(description="The column that says which side a row is on.")
    a: str | int | float | bool = Field(description="Value of side a.")
    b: str | int | float | bool = Field(description="Value of side b.")


class Tokens(BaseModel):
    """How a text column becomes a set of tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    column: Name = Field(description="A text column.")
    pattern: Text = Field(default=r"\w+", description="Regular expression of a token.")


class _Query(BaseModel):
    """Fields of every query type."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    window: QueryWindow | None = Field(default=None, description="Default: the job's window.")
    where: Text | None = Field(default=None, description="Only these rows or pairs take part.")
    carry: tuple[Name, ...] = Field(default=(), description="Columns to carry into the result, beside the id.")
    every: PositiveDuration | None = Field(default=None, description="Changes at multiples of this time instead of after every event.")
    operator: Text | None = Field(default=None, description="Operator to use instead of the compiler's choice.")


class _Bounds(_Query):
    min_score: Number | None = Field(default=None, description="Only with at least this score.")
    max_score: Number | None = Field(default=None, description="Only with at most this score.")


class QueriesFrom(BaseModel):
    """A table with a row per query: name, k, window, where, bounds, weight_<column>, parameters. Read when a run starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    format: Literal["csv", "parquet", "delta"] = Field(description="Format of the table.")
    path: Text = Field(description="File or folder of the table, from the folder of the spec. ${NAME} is read from the environment.")
    direction: Literal["min", "max"] | None = Field(
        default=None, description="Which scores rank first, for queries by weights; default: max."
    )
    ignore: tuple[Text, ...] = Field(default=(), description="Columns of the table that say nothing to Skyband.")


_FROM = Field(default=None, description="A table with a row per query: many queries as one, told apart by the column 'query'.")
_SCORING = Field(default=None, description="Name of a scoring function. Without it, queries_from brings weights.")


class TopK(_Bounds):
    """The k best rows."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["scoring", "k"]}, {"required": ["queries_from"]}]})

    type: Literal["topk"]
    scoring: Name | None = _SCORING
    k: K | None = Field(default=None, description="How many; with queries_from, for rows that do not say.")
    queries_from: QueriesFrom | None = _FROM


class Threshold(_Query):
    """All rows whose score passes a bound, or two bounds on different sides."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": ["scoring"]}, {"required": ["queries_from"]}]})

    type: Literal["threshold"]
    scoring: Name | None = _SCORING
    queries_from: QueriesFrom | None = _FROM
    at_least: Number | None = Field(default=None, description="score >= this")
    above: Number | None = Field(default=None, description="score > this")
    at_most: Number | None = Field(default=None, description="score <= this")
    below: Number | None = Field(default=None, description="score < this")


class _Pairs(_Query):
    between: Between | None = Field(default=None, description="Pair only rows of two sides.")
    k: K = Field(description="How many pairs.")
    min_score: Number | None = Field(default=None, description="Only pairs with at least this score.")


class TopKPairs(_Pairs):
    """The k best pairs of rows."""

    type: Literal["topk_pairs"]
    scoring: Name = Field(description="Name of a scoring function.")
    max_score: Number | None = Field(default=None, description="Only pairs with at most this score.")


class TopKSimilarSets(_Pairs):
    """The k most similar pairs of token sets."""

    type: Literal["topk_similar_sets"]
    tokens: Tokens = Field(description="How rows become sets.")
    similarity: Literal["jaccard", "cosine", "dice", "overlap"] = Field(default="jaccard", description="Similarity of two sets.")


class Skyline(_Query):
    """Rows that no other row beats in every dimension."""

    type: Literal["skyline"]
    dimensions: dict[Name, Literal["min", "max", "equal"]] = Field(min_length=1, description="Column -> which end is better.")
    band: Annotated[int, Field(ge=1, le=4096), WHOLE] = Field(
        default=1, description="Fewer than this many rows beat a row (1: the skyline)."
    )
    distinct: bool = Field(default=False, description="A newer equal row counts as beating an older one.")


class _Loyalty(_Query):
    object: Name = Field(description="The column that names the object.")
    criteria: Text = Field(description="Condition whose duration is counted.")
    stale_after: Duration | None = Field(default=None, description="An object without a row for this long no longer meets the criteria.")


class TopKLoyalty(_Loyalty):
    """The k objects that met the criteria longest within the window."""

    type: Literal["topk_loyalty"]
    k: K = Field(description="How many.")


class ThresholdLoyalty(_Loyalty):
    """All objects that met the criteria at least this long within the window."""

    type: Literal["threshold_loyalty"]
    at_least: PositiveDuration = Field(description="Time within the window.")


Query = Annotated[TopK | Threshold | TopKPairs | TopKSimilarSets | Skyline | TopKLoyalty | ThresholdLoyalty, Field(discriminator="type")]

PAIR_TYPES: Final = frozenset({"topk_pairs", "topk_similar_sets"})
LOYALTY_TYPES: Final = frozenset({"topk_loyalty", "threshold_loyalty"})
QUERY_TYPES: Final = ("topk", "threshold", "topk_pairs", "topk_similar_sets", "skyline", "topk_loyalty", "threshold_loyalty")
