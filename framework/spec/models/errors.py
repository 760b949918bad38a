"""Turn the data of a document into a `Job`, and the problems that `walk` finds into errors with positions.

What is wrong is reported and marked as poisoned; the job that comes back has nothing, or something hollow, in its place, so that the rest
of the spec can still be checked in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from annotated_types import BaseMetadata
from pydantic import BaseModel, Discriminator, Tag, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from skyband.framework.base.errors import Where, one_of
from skyband.framework.base.units import DURATION_HINT
from skyband.framework.queries.models import QueryWindow
from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.spec.models.job import Job, as_one, merged
from skyband.framework.spec.models.scoring import WindowSpec
from skyband.framework.spec.models.source import TYPES
from skyband.framework.spec.parsing.document import Document, Path
from skyband.framework.spec.parsing.positions import Place
from skyband.operators.spelling import closest

# Interpret the annotations of the models: the shape of a value, its validation, and a stand-in for an invalid one.
#
# Everything here is read off the models themselves (annotations, aliases, discriminators, descriptions); nothing is said about a particular
# section, type or field.

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


# Walk the data of a spec along the models: build a `Job` of the valid parts, and a `Problem` for every other one.
#
# Every section, query and field is judged on its own by pydantic, so one mistake hides no other. What is wrong is left out where the model
# has a default, else a hollow value stands in for it (``Shape.hollow``).

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


_TYPES_ELSEWHERE: Final[dict[str, str]] = {
    "varchar": "string", "datetime": "timestamp", "number": "double", "short": "int", "smallint": "int", "tinyint": "int",
    "numeric": "decimal(18,2)", "decimal": "decimal(18,2)",
}  # fmt: skip


def read_job(doc: Document) -> Job | None:
    """Return the job of ``doc`` with stand-ins for wrong values, or None if there is none. Errors are added to ``doc``."""
    if doc.bad(()):
        return None
    lost = {name for name in fields_of(Job) if (name,) in doc.poisoned}
    job, problems = walk(as_one({name: value for name, value in doc.data.items() if name not in lost}))
    _report([_Reported(doc, p) for p in problems if p.kind != EMPTY])
    _report([_Reported(doc, p) for p in problems if p.kind == EMPTY])
    return merged(job)


@dataclass(frozen=True, slots=True)
class _Reported:
    """A problem, with the words that its messages share."""

    doc: Document
    problem: Problem

    @property
    def path(self) -> Path:
        return self.problem.path

    @property
    def name(self) -> str:
        return str(self.path[-1]) if self.path else ""

    @property
    def field(self) -> str:
        return f"'{self.name}'" if self.path and isinstance(self.path[-1], str) else "an item"

    @property
    def value(self) -> Any:
        return value_at(self.doc.data, self.path)

    @property
    def shown(self) -> str:
        return self.doc.shown(self.path)

    @property
    def place(self) -> Place | None:
        return self.doc.places.get(self.path)

    @property
    def raw(self) -> str:
        return self.place.raw if self.place is not None else ""

    @property
    def description(self) -> str | None:
        """Return the model's description of the field for a hint."""
        info = self.problem.info
        return f"{self.name}: {info.description}" if info is not None and info.description else None

    @property
    def of_key(self) -> Where:
        """The place of what is wrong: the field's name, if that is it."""
        return self.doc.where_key(self.path) if self.problem.key else self.doc.where_value(self.path)

    def say(self, code: str, message: str, hint: str | None = None, where: Where | None = None) -> None:
        self.doc.add(code, message, where or self.doc.where_value(self.path), hint)


def _report(reported: list[_Reported]) -> None:
    """Report every problem once, unless it follows from another error, and poison all of them."""
    guesses = {t.path: _guess(t) for t in reported if t.problem.kind == UNKNOWN}
    # A misspelled field is one mistake, not an unknown field and a missing one.
    meant = {(*path[:-1], guess) for path, guess in guesses.items() if guess}
    orders: _Orders = {}
    for t in reported:
        if t.problem.kind != EMPTY and _split_value(t, orders):
            t.doc.poisoned.add(t.path)
    for t in reported:
        if t.problem.kind == MISSING and t.path in meant:
            t.doc.poisoned.add(t.path)
        if t.doc.bad(t.path):
            continue
        if t.problem.kind == UNKNOWN:
            _unknown_field(t, guesses.get(t.path))
        else:
            _WORDS.get(t.problem.kind, _other)(t)
        t.doc.poisoned.add(t.path)


_Orders: TypeAlias = dict[Path, tuple[list[Any], dict[Any, int]]]


