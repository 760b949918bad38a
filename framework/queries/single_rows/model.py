"""Entries that score single rows, spelled out or as a list of queries (``queries_from``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from skyband.framework.base.units import Name, Text
from skyband.framework.queries.models import QueryModel, QueryPart


class QueriesFrom(QueryPart):
    """A table with a row per query: name, k, window, where, bounds, weight_<column>, parameters. Read when a run starts."""

    format: Literal["csv", "parquet", "delta"] = Field(description="Format of the table.")
    path: Text = Field(description="File or directory of the table, from the directory of the spec. ${NAME} is read from the environment.")
    direction: Literal["min", "max"] | None = Field(
        default=None, description="Which scores rank first, for queries by weights; default: max."
    )
    ignore: tuple[Text, ...] = Field(default=(), description="Columns of the table that say nothing to Skyband.")


class ScoredRows(QueryModel):
    """Rows by a score. ``bounds``: the fields that bound it; ``ranked``: whether entries have a ``k`` (and lists a direction per row)."""

    bounds: ClassVar[tuple[str, ...]]
    ranked: ClassVar[bool]

    scoring: Name | None = Field(default=None, description="Name of a scoring function. Without it, queries_from brings weights.")
    queries_from: QueriesFrom | None = Field(
        default=None, description="A table with a row per query: many queries as one; the column 'query' has the name of each."
    )

    @classmethod
    @abstractmethod
    def bad_bounds(cls, bounds: Mapping[str, float | None]) -> str | None:
        """Why the bounds of a row of a list cannot be used together, or None."""
