"""Check the section ``vectors``: its columns are lists of numbers."""

from __future__ import annotations

from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.vectors import VECTOR_TYPES
from skyband.framework.spec.parsing.document import Path


def check_vectors(s: Scope) -> None:
    """Report all errors of the vectors."""
    for name in s.job.vectors:
        path: Path = ("vectors", name)
        if s.doc.bad(path) or not s.key_column(path, name, lists=True):
            continue
        type_ = s.types[name]
        if type_ is not None and type_ not in VECTOR_TYPES:
            hint = f"give it the type array<float> or array<double>, or derive one: {name}_vector: {{sql: ..., type: array<double>}}"
            s.doc.add("SKY-E126", f"a vector needs a list of numbers, but '{name}' is {type_}", s.doc.where_key(path), hint)
