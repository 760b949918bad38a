"""Interpret the annotations of the models: the shape of a value, its validation, and a stand-in for an invalid one.

Everything here is read off the models themselves (annotations, aliases, discriminators, descriptions); nothing is said about a particular
section, type or field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import BaseMetadata
from pydantic import BaseModel, Discriminator, Tag, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

_MAPPINGS: Final = (dict, Mapping)
_LISTS: Final = (tuple, list, Sequence)
_PLAIN: Final[tuple[tuple[type, Any], ...]] = ((str, ""), (int, 0), (float, 0.0), (bool, False))
"""Hollow values of plain types."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a value is not good: pydantic's type of error and its context."""

    kind: str
    context: Mapping[str, Any]


class Shape:
    """What an annotation says of a value. At most one of ``model``, ``items`` and ``branches`` is there; else the value is plain.

    ``items`` (and, of mappings, ``keys``) are the shapes inside a container; ``branches`` those of a union whose ``choose`` tells them
    apart by the value.
    """

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        bare, self.metadata = _bare(annotation)
        self.choose: Callable[[Any], Any] | None = next(
            (m.discriminator for m in self.metadata if isinstance(m, Discriminator) and callable(m.discriminator)), None
        )
        self.branches: dict[Any, Shape] = {}
        self.nullable = False
        if get_origin(bare) in {Union, UnionType}:
            if self.choose is not None:
                self.branches = {_tag(a): Shape(a) for a in get_args(bare)}
            elif len(others := [a for a in get_args(bare) if a is not NoneType]) == 1:
                self.nullable = True
                bare, more = _bare(others[0])
                self.metadata = (*more, *self.metadata)
        self.bare = bare
        self.model: type[BaseModel] | None = bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None

    @cached_property
    def keys(self) -> Shape | None:
        """The shape of a mapping's keys."""
        return Shape(get_args(self.bare)[0]) if get_origin(self.bare) in _MAPPINGS else None

    @cached_property
    def items(self) -> Shape | None:
        """The shape of a mapping's values, or of a list's items."""
        if get_origin(self.bare) in _MAPPINGS:
            return Shape(get_args(self.bare)[1])
        return Shape(get_args(self.bare)[0]) if get_origin(self.bare) in _LISTS else None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        if self.items is None:
            return TypeAdapter(self.annotation)
        # Of a container only its own kind and size are checked; what is in it has shapes of its own.
        inside: Any = dict[Any, Any] if self.keys is not None else tuple[Any, ...]
        for constraint in self.metadata:
            if isinstance(constraint, BaseMetadata):  # validators of a container would look at what is in it
                inside = Annotated[inside, constraint]
        return TypeAdapter(inside | None if self.nullable else inside)

    def check(self, value: Any) -> tuple[Any, Fault | None]:
        """The value as pydantic makes it (a container's items as they are), or why it is not good."""
        try:
            return self._adapter.validate_python(value), None
        except ValidationError as e:
            return None, fault(e)

    def hollow(self) -> Any:
        """A value of this shape that says nothing, for one that is missing or wrong."""
        if self.nullable:
            return None
        if self.model is not None:
            return hollow_model(self.model, {})
        if self.branches:
            return next(iter(self.branches.values())).hollow()
        if self.items is not None:
            return {} if self.keys is not None else ()
        if get_origin(self.bare) is Literal:
            return get_args(self.bare)[0]
        return next((empty for type_, empty in _PLAIN if self.bare is type_ or type_ in get_args(self.bare)), None)


@cache
def fields_of(model: type[BaseModel]) -> Mapping[str, tuple[str, Shape, FieldInfo]]:
    """Name as a spec spells it -> (name in the model, shape, field), in the order of the model."""
    return {f.alias or name: (name, Shape(_annotation(f)), f) for name, f in model.model_fields.items()}


def hollow_model(model: type[BaseModel], values: Mapping[str, Any]) -> BaseModel:
    """A model of ``values`` (by name in the model) without a look at them, hollow where a field is needed and not given."""
    needed = {name: shape.hollow() for name, shape, f in fields_of(model).values() if f.is_required() and name not in values}
    return model.model_construct(**{**needed, **values})


def is_closed(model: type[BaseModel]) -> bool:
    """Whether the model refuses fields it does not know."""
    return model.model_config.get("extra") == "forbid"


def homes(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The places of a spec below ``model`` where fields have a fixed home, as a user writes them; ``model`` itself is the first."""
    yield path or "the top level", model
    for key, (_, shape, _) in fields_of(model).items():
        inner = shape.items if shape.items is not None and shape.keys is None else shape
        possible = [inner.model] if inner.model is not None else [branch.model for branch in inner.branches.values()]
        closed = [m for m in possible if m is not None and is_closed(m)]
        if len(closed) == 1:
            yield from homes(closed[0], f"{path}.{key}" if path else key)


def fault(e: ValidationError) -> Fault:
    """The first of pydantic's errors."""
    first = e.errors(include_url=False, include_input=False)[0]
    return Fault(first["type"], first.get("ctx", {}))


def _annotation(f: FieldInfo) -> Any:
    return Annotated[(f.annotation, *f.metadata)] if f.metadata else f.annotation


def _bare(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type without what is annotated, and what is: pydantic's ``Field`` as the constraints it stands for."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    bare, *metadata = get_args(annotation)
    return bare, tuple(m for one in metadata for m in (one.metadata if isinstance(one, FieldInfo) else (one,)))


def _tag(annotation: Any) -> Any:
    return next((m.tag for m in _bare(annotation)[1] if isinstance(m, Tag)), None)
