"""The shared state of a spec's checks: the document, the job, and the columns found so far."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from skyband.framework.base.errors import Where, did_you_mean, one_of
from skyband.framework.base.table_names import JOB_TABLES, query_tables
from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.expressions.scoring import check_expression, used_names
from skyband.framework.spec.models.job import Job, column_of, written_as
from skyband.framework.spec.models.source import kind_of, token_kinds
from skyband.framework.spec.parsing.document import Document, Path
from skyband.framework.spec.parsing.limits import CHARACTERS_OF_A_TOKEN
from skyband.operators.base import Kind
from skyband.operators.expressions.vectors import AttributeKind, Vector

PAIR_SIDES: Final = ("a", "b")
"""Sides of an expression over two rows."""

ROW_SIDES: Final = ("",)
"""Sides of an expression over a single row: columns stand alone."""


class Scope:
    """The document, the job, and its columns in the order of the transforms; an unknown type is None."""

    def __init__(self, doc: Document, job: Job) -> None:
        self.doc = doc
        self.job = job
        self.types = Columns()
        self.columns_known = True
        self.statistics: dict[str, str] = {}
        """Statistics as expressions write them -> their columns, which are in ``types`` too."""
        self.streams: list[Scope] = []
        """The scopes of queries over results, once they are known (``checks.chains``)."""
        self.taken: str | None = None
        """The query whose result is taken; None for the source's rows."""
        self._kinds: dict[str, Kind] = {}
        self._unknown_types: list[str] = []

    def of_job(self, job: Job) -> Scope:
        """Return a scope of the same columns for ``job``."""
        made = Scope(self.doc, job)
        made.types, made.columns_known, made.statistics = self.types, self.columns_known, self.statistics
        return made

    def of_stream(self, job: Job, types: Mapping[str, str | None], known: bool, of: str) -> Scope:
        """Return a scope for the ``job`` of what query ``of`` results in, with columns of ``types``; ``known``: whether these are all."""
        made = Scope(self.doc, job)
        made.taken = of
        made.types, made.columns_known = Columns(types), known and self.columns_known
        self.streams.append(made)
        return made

    def add_column(self, name: str, type_: str | None, path: Path) -> None:
        """Add a column, or report one that exists already (ignoring case, as in Spark)."""
        other = self.types.spelled(name)
        if other is not None:
            spelled = "" if other == name else f" (as '{other}'; Spark ignores case in names)"
            self.doc.add("SKY-E125", f"the column '{name}' already exists{spelled}", self.doc.where_key(path), "choose another name")
            return
        self.types[name] = type_

    def add_statistic(self, name: str, function: str) -> None:
        """Add the column of a statistic, or report one that exists already."""
        column = column_of(name, function)
        if self.types.spelled(column) is None:
            self.statistics[written_as(name, function)] = column
        self.add_column(column, "double", ("stats", name, function))

    def column(self, path: Path, name: str, lists: bool = False) -> bool:
        """Return True if ``name`` at ``path`` is a column; report one that is not, or a list unless ``lists`` are allowed."""
        if self.doc.bad(path):
            return False
        if name in self.types:
            return lists or not self._is_list(name, self.doc.where_value(path))
        if self.columns_known:
            spelled = self.types.spelled(name)
            if spelled is not None:
                hint: str | None = f"did you mean '{spelled}'? Spell names as in the schema"
            else:
                whose = f" of the result of '{self.taken}'" if self.taken is not None else ""
                columns = f"columns{whose}: {one_of(list(self.types), 20)}"
                hint = did_you_mean(name, self.types) or columns
            self.doc.add("SKY-E120", f"unknown column '{name}'", self.doc.where_value(path), hint)
        return False

    def key_column(self, path: Path, name: str, lists: bool = False) -> bool:
        """Like ``column``, for a name that is a key of a mapping."""
        if name in self.types and not self.doc.bad(path):
            return lists or not self._is_list(name, self.doc.where_key(path))
        if self.doc.bad(path) or not self.columns_known:
            return name in self.types
        hint = did_you_mean(name, self.types)
        self.doc.add("SKY-E120", f"unknown column '{name}'", self.doc.where_key(path), hint)
        return False

    def _is_list(self, name: str, where: Where | None) -> bool:
        """Return True if the column ``name`` is a list, and report it."""
        type_ = self.types[name]
        if type_ is None or kind_of(type_) != "list":
            return False
        use = "use the list under 'tokens:' or 'vectors:', or derive a text or a number from it in a transform"
        self.doc.add("SKY-E126", f"'{name}' is a list ({type_})", where, use)
        return True

    def kinds(self) -> dict[str, Kind]:
        """Return the kinds of all columns; float for unknown types. Cached until a column is added."""
        if len(self._kinds) != len(self.types):
            self._kinds = {name: kind_of(t) if t is not None else "float" for name, t in self.types.items()}
            self._unknown_types = [c for c, t in self.types.items() if t is None]
        return self._kinds

    def kinds_in_source(self) -> dict[str, Kind]:
        """Return the kinds of the columns that a row has before its turn: all but statistics."""
        later = set(self.statistics.values())
        return {name: kind for name, kind in self.kinds().items() if name not in later}

    def _token_kinds(self) -> dict[str, Kind]:
        named = self.doc.data.get("tokens")
        return token_kinds(map(str, named) if isinstance(named, dict) else self.job.tokens)

    def names(self, sides: tuple[str, ...]) -> dict[str, AttributeKind]:
        """Return the kinds of the columns, sets and vectors that an expression with ``sides`` may read."""
        kinds = self.kinds()
        vectors = {c: Vector(d) for c, d in self.job.vectors.items() if c in kinds and sides == PAIR_SIDES}
        written: dict[str, AttributeKind] = dict.fromkeys(self.statistics, "float")
        return {**kinds, **self._token_kinds(), **vectors, **written}

    def expression(
        self,
        path: Path,
        text: str,
        sides: tuple[str, ...],
        want: Literal["score", "predicate"],
        at: Path | None = None,
        more: Mapping[str, AttributeKind] | None = None,
        only: Mapping[str, AttributeKind] | None = None,
        aggregates: bool = False,
    ) -> bool:
        """Check an expression and return True if it is valid.

        ``at``: where to report errors of text that the spec does not spell out. ``more``: names allowed besides the columns; ``only``:
        names allowed instead of them. ``aggregates``: it is an expression over aggregates of rows.
        """
        if self.doc.bad_below(path) or not self.columns_known or self.doc.work.gone:
            return False
        self.kinds()
        # A column of unknown type would cause false errors.
        if any(c in text and re.search(rf"\b{re.escape(c)}\b", text) for c in self._unknown_types):
            return False
        self.doc.work.take(len(text) // CHARACTERS_OF_A_TOKEN)
        if self.doc.too_much(at or path):
            return False
        known = {**self.names(sides), **(more or {})} if only is None else only
        mistakes = check_expression(text, known, sides, want, aggregates)
        place = self.doc.places.get(path)
        if mistakes and place is not None and place.variables:
            message = "invalid expression after the environment variables are filled in (their values are not shown)"
            self.doc.add("SKY-E130", message, self.doc.where_value(path))
            return False
        for m in mistakes:
            where = self.doc.where_key(at) if at is not None else self.doc.where_inside(path, m.start, m.end)
            hint = m.hint or self._hint_of(m.message)
            self.doc.add("SKY-E130", m.message, where, hint)
        return not mistakes

    def _hint_of(self, message: str) -> str | None:
        """Return what an expression over a result may read, if it reads something else: other columns than the source has."""
        if self.taken is None or not message.startswith("unknown attribute"):
            return None
        return f"columns of the result of '{self.taken}': {one_of(list(self.types), 20)}"

    def reads_statistics(self, text: str, want: Literal["score", "predicate"]) -> bool:
        """Return True if an expression over single rows reads a statistic."""
        return not used_names(text, self.names(ROW_SIDES), want).isdisjoint(self.statistics.values())

    def has_mistakes(self, query: str) -> bool:
        """Return True if ``query`` may be a query of the spec that is left out of the job for its mistakes, which are reported."""
        named = self.doc.data.get("queries")
        return self.doc.bad(("queries",)) or (query not in self.job.queries and isinstance(named, dict) and query in named)

    def may_have_table(self, table: str) -> bool:
        """Return True if ``table`` may be one of a query that is left out of the job for its mistakes."""
        named = self.doc.data.get("queries")
        names = [str(n) for n in (named if isinstance(named, dict) else ())]
        return self.doc.bad(("queries",)) or any(table == n or table.startswith(f"{n}_") for n in names if self.has_mistakes(n))

    def tables(self) -> set[str]:
        """Return the names of all tables of the job, as far as the queries are known."""
        named = self.doc.data.get("queries")
        names = list(named) if isinstance(named, dict) else list(self.job.queries)
        return {t for q in names for t in query_tables(str(q))} | set(JOB_TABLES)
