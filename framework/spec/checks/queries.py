"""Checks of scoring functions and queries: names, expressions, windows, collisions of tables and columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from skyband.framework.base.columns import FINAL_COLUMNS, FIXED_COLUMNS, HEAD_COLUMNS, cause, instant, membership, sign
from skyband.framework.base.counts import counted
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.items import ItemShape
from skyband.framework.base.table_names import FINAL_RESULTS, JOB_RUNS, JOB_TABLES, QUERY_COLUMN, TRAJECTORY, query_tables
from skyband.framework.base.units import Months, format_duration
from skyband.framework.base.zones import is_zone, zone_hint
from skyband.framework.plan.drafts import calendar_of, job_window, own_window
from skyband.framework.queries.models import QueryModel, QueryWindow
from skyband.framework.queries.registry import QUERY_TYPES, query_type
from skyband.framework.spec.chains import CONTRADICTING, Division, StreamJob, Takes, cycle, divided, identity, item_columns, item_of, taken
from skyband.framework.spec.checks.scope import PAIR_SIDES, ROW_SIDES, Scope
from skyband.framework.spec.checks.sources import check_source_of
from skyband.framework.spec.expressions.scoring import LocalScore, is_linear, local_function, local_score, scoring_text, term_columns
from skyband.framework.spec.expressions.scoring_functions import SCORING_FUNCTIONS
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.scoring import TERM_FUNCTIONS, ExpressionScoring, FunctionScoring, GlobalScoring, LinearScoring, Term
from skyband.framework.spec.models.source import Operations
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Kind
from skyband.operators.calendar import longest

# Check what deletes objects: ``deletes``, and ``op`` and ``on_duplicate`` of the source.

_OP: Final[Path] = ("source", "op")
_ON_DUPLICATE: Final[Path] = ("source", "on_duplicate")
_DELETING: Final = ("insert", "update", "delete", "ignore")
_TYPES: Final = ("string", "int", "bigint")
"""Types of a column with the kind of change."""


def what_deletes(s: Scope) -> tuple[str, Path] | None:
    """Return (name, place) of the part of the spec by which objects may be deleted; None if there is none, or it is invalid."""
    job = s.job
    for name, path, given in (
        ("deletes", ("deletes",), job.deletes is not None),
        ("source.op", _OP, job.source.op is not None),
        ("on_duplicate: replace", _ON_DUPLICATE, job.source.on_duplicate == "replace"),
    ):
        if given and not s.doc.bad(path):
            return name, path
    return None


def check_deletions(s: Scope) -> None:
    """Report all errors of deletions and replaced rows."""
    if s.job.deletes is not None and not s.doc.bad(("deletes",)):
        s.expression(("deletes",), s.job.deletes, ROW_SIDES, "predicate", only=s.kinds_in_source())
    if s.job.source.op is not None and not s.doc.bad_below(_OP):
        _check_operations(s, s.job.source.op)
    _check_ids(s)
    found = what_deletes(s)
    if found is None:
        return
    can = sorted((name for name, kind in QUERY_TYPES.all().items() if kind.takes_deletions), key=len)
    for name, query in s.job.queries.items():
        if query.type not in can and not s.doc.bad(("queries", name)):
            where = s.doc.where_value(("queries", name, "type"))
            s.doc.add("SKY-E117", f"{query.type} cannot be used with {found[0]}", where, f"only {one_of(can).replace(' or ', ' and ')} can")


def _check_operations(s: Scope, op: Operations) -> None:
    at: Path = (*_OP, "column")
    type_ = s.types.get(op.column) if s.column(at, op.column) else None
    if type_ is not None and type_ not in _TYPES:
        hint = "derive a text from it first, such as cast(x as string)"
        s.doc.add("SKY-E126", f"op needs a text or a whole number, but '{op.column}' is {type_}", s.doc.where_value(at), hint)
    seen: dict[str, str] = {}
    for kind in _DELETING:
        for i, value in enumerate(getattr(op, kind)):
            if value in seen:
                said = f"'{value}' is listed under {seen[value]} already"
                s.doc.add("SKY-E125", said, s.doc.where_value((*_OP, kind, i)), "a value means one kind of change")
            seen.setdefault(value, kind)
    if not {"insert", "update"} & {*seen.values()}:
        hint = "insert: [c, r], or the values that your feed uses"
        s.doc.add("SKY-E111", "op lists no value of rows that bring objects", s.doc.where_key(_OP), hint)
    if (op.update or op.delete) and not s.job.source.event_time.tie_break and not s.doc.bad_below(("source", "event_time")):
        said = "without 'tie_break', changes of an id at one instant count in this order: insertions, updates, deletions"
        hint = "event_time: {tie_break: [lsn]}, with the columns by which the feed orders its changes, such as a log sequence number"
        s.doc.warn("SKY-E139", said, s.doc.where_key(("source", "event_time")), hint)
    if s.job.deletes is not None and not s.doc.bad(("deletes",)):
        s.doc.add("SKY-E117", "op and deletes cannot be used together", s.doc.where_key(("deletes",)), "list the values under op.delete")


def _check_ids(s: Scope) -> None:
    """Check that ids are checked where rows are found by their ids."""
    source = s.job.source
    if source.unique != "assumed" or s.doc.bad(("source", "unique")):
        return
    found = what_deletes(s)
    if found is None and source.on_duplicate == "keep_first" and not s.doc.bad(_ON_DUPLICATE):
        found = "on_duplicate: keep_first", _ON_DUPLICATE
    if found is not None:
        where = s.doc.where_value(("source", "unique"))
        s.doc.add("SKY-E117", f"{found[0]} needs checked ids, since it finds rows by their ids", where, "remove 'unique'")


# Check queries over queries: what they take, and that no query takes its own result.

_WORDS: Final = {"entries": "from", "members": "of"}


def check_chains(s: Scope) -> list[Scope]:
    """Report all errors of what queries take; return the scope of the source's rows, then those of the results that are taken."""
    without = _without_input(s)
    if not without and all(taken(s.job, q) is None for q in s.job.queries.values()):
        return [s]
    for name, query in s.job.queries.items():
        found = taken(s.job, query)
        if found is not None and not s.doc.bad(("queries", name)):
            _check(s, ("queries", name), query, *found)
    for name in without:
        # Its columns are not known: it is checked once the query whose result it takes has no mistakes.
        s.of_stream(_only(s.job, {name}), {}, False, name)
    division = divided(_only(s.job, set(s.job.queries) - without), s.types)
    scopes = [s.of_job(division.job)]
    for one in division.streams:
        known = not s.doc.bad_below(("queries", one.stream.of))
        if known:
            _check_columns(s, one, division)
        scopes.append(s.of_stream(one.job, one.types, known, one.stream.of))
    return scopes


