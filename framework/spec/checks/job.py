"""Check a spec beyond the shape of its fields: unresolved names, SQL, expressions, windows, collisions.

Every check reports errors with positions and goes on. Values that are known to be wrong (``Document.poisoned``) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.decimals import decimal_digits
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.table_names import append_only
from skyband.framework.base.units import format_duration
from skyband.framework.catalogs.model import InvalidName, schema_of
from skyband.framework.plan.drafts import job_window
from skyband.framework.plan.model import KEEP
from skyband.framework.quality.expectations import ROW_CONDITION, Mistake, mistakes
from skyband.framework.queries.checks import NAMING
from skyband.framework.row_rules.row_expectations import MOST_COLUMNS, arguments, default_name, row_mistakes
from skyband.framework.sources.kafka.client import NO_PASSWORD, TEXTS, TOPIC, lacking
from skyband.framework.sources.registry import SOURCES
from skyband.framework.sources.several.format import SEVERAL
from skyband.framework.spec.checks.alerts import check_alerts
from skyband.framework.spec.checks.columns import UNKNOWN_TYPE, source_types, type_hint
from skyband.framework.spec.checks.examples import check_examples
from skyband.framework.spec.checks.lookups import check_lookups
from skyband.framework.spec.checks.queries import check_queries, further_tables, what_deletes
from skyband.framework.spec.checks.scope import PAIR_SIDES, ROW_SIDES, Scope
from skyband.framework.spec.checks.sources import check_sources, column_path
from skyband.framework.spec.checks.table_columns import missing_tables, table_columns
from skyband.framework.spec.expressions.sql import SqlResult, check_sql
from skyband.framework.spec.models.job import FUNCTIONS, Job, KafkaSink, RowCondition, RowExpectation, Statistics, TableCheck, topics
from skyband.framework.spec.models.source import VECTOR_TYPES, DerivedColumn, DeriveStep, Tokens, WhereStep, kind_of
from skyband.framework.spec.parsing.document import Document, Path
from skyband.framework.spec.parsing.limits import MAX_MISTAKES
from skyband.framework.storage.location import is_root, overlap, parts, unusable_characters

# Check the sink of a spec: its path, the schema of its catalog, the Kafka sink, Iceberg metadata and change data feeds.

_HOME: Final = "_skyband"


def check_sink(s: Scope) -> None:
    """Report all errors of the sink."""
    _path(s)
    _catalog(s)
    if s.job.sink.kafka is not None and not s.doc.bad(("sink", "kafka")):
        _kafka(s, s.job.sink.kafka)
    _feeds(s)
    if s.job.sink.iceberg and not s.doc.bad_below(("sink", "path")) and "#" in s.job.sink.path:
        said, hint = f"Iceberg readers misread '#' in paths: {s.job.sink.path}", "name a directory without it, or leave out sink.iceberg"
        s.doc.add("SKY-E119", said, s.doc.where_value(("sink", "path")), hint)


def _path(s: Scope) -> None:
    path: Path = ("sink", "path")
    if s.doc.bad_below(path):
        return
    sink = s.job.sink.path
    sources = [(("source", "path"), s.job.source.path), *((("sources", n, "path"), one.path) for n, one in s.job.sources.items())]
    if characters := unusable_characters(sink):
        said = f"the sink's path contains {' '.join(characters)}, which Spark or the Delta library would misread: {sink}"
        hint = "name a directory without [ ] { } * ? \\ ^ |, control characters and % before two hexadecimal digits"
        s.doc.add("SKY-E119", said, s.doc.where_value(path), hint)
    elif is_root(sink):
        s.doc.add(
            "SKY-E119", "the sink cannot be the root of a file system", s.doc.where_value(path), "give the job a directory of its own"
        )
    elif _HOME in parts(sink):
        said = f"the sink cannot be inside a directory {_HOME}, which holds the state of a job"
        s.doc.add("SKY-E119", said, s.doc.where_value(path), "give the job a directory of its own")
    elif any(source is not None and not s.doc.bad(at) and overlap(source, sink) for at, source in sources):
        said = "the sink cannot be the directory of the source, nor above or below it"
        s.doc.add("SKY-E119", said, s.doc.where_value(path), "give the job a directory of its own")


def _catalog(s: Scope) -> None:
    at: Path = ("sink", "catalog")
    if s.job.sink.catalog is None or s.doc.bad(at):
        return
    if at in s.doc.variables():
        hint = "write the name itself, or give it by a profile or a parameter"
        s.doc.add(
            "SKY-E119", "the name of a schema is stored and shown, so it cannot come from the environment", s.doc.where_value(at), hint
        )
        return
    try:
        schema_of(s.job.sink.catalog)
    except InvalidName as e:
        s.doc.add("SKY-E680", str(e), s.doc.where_value(at), e.hint)


def _kafka(s: Scope, kafka: KafkaSink) -> None:
    doc = s.doc
    at: Path = ("sink", "kafka")
    given = {n: v for n in TEXTS if (v := getattr(kafka, n)) is not None and not doc.bad((*at, n))}
    for name, value in given.items():
        if re.fullmatch(TEXTS[name][0], value) is None:
            doc.add("SKY-E114", f"'{name}' takes {TEXTS[name][1]}", doc.where_value((*at, name)))
    if "password" in given and (*at, "password") not in doc.variables():
        doc.add("SKY-E119", NO_PASSWORD[0], doc.where_key((*at, "password")), NO_PASSWORD[1])
    for name in lacking({n for n in ("user", "password", "mechanism") if getattr(kafka, n) is not None}):
        doc.add("SKY-E111", f"sink.kafka needs '{name}' as well", doc.where_key(at), "a login needs user, password and mechanism")
    _listed(s, (*at, "queries"), kafka.queries)
    if (*at, "topic") in doc.variables():
        said = "the name of a topic is stored and shown, so it cannot come from the environment"
        doc.add("SKY-E119", said, doc.where_value((*at, "topic")), "write the name itself, or give it by a profile or a parameter")
    elif not doc.bad((*at, "topic")) and any(re.fullmatch(TOPIC, topic) is None for _, topic in topics(kafka, s.job.job, s.job.queries)):
        hint = "use letters, digits, '.', '_' and '-', at most 249 characters; {job} and {query} insert names"
        doc.add("SKY-E114", "'topic' is not a valid topic name", doc.where_value((*at, "topic")), hint)


def _feeds(s: Scope) -> None:
    at: Path = ("sink", "change_data_feed")
    if isinstance(s.job.sink.change_data_feed, tuple) and not s.doc.bad(at):
        _listed(s, at, s.job.sink.change_data_feed)


def _listed(s: Scope, at: Path, names: Sequence[str]) -> None:
    """Report the ``names`` at ``at`` that are no queries of the spec, or that are there twice."""
    for i, name in enumerate(names):
        where = s.doc.where_value((*at, i))
        if s.has_mistakes(name):
            continue
        if name not in s.job.queries:
            hint = did_you_mean(name, s.job.queries) or "list queries of this spec"
            s.doc.add("SKY-E128", f"there is no query '{name}'", where, hint)
        elif name in names[:i]:
            s.doc.add("SKY-E102", f"'{name}' is listed twice in {at[-1]}", where)


# Check the section ``stats``: names, columns and their types, windows; then the statistics are columns of rows.

_ADDS: Final = ("mean", "stddev", "sum")


def check_stats(s: Scope) -> None:
    """Report all errors of statistics, and add their columns: what is checked before cannot read them."""
    if s.doc.bad(("stats",)):
        s.columns_known = False
        return
    for name, statistics in s.job.stats.items():
        path: Path = ("stats", name)
        if s.doc.bad(path):
            s.columns_known = False
            continue
        if name in PAIR_SIDES:
            hint = "choose another name: in expressions over pairs, a and b are the two rows"
            s.doc.add("SKY-E116", f"'{name}' is reserved for a row of a pair", s.doc.where_key(path), hint)
            s.columns_known = False
            continue
        _check_functions(s, path, statistics)
        _check_by(s, path, statistics)
        _check_window(s, path, statistics)
    for name, statistics in s.job.stats.items():
        for function, _ in statistics.functions if not s.doc.bad(("stats", name)) and name not in PAIR_SIDES else ():
            s.add_statistic(name, function)


def _check_functions(s: Scope, path: Path, statistics: Statistics) -> None:
    # It loads the language of expressions.
    from skyband.framework.queries.group_rows.compile import MOST_DIGITS

    if not statistics.functions and not any(s.doc.bad_below((*path, f)) for f in FUNCTIONS):
        s.doc.add("SKY-E111", "statistics need at least one function", s.doc.where_key(path), "such as mean: amount")
    for function, column in statistics.functions:
        at: Path = (*path, function)
        type_ = s.types.get(column) if s.column(at, column, lists=function == "count") else None
        if type_ is None or function == "count":
            continue
        digits = decimal_digits(type_)
        if kind_of(type_) not in ("int", "float"):
            s.doc.add("SKY-E126", f"{function} takes numbers, and '{column}' is {type_}", s.doc.where_value(at), "count takes any column")
        elif digits is not None and digits[0] > MOST_DIGITS and function in _ADDS:
            fewer = f"decimal({MOST_DIGITS},{min(digits[1], MOST_DIGITS)})"
            hint = f"derive one with fewer digits: {{sql: cast({column} as {fewer}), type: '{fewer}'}}"
            message = f"{function} takes decimals of at most {MOST_DIGITS} digits, and '{column}' is {type_}"
            s.doc.add("SKY-E126", message, s.doc.where_value(at), hint)


def _check_by(s: Scope, path: Path, statistics: Statistics) -> None:
    for i, column in enumerate(statistics.by):
        at: Path = (*path, "by", i)
        if not s.column(at, column):
            continue
        type_ = s.types[column]
        if type_ is not None and type_ not in NAMING and not type_.startswith("decimal"):
            hint = f"derive a text or a whole number from it, such as cast({column} as string)"
            s.doc.add("SKY-E126", f"numbers with a fraction make no groups, and '{column}' is {type_}", s.doc.where_value(at), hint)
        if column in statistics.by[:i]:
            s.doc.add("SKY-E125", f"'{column}' is listed twice in by", s.doc.where_value(at))


def _check_window(s: Scope, path: Path, statistics: Statistics) -> None:
    at: Path = (*path, "window")
    if s.doc.bad_below(at) or s.doc.bad_below(("window",)):
        return
    for kind, _, largest in job_window(statistics.bounds).misfits(job_window(s.job.window)):
        place = (*at, kind) if (*at, kind) in s.doc.places else at
        where = s.doc.where_value(place)
        if largest is None:
            hint = f"add {kind} to the job's window, or use {'time' if kind == 'count' else 'count'}"
            s.doc.add("SKY-E141", f"the job's window has no {kind}", where, hint)
        else:
            big = counted(largest, "row") if kind == "count" else format_duration(largest)
            s.doc.add("SKY-E140", f"larger than the job's window ({big})", where, "enlarge the job's window, or use a smaller one here")


# Check the section ``tokens``: columns, separators and regular expressions.

MAX_WORDS = 200
"""Maximum length of a regular expression for words."""


def check_tokens(s: Scope) -> None:
    """Report all errors of the sets of tokens."""
    for name, tokens in s.job.tokens.items():
        path: Path = ("tokens", name)
        if s.doc.bad(path):
            continue
        _check_column(s, path, tokens)
        if tokens.separator is not None and tokens.words is not None and not s.doc.bad_below(path):
            s.doc.add("SKY-E117", "'separator' and 'words' cannot be used together", s.doc.where_key((*path, "words")), "keep one of them")
        if tokens.words is not None and not s.doc.bad((*path, "words")):
            _check_words(s, (*path, "words"), tokens.words)
        if tokens.min_tokens > tokens.max_tokens and not s.doc.bad_below(path):
            at: Path = (*path, "min_tokens")
            where = s.doc.where_value(at) if at in s.doc.places else s.doc.where_value((*path, "max_tokens"))
            s.doc.add("SKY-E117", f"min_tokens is larger than max_tokens ({tokens.max_tokens:,}): no row would have a set", where)
        if tokens.short == "reject" and (deletes := what_deletes(s)) is not None and not s.doc.bad((*path, "short")):
            said = f"with {deletes[0]}, short cannot be reject: a row that deletes would need tokens, too"
            s.doc.add("SKY-E117", said, s.doc.where_key((*path, "short")), "short: skip lets short rows take no part")


def _check_column(s: Scope, path: Path, tokens: Tokens) -> None:
    at: Path = (*path, "column")
    type_ = s.types.get(tokens.column) if s.column(at, tokens.column, lists=True) else None
    if type_ is None:
        return
    kind = kind_of(type_)
    if kind not in ("text", "list"):
        hint = "derive a text from it first, such as cast(x as string)"
        s.doc.add("SKY-E126", f"tokens need a list or a text column, but '{tokens.column}' is {type_}", s.doc.where_value(at), hint)
    if type_ in VECTOR_TYPES:
        hint = "tokens are texts or whole numbers; 'vectors:' compares lists of other numbers"
        s.doc.add("SKY-E126", f"tokens need a list of tokens, but '{tokens.column}' is {type_}", s.doc.where_value(at), hint)
    for field in ("separator", "words"):
        if kind == "list" and getattr(tokens, field) is not None and not s.doc.bad((*path, field)):
            said = f"'{field}' is for texts, but '{tokens.column}' is a list, whose elements are the tokens"
            s.doc.add("SKY-E117", said, s.doc.where_key((*path, field)), "leave it out")


def _check_words(s: Scope, at: Path, words: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    where = s.doc.where_value(at)
    if len(words) > MAX_WORDS:
        s.doc.add("SKY-E114", f"a regular expression has at most {MAX_WORDS} characters", where)
        return
    nothing = pa.array([""])
    hint = "use RE2 syntax, such as '[A-Za-z0-9]+' (no look-around, no back-references)"
    try:
        # Alone first: text that is valid only inside the group below is not an expression.
        pc.match_substring_regex(nothing, words)
        empty = pc.match_substring_regex(nothing, f"^(?:{words})$")[0].as_py()
    except pa.ArrowInvalid:
        s.doc.add("SKY-E130", "not a regular expression", where, hint)
        return
    if empty:
        s.doc.add("SKY-E130", "this regular expression fits the empty text", where, "use + instead of *")


# Check the section ``vectors``: its columns are lists of numbers.


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


# Check ``source.id: position``: whether the format has positions, and what does not go with them.

_AT: Final[Path] = ("source", "id")


def check_position(s: Scope) -> None:
    """Report all mistakes of a source whose rows are identified by their position. O(columns)."""
    doc, source = s.doc, s.job.source
    if not source.by_position or doc.bad(("source", "format")):
        return
    if source.format == SEVERAL:
        said = "rows of several sources are not identified by their position"
        doc.add("SKY-E117", said, doc.where_value(_AT), "name the columns that identify a row in each source")
        doc.poisoned.add(_AT)
        return
    columns = SOURCES.all()[source.format].position
    if not columns:
        formats = one_of([name for name, kind in SOURCES.all().items() if kind.position])
        said = f"rows of format {source.format} have no position that lasts"
        doc.add("SKY-E117", said, doc.where_value(_AT), f"name the columns that identify a row; position is for {formats}")
        doc.poisoned.add(_AT)
        return
    added = {c.name for c in columns}
    for name in source.columns:
        if name.lower() in added:
            hint = f"give it another name: {name}_: {{type: ..., from: {name}}}"
            doc.add("SKY-E125", f"id: position adds a column '{name.lower()}' of its own", doc.where_key(("source", "schema", name)), hint)
    if "unique" in source.model_fields_set and source.unique == "checked" and not doc.bad(("source", "unique")):
        hint = "leave 'unique' out"
        doc.add("SKY-E117", "no two rows have one position, so there is nothing to check", doc.where_value(("source", "unique")), hint)
    if (found := what_deletes(s)) is not None:
        said = "a row that deletes or replaces another one cannot have its position"
        doc.add("SKY-E117", said, doc.where_value(found[1]), f"{found[0]} needs an id: name the columns that identify a row")


# Check five-field cron expressions. Airflow accepts every expression that passes, which tests/airflow checks.

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_NAMES: Final = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day of week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_PRESETS: Final = frozenset({"@hourly", "@daily", "@weekly", "@monthly", "@yearly"})
_PART: Final = re.compile(r"(\*|\w{1,9}(?:-\w{1,9})?)(?:/([0-9]{1,9}))?")
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months in leap years."""


