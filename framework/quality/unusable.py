"""Report at the end of a run which rows queries could not use, which columns hold nothing, and whether these were too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan, QueryNode
from skyband.framework.plan.nodes import TokenNode

LOUD: Final = 0.01
"""The share of a query's rows from which on it is reported."""
TOO_MANY: Final = 4
"""Exit code of a run in which a query could not use more of its rows than ``quality.max_unusable`` allows."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a run's rows were of use for.

    ``objects`` were accepted. By entry of the spec, ``asked`` says how many of them it asks for (default: all), ``unusable`` how many of
    these it could not use. ``sent`` rows were not rejected as they were read; ``nulls``, by column, of them hold a null there.
    """

    objects: int = 0
    unusable: Mapping[str, int] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    sent: int = 0
    nulls: Mapping[str, int] = field(default_factory=dict)

    def of(self, query: str) -> tuple[int, int]:
        """Return (rows that the query could not use, rows that it asks for)."""
        unusable = self.unusable.get(query, 0)
        return unusable, max(unusable, self.asked.get(query, self.objects))

    def empty_columns(self) -> list[str]:
        """Return the columns in which no row has a value."""
        return sorted(c for c, n in self.nulls.items() if n and n == self.sent)

    def document(self) -> dict[str, object]:
        """Return what the outcome of a run says: the queries with unusable rows, and the empty columns."""
        shares = {q: self.of(q) for q, n in sorted(self.unusable.items()) if n}
        return {"unusable": {q: {"rows": n, "of": of} for q, (n, of) in shares.items()}, "empty_columns": self.empty_columns()}


def too_many(plan: Plan, unusable: int, asked: int) -> bool:
    """Return whether a query that could not use so many of the rows that it asks for fails the run."""
    if plan.max_unusable is None:
        return 0 < asked == unusable
    return plan.max_unusable < 100 and 100 * unusable > plan.max_unusable * asked


def report(plan: Plan, use: Use, first: bool, lines: Lines) -> int:
    """Report every query that could not use more than 1 % of its rows; return the exit code, 0 or ``TOO_MANY``.

    If the run is the job's ``first``, every column without a value is reported: mostly it has another name in the source. In later runs new
    rows may well have none.
    """
    empty = use.empty_columns()
    for column in empty if first else ():
        text = f"WARNING: column {column} is null in {_all(use.sent)} of this run: {_where_from(plan, column)}"
        lines.tell("warning", "empty_column", text, column=column, rows=use.sent)
    errors = []
    for query in plan.queries:
        unusable, asked = use.of(query.name)
        if unusable > LOUD * asked:
            text = f"WARNING: query {query.name} cannot use {_share(unusable, asked)}: {', '.join(_reasons(plan, query, empty))}"
            lines.tell("warning", "unusable", text, query=query.name, unusable=unusable, rows=asked)
        if too_many(plan, unusable, asked):
            allowed = "some must be of use" if plan.max_unusable is None else f"quality.max_unusable allows {plan.max_unusable:g} %"
            hint = "all results are written; fix the column or the score and rebuild, or allow it: quality: {max_unusable: 100%}"
            errors.append(SkybandError("SKY-E505", f"query {query.name} cannot use {_share(unusable, asked)}; {allowed}", hint=hint))
    if errors:
        lines.errors(errors)
    return TOO_MANY if errors else 0


def _all(rows: int) -> str:
    return "the only row" if rows == 1 else f"all {counted(rows, 'row')}"


def _share(part: int, whole: int) -> str:
    """How many rows, with their share: ``all 20 rows``, ``3 of the 20 rows (15.0 %)``."""
    if part == whole:
        return f"{_all(whole)} of this run that it asks for"
    return f"{part:,} of the {counted(whole, 'row')} of this run that it asks for ({min(99.9, 100 * part / whole):.1f} %)"


def _where_from(plan: Plan, column: str) -> str:
    found = plan.intake.field(column)
    looked_up = next((node for node in plan.intake.lookups if column in node.taken), None)
    if looked_up is not None:
        keys = ", ".join(own for own, _ in looked_up.on)
        return f"does the table of look-up {looked_up.name} have rows for the values of {keys}, and {column} in them?"
    if found.source_name is None:
        return f"what does its expression in `transform` come to? SQL gives null for {column} where something cannot be computed"
    name = "that name" if found.source_name == column else f"the name {found.source_name} (`from` of source.schema.{column})"
    return f"does the source have it under {name}, and with values of type {found.type}?"


def _reasons(plan: Plan, query: QueryNode, empty: list[str]) -> Iterator[str]:
    """Yield what may make rows unusable for ``query``, in words."""
    node = plan.operators[query.operator]
    sets = [t for t in plan.intake.tokens if t.codes in node.tokens]
    for t in sets:
        yield _short(t)
    if not sets:
        yield "what they are ranked by, or judged by, is null or no number"
    read = {*node.reads, *(t.column for t in sets)}
    if none := [c for c in empty if c in read]:
        yield f"no row of this run has a value in {', '.join(none)}"
    if early := [f"stats.{s.name}" for s in plan.statistics if not read.isdisjoint(s.columns)]:
        yield f"statistics are null for the first rows ({', '.join(early)})"


def _short(node: TokenNode) -> str:
    least = "no token" if node.least == 1 else f"fewer than {counted(node.least, 'token')}"
    return f"they have {least} (tokens.{node.name}.min_tokens)"
