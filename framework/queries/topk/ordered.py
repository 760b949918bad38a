"""Top-k with several sort keys, ties, a chosen order of equal rows, or rows without a value: fields, item, checks, compilation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from skyband.framework.base.columns import FIXED_COLUMNS
from skyband.framework.base.decimals import decimal_digits
from skyband.framework.base.items import ROW, SCORE, SCORE_VALUE, ItemShape, RankTerm, Value
from skyband.framework.base.units import Name, Number, Text
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, predicate, predicate_key, score, score_key, texts_of
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode
from skyband.framework.queries.checks import collides
from skyband.framework.queries.models import K, QueryPart
from skyband.framework.queries.read_columns import node_columns
from skyband.framework.queries.single_rows.model import ScoredRows
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.models.source import kind_of
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Column, Operator, Window, units_column

# The fields of an entry.

MOST_KEYS: Final = 8
MOST_DIGITS: Final = 18
"""Digits of a decimal that fit in 64 bits."""
_COLUMN: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*")


class SortKey(QueryPart):
    """One sort key: a column of any type but lists, or an expression with a number."""

    expression: Text = Field(description="Column or expression over columns, such as price or price / surface.")
    direction: Literal["min", "max"] = Field(default="max", description="Which values rank first.")
    name: Name | None = Field(default=None, alias="as", description="Column of the results with the value of an expression.")

    @property
    def column(self) -> str | None:
        """Return the column that the sort key is, or None for an expression."""
        found = _COLUMN.fullmatch(self.expression)
        return None if found is None else found[1]


def _one_or_several(value: Any) -> str:
    return "<several>" if isinstance(value, (list, tuple)) else "<one>"


TieBreak = Annotated[
    Annotated[Literal["newest", "oldest"], Tag("<one>")] | Annotated[tuple[Name, ...], Field(min_length=1), Tag("<several>")],
    Discriminator(_one_or_several),
]
"""Which of equal rows ranks first: by age, or by columns in turn and then the newest."""


class RankedRows(ScoredRows):
    """The first rows by a score or by sort keys."""

    k: K | None = Field(default=None, description="How many; with queries_from, for rows that do not say.")
    order: tuple[SortKey, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_KEYS,
        description="Sort keys instead of scoring: the first in which rows differ decides.",
    )
    ties: Literal["include", "dense", "exclude"] | None = Field(
        default=None,
        description="Rows equal by all sort keys: all that equal the k-th (include), those with the k best values (dense), or none across "
        "the k-th place (exclude). Default: exactly k rows.",
    )
    tie_break: TieBreak | None = Field(
        default=None,
        description="Which of equal rows ranks first: newest (the default), oldest, or columns, ascending, then the newest.",
        json_schema_extra={"type": ["string", "array"]},
    )
    nulls: Literal["last"] | None = Field(
        default=None, description="Rows without a score, or first sort key, rank after all others. Default: they never rank."
    )
    min_score: Number | None = Field(default=None, description="Only with at least this score.")
    max_score: Number | None = Field(default=None, description="Only with at most this score.")

    @property
    def shown(self) -> tuple[str, ...]:
        """See ``QueryModel.shown``: the columns that rank rows."""
        columns = (key.column for key in self.order or ())
        return tuple(dict.fromkeys([*(c for c in columns if c is not None), *self.tie_columns]))

    @property
    def tie_columns(self) -> tuple[str, ...]:
        """The columns of ``tie_break``."""
        return self.tie_break if isinstance(self.tie_break, tuple) else ()


def is_ordered(query: RankedRows) -> bool:
    """Return True if the entry says with the fields of this module something else than the default."""
    return query.order is not None or query.ties is not None or query.nulls is not None or query.tie_break not in (None, "newest")


def item(query: RankedRows) -> ItemShape:
    """Return the row, with the values of expressions, by the sort keys, the columns of ``tie_break`` and age."""
    values: list[Value] = []
    terms: list[RankTerm] = []
    if query.order:
        for key in query.order:
            name = key.column or key.name or SCORE
            terms.append(RankTerm((name,), "asc" if key.direction == "min" else "desc", nullable=True))
            if key.column is None:
                best = "smaller" if key.direction == "min" else "larger"
                values.append(Value(name, "double", f"value of {key.expression}; {best} ranks first", True))
    else:
        nulls = query.nulls is not None
        values.append(Value(SCORE, SCORE_VALUE.type, SCORE_VALUE.comment, nulls))
        terms.append(RankTerm((SCORE,), "query", nullable=nulls))
    terms += [RankTerm((c,), "asc", nullable=True) for c in query.tie_columns]
    terms.append(RankTerm(("seq",), "asc" if query.tie_break == "oldest" else "desc"))
    return ItemShape(ROW, tuple(terms), tuple(values))


# Checks.


def check(s: Scope, path: Path, query: RankedRows) -> None:
    """Check the sort keys, the columns of ``tie_break``, and what does not go together."""
    used = [f for f in ("order", "ties", "tie_break", "nulls") if getattr(query, f) is not None]
    for field in used if query.queries_from is not None else ():
        hint = "leave it out, or write the queries out, each with its own entry"
        s.doc.add("SKY-E117", f"queries_from takes no '{field}': its rows rank by a score", s.doc.where_key((*path, field)), hint)
    for field in used if query.window is not None and query.window.follows and is_ordered(query) else ():
        said = f"'{field}' does not go with windows that follow each other, whose final results rank by a score"
        s.doc.add("SKY-E117", said, s.doc.where_key((*path, field)), "use a window of time, of rows, or hop")
    bounds = [f for f in ("min_score", "max_score") if getattr(query, f) is not None]
    for field in bounds if query.order or query.nulls is not None else ():
        where = s.doc.where_key((*path, field))
        if query.order:
            s.doc.add("SKY-E117", f"'{field}' bounds a score, and a query with 'order' has none", where, "write the bound in 'where'")
        else:
            s.doc.add("SKY-E117", f"'{field}' lets no row without a score pass, and 'nulls' ranks those", where, "leave out one of the two")
    if query.order and query.scoring is not None:
        hint = "leave out scoring, and write its expression as a sort key"
        s.doc.add("SKY-E117", "'order' and 'scoring' both say what ranks first", s.doc.where_key((*path, "order")), hint)
    for i, key in enumerate(query.order or ()):
        _check_key(s, (*path, "order", i), query, key, i)
    names: set[str] = set()
    for i, name in enumerate(query.tie_columns):
        at: Path = (*path, "tie_break", i)
        _check_column(s, at, query, name)
        if name in names and not s.doc.bad(at):
            s.doc.add("SKY-E125", f"'{name}' is listed twice in tie_break", s.doc.where_value(at))
        names.add(name)


def _check_key(s: Scope, path: Path, query: RankedRows, key: SortKey, number: int) -> None:
    at: Path = (*path, "expression")
    if s.doc.bad(path) or s.doc.bad(at):
        return
    before = (query.order or ())[:number]
    if key.column is not None:
        if key.name is not None:
            hint = "leave out 'as'; to rename it, give the column another name with 'from:'"
            s.doc.add("SKY-E117", f"the column '{key.column}' is shown under its own name", s.doc.where_key((*path, "as")), hint)
        _check_column(s, at, query, key.column)
        if any(k.column == key.column for k in before):
            s.doc.add("SKY-E125", f"'{key.column}' is a sort key twice", s.doc.where_value(at))
        return
    s.expression(at, key.expression, ROW_SIDES, "score")
    if key.name is None:
        message = f"{'.'.join(map(str, path))} needs the field 'as'"
        s.doc.add("SKY-E111", message, s.doc.where_value(at), "the name of the column with the value of this expression, such as as: value")
        return
    name = key.name.lower()
    taken = {c.lower() for c in (*FIXED_COLUMNS, "seq", "time", *s.job.source.id, *s.job.source.partition_by, *query.shown, *query.carry)}
    if name in taken or any((k.name or "").lower() == name for k in before):
        where = s.doc.where_value((*path, "as"))
        s.doc.add("SKY-E124", f"result column '{key.name}' collides with another column of the result", where, "choose another name")


def _check_column(s: Scope, at: Path, query: RankedRows, name: str) -> None:
    """Check that ``name`` is a column that has an order and a place in the tables."""
    if not s.column(at, name):
        return
    digits = decimal_digits(s.types[name] or "")
    source = s.job.source
    if digits is not None and digits[0] > MOST_DIGITS:
        fewer = f"decimal({MOST_DIGITS},{min(digits[1], MOST_DIGITS)})"
        hint = f"derive one with fewer digits: {{sql: cast({name} as {fewer}), type: '{fewer}'}}"
        message = f"decimals that rank have at most {MOST_DIGITS} digits, and '{name}' is {s.types[name]}"
        s.doc.add("SKY-E126", message, s.doc.where_value(at), hint)
    if name.lower() in {c.lower() for c in (*FIXED_COLUMNS, "seq", "time")} and name not in (*source.id, *source.partition_by):
        collides(s, at, name, query)


# Entries to operators: those that agree in everything but k, window, ``every`` and the bound on the worse side share a state.

_WHY: Final = {
    "break": "rows as numbers that rank them; rows that K newer ones beat are forgotten (K-skyband)",
    "include": "rows as numbers that rank them; rows that K newer ones with better sort keys beat are forgotten",
    "dense": "rows as numbers that rank them; rows that newer ones with K different better sort keys beat are forgotten",
    "exclude": "rows as numbers that rank them; rows that more than K newer ones equal or beat are forgotten",
}
_WHY_DELETES: Final = "a deletion can bring any row back, so the sort keys of the whole window are kept"


def share_key(context: Context, q: RankedRows) -> Any:
    """Return what entries that share a state have in common."""
    if q.order:
        keys: Any = tuple((k.column or _spelled(context, k), k.direction, k.name) for k in q.order)
        bound = None
    else:
        direction = context.scoring(str(q.scoring)).direction
        keys, bound = (score_key(context, str(q.scoring)), direction), q.max_score if direction == "max" else q.min_score
    return (keys, q.ties, q.tie_break, q.nulls, predicate_key(context, q.where), bound)


def _spelled(context: Context, key: SortKey) -> str:
    from skyband.operators.expressions.canonical import canonical

    return canonical(_function(context, key))


def _function(context: Context, key: SortKey) -> Any:
    from skyband.operators.expressions.parser import parse

    return parse(key.expression, context.kinds, ROW_SIDES, "score")


def _column(context: Context, name: str) -> Column:
    from skyband.operators.topk.ordered import text_column

    type_ = next((f.type for f in context.fields if f.name == name), "double")
    if decimal_digits(type_) is not None:
        return units_column(name)
    kind = kind_of(type_)
    return text_column(name) if kind == "text" else Column(name, kind)


def draft(context: Context, group: tuple[QueryEntry, ...], queries: list[RankedRows]) -> OperatorDraft:
    """Return the draft of the operator of entries that share a state."""
    first, where = queries[0], predicate(context, queries[0].where)
    window = Window.union(m.window for m in group)
    most = max(q.k or 1 for q in queries)
    direction: Literal["min", "max"]
    functions: list[Any]
    if first.order:
        functions = [None if k.column is not None else _function(context, k) for k in first.order]
        direction = first.order[0].direction
    else:
        scoring = context.scoring(str(first.scoring))
        functions, direction = [score(context, str(first.scoring))], scoring.direction
        most = max(most, scoring.keep.k if scoring.keep is not None else 1)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.topk import ordered
        from skyband.operators.topk.one_function_configuration import TopKQuery

        if first.order:
            keys = tuple(
                ordered.SortKey(_column(context, k.column) if k.column is not None else f, k.direction, k.name or "")
                for k, f in zip(first.order, functions, strict=True)
            )
        else:
            keys = (ordered.SortKey(functions[0], direction, SCORE),)
        asked = tuple(TopKQuery(m.name, q.k or 1, m.window, q.every, q.min_score, q.max_score) for m, q in zip(group, queries, strict=True))
        kind = ordered.OrderedTopKDeletes if context.deletes else ordered.OrderedTopK
        return kind(
            keys, asked, most, window, first.ties or "break", tuple(_column(context, c) for c in first.tie_columns),
            first.tie_break == "oldest", first.nulls is not None, where, texts,
        )  # fmt: skip

    why = _WHY_DELETES if context.deletes else _WHY[first.ties or "break"]
    skyband = first.ties is None and not context.deletes
    return OperatorDraft(group, most, window, direction, texts_of(*functions, where), build, why, skyband=skyband)


def operator_of(node: OperatorNode) -> Any:
    """Return the operator of a state, if it is one of several sort keys; else None."""
    return node.inner if node.inner.state_format.startswith("OrderedTopK") else None


def facts(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the sort keys, and what is chosen of equal rows and of rows without a value."""
    op = operator_of(node)
    keys = ", then ".join(f"{_key_text(k.of)} ({k.direction} first)" for k in op.keys)
    found = [("score" if op.scored else "order", keys)]
    if op.ties != "break":
        found.append(("ties", _TIES[op.ties]))
    equal = [*(c.sources[0] for c in op.tie_break), "the older first" if op.oldest else "the newer first"]
    found.append(("equal", ", then ".join(equal)))
    if op.nulls_last:
        found.append(("nulls", f"rows without a {'score' if op.scored else 'first sort key'} rank after all others"))
    return found if op.where is None else [*found, ("where", canonical_text(op.where))]


