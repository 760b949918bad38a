"""Check a spec beyond the shape of its fields: unresolved names, SQL, expressions, windows, collisions.

Every check reports errors with positions and goes on. Values that are known to be wrong (``Document.poisoned``) are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.table_names import append_only
from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import KEEP
from skyband.framework.quality.expectations import ROW_CONDITION, Mistake, mistakes
from skyband.framework.row_rules.row_expectations import MOST_COLUMNS, arguments, default_name, row_mistakes
from skyband.framework.spec.checks.alerts import check_alerts
from skyband.framework.spec.checks.columns import UNKNOWN_TYPE, source_types, type_hint
from skyband.framework.spec.checks.cron import check_cron
from skyband.framework.spec.checks.examples import check_examples
from skyband.framework.spec.checks.lookups import check_lookups
from skyband.framework.spec.checks.position import check_position
from skyband.framework.spec.checks.queries import check_queries, further_tables
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.checks.sink import check_sink
from skyband.framework.spec.checks.sources import check_sources, column_path
from skyband.framework.spec.checks.stats import check_stats
from skyband.framework.spec.checks.table_columns import missing_tables, table_columns
from skyband.framework.spec.checks.tokens import check_tokens
from skyband.framework.spec.checks.vectors import check_vectors
from skyband.framework.spec.expressions.sql import SqlResult, check_sql
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.models.quality import RowCondition, RowExpectation, TableCheck
from skyband.framework.spec.models.transform import DerivedColumn, DeriveStep, WhereStep
from skyband.framework.spec.parsing.document import Document, Path
from skyband.framework.spec.parsing.limits import MAX_MISTAKES


def check(doc: Document, job: Job) -> None:
    """Report all errors of ``job``, which may hold stand-ins for values that ``models.errors`` reported."""
    scope = Scope(doc, job)
    _names(scope)
    _columns(scope)
    _source(scope)
    check_sources(scope)
    _row_rules(scope)
    _check_run_rules(scope)
    _run(scope)
    _window(scope)
    check_tokens(scope)
    check_vectors(scope)
    check_stats(scope)
    check_queries(scope)
    _table_checks(scope)
    _schedule(scope)
    check_sink(scope)
    check_alerts(scope)
    check_examples(scope)


def _names(s: Scope) -> None:
    """Report names from the environment: tables, commits and logs hold names, so they cannot be concealed."""
    for path in (("job",), *(("quality", "rows", i, "name") for i in range(len(s.job.quality.rows)))):
        place = s.doc.places.get(path)
        if place is not None and place.variables and not s.doc.bad(path):
            hint = "write the name itself, since values from the environment are never stored"
            s.doc.add("SKY-E119", "a name is stored and shown, so it cannot come from the environment", s.doc.where_value(path), hint)


def _columns(s: Scope) -> None:
    doc, job = s.doc, s.job
    s.columns_known = not any(doc.bad(p) for p in (("source",), ("source", "schema"), ("sources",), ("transform",)))
    for name in job.sources:
        s.columns_known = s.columns_known and not doc.bad(("sources", name)) and not doc.bad(("sources", name, "schema"))
    for name, type_ in source_types(job).items():
        path = column_path(s, name)
        s.add_column(name, None if doc.bad_below(path) else type_, path)
    for path in doc.poisoned:
        if len(path) == 3 and path[:2] == ("source", "schema"):
            s.types.setdefault(str(path[2]), None)
        if len(path) == 2 and path[0] == "transform":
            s.columns_known = False
    check_lookups(s)
    for i, step in enumerate(job.transform):
        at: Path = ("transform", i)
        if doc.bad(at):
            continue
        if isinstance(step, WhereStep):
            sql(s, (*at, "where"), step.where, condition=True)
        elif isinstance(step, DeriveStep):
            for name, spec in step.derive.items():
                path = (*at, "derive", name)
                if doc.bad(path):
                    s.types.setdefault(name, None)
                    continue
                s.add_column(name, _derived_type(s, path, name, spec), path)


def _derived_type(s: Scope, path: Path, name: str, spec: DerivedColumn | str) -> str | None:
    """Return the type of a derived column, or None after its errors are reported; skip one derived from an unknown type."""
    doc = s.doc
    explicit = isinstance(spec, DerivedColumn)
    at: Path = (*path, "sql") if explicit else path
    result = sql(s, at, spec.sql if isinstance(spec, DerivedColumn) else spec)
    if isinstance(spec, DerivedColumn) and not doc.bad((*path, "type")):
        return spec.type
    if result is None or result.problems:
        return None
    if result.type is None and not explicit and all(s.types.get(c) is not None for c in result.columns):
        doc.add("SKY-E136", f"{UNKNOWN_TYPE} '{name}' is not known", doc.where_value(at), type_hint(name))
    return result.type


def sql(s: Scope, path: Path, text: str, condition: bool = False) -> SqlResult | None:
    """Check SQL at ``path``; skip unknown columns while the columns themselves are not known."""
    if s.doc.bad_below(path) or s.doc.work.gone:
        return None
    result = check_sql(text, s.types, condition, s.doc.work)
    if s.doc.too_much(path):
        return None
    place = s.doc.places.get(path)
    if place is not None and place.variables and result.problems:
        s.doc.add(
            result.problems[0].code,
            "invalid SQL after the environment variables are filled in (their values are not shown)",
            s.doc.where_value(path),
        )
        return result
    for p in result.problems[:MAX_MISTAKES]:
        if p.code == "SKY-E132" and not s.columns_known:
            continue
        s.doc.add(p.code, p.message, s.doc.where_inside(path, p.start, p.end), p.hint)
    return result


def _source(s: Scope) -> None:
    doc, source = s.doc, s.job.source
    if doc.bad(("source",)):
        return
    check_position(s)
    for field in ("id", "partition_by"):
        names = getattr(source, field)
        for i, name in enumerate(names):
            s.column(("source", field, i), name)
            if name in names[:i] and not doc.bad(("source", field, i)):
                doc.add("SKY-E125", f"'{name}' is listed twice in {field}", doc.where_value(("source", field, i)))
    time = source.event_time
    at: Path = ("source", "event_time")
    if doc.bad(at):
        return
    if s.column((*at, "column"), time.column):
        type_ = s.types.get(time.column)
        if type_ is not None and type_ != "timestamp":
            hint = f"give it the type timestamp, or derive one, such as to_timestamp({time.column})"
            doc.add("SKY-E126", f"event_time needs a timestamp, but '{time.column}' is {type_}", doc.where_value((*at, "column")), hint)
    for i, name in enumerate(time.tie_break):
        s.column((*at, "tie_break", i), name)


def _run(s: Scope) -> None:
    run = s.job.run
    if run.max_files is not None and run.max_bytes is not None and not s.doc.bad(("run",)):
        where = s.doc.where_key(("run", "max_bytes"))
        s.doc.add("SKY-E117", "max_files and max_bytes cannot be used together", where, "keep one of them")


def _row_rules(s: Scope) -> None:
    doc = s.doc
    seen: dict[str, int] = {}
    for i, rule in enumerate(s.job.quality.rows):
        path: Path = ("quality", "rows", i)
        if doc.bad(path):
            continue
        name = rule.name
        if isinstance(rule, RowCondition):
            sql(s, (*path, "expect"), rule.expect, condition=True)
        else:
            name = _row_expectation(s, path, rule)
        if name in seen and not doc.bad((*path, "name")):
            own = rule.name is not None
            hint = None if own else f"give it a name of its own: {name}_2"
            doc.add("SKY-E102", f"two rules named '{name}'", doc.where_value((*path, "name") if own else (*path, "expectation")), hint)
        if name is not None:
            seen.setdefault(name, i)


def _table_checks(s: Scope) -> None:
    doc = s.doc
    if doc.bad(("queries",)):
        return
    absent = missing_tables(s)
    tables = (s.tables() | further_tables(s)) - absent.keys()
    for i, c in enumerate(s.job.quality.tables):
        path: Path = ("quality", "tables", i)
        if doc.bad_below(path):
            continue
        if c.table in tables:
            _table_check(s, path, c)
            if c.scope == "new" and not append_only(c.table):
                said, hint = f"rows of '{c.table}' are updated in place, so a check cannot be limited to new ones", "scope: whole"
                doc.add("SKY-E117", said, doc.where_value((*path, "scope")), hint)
            continue
        if s.may_have_table(c.table):
            continue
        hint = did_you_mean(c.table, tables) or f"tables: {one_of(sorted(tables), 20)}"
        if c.table in absent:
            hint = f"the only table of this query is {absent[c.table]}"
        doc.add("SKY-E122", f"no table '{c.table}' in this job", doc.where_value((*path, "table")), hint)


def _row_expectation(s: Scope, path: Path, rule: RowExpectation) -> str | None:
    """Return the name of the rule, or None after the expectation's errors are reported."""
    if s.doc.bad_below(path):
        return None
    given = rule.model_extra or {}
    if _expectation(s, path, row_mistakes(rule.expectation, given, s.types if s.columns_known else None)):
        return None
    if rule.name is not None:
        return rule.name
    named = [(*path, a) for a in ("column", "column_A", "column_B")] + [(*path, "column_list", i) for i in range(MOST_COLUMNS)]
    if any((place := s.doc.places.get(at)) is not None and place.variables for at in named):
        hint = "give the rule a name, since its default name would show the column from the environment"
        s.doc.add("SKY-E119", "the name of a rule cannot come from the environment", s.doc.where_value((*path, "expectation")), hint)
        return None
    return default_name(rule.expectation, arguments(rule.expectation, given))