def _split_value(t: _Reported, orders: _Orders) -> bool:
    """Whether the field is the rest of an unquoted value with a comma, as in ``{price: decimal(10,2)}``; says so once.

    ``orders`` remembers the order of a mapping's names.
    """
    doc, path = t.doc, t.path
    siblings = value_at(doc.data, path[:-1])
    if not path or not isinstance(siblings, dict) or siblings.get(path[-1], "") is not None:
        return False
    if path[:-1] not in orders:
        orders[path[:-1]] = list(siblings), {name: n for n, name in enumerate(siblings)}
    names, order = orders[path[:-1]]
    at = order[path[-1]] - 1
    while at > 0 and siblings[names[at]] is None:
        at -= 1
    before = (*path[:-1], names[at])
    place = doc.places.get(before)
    if at < 0 or place is None or place.style or place.raw.count("(") <= place.raw.count(")"):
        return False
    if not doc.bad(before):
        whole = ", ".join([place.raw, *(str(n) for n in names[at + 1 : names.index(path[-1]) + 1])])
        whole = "***" if place.secret else whole
        doc.add("SKY-E104", "inside braces, YAML ends an unquoted value at the comma", doc.where_value(before), f'quote it: "{whole}"')
        doc.poisoned.add(before)
    return True


def _unknown_field(t: _Reported, guess: str | None) -> None:
    known = _known(t.problem.model)
    hint = f"did you mean '{guess}'?" if guess else f"known fields: {one_of(known, 20)}" if known else None
    if t.value is None and any(c in t.name for c in "()+-*/<>=. ,'\""):
        hint = "if this is part of the value before it, quote that value"
    elif guess is None:
        home = next((place for place, m in homes(Job) if t.name in fields_of(m) and m is not t.problem.model), None)
        if home is None and t.problem.model is WindowSpec and t.name in fields_of(QueryWindow):
            home = "the window of a query"
        hint = f"'{t.name}' belongs under {home}" if home else hint
    t.say("SKY-E110", f"unknown field '{t.name}' in {path_name(t.path[:-1])}", hint, t.doc.where_key(t.path))


def _known(model: type[BaseModel] | None) -> list[str]:
    return list(fields_of(model)) if model is not None else []


def _guess(t: _Reported) -> str | None:
    """Return the field that an unknown one probably means."""
    there = value_at(t.doc.data, t.path[:-1])
    return closest(t.name, [f for f in _known(t.problem.model) if f not in there])


def _missing(t: _Reported) -> None:
    parent = t.doc.where_key(t.path[:-1]) if t.path[:-1] else t.doc.where_value(())
    t.say("SKY-E111", f"{path_name(t.path[:-1])} needs the field '{t.name}'", t.description, parent)


def _empty(t: _Reported) -> None:
    t.say("SKY-E112", f"'{t.name}' has no value", "give it one, or leave the field out", t.doc.where_key(t.path))


def _text(t: _Reported) -> None:
    if isinstance(t.value, bool) and t.place is not None:
        means = "true" if t.value else "false"
        t.say("SKY-E104", f"YAML reads {t.shown} as the truth value {means}; {t.field} takes text", f'quote it: "{t.raw}"')
    elif t.value is None:
        t.say("SKY-E112", f"{t.field} has no value", t.description)
    elif isinstance(t.value, (int, float)):
        t.say("SKY-E104", f"YAML reads {t.shown} as a number; {t.field} takes text", f'quote it: "{t.raw}"')
    else:
        t.say("SKY-E112", f"{t.field} takes text, not {kind_name(t.value)}", t.description)


def _no_query_type(t: _Reported) -> None:
    hint = f"types: {one_of(query_type_names())}"
    t.say("SKY-E111", f"{path_name(t.path)} needs the field 'type'", hint, t.doc.where_key(t.path))


def _wrong_query_type(t: _Reported) -> None:
    _not_allowed(t.doc, (*t.path, "type"), list(query_type_names()))


def _wrong_word(t: _Reported) -> None:
    expected = str(t.problem.context.get("expected", ""))
    _not_allowed(t.doc, t.path, [x.strip("'") for x in expected.replace(" or ", ", ").split(", ")])


def _not_allowed(doc: Document, path: Path, allowed: list[str]) -> None:
    value = value_at(doc.data, path)
    place = doc.places.get(path)
    if isinstance(value, bool) and place is not None:
        hint: str | None = f'quote it: "{place.raw}"' if place.raw in allowed else f"allowed: {one_of(allowed)}"
        doc.add("SKY-E104", f"YAML reads {doc.shown(path)} as the truth value {str(value).lower()}", doc.where_value(path), hint)
        return
    guess = closest(str(value), allowed) if isinstance(value, str) else None
    hint = f"did you mean '{guess}'?" if guess else f"allowed: {one_of(allowed)}"
    doc.add("SKY-E113", f"'{path[-1]}' cannot be {doc.shown(path) if value is not None else 'empty'}", doc.where_value(path), hint)


def _duration(t: _Reported) -> None:
    why = str(t.problem.context.get("why", "a number and a unit are needed"))
    plain = t.place is not None and not t.place.variables
    t.say("SKY-E115", f"{t.shown} is not a usable duration: {why}" if plain else f"not a usable duration for {t.field}", DURATION_HINT)


def _size(t: _Reported) -> None:
    t.say("SKY-E115", f"{t.shown} is not a size", "write a number and b, k, m or g, such as 256m")


def _percent(t: _Reported) -> None:
    t.say("SKY-E115", f"{t.shown} is not a share of 0% to 100%", "write a number and %, such as 1%")


