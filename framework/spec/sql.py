"""Checks the Spark SQL of a spec without Spark: syntax, columns, functions, determinism, and the type of simple results.

sqlglot reads the text (Spark dialect). Functions are checked by their tokens against the list of Spark's own (``spark_functions.json``,
written from Spark 4.2's registry), so that a spelling sqlglot maps to something else cannot slip through.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from skyband.framework.errors import closest

MAX_TEXT: Final = 20_000

_REFLECTION: Final = frozenset({"reflect", "java_method", "try_reflect"})
_STOPS_THE_STREAM: Final = frozenset({"raise_error", "assert_true"})
_NOT_DETERMINISTIC: Final = frozenset({
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "now", "curdate", "current_date", "current_time",
    "current_timestamp", "localtimestamp", "current_timezone", "current_user", "session_user", "user", "current_catalog",
    "current_database", "current_schema", "current_path", "version", "monotonically_increasing_id", "spark_partition_id",
    "input_file_name", "input_file_block_start", "input_file_block_length", "aes_encrypt",
})  # fmt: skip
_BARE: Final = frozenset({
    "current_date", "current_time", "current_timestamp", "localtimestamp", "current_user", "session_user", "current_catalog",
    "current_database", "current_schema", "current_path",
})  # fmt: skip
_GROUPING: Final = frozenset({"window", "session_window", "window_time"})
# Words that may stand before a parenthesis without being functions.
_WORDS: Final = frozenset({
    "and", "or", "not", "in", "between", "when", "then", "else", "case", "like", "ilike", "rlike", "regexp", "escape", "is", "from",
    "distinct", "div", "as", "varchar", "numeric", "dec", "any", "all", "some", "over", "interval", "cast", "try_cast", "extract",
    "trim", "position", "substring", "overlay", "leading", "trailing", "both", "by", "end", "null", "true", "false", "where",
    "select", "exists", "on", "array", "struct", "map",
})  # fmt: skip
_INT_FUNCTIONS: Final = frozenset({
    "unix_micros", "unix_millis", "unix_seconds", "unix_date", "unix_timestamp", "hour", "minute", "second", "year", "month", "day",
    "day_of_month", "dayofmonth", "day_of_week", "dayofweek", "day_of_year", "dayofyear", "weekday", "week_of_year", "weekofyear",
    "quarter", "length", "char_length", "character_length", "xxhash64", "hash", "crc32", "levenshtein", "ascii", "instr", "locate",
    "bigint", "int",
})  # fmt: skip
_TIME_FUNCTIONS: Final = frozenset({
    "date_trunc", "timestamp_trunc", "make_timestamp", "make_timestamp_ltz", "timestamp_micros", "timestamp_millis",
    "timestamp_seconds", "from_utc_timestamp", "to_utc_timestamp", "to_timestamp", "to_timestamp_ltz", "timestamp", "unix_to_time",
    "timestamp_from_parts",
})  # fmt: skip
_TEXT_FUNCTIONS: Final = frozenset({
    "string", "format_string", "printf", "format_number", "hex", "sha2", "sha1", "base64", "initcap", "reverse", "repeat",
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
    """What was found: mistakes, the columns used (as the schema spells them), and the result's type if it can be told."""

    problems: tuple[SqlProblem, ...]
    columns: tuple[str, ...] = ()
    type: str | None = None


@lru_cache(maxsize=1)
def functions() -> Mapping[str, frozenset[str]]:
    """Spark's functions by kind: scalar, aggregate, window, generator."""
    text = Path(__file__).with_name("spark_functions.json").read_text(encoding="utf-8")
    return {k: frozenset(v) for k, v in json.loads(text).items()}


