"""Check the section ``stats``: names, columns and their types, windows; then the statistics are columns of rows."""

from __future__ import annotations

from typing import Final

from skyband.framework.base.counts import counted
from skyband.framework.base.decimals import decimal_digits
from skyband.framework.base.units import format_duration
from skyband.framework.plan.drafts import job_window
from skyband.framework.queries.checks import NAMING
from skyband.framework.spec.checks.scope import PAIR_SIDES, Scope
from skyband.framework.spec.models.column_types import kind_of
from skyband.framework.spec.models.stats import FUNCTIONS, Statistics
from skyband.framework.spec.parsing.document import Path

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
    from skyband.framework.queries.group_rows.decimals import MOST_DIGITS

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
