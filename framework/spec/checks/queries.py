"""Checks of scoring functions and queries: names, expressions, windows, collisions of tables and columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from skyband.framework.base.columns import FINAL_COLUMNS, FIXED_COLUMNS, HEAD_COLUMNS
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.items import ItemShape
from skyband.framework.base.table_names import FINAL_RESULTS, JOB_RUNS, JOB_TABLES, QUERY_COLUMN, TRAJECTORY, query_tables
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.registry import query_type
from skyband.framework.spec.checks.chains import check_chains
from skyband.framework.spec.checks.deletions import check_deletions
from skyband.framework.spec.checks.scope import PAIR_SIDES, ROW_SIDES, Scope
from skyband.framework.spec.checks.sources import check_source_of
from skyband.framework.spec.checks.terms import check_terms
from skyband.framework.spec.checks.windows import check_window
from skyband.framework.spec.expressions.scoring import is_linear, scoring_text
from skyband.framework.spec.expressions.scoring_functions import SCORING_FUNCTIONS
from skyband.framework.spec.models.scoring import ExpressionScoring, FunctionScoring, GlobalScoring, LinearScoring
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Kind

FLOAT: Kind = "float"

Parameters = Mapping[str, tuple[str, ...] | None]
"""Query -> names that its expressions may use besides columns, None if not known."""


def check_queries(s: Scope) -> None:
    """Report all errors of scoring functions and queries: of those over the source's rows, then of those over results."""
    for scope in check_chains(s):
        _check_queries(scope)
    _tables(s)


def _check_queries(s: Scope) -> None:
    parameters = {name: query_type(q.type).parameters(s, ("queries", name), q) for name, q in s.job.queries.items()}
    _scoring(s, parameters)
    _keys(s)
    for name, query in s.job.queries.items():
        path: Path = ("queries", name)
        if s.doc.bad(path):
            continue
        kind = query_type(query.type)
        more = parameters[name]
        if query.where is not None and more is not None:
            s.expression((*path, "where"), query.where, kind.sides, "predicate", more=dict.fromkeys(more, FLOAT))
        for i, c in enumerate(query.carry if _item(query).rows else ()):
            s.column((*path, "carry", i), c)
        check_source_of(s, path, query)
        check_window(s, path, query)
        kind.check(s, path, query)
        _operator(s, path, query)
        _result_columns(s, path, query)
    check_deletions(s)


def _item(query: QueryModel) -> ItemShape:
    return query_type(query.type).item(query)


def _scoring(s: Scope, parameters: Parameters) -> None:
    used: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for query_name, query in s.job.queries.items():
        name = getattr(query, "scoring", None)
        more = parameters[query_name]
        if name is not None and more is not None:
            used.setdefault(name, set()).add((query_type(query.type).sides, more))
    for name, scoring in s.job.scoring.items():
        path: Path = ("scoring", name)
        if s.doc.bad(path):
            continue
        good = True
        if isinstance(scoring, GlobalScoring):
            good = check_terms(s, path, scoring)
        if isinstance(scoring, LinearScoring):
            for c in scoring.linear:
                good = s.key_column((*path, "linear", c), c) and good
        if isinstance(scoring, FunctionScoring):
            good = _function(s, path, scoring)
        if not good:
            continue
        text = scoring_text(scoring)
        field: Path = (*path, "expression") if isinstance(scoring, ExpressionScoring) else path
        guess = ROW_SIDES if is_linear(scoring) or not re.search(r"\b[ab]\s*\.", text) else PAIR_SIDES
        in_use = any(getattr(x, "scoring", None) == name for x in s.job.queries.values())
        for sides, more in sorted(used.get(name, set() if in_use else {(guess, ())})):
            if isinstance(scoring, GlobalScoring | LinearScoring) and sides != guess:
                continue
            at = None if isinstance(scoring, ExpressionScoring) else path
            s.expression(field, text, sides, "score", at, dict.fromkeys(more, FLOAT))


def _function(s: Scope, path: Path, scoring: FunctionScoring) -> bool:
    """Return True if the scoring function of another package is used correctly, and report its errors."""
    if s.doc.bad_below(path):
        return False
    found = SCORING_FUNCTIONS.get(scoring.function)
    if found is None:
        known = list(SCORING_FUNCTIONS.all())
        hint = did_you_mean(scoring.function, known) or (f"installed: {one_of(known)}" if known else "install the package that provides it")
        s.doc.add("SKY-E121", f"no scoring function '{scoring.function}' is installed", s.doc.where_value((*path, "function")), hint)
        return False
    good = True
    for name in scoring.columns:
        if name not in found.parameters:
            hint = did_you_mean(name, found.parameters) or f"its parameters: {one_of(found.parameters)}"
            s.doc.add("SKY-E110", f"{scoring.function} has no parameter '{name}'", s.doc.where_key((*path, "columns", name)), hint)
            good = False
    for name in found.parameters:
        at = (*path, "columns", name) if name in scoring.columns else (*path, "function")
        good = s.column(at, scoring.columns.get(name, name)) and good
    return good