def check_sql(sql: str, types: Mapping[str, str | None], condition: bool = False) -> SqlResult:
    """Check one expression over columns ``types`` (name -> type, None if not known). Never raises for what the text holds.

    ``condition`` says that the result must be true or false.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

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
    if tree is None or isinstance(tree, exp.Alias) or not isinstance(tree, (exp.Condition, exp.Func, exp.Interval)):
        hint = "leave out 'as name'" if isinstance(tree, exp.Alias) else "no statements, no ';'"
        return SqlResult((*problems, SqlProblem("SKY-E131", "not a single expression", hint, 0, len(sql))))
    try:
        used = _check_tree(tree, types, problems)
        type_ = _type(tree, types) if not problems else None
    except RecursionError:
        return SqlResult((*problems, SqlProblem("SKY-E131", "nested too deep", None, 0, len(sql))))
    if condition and type_ is not None and type_ != "boolean":
        problems.append(SqlProblem("SKY-E126", f"a condition must be true or false, not {type_}", None, 0, len(sql)))
    return SqlResult(tuple(problems), tuple(used), type_)


def _check_tokens(sql: str, tokens: list[Any], types: Mapping[str, str | None]) -> list[SqlProblem]:
    known = functions()
    columns = {c.lower() for c in types}
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
            if name in _BARE and name not in columns and not (n and tokens[n - 1].token_type.name == "DOT"):
                problems.append(SqlProblem("SKY-E134", f"{name} gives another value every time", _again(name), *at))
            continue
        if name in _REFLECTION:
            problems.append(SqlProblem("SKY-E133", f"{name} may not be called", "it runs arbitrary Java code", *at))
        elif name in _STOPS_THE_STREAM:
            problems.append(
                SqlProblem("SKY-E133", f"{name} would stop the stream", "use quality.rows: rows that fail a rule are rejected", *at)
            )
        elif name in _NOT_DETERMINISTIC or (
            name == "unix_timestamp" and n + 2 < len(tokens) and tokens[n + 2].token_type.name == "R_PAREN"
        ):
            problems.append(SqlProblem("SKY-E134", f"{name} gives another value every time", _again(name), *at))
        elif name in known["aggregate"] - known["scalar"] and name not in _WORDS:
            problems.append(SqlProblem("SKY-E135", f"{name} is an aggregate; expressions here see one row", None, *at))
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


def _check_tree(tree: Any, types: Mapping[str, str | None], problems: list[SqlProblem]) -> list[str]:
    """Columns used, as the schema spells them; unknown ones, subqueries and windows go to ``problems``."""
    from sqlglot import exp

    spelled = {c.lower(): c for c in types}
    used: list[str] = []
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
            if name.lower() in spelled:
                if spelled[name.lower()] not in used:
                    used.append(spelled[name.lower()])
            elif name.lower() not in parameters:
                guess = closest(name, types)
                hint = f"did you mean {guess!r}?" if guess else f"columns: {', '.join(list(types)[:12])}"
                problems.append(SqlProblem("SKY-E132", f"unknown column {name!r}", hint, start, end))
    return used


def _type(tree: Any, types: Mapping[str, str | None]) -> str | None:
    """The result's type where it is sure, else None. Whole numbers only where no function could make them fractions."""
    from sqlglot import exp
    from sqlglot.optimizer.annotate_types import annotate_types

    spelled = {c.lower(): t for c, t in types.items()}
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        return spelled.get(tree.name.lower())
    if isinstance(tree, exp.Func):
        name = (tree.name if isinstance(tree, exp.Anonymous) else tree.sql_name()).lower()
        if name in _TIME_FUNCTIONS:
            return "timestamp"
        if name in _TEXT_FUNCTIONS:
            return "string"
    if _whole(tree, spelled):
        return "bigint"
    query = exp.select(tree.copy()).from_("t")
    try:
        known = {c: t for c, t in types.items() if t is not None}
        for column in list(query.find_all(exp.Column)):
            column.set("table", exp.to_identifier("t"))
        typed: Any = annotate_types(query, schema={"t": dict(known)}, dialect="spark").selects[0].type
    except Exception:  # sqlglot's optimiser on odd input: no type is a fine answer
        return None
    kind = typed.this.name if typed is not None else "UNKNOWN"
    if kind in {"TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR"}:
        return "string"
    if kind in {"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"}:
        return "timestamp"
    return {"BOOLEAN": "boolean", "DATE": "date", "DOUBLE": "double", "FLOAT": "double", "DECIMAL": "double"}.get(kind)


def _whole(node: Any, spelled: Mapping[str, str | None]) -> bool:
    from sqlglot import exp

    if isinstance(node, (exp.Paren, exp.Neg, exp.Abs)):
        return _whole(node.this, spelled)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv)):
        return _whole(node.this, spelled) and _whole(node.expression, spelled)
    if isinstance(node, exp.Column):
        return spelled.get(node.name.lower()) in {"int", "bigint"}
    if isinstance(node, exp.Literal):
        return not node.is_string and str(node.this).isdigit()
    if isinstance(node, exp.Cast):
        return node.to.this.name in {"INT", "BIGINT", "SMALLINT", "TINYINT"}
    if isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)):
        return all(_whole(x, spelled) for x in (node.this, *node.expressions))
    if isinstance(node, exp.Func):
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        return name in _INT_FUNCTIONS
    return False


def _offset(sql: str, error: Mapping[str, Any]) -> int:
    """Where sqlglot's error is: it gives the line and the column of the token's end."""
    text = str(error.get("highlight") or "")
    line, col = int(error.get("line") or 1), int(error.get("col") or 1)
    lines = sql.split("\n")
    before = sum(len(x) + 1 for x in lines[: line - 1])
    return max(0, min(len(sql) - 1, before + col - max(1, len(text))))
