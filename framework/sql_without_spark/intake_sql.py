"""The SQL of an intake without Spark: the steps of ``transform``, and the row rules."""

from __future__ import annotations

from typing import NamedTuple

from skyband.framework.plan.model import Derive, IntakeNode, RowRule
from skyband.framework.sql_without_spark.expression import Expression, condition


class Step(NamedTuple):
    """A step of ``transform``: the derived column ``name``, or a filter if that is None."""

    name: str | None
    expression: Expression


class IntakeSql:
    """The expressions of ``node``, each over the columns that exist at its place.

    The constructor raises SkybandError SKY-E531 for SQL that only Spark can evaluate, and if DuckDB is not installed.
    """

    def __init__(self, node: IntakeNode) -> None:
        taken = {name for lookup in node.lookups for name in lookup.taken}
        types = {f.name: f.type for f in node.fields if f.source_name is not None or f.name in taken}
        steps, filters = [], 0
        for t in node.transforms:
            if isinstance(t, Derive):
                type_ = node.field(t.name).type
                steps.append(Step(t.name, Expression(t.sql, types, type_, f"derived column {t.name}")))
                types = {**types, t.name: type_}
            else:
                filters += 1
                steps.append(Step(None, condition(t.sql, types, f"filter {filters} of transform")))
        self.steps: tuple[Step, ...] = tuple(steps)
        self.rules: tuple[tuple[RowRule, Expression], ...] = tuple((r, condition(r.sql, types, f"row rule {r.name}")) for r in node.rules)
