"""Checks of tables of queries (``queries_from``): every mistake of the table, reported at the place that names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyband.framework.base.counts import counted, number_text
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.items import ROW, SCORE_VALUE, ItemShape, by_score
from skyband.framework.plan.drafts import job_window, query_window
from skyband.framework.plan.explain_parts import canonical_text
from skyband.framework.plan.model import OperatorNode, QueryNode
from skyband.framework.queries.protocol import FOLLOWING, HOPPING, QueryType, closing
from skyband.framework.queries.read_columns import scoring_columns
from skyband.framework.queries.single_rows.cells import Cells, read_cells
from skyband.framework.queries.single_rows.list_rows import QueryRows, interpret
from skyband.framework.queries.single_rows.model import ScoredRows
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.expressions.scoring import check_expression, used_names
from skyband.framework.spec.models.scoring import ExpressionScoring
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Kind, Window
from skyband.operators.windows import UNBOUNDED

FLOAT: Kind = "float"

_SHOWN = 20
"""Most mistakes of one table that are reported; a table made by a program has the same one in every row."""


def list_parameters(s: Scope, path: Path, query: ScoredRows) -> tuple[str, ...] | None:
    """Names that the rows of the entry's list bring for its expressions; None if the list cannot be used. What is wrong is noted."""
    if query.queries_from is None:
        return ()
    if s.doc.bad_below(path) or not s.columns_known:
        return None
    rows = _table(s, path, query)
    return None if rows is None else rows.parameters


def needed_fields(s: Scope, path: Path, query: ScoredRows) -> None:
    """``scoring`` and ``k`` may be left out only where a table of queries brings them."""
    if query.queries_from is not None:
        return
    scored = () if getattr(query, "order", None) is not None or s.doc.bad((*path, "order")) else ("scoring",)
    for field in (*scored, "k") if query.ranked else scored:
        if getattr(query, field) is None and not s.doc.bad((*path, field)):
            said = f"{'.'.join(map(str, path))} needs the field '{field}'"
            instead = "or 'order', sort keys, or" if field == "scoring" and query.ranked else "or"
            s.doc.add("SKY-E111", said, s.doc.where_key(path), f"{instead} 'queries_from', a table with a row per query")


def _table(s: Scope, path: Path, query: ScoredRows) -> QueryRows | None:
    at: Path = (*path, "queries_from", "path")
    source = query.queries_from
    assert source is not None
    try:
        cells = read_cells(source)
    except SkybandError as e:
        s.doc.add(e.code, e.message, s.doc.where_value(at), e.hint)
        return None
    # A window that is not known bounds nothing.
    job = Window(UNBOUNDED, UNBOUNDED) if s.doc.bad_below(("window",)) else job_window(s.job.window)
    most = query_window(job, query.window)
    rows = interpret(cells, query, {n: k if s.types[n] is not None else None for n, k in s.kinds().items()}, most)
    problems = rows.problems or _expressions(s, rows, cells, query)
    # As the spec spells it: a path may come from the environment.
    place = s.doc.place(at)
    file = place.raw.strip("'\"") if place is not None and place.raw else "the table"
    for message, hint in problems[:_SHOWN]:
        s.doc.add("SKY-E144", f"{file}: {message}", s.doc.where_value(at), hint)
    if len(problems) > _SHOWN:
        s.doc.add("SKY-E144", f"{file}: the other {counted(len(problems) - _SHOWN, 'mistake')} are not shown", s.doc.where_value(at))
    return None if problems else rows


def _expressions(s: Scope, rows: QueryRows, cells: Cells, query: ScoredRows) -> list[tuple[str, str | None]]:
    """Mistakes of the rows' own predicates, and parameters that nothing uses."""
    kinds = s.names(ROW_SIDES) | dict.fromkeys(rows.parameters, FLOAT)
    problems: list[tuple[str, str | None]] = []
    texts: dict[str, str] = {}
    for place, row in zip(cells.places, rows.rows, strict=True):
        if row.where is not None and row.where != query.where:
            texts.setdefault(row.where, place)
    for text, place in texts.items():
        problems += [(f"{place}, where: {m.message}", m.hint) for m in check_expression(text, kinds, ("",), "predicate")]
    if problems:
        return problems
    scoring = s.job.scoring.get(query.scoring or "")
    used = set()
    if isinstance(scoring, ExpressionScoring):
        if check_expression(scoring.expression, kinds, ("",), "score"):
            return []  # reported at the expression: what it uses is not known
        used = used_names(scoring.expression, kinds, "score")
    for text in [*texts, *([query.where] if query.where is not None else [])]:
        used |= used_names(text, kinds, "predicate")
    for name in rows.parameters:
        if name not in used:
            hint = f"leave it out, or say ignore: [{name}]"
            problems.append((f"{cells.column(name)} is no parameter: neither '{query.scoring}' nor a 'where' uses it", hint))
    return problems


# What query types about scored single rows have in common.


class SingleRowsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``ScoredRows``."""

    takes_deletions = True
    windows = FOLLOWING | HOPPING

    def item(self, query: Any) -> ItemShape:
        """One row."""
        return closing(ItemShape(ROW, by_score(ROW), (SCORE_VALUE,)), query.window)

    def parameters(self, scope: Scope, path: Path, query: Any) -> tuple[str, ...] | None:
        """Those of a list of queries."""
        return list_parameters(scope, path, query)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what scores are computed from."""
        return scoring_columns(*query.asked)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """Return the score and the condition of a state."""
        mixed = any(q.turned for q in queries)
        where = getattr(node.inner, "where", None)
        facts = [("score", f"{_score(queries)} ({'min or max, as each says,' if mixed else node.direction} first)")]
        return facts if where is None or isinstance(where, tuple) else [*facts, ("where", canonical_text(where))]


def _score(queries: Sequence[QueryNode]) -> str:
    """Return the function of a state; of a list of linear functions, the columns they weight."""
    from skyband.operators.single_rows.scores import Linear

    functions: list[Any] = list(dict.fromkeys(a.scoring for q in queries for a in q.asked))
    if len(functions) > 1:
        return f"{len(functions):,} different linear functions of {', '.join(c for c, _ in functions[0].weights)}"
    (f,) = functions
    return " + ".join(f"{number_text(w)} * {c}" for c, w in f.weights) if isinstance(f, Linear) else canonical_text(f)