def _without_input(s: Scope) -> set[str]:
    """Return the queries that take the result of a query with mistakes, directly or through others. O(queries ** 2)."""
    found: set[str] = set()
    inputs = {name: getattr(query, "of", None) or query.source for name, query in s.job.queries.items()}
    while True:
        more = {n for n, of in inputs.items() if of is not None and of not in s.job.sources and (of in found or s.has_mistakes(str(of)))}
        if more <= found:
            return found
        found |= more


def _only(job: Job, names: set[str]) -> Job:
    """Return the job with the queries ``names`` and the scoring functions that no other query uses alone."""
    others = {s for n, q in job.queries.items() if n not in names and (s := getattr(q, "scoring", None)) is not None}
    used = {s for n, q in job.queries.items() if n in names and (s := getattr(q, "scoring", None)) is not None}
    scoring = {n: s for n, s in job.scoring.items() if n in used or n not in others}
    return job.model_copy(update={"queries": {n: q for n, q in job.queries.items() if n in names}, "scoring": scoring})


def _check_columns(s: Scope, one: StreamJob, division: Division) -> None:
    """Report objects that the entries of a result do not have, and two columns of one name."""
    doc, of, stream = s.doc, one.stream.of, one.stream
    entries = list(item_columns(of, s.job.queries[of], division.home(of), stream.takes).values())
    names = [*entries, sign(of), cause(of)]
    if stream.takes == "members":
        names = [*dict.fromkeys((*division.home(of).source.partition_by, *stream.objects)), membership(of)]
        for query in stream.queries:
            for i, name in enumerate(stream.objects):
                short: Path = ("queries", query, "object")
                at = short if (*short, i) not in doc.places else (*short, i)
                if name not in entries and not doc.bad(at):
                    hint = did_you_mean(name, entries) or f"columns: {one_of(entries, 20)}"
                    doc.add("SKY-E120", f"the result of '{of}' has no column '{name}'", doc.where_value(at), hint)
    lower = [n.lower() for n in (*names, instant(of))]
    twice = next((n for n in lower if lower.count(n) > 1), None)
    if twice is not None:
        said = f"the result of '{of}' has a column '{twice}' already, which is what Skyband calls one of its own here"
        hint = f"rename the query '{of}', or the column, or leave it out of the query's 'carry'"
        doc.add("SKY-E125", said, doc.where_value(("queries", stream.queries[0], _WORDS[stream.takes])), hint)