def _keys(s: Scope) -> None:
    """Report key columns that collide with columns of the result tables, which hold them under their own names."""
    taken = {*FIXED_COLUMNS, *HEAD_COLUMNS, "seq", "time"}
    for query in s.job.queries.values():
        shape = _item(query)
        taken |= {v.name for v in (*shape.values, *shape.extra)} | (FINAL_COLUMNS if shape.closes else frozenset())
    if any(getattr(query, "queries_from", None) is not None for query in s.job.queries.values()):
        taken.add(QUERY_COLUMN)
    for i, c in enumerate(s.job.source.partition_by):
        path: Path = ("source", "partition_by", i)
        if not s.doc.bad(path) and c.lower() in taken:
            hint = "rename it: '{other}: {{type: ..., from: {c}}}' in source.schema".format(other=c + "_", c=c)
            s.doc.add("SKY-E124", f"the key column '{c}' collides with a column of the result tables", s.doc.where_value(path), hint)


def _operator(s: Scope, path: Path, query: QueryModel) -> None:
    at: Path = (*path, "operator")
    if query.operator is not None and not s.doc.bad(at) and query.operator != query.type:
        said = f"no operator {s.doc.shown(at)} for {query.type}"
        s.doc.add("SKY-E142", said, s.doc.where_value(at), f"known: {query.type}")


def _result_columns(s: Scope, path: Path, query: QueryModel) -> None:
    doc, source = s.doc, s.job.source
    taken = {c.lower(): "a column of every result" for c in FIXED_COLUMNS}
    shape = _item(query)
    own_values = [v.name for v in shape.values if v.name not in FIXED_COLUMNS]
    taken |= dict.fromkeys(own_values, f"a column of every {query.type} result")
    taken |= dict.fromkeys([v.name for v in shape.extra], f"a column of every {query.type}'s skyband")
    taken |= dict.fromkeys(FINAL_COLUMNS if shape.closes else (), "a column of final results")
    if getattr(query, "queries_from", None) is not None:
        taken[QUERY_COLUMN] = "the column with the query's name"
    taken |= {c.lower(): "a key column" for c in source.partition_by}
    carry = [c for i, c in enumerate(query.carry) if not doc.bad((*path, "carry", i))]
    own = {c for c in (*source.id, *carry)}
    reported: set[str] = set()
    of_rows = replace(shape, carried=())
    for column, of in ((c.name, c.source) for c in of_rows.columns(dict.fromkeys(source.id), query.carry, source.partition_by)):
        before = taken.get(column.lower())
        taken.setdefault(column.lower(), f"the column of '{of}'" if of else "a column of every result")
        if before is None or of in reported:
            continue
        reported.add(of)
        if of in query.carry:
            at: Path = (*path, "carry", query.carry.index(of))
            if doc.bad(at):
                continue
            if of in source.id or of in source.partition_by:
                # The result has it already.
                continue
            if query.carry.count(of) > 1:
                second = len(query.carry) - 1 - query.carry[::-1].index(of)
                doc.add("SKY-E125", f"'{of}' is carried twice", doc.where_value((*path, "carry", second)))
            else:
                doc.add(
                    "SKY-E124",
                    f"result column '{column}' collides with {before}",
                    doc.where_value(at),
                    "derive the column under another name",
                )
        elif of in own or not of:
            user = of or next((c for c in (*source.partition_by,) if c.lower() == column.lower()), of)
            at = ("source", "id", source.id.index(user)) if user in source.id else ("source", "partition_by", 0)
            if not doc.bad(at):
                doc.add(
                    "SKY-E124",
                    f"result column '{column}' collides with {before}",
                    doc.where_value(at),
                    "give the column another name with 'from:'",
                )


def _tables(s: Scope) -> None:
    """Report table names that collide as directories, ignoring case."""
    doc = s.doc
    taken: dict[str, str] = {t: "a table of every job" for t in (*JOB_TABLES, JOB_RUNS)}
    more = further_tables(s)
    for name in s.job.queries:
        path: Path = ("queries", name)
        if doc.bad(path):
            continue
        if name.startswith("_"):
            hint = "choose another name: Spark ignores directories that begin with _, and Skyband uses them"
            doc.add("SKY-E116", f"the query name '{name}' begins with _", doc.where_key(path), hint)
            continue
        own = [*query_tables(name), *(t for t in (name + TRAJECTORY, name + FINAL_RESULTS) if t in more)]
        for table in own:
            other = taken.get(table.lower())
            if other is not None:
                doc.add("SKY-E123", f"the table '{table}' of query '{name}' collides with {other}", doc.where_key(path), "rename the query")
                break
        for table in own:
            taken.setdefault(table.lower(), f"a table of query '{name}'")


def further_tables(s: Scope) -> set[str]:
    """Return the names of tables of trajectories, of queries with time-varying values, and of final results."""
    shapes = {name: _item(query) for name, query in s.job.queries.items()}
    trajectories = {name + TRAJECTORY for name, shape in shapes.items() if shape.time_varying is not None}
    return trajectories | {name + FINAL_RESULTS for name, shape in shapes.items() if shape.closes}
