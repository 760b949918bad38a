"""What query types about groups have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from skyband.framework.base.columns import FINAL_COLUMNS, FIXED_COLUMNS
from skyband.framework.base.counts import counted, number_text
from skyband.framework.base.errors import one_of
from skyband.framework.base.items import SCORE, ItemShape
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry
from skyband.framework.plan.explain_parts import canonical_text, window_rows
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.checks import naming_columns
from skyband.framework.queries.group_rows.compile import OF_NUMBERS, TYPES, GroupRows, carried, scored_group
from skyband.framework.queries.protocol import FOLLOWING, HOPPING, Limits, Makeup, QueryType, Question
from skyband.framework.queries.read_columns import aggregate_columns, node_columns
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.source import kind_of
from skyband.framework.spec.parsing.document import Path

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.history import History
    from skyband.framework.verify.brute_force.objects import Found


# What ``explain`` says about a state of groups.

SHARES_STATE: Final = "group, score, having, direction, where and window"
"""What queries that share a state have in common."""

_ROW, _VALUE, _LINKS, _GROUP, _SUM, _SET = 36, 8, 16, 150, 72, 48
"""Bytes of a row, of a value of a row, of a row's place in a list, of a group, of a sum of a group, of a different value of a group."""
_FOUND = 80
"""Bytes with which a row is found when it is deleted."""
_SUMS: Final = {"sum": 1, "mean": 1, **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), 14)}
"""What each aggregate takes, in sums: one of squares of doubles needs all its chunks."""