def _check(s: Scope, path: Path, query: QueryModel, of: str, takes: Takes) -> None:
    doc, name, at = s.doc, str(path[-1]), (*path, _WORDS[takes])
    if doc.bad(at):
        return
    other = s.job.queries.get(of)
    if s.has_mistakes(of):
        return
    if other is None:
        hint = did_you_mean(of, [q for q in s.job.queries if q != name]) or f"queries: {one_of([q for q in s.job.queries if q != name])}"
        doc.add("SKY-E120", f"there is no query '{of}'", doc.where_value(at), hint)
        return
    around = cycle(s.job, name)
    if around is not None:
        if around[0] == name:
            said = f"queries take each other's results in a circle: {' <- '.join(around)}"
            doc.add("SKY-E117", said, doc.where_value(at), "let one of them take the source's rows")
        return
    for table, where in ((other, doc.where_value(at)), (query, doc.where_key((*path, "queries_from")))):
        if getattr(table, "queries_from", None) is not None:
            doc.add("SKY-E117", "a table of queries neither takes a result nor gives one", where, "spell out the query under 'queries:'")
            return
    if takes == "members":
        _check_members(s, path, query, of, other)


def _check_members(s: Scope, path: Path, query: Any, of: str, other: QueryModel) -> None:
    doc, at = s.doc, (*path, "of")
    for field in CONTRADICTING:
        if getattr(query, field) is not None and not doc.bad_below((*path, field)):
            said = f"with 'of' an object is on while it is in the result of '{of}'; '{field}' says otherwise"
            doc.add("SKY-E117", said, doc.where_key((*path, field)), f"leave out '{field}', or 'of'")
    if query.source is not None and not doc.bad((*path, "from")):
        doc.add("SKY-E117", "'from' and 'of' cannot be used together", doc.where_key((*path, "from")), "leave one of them out")
    if not item_of(other).lasting:
        hint = "take a query whose items enter and leave its result"
        doc.add("SKY-E117", f"items of '{of}' are reported once, and are in no result", doc.where_value(at), hint)
    if query.object is None and not doc.bad((*path, "object")):
        known = identity(other, s.job)
        hint = f"such as object: {known[0]}" if known else "the column that names the object"
        said = f"the result of '{of}' consists of rows: which column names the object that a row is about?"
        doc.add("SKY-E111", f"'object' is missing: {said}", doc.where_key(path), hint)


# Checks of the windows of queries: bounds that fit into the job's window, tumbling windows, sessions.

_KINDS: Final = {"tumbling": "tumbling windows", "hop": "hopping windows", "session": "sessions"}
_SHORTEST: Final = 28 * 86_400_000_000
"""Microseconds of the shortest month."""
_ENLARGE: Final = "enlarge the job's window, or use a smaller one here"