def check_cron(text: str) -> str | None:
    """Return the error of ``text`` as a cron expression, or None."""
    if text.strip().lower() in _PRESETS:
        return None
    fields = text.split()
    if len(fields) != 5:
        return f"{counted(len(fields), 'field')} instead of 5 (minute, hour, day of month, month, day of week)"
    chosen: list[set[int]] = []
    for value, (name, low, high) in zip(fields, _FIELDS, strict=True):
        chosen.append(set())
        for part in value.split(","):
            found = _values(part, name, low, high)
            if isinstance(found, str):
                return found
            chosen[-1] |= found
    _, _, days, months, weekdays = chosen
    if len({d % 7 for d in weekdays}) == 7 and all(min(days) > _LONGEST[m - 1] for m in months):
        return f"day {min(days)} never comes in these months"
    return None


def _values(part: str, name: str, low: int, high: int) -> set[int] | str:
    """Return the values of a part of a field, or its error."""
    m = _PART.fullmatch(part)
    if m is None or (m.group(2) and int(m.group(2)) == 0):
        return f"'{part[:40]}' is not a {name}"
    step = min(int(m.group(2) or 1), high + 1)
    if m.group(1) == "*":
        return set(range(low, high + 1, step))
    ends = []
    for end in m.group(1).split("-"):
        names = _NAMES.get(name, ())
        number = names.index(end.lower()) + (name == "month") if end.lower() in names else int(end) if end.isdecimal() else -1
        if not low <= number <= high:
            return f"'{end}' is not a {name} ({low} to {high})"
        ends.append(number)
    first, last = ends[0], ends[-1]
    if first > last and m.group(2):
        return f"'{part[:40]}' wraps around in steps: write two ranges"
    if first > last:
        return {*range(first, high + 1), *range(low, last + 1)}
    return set(range(first, (high if len(ends) == 1 and m.group(2) else last) + 1, step))


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
