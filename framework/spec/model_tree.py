"""What the models say about a path of a spec: which model describes it, its fields and their descriptions, and stand-ins for mending."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from skyband.framework.spec import models, queries
from skyband.framework.spec.document import Path

# What stands in for a field that is missing or wrong; the path is poisoned, so nothing is ever said about the stand-in.
STAND_IN: Final[dict[str, Any]] = {
    "job": "job", "format": "csv", "schema": {"x": "double"}, "id": ["x"], "event_time": {"column": "x"}, "column": "x",
    "type": "double", "sql": "x", "derive": {"x": "x"}, "where": "true", "name": "x", "expect": "true", "table": "x",
    "expectation": "expect_x", "k": 1,
    "expression": "0", "combine": "sum", "terms": [{"sum": "x"}], "linear": {"x": 1}, "scoring": "x", "dimensions": {"x": "min"},
    "object": "x", "criteria": "true", "tokens": {"column": "x"}, "a": "a", "b": "b", "path": "x", "cron": "* * * * *",
    "at_least": "1 hour",
    "window": {"time": "1 day"}, "sink": {"path": "x"}, "queries": {"x": {"type": "topk", "scoring": "x", "k": 1}},
    "source": {"format": "csv", "path": "x", "schema": {"x": "double"}, "id": ["x"], "event_time": {"column": "x"}},
}  # fmt: skip

TYPES_ELSEWHERE: Final[dict[str, str]] = {
    "text": "string", "str": "string", "varchar": "string", "datetime": "timestamp", "number": "double", "real": "double", "short": "int",
    "smallint": "int", "tinyint": "int", "numeric": "decimal(18,2)", "decimal": "decimal(18,2)",
}  # fmt: skip

MODELS: Final[tuple[type[BaseModel], ...]] = (
    models.Job, models.Source, models.EventTime, models.Quality, models.RowRule, models.WindowSpec, models.Run, models.Sink,
    models.Schedule,
)  # fmt: skip

QUERY_MODELS: Final[dict[str, type[BaseModel]]] = {
    "topk": queries.TopK, "threshold": queries.Threshold, "topk_pairs": queries.TopKPairs, "skyline": queries.Skyline,
}  # fmt: skip

_PARTS: Final[tuple[type[BaseModel], ...]] = (
    models.ExpressionScoring, models.GlobalScoring, models.LinearScoring, models.Term, models.Keep, queries.Between,
    queries.QueriesFrom,
)  # fmt: skip

_IN_QUERY: Final[dict[str, type[BaseModel]]] = {
    "window": queries.QueryWindow, "between": queries.Between, "queries_from": queries.QueriesFrom,
}  # fmt: skip

_SCORINGS: Final[dict[str, type[BaseModel]]] = {"<global>": models.GlobalScoring, "<linear>": models.LinearScoring}

_SECTIONS: Final[dict[str, type[BaseModel]]] = {
    "source": models.Source, "quality": models.Quality, "window": models.WindowSpec, "sink": models.Sink, "run": models.Run,
    "schedule": models.Schedule,
}  # fmt: skip


def model_at(data: Any, path: Path) -> type[BaseModel] | None:
    """The model that describes the mapping at ``path``."""
    if not path:
        return models.Job
    head, rest = path[0], path[1:]
    value = value_at(data, path)
    if head == "queries" and rest:
        query = value_at(data, path[:2])
        model = QUERY_MODELS.get(str(query.get("type"))) if isinstance(query, dict) else None
        if len(rest) == 1 or model is None:
            return model
        return _IN_QUERY.get(str(rest[1]))
    if head == "scoring" and len(rest) == 1:
        kind = models.scoring_kind(value)
        return _SCORINGS.get(kind, models.ExpressionScoring)
    if head == "scoring" and len(rest) > 1:
        return models.Keep if rest[1] == "keep" else models.Term if rest[1] == "terms" else None
    if head == "transform" and len(rest) == 1:
        return models.DeriveStep if models.step_kind(value) == "<derive>" else models.WhereStep
    if head == "transform":
        return models.DerivedColumn
    if head == "quality" and len(rest) == 2:
        return models.RowRule if rest[0] == "rows" else models.TableCheck
    if head == "source" and rest:
        return models.EventTime if rest[0] == "event_time" else models.SourceColumn if len(rest) == 2 else None
    return _SECTIONS.get(str(head)) if not rest else None


def field_names(model: type[BaseModel]) -> list[str]:
    """Names of a model's fields as a spec spells them."""
    return [f.alias or name for name, f in model.model_fields.items()]


def describe(path: Path) -> str | None:
    """The description of a field from its model, for a hint."""
    name = path[-1] if path else None
    for model in (*MODELS, *QUERY_MODELS.values(), *_PARTS):
        for key, f in model.model_fields.items():
            if (f.alias or key) == name and f.description:
                return f"{name}: {f.description}"
    return None


def section_name(model: type[BaseModel]) -> str:
    """Where a model's fields belong, for a hint."""
    return {
        models.Job: "the top level", models.Source: "source", models.EventTime: "source.event_time", models.Run: "run", models.Sink: "sink",
        models.WindowSpec: "window", models.Quality: "quality", models.Schedule: "schedule", models.RowRule: "quality.rows",
    }.get(model, "another field")  # fmt: skip


def path_name(path: Path) -> str:
    """A path as a user reads it, such as ``queries.hot.k``."""
    if not path:
        return "the spec"
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" if n else p for n, p in enumerate(path))


def kind_name(value: Any) -> str:
    """The kind of a value in plain words."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "fields"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return "a truth value"
    return "a number" if isinstance(value, (int, float)) else "text"


def value_at(data: Any, path: Path) -> Any:
    """The value at a path of plain data, or None."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data