def check_window(s: Scope, path: Path, query: QueryModel) -> None:
    """Report all errors of the window of the query at ``path``."""
    doc, at = s.doc, (*path, "window")
    # Queries over results have the job's window by default, which nobody wrote there.
    if query.window is None or at not in doc.places or doc.bad_below(at):
        return
    own = query.window
    if not _fields_fit(s, at, own) or not _supported(s, at, query, own) or doc.bad_below(("window",)):
        return
    job = job_window(s.job.window)
    for kind, _, largest in own_window(own).misfits(job):
        where = doc.where_value((*at, "hop", "size") if own.hop is not None and kind == "time" else (*at, kind))
        if largest is None:
            hint = f"add {kind} to the job's window, or use {'time' if kind == 'count' else 'count'}"
            doc.add("SKY-E141", f"the job's window has no {kind}", where, hint)
        else:
            big = f"{counted(largest, 'row')}" if kind == "count" else format_duration(largest)
            doc.add("SKY-E140", f"larger than the job's window ({big})", where, _ENLARGE)
    calendar = None if own.tumbling is None else calendar_of(own.tumbling, own.zone)
    for field, micros in (("tumbling", None if calendar is None else calendar.micros), ("session", own.session)):
        if micros is None:
            continue
        where = doc.where_value((*at, field))
        if job.micros is None:
            doc.add("SKY-E141", f"{_KINDS[field]} need a job's window with a time", where, "add time to the job's window")
            continue
        most = longest(calendar) if calendar is not None else micros
        if most > job.micros:
            clocks = f": where clocks are set back, a window has {format_duration(most)}" if most > micros else ""
            doc.add("SKY-E140", f"larger than the job's window ({format_duration(job.micros)}){clocks}", where, _ENLARGE)


def _fields_fit(s: Scope, at: Path, own: QueryWindow) -> bool:
    """Report fields that do not go together, and an unknown zone; return True if there are none."""
    doc = s.doc
    kinds = [k for k in _KINDS if getattr(own, k) is not None]
    sliding = [k for k in ("count", "time") if getattr(own, k) is not None]
    if not kinds and not sliding:
        doc.add("SKY-E111", "a window needs 'count', 'time' or both", doc.where_key(at), "or 'tumbling', 'hop' or 'session'")
        return False
    if kinds and len(kinds) + len(sliding) > 1:
        named = [*kinds, *sliding]
        hint = f"keep {one_of(named)}; the job's window bounds it as well"
        doc.add("SKY-E117", f"'{named[0]}' and '{named[1]}' are windows of two kinds", doc.where_key((*at, named[1])), hint)
        return False
    stray = [k for k in ("zone", "offset") if own.tumbling is None and getattr(own, k) is not None]
    if stray:
        doc.add("SKY-E117", f"'{stray[0]}' is of tumbling windows", doc.where_key((*at, stray[0])), "add 'tumbling', or leave it out")
        return False
    if own.zone is not None and not is_zone(own.zone):
        doc.add("SKY-E113", f"unknown time zone {doc.shown((*at, 'zone'))}", doc.where_value((*at, "zone")), zone_hint(own.zone))
        return False
    least = _SHORTEST * own.tumbling.count if isinstance(own.tumbling, Months) else own.tumbling
    if least is not None and own.offset is not None and own.offset >= least:
        message = f"'offset' moves windows by less than their length ({format_duration(least)})"
        doc.add("SKY-E114", message, doc.where_value((*at, "offset")))
        return False
    return True