_TIES: Final = {
    "include": "rows that equal the k-th by all sort keys are in the result, too",
    "dense": "the rows with the k best values of the sort keys",
    "exclude": "rows that are equal across the k-th place are all left out",
}


def _key_text(of: Any) -> str:
    from skyband.framework.base.counts import number_text

    if isinstance(of, Column):
        return of.sources[0]
    weights = getattr(of, "weights", None)
    return canonical_text(of) if weights is None else " + ".join(f"{number_text(w)} * {c}" for c, w in weights)


def value_columns(node: OperatorNode) -> tuple[str, ...]:
    """Return the columns that values of items are computed from: those of the functions among the sort keys."""
    return _read([k.of for k in operator_of(node).keys if k.name])


def deciding_columns(node: OperatorNode) -> tuple[str, ...]:
    """Return the columns that decide membership and rank."""
    op = operator_of(node)
    return tuple(dict.fromkeys([*_read([*(k.of for k in op.keys), *op.tie_break]), *node_columns(op.where)]))


def _read(functions: Sequence[Any]) -> tuple[str, ...]:
    found: list[str] = []
    for of in functions:
        weights = getattr(of, "weights", None)
        if isinstance(of, Column):
            found += of.sources
        else:
            found += node_columns(of) if weights is None else [c for c, _ in weights]
    return tuple(dict.fromkeys(found))
