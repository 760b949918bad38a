"""Walk the data of a spec along the models: build a `Job` of the valid parts, and a `Problem` for every other one.

Every section, query and field is judged on its own by pydantic, so one mistake hides no other. What is wrong is left out where the model
has a default, else a hollow value stands in for it (``Shape.hollow``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.models.annotations import Fault, Shape, fault, fields_of, hollow_model, is_closed
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.document import Path

EMPTY: Final = "empty"
"""An optional field without a value (``where:``), which pydantic would take for one that is not there."""
UNKNOWN: Final = "extra_forbidden"
MISSING: Final = "missing"
NO_TYPE: Final = "query_type_missing"
WRONG_TYPE: Final = "query_type_unknown"

_BAD: Final = object()


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at ``path``: pydantic's type of error, or one of the names above.

    ``key``: the field's name is wrong, not its value. ``model`` is the model that has (or, unknown, lacks) the field, ``info`` what it
    says about it; both None for items of mappings and lists.
    """

    path: Path
    kind: str
    context: Mapping[str, Any] = field(default_factory=dict)
    key: bool = False
    model: type[BaseModel] | None = None
    info: FieldInfo | None = None


def walk(data: Mapping[str, Any]) -> tuple[Job, list[Problem]]:
    """The job of ``data`` (plain dicts, lists, scalars) and its problems, fields in the order of the models, unknown ones last.

    O(size of the data) if it is good, times its depth at most if not.
    """
    step = _Walk()
    return cast(Job, step.model(Job, data, ())), step.problems


class _Walk:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def model(self, model: type[BaseModel], data: Any, path: Path) -> BaseModel:
        """A model of ``data``: pydantic's if it is good as a whole, else made of its good fields."""
        refused: Fault | None = None
        if path and not (is_closed(model) and _has_empty(data)):
            try:
                return model.model_validate(data)
            except ValidationError as e:
                refused = fault(e)
        if not isinstance(data, dict):
            self.problems.append(Problem(path, refused.kind if refused else "model_type"))
            return hollow_model(model, {})
        before = len(self.problems)
        values: dict[str, Any] = {}
        known: set[str] = set()
        for spelled, (name, shape, info) in fields_of(model).items():
            key = name if spelled not in data and name in data and model.model_config.get("populate_by_name") else spelled
            at = (*path, key)
            known.add(key)
            if key not in data:
                if info.is_required():
                    self.problems.append(Problem(at, MISSING, model=model, info=info))
            elif data[key] is None and shape.nullable:
                self.problems.append(Problem(at, EMPTY, model=model, info=info))
            else:
                value = self.value(shape, data[key], at, model, info)
                if value is not _BAD:
                    values[name] = value
        if is_closed(model):
            self.problems += [Problem((*path, key), UNKNOWN, model=model) for key in data if key not in known]
        if refused is not None and len(self.problems) == before:
            self.problems.append(Problem(path, refused.kind, refused.context))  # what a validator of the whole model says
        return hollow_model(model, values)

    def value(self, shape: Shape, data: Any, path: Path, model: type[BaseModel] | None = None, info: FieldInfo | None = None) -> Any:
        """The value of ``data``, or ``_BAD`` with its problems noted."""
        if len(path) == 2 and path[0] == "queries":
            return self.query(data, path)
        if shape.choose is not None:
            return self.value(shape.branches[shape.choose(data)], data, path, model, info)
        if shape.model is not None and isinstance(data, dict):
            return self.model(shape.model, data, path)
        if shape.model is not None:
            self.problems.append(Problem(path, "model_type", model=model, info=info))
            return hollow_model(shape.model, {})
        value, wrong = shape.check(data)
        if wrong is not None:
            self.problems.append(Problem(path, wrong.kind, wrong.context, model=model, info=info))
            return _BAD
        if shape.keys is not None and shape.items is not None:
            return self.mapping(shape.keys, shape.items, value, path)
        if shape.items is not None:
            walked = [self.value(shape.items, item, (*path, i)) for i, item in enumerate(value)]
            # Items keep their places: those of later items would move.
            return tuple(shape.items.hollow() if v is _BAD else v for v in walked)
        return value

    def mapping(self, keys: Shape, items: Shape, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """The mapping without entries whose name is wrong, hollow where a value is; without queries of which nothing is known."""
        result = {}
        for name, item in data.items():
            at = (*path, name)
            _, wrong = keys.check(name)
            if wrong is not None:
                self.problems.append(Problem(at, wrong.kind, wrong.context, key=True))
                continue
            value = self.value(items, item, at)
            if value is not _BAD or path != ("queries",):
                result[name] = items.hollow() if value is _BAD else value
        return result

    def query(self, data: Any, path: Path) -> Any:
        """A query by the model of its type; ``_BAD`` if it has none."""
        if not isinstance(data, dict):
            self.problems.append(Problem(path, "model_type"))
            return _BAD
        type_ = data.get("type")
        model = model_of_query(type_) if isinstance(type_, str) else None
        if model is None:
            self.problems.append(Problem(path, WRONG_TYPE if "type" in data else NO_TYPE))
            return _BAD
        return self.model(model, data, path)


def _has_empty(data: Any) -> bool:
    if isinstance(data, dict):
        return any(_has_empty(v) for v in data.values())
    return any(map(_has_empty, data)) if isinstance(data, list) else data is None


def query_type_names() -> Sequence[str]:
    """Return the names of all query types, in the order of messages."""
    return tuple(QUERY_TYPES.all())


def model_of_query(type_name: str) -> type[BaseModel] | None:
    """Return the model of queries of this type, or None for an unknown type."""
    found = QUERY_TYPES.get(type_name)
    return None if found is None else found.model