def _supported(s: Scope, at: Path, query: QueryModel, own: QueryWindow) -> bool:
    """Report a kind of window that the query type does not support; return True if it does."""
    for kind, name in _KINDS.items():
        if getattr(own, kind) is not None and kind not in query_type(query.type).windows:
            can = sorted((n for n, t in QUERY_TYPES.all().items() if kind in t.windows), key=len)
            hint = f"use count or time; {' and '.join(can)} take {name}"
            s.doc.add("SKY-E142", f"{query.type} takes no {name}", s.doc.where_key((*at, kind)), hint)
            return False
    if own.hop is not None and query.every is not None:
        message = "'every' and 'hop' both say when results change"
        s.doc.add("SKY-E117", message, s.doc.where_key((*at[:-1], "every")), "leave out 'every'")
        return False
    if not own.follows or query_type(query.type).forms_windows:
        return True
    if query.every is not None:
        message = "'every' and windows that follow each other: only queries about groups have both"
        hint = f"leave 'every' out: each final result is a row of the table <query>{FINAL_RESULTS}"
        s.doc.add("SKY-E117", message, s.doc.where_key((*at[:-1], "every")), hint)
        return False
    if own.session is not None and s.job.has_deletions:
        message = "sessions cannot be used with deletions: a silence is counted from rows, which may be deleted"
        s.doc.add("SKY-E117", message, s.doc.where_key((*at, "session")), "use time or tumbling")
        return False
    return True


# Checks of a global score: its terms are local scores of one column each, and their combination is monotone (paper 0).

_EXPRESSION: Final = "expression"


def check_terms(s: Scope, path: Path, scoring: GlobalScoring) -> bool:
    """Return True if the terms of the score at ``path`` are valid. Report mistakes, and warn of a combination that is not monotone."""
    scores = [_term(s, (*path, "terms", i), term) for i, term in enumerate(scoring.terms)]
    if scoring.combine == "product" and len(scores) > 1:
        for i, score in enumerate(scores):
            if score is not None and not score.of_one_sign:
                message = f"the product of terms is not monotone: {_shown(scoring.terms[i])} may be negative, which turns the others round"
                hint = "results are exact all the same; a score that is meant to be monotone takes its abs, in an expression"
                s.doc.warn("SKY-E129", message, s.doc.where_value((*path, "terms", i)), hint)
    return None not in scores


def _term(s: Scope, at: Path, term: Term) -> LocalScore | None:
    """Return what is known of a term, or None if it has mistakes, which are reported."""
    named = term_columns(term)
    functions = [f for f, _ in named] + ([_EXPRESSION] if term.expression is not None else [])
    if len(functions) != 1:
        if not s.doc.bad_below(at):
            what = f"names {one_of(functions)}" if functions else "names no function"
            hint = f"use exactly one of {', '.join((*TERM_FUNCTIONS, _EXPRESSION))}"
            s.doc.add("SKY-E117", f"a term {what}", s.doc.where_value(at), hint)
        for f, c in named:
            s.column((*at, f), c)
        return None
    if term.expression is not None:
        return _of_expression(s, at, term.expression, term.monotone)
    if term.monotone and not s.doc.bad((*at, "monotone")):
        message = f"{functions[0]} is loosely monotone anyway: only an expression may be declared so"
        s.doc.add("SKY-E117", message, s.doc.where_key((*at, "monotone")), "remove 'monotone'")
    ((function, column),) = named
    return local_function(function) if s.column((*at, function), column) else None


def _of_expression(s: Scope, at: Path, text: str, declared: bool) -> LocalScore | None:
    """Return what is known of an expression over one column, or None after a mistake."""
    field: Path = (*at, _EXPRESSION)
    if not s.expression(field, text, PAIR_SIDES, "score"):
        return None
    found = local_score(text, s.names(PAIR_SIDES))
    whole = "to score by several columns at once, use 'expression' in place of 'combine'"
    if len(found.columns) != 1:
        read = one_of([f"'{c}'" for c in found.columns]).replace(" or ", " and ") if found.columns else "no column"
        s.doc.add("SKY-E117", f"a term is about one column, and this expression reads {read}", s.doc.where_value(field), whole)
        return None
    if not (found.monotone or declared or s.doc.bad((*at, "monotone"))):
        message = "a term must be loosely monotone, and that is not proven of this expression"
        hint = f"add 'monotone: true' if it rises or falls all the way on either side of the other row's value; {whole}"
        s.doc.add("SKY-E117", message, s.doc.where_value(field), hint)
        return None
    return found


def _shown(term: Term) -> str:
    return " of ".join(term_columns(term)[0]) if term.expression is None else "this expression"


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
