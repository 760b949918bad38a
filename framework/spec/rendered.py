"""Render a spec in full, with all defaults. Environment variables stay as written unless they are requested by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from skyband.framework.base.errors import SkybandError, redacted
from skyband.framework.base.units import format_duration
from skyband.framework.queries.models import QueryWindow
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.document import Document, Path
from skyband.framework.spec.parsing.positions import is_secret

HIDDEN: Final = "***"
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{(\w+)\}")


def rendered(job: Job, document: Document, env: Mapping[str, str], show: frozenset[str] = frozenset()) -> dict[str, Any]:
    """``job`` as plain values, in the order of the models; what ``document`` says is spelled as it says it.

    A value that came from the environment is as written, ``${NAME}`` and all; those of the names in ``show`` are put in. Secrets, by the
    names of their fields, are ``***``. SkybandError SKY-E201 for a name of ``show`` that is a secret's, or that the spec does not use.
    """
    written = document.variables()
    used = {name for text in written.values() for name in _REFERENCE.findall(text)}
    for name in sorted(show):
        if is_secret((name,)):
            raise SkybandError("SKY-E201", f"a variable called {name} is taken for a secret, and never shown")
        if name not in used:
            raise SkybandError(
                "SKY-E201", f"the spec does not use the variable {name}", hint=f"it uses: {', '.join(sorted(used)) or 'none'}"
            )

    def leaf(value: Any, path: Path) -> Any:
        if is_secret(path):
            return HIDDEN
        if path in written:
            return _REFERENCE.sub(lambda m: env[m[1]] if m[1] in show else m[0], written[path])
        return redacted(value) if isinstance(value, str) else value

    made: dict[str, Any] = _merged(job, document.data, (), leaf)
    return made


Leaf = Callable[[Any, Path], Any]


def _merged(value: Any, said: Any, path: Path, leaf: Leaf) -> Any:
    """What the spec says at ``path``, with defaults where ``value``, what was made of it, has more."""
    if isinstance(said, Mapping):
        if isinstance(value, BaseModel):
            return _fields(value, said, path, leaf)
        inner = value if isinstance(value, Mapping) else {}
        return {k: _merged(inner.get(k), v, (*path, k), leaf) for k, v in said.items()}
    if isinstance(said, list):
        made = value if isinstance(value, (list, tuple)) and len(value) == len(said) else [None] * len(said)
        return [_merged(one, v, (*path, n), leaf) for n, (one, v) in enumerate(zip(made, said, strict=True))]
    return leaf(said, path)


def _fields(model: BaseModel, said: Mapping[str, Any], path: Path, leaf: Leaf) -> dict[str, Any]:
    made: dict[str, Any] = {}
    fields = type(model).model_fields
    for name, field in fields.items():
        key = field.alias or name
        if key in said:
            made[key] = _merged(getattr(model, name), said[key], (*path, key), leaf)
            continue
        default = _default(model, name, field)
        if default is not None:
            made[key] = default
    # What a model takes beside its fields: arguments of expectations.
    made |= {k: _merged(None, v, (*path, k), leaf) for k, v in said.items() if k not in made}
    return made


def _default(model: BaseModel, name: str, field: FieldInfo) -> Any:
    """The default of a field as a spec would spell it; None if leaving it out is the only way to say it."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "default" in extra and field.default is not None:
        return extra["default"]
    value = getattr(model, name)
    if isinstance(value, QueryWindow):
        # That of the job, for a query over a result (``chains.resolved``).
        spelled = {"count": value.count, "time": None if value.time is None else format_duration(value.time).replace(",", "")}
        return {field: said for field, said in spelled.items() if said is not None}
    if isinstance(value, BaseModel):
        return _fields(value, {}, (), lambda v, _: v) or None
    if value is None or (isinstance(value, (tuple, dict)) and not value):
        return None
    return list(value) if isinstance(value, tuple) else value
