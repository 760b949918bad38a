"""Checks the Spark SQL of a spec without Spark: syntax, columns, functions, determinism, and the type of simple results.

sqlglot reads the text (Spark dialect). Functions are checked by their tokens against the list of Spark's own (``spark_functions.json``,
written from Spark 4.2's registry), so that a spelling sqlglot maps to something else cannot slip through.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import did_you_mean
from skyband.framework.sources.options import FILES, JSON, SPARK_CSV
from skyband.framework.spec.expressions.column_names import Columns
from skyband.framework.spec.parsing.limits import Work, measure
from skyband.operators.spelling import closest

# Functions of Spark's own that a spec may not call, or not with every argument, and why.
#
# A function on Spark's list (``spark_functions.json``) that stands nowhere here works on its arguments alone: it opens no file and no
# connection, loads no class, and asks the session nothing that Skyband does not set.

_CODE: Final = "it runs arbitrary Java code"
_XML: Final = "an XML document may name files and addresses that its parser opens"
_OPENS: Final = "its options name files or addresses that it opens"

REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), _CODE),
    **dict.fromkeys(
        (
            "from_xml", "schema_of_xml", "to_xml", "xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long",
            "xpath_number", "xpath_short", "xpath_string",
        ),
        _XML,
    ),
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), _OPENS),
}  # fmt: skip
"""Function -> why it may not be called."""

_OPTIONS_AT: Final = {"from_json": 2, "from_csv": 2, "schema_of_json": 1, "schema_of_csv": 1, "to_json": 1, "to_csv": 1}
"""Function -> the argument that is a map of options."""
_WRITING: Final = ("ignoreNullFields", "pretty", "quoteAll", "escapeQuotes")
_TAKEN: Final = {
    "json": {*JSON, *_WRITING} - set(FILES),
    "csv": {*SPARK_CSV, *_WRITING} - set(FILES),
}
_SCHEMA: Final = re.compile(r"[\w\s,:<>()`.-]+")
"""A schema as DDL: Spark would read one in JSON too, where a type may name a class to load."""

Found = tuple[str, str | None, int, int]
"""Message, hint, start and end of one mistake."""


def bad_arguments(tokens: list[Any], at: int) -> Iterator[Found]:
    """What the call at ``tokens[at]`` (a function's name) may not be given. O(tokens of the call)."""
    name = tokens[at].text.lower()
    if name not in _OPTIONS_AT:
        return
    arguments = _arguments(tokens, at + 2)
    place = (tokens[at].start, tokens[at].end + 1)
    if any(t.token_type.name == "FARROW" for part in arguments for t in part):
        yield f"arguments of {name} are not named", None, *place
        return
    if name.startswith("from_") and len(arguments) > 1 and not _good_schema(arguments[1]):
        yield f"the schema of {name} must be a text such as 'a int, b string'", "or schema_of_json('...')", *place
    for part in arguments[_OPTIONS_AT[name] :]:
        yield from _bad_options(name, part, place)


def _arguments(tokens: list[Any], start: int) -> list[list[Any]]:
    """The tokens of each argument of a call whose arguments begin at ``start``."""
    parts: list[list[Any]] = [[]]
    depth = 0
    for token in tokens[start:]:
        kind = token.token_type.name
        depth += kind in {"L_PAREN", "L_BRACKET", "L_BRACE"}
        depth -= kind in {"R_PAREN", "R_BRACKET", "R_BRACE"}
        if depth < 0:
            break
        if kind == "COMMA" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _good_schema(part: list[Any]) -> bool:
    if len(part) == 1:
        return part[0].token_type.name == "STRING" and _SCHEMA.fullmatch(part[0].text) is not None
    return bool(part) and part[0].text.lower() in {"schema_of_json", "schema_of_csv"}


def _bad_options(name: str, part: list[Any], place: tuple[int, int]) -> Iterator[Found]:
    """Options are ``map('name', 'value', ...)``, so that their names can be read here."""
    inner = part[2:-1]
    texts, commas = inner[::2], inner[1::2]
    spelled = (
        len(part) > 3 and part[0].text.lower() == "map" and part[1].token_type.name == "L_PAREN" and len(texts) % 2 == 0
        and all(t.token_type.name == "STRING" for t in texts) and all(t.token_type.name == "COMMA" for t in commas)
    )  # fmt: skip
    if not spelled:
        yield f"the options of {name} must be spelled out", "map('name', 'value', ...)", *place
        return
    taken = _TAKEN["json" if name.endswith("json") else "csv"]
    folded = {t.lower() for t in taken}
    for token in texts[::2]:
        if token.text.lower() not in folded:
            yield f"{name} may not be given the option {token.text[:64]!r}", did_you_mean(token.text, taken), token.start, token.end + 1


MAX_TEXT: Final = 20_000

_STOPS_THE_STREAM: Final = frozenset({"raise_error", "assert_true"})
_NOT_DETERMINISTIC: Final = frozenset({
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "now", "curdate", "current_date", "current_time",
    "current_timestamp", "localtimestamp", "current_timezone", "current_user", "session_user", "user", "current_catalog",
    "current_database", "current_schema", "current_path", "version", "monotonically_increasing_id", "spark_partition_id",
    "input_file_name", "input_file_block_start", "input_file_block_length", "aes_encrypt",
})  # fmt: skip
_BARE: Final = frozenset({
    "current_date", "current_time", "current_timestamp", "localtimestamp", "current_user", "session_user", "current_catalog",
    "current_database", "current_schema", "current_path", "user", "current_timezone",
})  # fmt: skip
_GROUPING: Final = frozenset({"window", "session_window", "window_time"})
# Words that may stand before a parenthesis without being functions.
_WORDS: Final = frozenset({
    "and", "or", "not", "in", "between", "when", "then", "else", "case", "like", "ilike", "rlike", "regexp", "escape", "is", "from",
    "distinct", "div", "as", "varchar", "numeric", "dec", "any", "all", "some", "over", "interval", "cast", "try_cast", "extract",
    "trim", "position", "substring", "overlay", "leading", "trailing", "both", "by", "end", "null", "true", "false", "where",
    "select", "exists", "on", "array", "struct", "map",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SqlProblem:
    """One mistake at ``start`` <= offset < ``end`` of the SQL text."""

    code: str
    message: str
    hint: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The mistakes of an expression, the columns it uses (as the schema spells them), and the result's type if it is known."""

    problems: tuple[SqlProblem, ...]
    columns: tuple[str, ...] = ()
    type: str | None = None


@lru_cache(maxsize=1)
def functions() -> Mapping[str, frozenset[str]]:
    """Spark's functions by kind: scalar, aggregate, window, generator."""
    text = Path(__file__).with_name("spark_functions.json").read_text(encoding="utf-8")
    return {k: frozenset(v) for k, v in json.loads(text).items()}


def check_sql(sql: str, types: Mapping[str, str | None], condition: bool = False, work: Work | None = None) -> SqlResult:
    """Check one expression over columns ``types`` (name -> type, None if not known). Never raises for what the text holds.

    ``condition`` says that the result must be true or false; ``work`` is what it may cost: if that is gone, the result says
    nothing. O(length), whatever the number of columns, if they are ``Columns``.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    from skyband.framework.spec.expressions.sql_types import type_of

    types = types if isinstance(types, Columns) else Columns(types)
    if len(sql) > MAX_TEXT:
        return SqlResult((SqlProblem("SKY-E131", f"longer than {MAX_TEXT:,} characters", None, 0, 1),))
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    try:
        tokens = sqlglot.tokenize(sql, read="spark")
    except (SqlglotError, RecursionError, ValueError, IndexError) as e:
        quotes = sql.count("'") % 2 or sql.count('"') % 2 or sql.count("`") % 2
        hint = "is a quote never closed?" if quotes else None
        message = "not valid SQL" if isinstance(e, SqlglotError) else "SQL too deep or not readable"
        at = next((i for i in range(len(sql) - 1, -1, -1) if sql[i] in "'\"`"), 0) if quotes else 0
        return SqlResult((SqlProblem("SKY-E131", message, hint, at, at + 1 if quotes else len(sql)),))
    measured = measure(tokens)
    if measured.excess is not None:
        n, message = measured.excess
        hint = "derive its parts as columns of their own, in a step before"
        return SqlResult((SqlProblem("SKY-E131", message, hint, tokens[n].start, tokens[n].end + 1),))
    if work is not None and not work.take(measured.work):
        return SqlResult(())
    problems = _check_tokens(sql, tokens, types)
    if any(p.code == "SKY-E131" for p in problems):
        return SqlResult(tuple(problems))
    try:
        parsed = sqlglot.parse(sql, dialect="spark")
    except ParseError as e:
        first = e.errors[0] if e.errors else {}
        start = _offset(sql, first)
        text = str(first.get("highlight") or "")
        what = str(first.get("description") or "not valid SQL")
        what = "not valid SQL" if what.startswith(("Invalid", "Required")) else what.rstrip(".")
        near = f" near {text!r}" if text.strip() else ""
        return SqlResult((*problems, SqlProblem("SKY-E131", f"{what}{near}", None, start, start + max(1, len(text)))))
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        return SqlResult((*problems, SqlProblem("SKY-E131", "not valid SQL, or nested too deep", None, 0, len(sql))))
    tree = parsed[0] if len(parsed) == 1 else None
    if (
        tree is None
        or isinstance(tree, exp.Alias)
        or not isinstance(tree, (exp.Condition, exp.Func, exp.Interval, exp.AtTimeZone, exp.FromTimeZone))
    ):
        hint = "leave out 'as name'" if isinstance(tree, exp.Alias) else "no statements, no ';'"
        return SqlResult((*problems, SqlProblem("SKY-E131", "not a single expression", hint, 0, len(sql))))
    try:
        used = _check_tree(tree, types, problems)
        type_ = type_of(tree, types, work) if not problems else None
    except RecursionError:
        return SqlResult((*problems, SqlProblem("SKY-E131", "nested too deep", None, 0, len(sql))))
    if condition and type_ is not None and type_ != "boolean":
        problems.append(SqlProblem("SKY-E126", f"a condition must be true or false, not {type_}", None, 0, len(sql)))
    return SqlResult(tuple(problems), tuple(used), type_)


def tree(sql: str, dialect: Any = "spark") -> Any:
    """Return the syntax tree of SQL that ``check_sql`` has passed."""
    import sqlglot

    return sqlglot.parse(sql, dialect=dialect)[0]


def _check_tokens(sql: str, tokens: list[Any], types: Columns) -> list[SqlProblem]:
    known = functions()
    problems = []
    if not tokens:
        return [SqlProblem("SKY-E131", "the expression is empty", None, 0, max(1, len(sql)))]
    for n, token in enumerate(tokens):
        if token.comments:
            problems.append(
                SqlProblem(
                    "SKY-E131", "comments are not allowed inside an expression", "use # in the YAML file", token.start, token.end + 1
                )
            )
        kind = token.token_type.name
        if kind == "SEMICOLON":
            problems.append(SqlProblem("SKY-E131", "one expression, without ';'", None, token.start, token.end + 1))
        if kind in {"STRING", "NUMBER"} or not (token.text[:1].isalpha() or token.text[:1] == "_"):
            continue
        name = token.text.lower()
        call = n + 1 < len(tokens) and tokens[n + 1].token_type.name == "L_PAREN"
        at = (token.start, token.end + 1)
        if not call:
            if name in _BARE and types.spelled(name) is None and not (n and tokens[n - 1].token_type.name == "DOT"):
                problems.append(SqlProblem("SKY-E134", f"{name} gives another value every time", _again(name), *at))
            continue
        problems += [SqlProblem("SKY-E133", *found) for found in bad_arguments(tokens, n)]
        if name in REFUSED:
            problems.append(SqlProblem("SKY-E133", f"{name} may not be called", REFUSED[name], *at))
        elif name in _STOPS_THE_STREAM:
            problems.append(
                SqlProblem("SKY-E133", f"{name} would stop the stream", "use quality.rows: rows that fail a rule are rejected", *at)
            )
        elif name in _NOT_DETERMINISTIC or (
            name == "unix_timestamp" and n + 2 < len(tokens) and tokens[n + 2].token_type.name == "R_PAREN"
        ):
            problems.append(SqlProblem("SKY-E134", f"{name} gives another value every time", _again(name), *at))
        elif name in known["aggregate"] - known["scalar"] and name not in _WORDS:
            hint = "compute the aggregate in the data before the job reads them and use it as a column; of results: skyband sql SPEC"
            problems.append(SqlProblem("SKY-E135", f"{name} is an aggregate; expressions here see one row", hint, *at))
        elif name in known["window"] | known["generator"] | _GROUPING:
            problems.append(SqlProblem("SKY-E135", f"{name} does not work row by row", None, *at))
        elif name not in known["scalar"] and name not in _WORDS:
            guess = closest(name, known["scalar"])
            problems.append(SqlProblem("SKY-E133", f"unknown function {token.text!r}", f"did you mean {guess!r}?" if guess else None, *at))
    return problems


def _again(name: str) -> str:
    return (
        "use the event time column"
        if any(w in name for w in ("now", "date", "time"))
        else "results must be the same when a batch is run again"
    )


def _check_tree(tree: Any, types: Columns, problems: list[SqlProblem]) -> list[str]:
    """Columns used, as the schema spells them; unknown ones, subqueries and windows go to ``problems``."""
    from sqlglot import exp

    used: dict[str, None] = {}
    parameters = {p.name.lower() for f in tree.find_all(exp.Lambda) for p in f.expressions}
    for node in tree.walk(bfs=False):
        if isinstance(node, (exp.Query, exp.Subquery, exp.Exists)) and isinstance(node, exp.Query | exp.Subquery):
            problems.append(SqlProblem("SKY-E135", "a subquery is not allowed", None, 0, 1))
        elif isinstance(node, exp.Window):
            problems.append(SqlProblem("SKY-E135", "a window function is not allowed", None, 0, 1))
        elif isinstance(node, exp.Star):
            problems.append(SqlProblem("SKY-E135", "* is not allowed here", "name the columns", 0, 1))
        elif isinstance(node, (exp.Parameter, exp.Placeholder, exp.SessionParameter)):
            problems.append(SqlProblem("SKY-E131", "parameters are not allowed", "${NAME} is read from the environment", 0, 1))
        elif isinstance(node, exp.Column):
            meta = node.this.meta if isinstance(node.this, exp.Identifier) else {}
            start, end = int(meta.get("start", 0)), int(meta.get("end", 0)) + 1
            if node.table:
                first = node.parts[0]
                start = int(first.meta.get("start", start))
                if node.table.lower() not in parameters:
                    full = ".".join(p.name for p in node.parts)
                    problems.append(SqlProblem("SKY-E132", f"unknown column {full!r}", "columns are written without a prefix", start, end))
                continue
            name = node.name
            spelled = types.spelled(name)
            if spelled is not None:
                used[spelled] = None
            elif name.lower() not in parameters:
                guess = closest(name, types)
                hint = f"did you mean {guess!r}?" if guess else f"columns: {', '.join(islice(types, 12))}"
                problems.append(SqlProblem("SKY-E132", f"unknown column {name!r}", hint, start, end))
    return list(used)


def _offset(sql: str, error: Mapping[str, Any]) -> int:
    """Where sqlglot's error is: it gives the line and the column of the token's end."""
    text = str(error.get("highlight") or "")
    line, col = int(error.get("line") or 1), int(error.get("col") or 1)
    lines = sql.split("\n")
    before = sum(len(x) + 1 for x in lines[: line - 1])
    return max(0, min(len(sql) - 1, before + col - max(1, len(text))))