def _batches(t: _Reported) -> None:
    t.say("SKY-E115", f"{t.shown} is not a number of batches", "write it as 100 batches")


def _column_type(t: _Reported) -> None:
    value = str(t.value).lower()
    guess = _TYPES_ELSEWHERE.get(value) or closest(value, TYPES)
    hint = f"did you mean {guess!r}?" if guess else f"types: {one_of([*TYPES, 'decimal(p,s)'])}"
    t.say("SKY-E113", f"{t.shown} is not a column type", hint)


def _of_kind(what: str) -> Callable[[_Reported], None]:
    def say(t: _Reported) -> None:
        t.say("SKY-E112", f"{t.field} takes {what}, not {t.shown if t.raw else kind_name(t.value)}", t.description)

    return say


def _bound(words: str, name: str) -> Callable[[_Reported], None]:
    def say(t: _Reported) -> None:
        bound = t.problem.context.get(name, "")
        t.say("SKY-E114", f"{t.field} must be {words} {f'{bound:,}' if isinstance(bound, int) else bound}, not {t.shown}")

    return say


def _pattern(t: _Reported) -> None:
    if t.name == "expectation":
        hint = "use a name that begins with expect_, such as expect_column_values_to_not_be_null"
        t.say("SKY-E113", f"{t.shown} is not the name of an expectation", hint)
        return
    hint = "use letters, digits and _, not a digit first"
    if t.path[:2] == ("source", "schema"):
        hint += "; 'from:' names the column in the source"
    t.say("SKY-E116", f"{t.field if t.problem.key else t.shown} cannot be used as a name", hint, t.of_key)


def _too_long(t: _Reported) -> None:
    most = t.problem.context.get("max_length", 64)
    message = f"'{t.name if t.problem.key else t.shown}' is longer than {most} characters"
    t.say("SKY-E116" if t.problem.key else "SKY-E114", message, None if t.problem.key else t.description, t.of_key)


def _too_many(t: _Reported) -> None:
    t.say("SKY-E114", f"{t.field} has more than {t.problem.context.get('max_length', 0):,} entries", t.description, t.of_key)


def _too_short(t: _Reported) -> None:
    t.say("SKY-E116" if t.problem.key else "SKY-E114", f"{t.field} must not be empty", None if t.problem.key else t.description, t.of_key)


def _container(what: str) -> Callable[[_Reported], None]:
    def say(t: _Reported) -> None:
        t.say("SKY-E112", f"{t.field} takes {what}, not {kind_name(t.value)}", t.description)

    return say


def _section(t: _Reported) -> None:
    t.say("SKY-E112", f"{t.field} takes fields, such as {{name: value}}, not {kind_name(t.value)}", _window_meant(t) or t.description)


def _window_meant(t: _Reported) -> str | None:
    """Return a hint for a window that is written as its length or its number of rows alone."""
    if t.problem.model is None or t.name != "window" or t.place is None or t.place.secret or t.place.variables:
        return None
    for name, shape in (("count", int), ("time", str)):
        if isinstance(t.value, shape) and not isinstance(t.value, bool):
            try:
                WindowSpec.model_validate({name: t.value})
            except ValidationError:
                continue
            return f"write window: {{{name}: {t.value}}}"
    return None


def _other(t: _Reported) -> None:
    t.say("SKY-E112", f"{t.field} has a value of the wrong kind ({t.shown})", t.description)


def _by_kind(*of: tuple[Iterable[str], Callable[[_Reported], None]]) -> Mapping[str, Callable[[_Reported], None]]:
    return {kind: say for kinds, say in of for kind in kinds}


_WORDS: Final = _by_kind(
    ((MISSING,), _missing),
    ((EMPTY,), _empty),
    ((NO_TYPE,), _no_query_type),
    ((WRONG_TYPE,), _wrong_query_type),
    (("string_type", "string_sub_type"), _text),
    (("literal_error",), _wrong_word),
    (("duration",), _duration),
    (("size",), _size),
    (("percent",), _percent),
    (("batches",), _batches),
    (("column_type",), _column_type),
    (("int_type", "int_parsing", "int_from_float"), _of_kind("a whole number")),
    (("bool_type", "bool_parsing"), _of_kind("true or false")),
    (("float_type", "float_parsing", "finite_number"), _of_kind("a number")),
    (("greater_than_equal",), _bound("at least", "ge")),
    (("greater_than",), _bound("more than", "gt")),
    (("less_than_equal",), _bound("at most", "le")),
    (("less_than",), _bound("less than", "lt")),
    (("string_pattern_mismatch",), _pattern),
    (("string_too_long",), _too_long),
    (("too_long",), _too_many),
    (("string_too_short", "too_short"), _too_short),
    (("tuple_type", "list_type"), _container("a list, such as [a, b]")),
    (("dict_type", "model_type", "model_attributes_type"), _section),
)


def path_name(path: Path) -> str:
    """Return a path in user notation, such as ``queries.hot.k``."""
    if not path:
        return "the spec"
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" if n else p for n, p in enumerate(path))


def kind_name(value: Any) -> str:
    """Return the kind of a value in words."""
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
    """Return the value at a path of plain data, or None."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data