def _facts(node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
    """Return the group, the score, and the conditions."""
    op: Any = node.inner
    reported = [("group", ", ".join(op.group)), ("score", f"{op.score.spelling} ({op.direction} first)")]
    reported += [("having", op.having.spelling)] if op.having is not None else []
    reported += [("where", canonical_text(op.where))] if op.where is not None else []
    tied = [q.name for q in queries if op.queries[q.index].ties]
    reported += [("ties", f"all groups that equal the k-th for {', '.join(tied)}")] if tied else []
    bounds = [_bound(q.name, op.queries[q.index]) for q in queries if op.queries[q.index].above is not None]
    return [*reported, *([("above", "; ".join(bounds))] if bounds else [])]


def _bound(name: str, asked: Any) -> str:
    stays = "" if asked.below is None else f", until below {number_text(asked.below)}"
    return f"{number_text(asked.above)}{stays} for {name}"


def _size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """Return what the state holds, and how large it is."""
    op: Any = node.inner
    functions = [a.function for a in op.aggregates]
    row = _ROW + _VALUE * len(op.arguments) + _LINKS * sum(f in ("min", "max", "first", "last", "quantile") for f in functions)
    row += _FOUND if op.deletes else 0
    group = _GROUP * len(op.queries) + _SUM * sum(_SUMS.get(f, 0) for f in functions)
    sets = f", {_SET} a different value of a group" if "distinct" in functions else ""
    per_key = " of a key" if plan.intake.partition_by else ""
    lines = [f"    keeps     the rows{per_key} in the window and their groups: about {row} bytes a row and {group} a group{sets}"]
    rows = window_rows(op.window, rate)
    if rows is not None and rate is not None and op.window.micros is not None:
        lines.append(f"    expected  {counted(round(rows), 'row')}{per_key}: {rows * row / 2**20:,.1f} MB, and the groups")
    return lines


# What can be wrong with an entry about groups: its columns, its expressions, carried columns.


def check(s: Scope, path: Path, query: GroupRows) -> None:
    """Note everything that is wrong with the entry at ``path``."""
    closes = query.window is not None and query.window.tumbling is not None
    reserved = (*FIXED_COLUMNS, *FINAL_COLUMNS) if closes else FIXED_COLUMNS
    naming_columns(s, (*path, "group"), query, query.group, reserved)
    _check_expression(s, (*path, "score"), query.score, "score")
    if query.having is not None:
        _check_expression(s, (*path, "having"), query.having, "predicate")
    for i, text in enumerate(query.carry):
        _check_carried(s, (*path, "carry", i), query, text, query.carry[:i], reserved)
    _check_session(s, (*path, "window", "session"), query)


def _check_carried(s: Scope, at: Path, query: GroupRows, text: str, before: Sequence[str], reserved: Sequence[str]) -> None:
    """Check that ``text`` is an aggregate of a column, of a type that it takes, whose name no other column of the tables has."""
    from skyband.framework.queries.group_rows.compile import mistake, scales

    if s.doc.bad(at):
        return
    found, where = carried(text), s.doc.where_value(at)
    if found is None:
        if text in s.types:
            hint = f"last({text}), or another of {one_of(list(TYPES))}"
            s.doc.add("SKY-E130", f"{text} has a value in every row of a group", where, hint)
        else:
            message = "groups carry count() and aggregates of columns, and this is neither"
            s.doc.add("SKY-E130", message, where, f"such as last(region): {one_of(list(TYPES))}")
        return
    if found.column and not s.column(at, found.column):
        return
    type_ = s.types[found.column] if found.column else None
    if type_ is not None and found.function in OF_NUMBERS and kind_of(type_) not in ("int", "float"):
        s.doc.add("SKY-E126", f"{found.function} takes numbers, and '{found.column}' is {type_}", where, f"such as last({found.column})")
    elif type_ is not None and type_.startswith("decimal") and TYPES[found.function] != "bigint":
        hint = f"derive whole units, such as cast({found.column} * 100 as bigint), and carry those"
        s.doc.add("SKY-E126", f"groups do not carry decimals, and '{found.column}' is {type_}", where, hint)
    elif (wrong := mistake(found.aggregate(s.kinds(), scales(s.types)), s.types)) is not None:
        s.doc.add("SKY-E126", wrong[0], where, wrong[1])
    elif any((c := carried(t)) is not None and c.name == found.name for t in before):
        s.doc.add("SKY-E125", f"'{text}' is carried twice", where)
    elif found.name.lower() in {c.lower() for c in (*reserved, *query.groups, *s.job.source.partition_by)}:
        s.doc.add("SKY-E124", f"result column '{found.name}' collides with another column of the result", where, "rename the other column")


def _check_session(s: Scope, at: Path, query: GroupRows) -> None:
    """Check that a job with deletions has no sessions."""
    if s.job.has_deletions and query.window is not None and query.window.session is not None and not s.doc.bad_below(at):
        message = "sessions cannot be used with deletions: a silence is counted from rows, which may be deleted"
        s.doc.add("SKY-E117", message, s.doc.where_key(at), "use time or tumbling")


def _check_expression(s: Scope, path: Path, text: str, want: Literal["score", "predicate"]) -> None:
    """Check an expression over aggregates, and that decimals in it can be exact."""
    from skyband.framework.queries.group_rows.compile import mistake, scales
    from skyband.operators.expressions.aggregates import parse_aggregates

    if not s.expression(path, text, ("",), want, aggregates=True):
        return
    for aggregate in parse_aggregates(text, s.names(("",)), want, scales(s.types)).aggregates:
        found = mistake(aggregate, s.types)
        if found is not None:
            s.doc.add("SKY-E126", found[0], s.doc.where_value(path), found[1])
            return


class GroupsType(QueryType):
    """See ``protocol.QueryType``. Its model is a ``GroupRows``."""

    takes_deletions = True
    states_deletions = True
    has_history = True
    family = "groups"
    shares = SHARES_STATE
    windows = FOLLOWING | HOPPING
    forms_windows = True

    def item(self, query: Any) -> ItemShape:
        """Return the group, by the columns that name it."""
        return scored_group(query.groups, query.carry, query.window is not None and query.window.tumbling is not None)

    def check(self, scope: Scope, path: Path, query: Any) -> None:
        """See ``check``."""
        check(scope, path, query)

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        from skyband.framework.queries.group_rows.compile import compile_groups

        return compile_groups(context, entries)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what the aggregates of the score read."""
        operator: Any = node.inner
        return aggregate_columns(operator.score)

    def deciding_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what makes the groups, and what score and conditions read: not what only the tables carry."""
        op: Any = node.inner
        return tuple(dict.fromkeys([*op.group, *aggregate_columns(op.score, op.having), *node_columns(op.where)]))

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return _facts(node, queries)

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return _size(plan, node, rate)

    def limits(self, plan: Plan, query: QueryNode, logical: LogicalQuery | None) -> Limits:
        """Return ``k``, unless more groups may equal the k-th, and the next number to ``above``.

        A decimal above it may be rounded to it. With ``every``, a group that was above it between two boundaries is shown at the second
        one with what its score is then: at least ``below``.
        """
        operator: Any = plan.operators[query.operator].inner
        asked = operator.queries[query.index]
        least = asked.above
        if least is not None and operator.units is None:
            least = math.nextafter(least, math.inf)
        shown = asked.below if asked.every is not None else None
        return Limits(None if asked.ties else query.k, ((SCORE, least, None),), least_shown=shown)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import passing

        return passing(question)

    def cause(self, question: Question, change: str, item: tuple[Any, ...], arriving: int | None) -> str:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import cause

        return cause(question, change, item, arriving)

    def carried(self, question: Question, item: tuple[Any, ...]) -> tuple[Any, ...]:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import carried

        return carried(question, item)

    def history(self, question: Question, late: Callable[[], bool]) -> History:
        """See ``brute_force_changes``."""
        from skyband.framework.queries.group_rows.brute_force_changes import history

        return history(question, late)

    def makeup(self, question: Question, item: tuple[Any, ...], most: int) -> Makeup:
        """See ``brute_force``."""
        from skyband.framework.queries.group_rows.brute_force import makeup

        return makeup(question, item, most)

    def ranked(self, question: Question) -> Found | None:
        """Return every group that takes part."""
        from skyband.framework.queries.group_rows.brute_force import passing

        return passing(question, every=True)