def _expectation(s: Scope, path: Path, found: Iterator[Mistake]) -> bool:
    """Report the errors of the expectation at ``path``; return True if there are any."""
    failed = False
    for code, argument, message, hint in found:
        failed = True
        at = (*path, argument or "expectation")
        place = s.doc.places.get(at)
        hidden = place is not None and place.variables
        said = f"'{at[-1]}' is invalid after the environment variables are filled in (their values are not shown)" if hidden else message
        s.doc.add(code, said, s.doc.where_key(at) if code == "SKY-E110" else s.doc.where_value(at), None if hidden else hint)
    return failed


def _table_check(s: Scope, path: Path, check: TableCheck) -> None:
    """Check the expectation and its arguments; only allowed ones reach Great Expectations."""
    columns = table_columns(s, check.table)
    given = check.model_extra or {}
    failed = _expectation(s, path, mistakes(check.expectation, given, columns))
    condition = given.get(ROW_CONDITION)
    if isinstance(condition, str) and columns is not None and not failed:
        s.expression((*path, ROW_CONDITION), condition, ROW_SIDES, "predicate", only=columns)


def _window(s: Scope) -> None:
    doc, window = s.doc, s.job.window
    if doc.bad_below(("window",)):
        return
    if window.count is None and window.time is None:
        doc.add("SKY-E111", "window needs 'count', 'time' or both", doc.where_key(("window",)), "such as window: {time: 7 days}")
        doc.poisoned.add(("window",))


