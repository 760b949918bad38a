"""Checks of scoring functions and queries: names, expressions, windows, collisions of tables and columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skyband.framework.errors import did_you_mean, one_of
from skyband.framework.plan.registry import COMPILERS
from skyband.framework.spec import queries as q
from skyband.framework.spec.check_query_lists import check_tables, needed_fields, parameter_kinds
from skyband.framework.spec.document import Path
from skyband.framework.spec.expressions import is_linear, scoring_text, term_columns
from skyband.framework.spec.models import ExpressionScoring, GlobalScoring, LinearScoring
from skyband.framework.spec.names import (
    FIXED_COLUMNS,
    HEAD_COLUMNS,
    JOB_TABLES,
    QUERY_COLUMN,
    SKYLINE_COLUMNS,
    query_tables,
    result_columns,
)
from skyband.framework.spec.query_list_rows import QueryRows, nothing_passes
from skyband.framework.spec.scope import Scope
from skyband.framework.spec.units import format_duration

PAIR_SIDES = ("a", "b")
ROW_SIDES = ("",)


def check_queries(s: Scope) -> None:
    """Note everything that is wrong with the scoring functions and queries."""
    tables = check_tables(s)
    _scoring(s, tables)
    _keys(s)
    for name, query in s.job.queries.items():
        path: Path = ("queries", name)
        if s.doc.bad(path):
            continue
        if query.type not in COMPILERS:
            hint = f"available: {one_of(sorted(COMPILERS))}"
            s.doc.add(
                "SKY-E142", f"queries of type {query.type} are not available in this version", s.doc.where_value((*path, "type")), hint
            )
        sides = PAIR_SIDES if query.type in q.PAIR_TYPES else ROW_SIDES
        # What may stand in it is not known while the table of queries cannot be used.
        if query.where is not None and (name in tables or getattr(query, "queries_from", None) is None):
            s.expression((*path, "where"), query.where, sides, "predicate", more=parameter_kinds(tables.get(name)))
        needed_fields(s, path, query)
        for i, c in enumerate(query.carry):
            s.column((*path, "carry", i), c)
        _query_window(s, path, query)
        _of_type(s, path, query)
        _result_columns(s, path, query)
    _tables(s)
    _deletes(s)


def _scoring(s: Scope, tables: Mapping[str, QueryRows]) -> None:
    used: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for query_name, query in s.job.queries.items():
        name = getattr(query, "scoring", None)
        if getattr(query, "queries_from", None) is not None and query_name not in tables:
            continue  # what its expression may use is not known
        if name is not None:
            parameters = tables[query_name].parameters if query_name in tables else ()
            used.setdefault(name, set()).add((PAIR_SIDES if query.type in q.PAIR_TYPES else ROW_SIDES, parameters))
    for name, scoring in s.job.scoring.items():
        path: Path = ("scoring", name)
        if s.doc.bad(path):
            continue
        good = True
        if isinstance(scoring, GlobalScoring):
            for i, term in enumerate(scoring.terms):
                named = term_columns(term)
                if len(named) != 1 and not s.doc.bad_below((*path, "terms", i)):
                    what = "names no function" if not named else f"names {one_of([f for f, _ in named])}"
                    hint = "exactly one of abs_difference, squared_difference, sum, product"
                    s.doc.add("SKY-E117", f"a term {what}", s.doc.where_value((*path, "terms", i)), hint)
                for f, c in named:
                    good = s.column((*path, "terms", i, f), c) and good
                good = good and len(named) == 1
        if isinstance(scoring, LinearScoring):
            for c in scoring.linear:
                good = s.key_column((*path, "linear", c), c) and good
        if not good:
            continue
        text = scoring_text(scoring)
        field: Path = (*path, "expression") if isinstance(scoring, ExpressionScoring) else path
        guess = ROW_SIDES if is_linear(scoring) or not re.search(r"\b[ab]\s*\.", text) else PAIR_SIDES
        in_use = any(getattr(x, "scoring", None) == name for x in s.job.queries.values())
        for sides, parameters in sorted(used.get(name, set() if in_use else {(guess, ())})):
            if isinstance(scoring, GlobalScoring | LinearScoring) and sides != guess:
                continue
            at = None if isinstance(scoring, ExpressionScoring) else path
            s.expression(field, text, sides, "score", at, dict.fromkeys(parameters, "float"))


def _keys(s: Scope) -> None:
    """Key columns stand in every result table under their own names."""
    taken = {*FIXED_COLUMNS, *HEAD_COLUMNS, "seq", "time"}
    if any(isinstance(query, q.Skyline) for query in s.job.queries.values()):
        taken |= set(SKYLINE_COLUMNS)
    if any(getattr(query, "queries_from", None) is not None for query in s.job.queries.values()):
        taken.add(QUERY_COLUMN)
    for i, c in enumerate(s.job.source.partition_by):
        path: Path = ("source", "partition_by", i)
        if not s.doc.bad(path) and c.lower() in taken:
            hint = "rename it: '{other}: {{type: ..., from: {c}}}' in source.schema".format(other=c + "_", c=c)
            s.doc.add("SKY-E124", f"the key column '{c}' collides with a column of the result tables", s.doc.where_value(path), hint)


def _query_window(s: Scope, path: Path, query: q.Query) -> None:
    doc, job = s.doc, s.job.window
    at: Path = (*path, "window")
    count, time = (query.window.count, query.window.time) if query.window is not None else (None, None)
    if query.window is not None and not doc.bad_below(at):
        if count is None and time is None:
            doc.add("SKY-E111", "a window needs 'count', 'time' or both", doc.where_key(at))
        if not doc.bad_below(("window",)):
            for kind, mine, theirs in (("count", count, job.count), ("time", time, job.time)):
                if mine is None:
                    continue
                where = doc.where_value((*at, kind))
                if theirs is None:
                    hint = f"add {kind} to the job's window, or use {'time' if kind == 'count' else 'count'}"
                    doc.add("SKY-E141", f"the job's window has no {kind}", where, hint)
                elif mine > theirs:
                    big = f"{theirs:,} rows" if kind == "count" else format_duration(theirs)
                    doc.add("SKY-E140", f"larger than the job's window ({big})", where, "the job's window is the largest a query may use")
    least = min((n for n in (count, job.count) if n is not None), default=None)
    if query.type in q.PAIR_TYPES and least is not None and least < 2 and not doc.bad_below(at) and not doc.bad_below(("window",)):
        where = doc.where_value((*at, "count")) if count is not None else doc.where_value(("window", "count"))
        doc.add("SKY-E143", "a window of 1 row holds no pair", where)
    if query.type in q.LOYALTY_TYPES and (count is not None or job.count is not None):
        where = doc.where_value((*at, "count")) if count is not None else doc.where_value(("window", "count"))
        doc.add("SKY-E141", f"{query.type} works on time windows only", where, "loyalty is time within the window")


def _of_type(s: Scope, path: Path, query: q.Query) -> None:
    doc = s.doc
    scoring = getattr(query, "scoring", None)
    if scoring is not None and not doc.bad((*path, "scoring")) and not doc.bad(("scoring",)):
        _uses_scoring(s, path, query, scoring)
    if isinstance(query, q.TopKPairs | q.TopKSimilarSets) and query.between is not None:
        _between(s, (*path, "between"), query.between)
    if (
        isinstance(query, q.TopKPairs | q.TopK)
        and query.min_score is not None
        and query.max_score is not None
        and query.min_score > query.max_score
    ):
        doc.add("SKY-E117", "min_score is larger than max_score: nothing can pass", doc.where_value((*path, "min_score")))
    if isinstance(query, q.Threshold):
        bounds = [b for b in ("at_least", "above", "at_most", "below") if getattr(query, b) is not None]
        twice = {"at_least", "above"} <= set(bounds) or {"at_most", "below"} <= set(bounds)
        if (twice or (not bounds and query.queries_from is None)) and not doc.bad_below(path):
            what = "needs a bound" if not bounds else f"has two bounds on one side ({', '.join(bounds)})"
            doc.add(
                "SKY-E111" if not bounds else "SKY-E117",
                f"a threshold query {what}",
                doc.where_key(path),
                "one of at_least, above, at_most, below",
            )
        elif nothing_passes(query.above, query.at_least, query.below, query.at_most) and not doc.bad_below(path):
            doc.add("SKY-E117", "the bounds leave nothing that can pass", doc.where_value((*path, bounds[0])))
    if isinstance(query, q.TopKSimilarSets):
        at: Path = (*path, "tokens", "column")
        if s.column(at, query.tokens.column) and s.types[query.tokens.column] not in {None, "string"}:
            doc.add(
                "SKY-E126",
                f"tokens come from a string column, '{query.tokens.column}' is {s.types[query.tokens.column]}",
                doc.where_value(at),
            )
        try:
            re.compile(query.tokens.pattern)
        except re.error as e:
            doc.add("SKY-E130", f"not a regular expression: {e.msg}", doc.where_value((*path, "tokens", "pattern")))
    if isinstance(query, q.Skyline):
        if not doc.bad_below((*path, "dimensions")) and all(d == "equal" for d in query.dimensions.values()):
            doc.add("SKY-E117", "a skyline needs a dimension with min or max", doc.where_key((*path, "dimensions")))
        for c, direction in query.dimensions.items():
            p: Path = (*path, "dimensions", c)
            if s.key_column(p, c) and direction != "equal" and s.types[c] in {"string", "boolean"}:
                doc.add("SKY-E126", f"'{c}' is {s.types[c]}: only numbers and times have a {direction}", doc.where_key(p), "use equal")
    if isinstance(query, q.TopKLoyalty | q.ThresholdLoyalty):
        s.column((*path, "object"), query.object)
        s.expression((*path, "criteria"), query.criteria, ROW_SIDES, "predicate")
    if query.operator is not None and not doc.bad((*path, "operator")) and query.operator != query.type:
        doc.add(
            "SKY-E142",
            f"no operator {doc.shown((*path, 'operator'))} for {query.type}",
            doc.where_value((*path, "operator")),
            f"known: {query.type}",
        )


def _uses_scoring(s: Scope, path: Path, query: q.Query, scoring: str) -> None:
    named: Any = s.doc.data.get("scoring")
    known = list(named) if isinstance(named, dict) else list(s.job.scoring)
    where = s.doc.where_value((*path, "scoring"))
    if scoring not in known:
        hint = did_you_mean(scoring, known) or (f"scoring functions: {one_of(known)}" if known else "add it under 'scoring:'")
        s.doc.add("SKY-E121", f"unknown scoring function '{scoring}'", where, hint)
        return
    found = s.job.scoring.get(scoring)
    if isinstance(found, GlobalScoring) and query.type not in q.PAIR_TYPES:
        s.doc.add("SKY-E117", f"'{scoring}' combines two rows, {query.type} scores single rows", where, "use expression or linear")
    if isinstance(found, LinearScoring) and query.type in q.PAIR_TYPES:
        s.doc.add("SKY-E117", f"'{scoring}' scores single rows, {query.type} scores pairs", where, "use expression or combine")


def _between(s: Scope, path: Path, between: q.Between) -> None:
    doc = s.doc
    if not s.column((*path, "column"), between.column):
        return
    type_ = s.types[between.column]
    for side in ("a", "b"):
        value = getattr(between, side)
        at: Path = (*path, side)
        if type_ is None or doc.bad(at):
            continue
        place = doc.places.get(at)
        if type_ == "string" and not isinstance(value, str):
            reads = "a truth value" if isinstance(value, bool) else "a number"
            code = "SKY-E104"
            doc.add(
                code,
                f"YAML reads {doc.shown(at)} as {reads}, '{between.column}' is text",
                doc.where_value(at),
                f'quote it: "{place.raw if place else value}"',
            )
        elif type_ == "boolean" and not isinstance(value, bool):
            doc.add("SKY-E126", f"'{between.column}' is true or false", doc.where_value(at))
        elif type_ in {"int", "bigint"} and (isinstance(value, bool) or not isinstance(value, int)):
            doc.add("SKY-E126", f"'{between.column}' is a whole number", doc.where_value(at))
        elif type_ not in {"string", "boolean", "int", "bigint"}:
            doc.add(
                "SKY-E126",
                f"sides come from a text, whole number or boolean column, '{between.column}' is {type_}",
                doc.where_value((*path, "column")),
            )
            return
    if between.a == between.b and type(between.a) is type(between.b) and not doc.bad_below(path):
        doc.add("SKY-E117", "both sides are the same value", doc.where_value((*path, "b")), "leave 'between' out for pairs of one stream")


def _result_columns(s: Scope, path: Path, query: q.Query) -> None:
    doc, source = s.doc, s.job.source
    taken = {c.lower(): "a column of every result" for c in FIXED_COLUMNS}
    if isinstance(query, q.Skyline):
        taken |= dict.fromkeys(SKYLINE_COLUMNS, "a column of every skyline's skyband")
    if getattr(query, "queries_from", None) is not None:
        taken[QUERY_COLUMN] = "the column with the query's name"
    taken |= {c.lower(): "a key column" for c in source.partition_by}
    between = getattr(query, "between", None) is not None
    carry = [c for i, c in enumerate(query.carry) if not doc.bad((*path, "carry", i))]
    own = {c for c in (*source.id, *carry)}
    told: set[str] = set()
    for column, of in result_columns(query.type, between, dict.fromkeys(source.id), query.carry, source.partition_by):
        before = taken.get(column.lower())
        taken.setdefault(column.lower(), f"the column of '{of}'" if of else "a column of every result")
        if before is None or of in told:
            continue
        told.add(of)
        if of in query.carry:
            at: Path = (*path, "carry", query.carry.index(of))
            if doc.bad(at):
                continue
            if of in source.id or of in source.partition_by:
                part = "the id" if of in source.id else "the key"
                doc.add("SKY-E124", f"'{of}' is in the result already, as part of {part}", doc.where_value(at), "leave it out of carry")
            elif query.carry.count(of) > 1:
                second = len(query.carry) - 1 - query.carry[::-1].index(of)
                doc.add("SKY-E125", f"'{of}' is carried twice", doc.where_value((*path, "carry", second)))
            else:
                doc.add("SKY-E124", f"result column '{column}' collides with {before}", doc.where_value(at), "derive it under another name")
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
    """Two names that would be one folder (case aside) collide."""
    doc = s.doc
    taken: dict[str, str] = {t: "a table of every job" for t in JOB_TABLES}
    for name in s.job.queries:
        path: Path = ("queries", name)
        if doc.bad(path):
            continue
        for table in query_tables(name):
            other = taken.get(table.lower())
            if other is not None:
                doc.add("SKY-E123", f"the table '{table}' of query '{name}' collides with {other}", doc.where_key(path), "rename the query")
                break
        for table in query_tables(name):
            taken.setdefault(table.lower(), f"a table of query '{name}'")


def _deletes(s: Scope) -> None:
    if s.job.deletes is None or s.doc.bad(("deletes",)):
        return
    s.expression(("deletes",), s.job.deletes, ROW_SIDES, "predicate")
    if s.job.source.unique == "assumed" and not s.doc.bad(("source", "unique")):
        where = s.doc.where_value(("source", "unique"))
        s.doc.add("SKY-E117", "deletes finds rows by their ids, so ids must be checked", where, "leave 'unique' out")
    for name, query in s.job.queries.items():
        if query.type not in {"topk", "threshold"} and not s.doc.bad(("queries", name)):
            where = s.doc.where_value(("queries", name, "type"))
            s.doc.add("SKY-E117", f"{query.type} cannot be used with deletes", where, "only topk and threshold can")