def _schedule(s: Scope) -> None:
    doc, schedule = s.doc, s.job.schedule
    if schedule is None or doc.bad(("schedule",)):
        return
    concealed = [path for path, place in doc.places.items() if path[:1] == ("schedule",) and place.variables]
    for path in concealed:
        said = "Airflow stores and shows the fields of schedule, so they cannot come from the environment"
        doc.add("SKY-E119", said, doc.where_value(path), "write the value itself")
    if concealed:
        return
    given = [f for f in ("cron", "assets") if getattr(schedule, f) is not None or doc.bad_below(("schedule", f))]
    if not given:
        hint = 'such as schedule: {cron: "0 6 * * *"}, or schedule: {assets: [job.table]}'
        doc.add("SKY-E111", "schedule needs 'cron' or 'assets'", doc.where_key(("schedule",)), hint)
    if len(given) == 2:
        doc.add("SKY-E117", "schedule cannot have both 'cron' and 'assets'", doc.where_key(("schedule", "assets")), "keep one of them")
    at: Path = ("schedule", "cron")
    wrong = check_cron(schedule.cron) if schedule.cron is not None and not doc.bad_below(at) else None
    if wrong:
        doc.add("SKY-E118", f"not a cron expression: {wrong}", doc.where_value(at), 'such as "0 * * * *" for every hour')


def _check_run_rules(s: Scope) -> None:
    """Report mistakes in ``quality.runs``. O(rules)."""
    for i, rule in enumerate(s.job.quality.runs):
        path: Path = ("quality", "runs", i)
        if s.doc.bad_below(path):
            continue
        if (rule.max_delay is None) == (rule.min_rows is None):
            s.doc.add("SKY-E111", "a rule over runs needs exactly one of 'max_delay' and 'min_rows'", s.doc.where_value(path))
        elif (rule.min_rows is None) != (rule.per is None):
            hint = "such as {min_rows: 1000, per: 1 day}"
            s.doc.add("SKY-E111", "'min_rows' and 'per' must be used together", s.doc.where_value(path), hint)
        elif rule.per is not None and rule.per > (s.job.run.keep or KEEP) and not s.doc.bad_below(("run",)):
            said = f"rows of table runs are kept for {format_duration(s.job.run.keep or KEEP)} only (run.keep): 'per' cannot be longer"
            s.doc.add("SKY-E114", said, s.doc.where_value((*path, "per")))
