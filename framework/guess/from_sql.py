"""Turn a ranking query of SQL into the sections of a spec: a way in for those who have one, not a second language.

Forms (Flink, RisingWave, ANSI): ROW_NUMBER, RANK or DENSE_RANK with WHERE rn <= k or QUALIFY, ORDER BY with LIMIT or FETCH FIRST, GROUP BY
with an aggregate that is ranked or bounded (HAVING), each over a table or the windows TUMBLE, HOP or SESSION. Anything else is refused by
the clause that says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import yaml

from skyband.framework.base.errors import SkybandError, printable
from skyband.framework.base.units import parse_duration

if TYPE_CHECKING:
    from sqlglot import exp

TEMPLATES: Final = Path(__file__).parent / "sql_queries.yaml"
DAY: Final = "1 day"
_WINDOW_COLUMNS: Final = frozenset({"window_start", "window_end", "window_time"})
_RANKS: Final = {"RowNumber": None, "Rank": "include", "DenseRank": "dense"}
_WINDOWS: Final = ("TUMBLE", "HOP", "SESSION")
_MOST_TEXT: Final = 100_000


@dataclass(frozen=True, slots=True)
class Draft:
    """Hold the sections of a spec. ``table``: the source's name. ``time``: the column of a window's instants, if the query names it.

    ``columns``: columns that it reads, each with ``number`` if it counts with them, else ``text``. ``keys``: those that make streams of
    their own. ``where``, ``derive``: SQL of the transforms. ``window``: the job's. ``queries``: text of the sections scoring and queries.
    ``notes``: what somebody should look at.
    """

    table: str
    time: str | None
    columns: dict[str, str]
    keys: tuple[str, ...]
    where: str | None
    derive: tuple[tuple[str, str], ...]
    window: str
    queries: str
    notes: tuple[str, ...]


def draft_of(text: str, texts: frozenset[str] = frozenset()) -> Draft:
    """Return what a spec says for a query of SQL. ``texts``: columns that are known to be texts, which no score can be.

    Raises SkybandError SKY-E201, with the clause, for SQL that cannot be read, or that asks for something else than the forms above.
    """
    return _Reader(texts).draft(_parsed(text))


def _refuse(clause: str, hint: str) -> NoReturn:
    raise SkybandError("SKY-E201", f"--sql: {printable(clause)[:200]}", hint=hint)


def _parsed(text: str) -> exp.Select:
    """Return the one query of a text, also of one that a statement makes a view or fills a table with."""
    import sqlglot
    from sqlglot import exp

    if len(text) > _MOST_TEXT:
        _refuse("the text has more than 100,000 characters", "give the file with the one query")
    # Flink's table functions: TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), ...)) is TUMBLE(bids, ts, ...) here.
    plain = re.sub(r"(?i)\bdescriptor\s*\(\s*([^()]+?)\s*\)", r"\1", text)
    plain = re.sub(r"(?i)\btable\s+(?=[\w\"`.]+\s*,)", "", plain)
    plain = re.sub(r"(?i)\bfrom\s+table\s*\(\s*((?:tumble|hop|session)\s*\([^()]*\))\s*\)", r"from \1", plain)
    try:
        statements = [s for s in sqlglot.parse(plain) if s is not None]
    except (sqlglot.errors.SqlglotError, RecursionError) as e:
        _refuse(f"the query cannot be read: {str(e).splitlines()[0] if str(e) else 'too deep'}", "one SELECT, as of Flink or ANSI SQL")
    if len(statements) != 1:
        _refuse(f"{len(statements)} statements", "give one SELECT")
    (statement,) = statements
    query: Any = statement.expression if isinstance(statement, (exp.Create, exp.Insert)) else statement
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        _refuse(f"{type(query).__name__.upper()} is no SELECT", "give one SELECT")
    return query


@dataclass(slots=True)
class _Ranked:
    """Rows or groups in an order: of ``ties``, None is ROW_NUMBER. ``by``: the streams that it is made in."""

    order: list[exp.Ordered]
    count: int
    ties: str | None = None
    by: list[exp.Expression] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """Reads a query from its outermost part inwards."""

    texts: frozenset[str]
    notes: list[str] = field(default_factory=list)
    derived: list[tuple[str, str]] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    time: str | None = None

    def draft(self, query: exp.Select) -> Draft:
        """Return the sections of a spec."""
        self._check_clauses(query)
        ranked, inner = self._ranking(query)
        table, window = self._source(inner)
        where = inner.args.get("where")
        grouped = inner.args.get("group") is not None
        sections = self._of_groups(inner, ranked, window) if grouped else self._of_rows(inner, ranked, window)
        for column in [] if where is None else where.find_all(_exp().Column):
            sides = [] if not isinstance(column.parent, _exp().Binary) else [column.parent.this, column.parent.expression]
            self._name(column, "number" if any(side.is_number for side in sides) else "text")
        keys = [self._name(c, "text") for c in ([] if ranked is None else ranked.by) if c.name.lower() not in _WINDOW_COLUMNS]
        kind, job = window
        if kind is None:
            self.notes.append(f"SQL ranks all rows there ever were: here rows count for {DAY}")
        condition = None if where is None else where.this.sql(dialect="spark")
        return Draft(
            table, self.time, self.columns, tuple(keys), condition, tuple(self.derived), f"{{time: {job}}}", sections, tuple(self.notes)
        )

    # The parts of a query.

    def _check_clauses(self, query: exp.Select) -> None:
        for name, hint in (
            ("joins", "pairs of rows are a query of their own: see docs/how-to/pairs.md"),
            ("with_", "write the query in one piece, without WITH"),
            ("with", "write the query in one piece, without WITH"),
            ("offset", "leave out OFFSET: rank from the first"),
            ("distinct", "leave out DISTINCT: rows with one id are one row (source.id)"),
        ):
            for select in query.find_all(_exp().Select):
                if select.args.get(name):
                    found = select.args[name]
                    _refuse(f"{(found[0] if isinstance(found, list) else found).sql()}", hint)

    def _ranking(self, query: exp.Select) -> tuple[_Ranked | None, exp.Select]:
        """Return the order and the query whose rows it ranks; None if nothing is ranked."""
        qualify = query.args.get("qualify")
        if qualify is not None:
            return self._numbered(query, qualify.this), query
        source = query.args["from_"].this if query.args.get("from_") is not None else None
        inner = source.this if isinstance(source, _exp().Subquery) else None
        if isinstance(inner, _exp().Select) and any(True for _ in inner.find_all(_exp().Window)):
            where = query.args.get("where")
            if where is None:
                _refuse("the rank is not bounded", "add WHERE rn <= 10")
            ranked = self._numbered(inner, where.this)
            below = inner.args["from_"].this if inner.args.get("from_") is not None else None
            return ranked, below.this if isinstance(below, _exp().Subquery) else inner
        order, limit = query.args.get("order"), query.args.get("limit")
        if order is None and limit is None:
            return None, query
        if order is None or limit is None:
            missing = "ORDER BY" if order is None else "LIMIT"
            _refuse(f"{'LIMIT' if order is None else order.sql()} without {missing}", f"add {missing}: a result is the first k of an order")
        count = limit.args.get("expression") or limit.args.get("count")
        return _Ranked(list(order.expressions), self._whole(count)), query

    def _numbered(self, inner: exp.Select, bound: exp.Expression) -> _Ranked:
        """Return the order of ROW_NUMBER, RANK or DENSE_RANK in ``inner`` that ``bound`` asks for the first of."""
        exp_ = _exp()
        parts = list(bound.flatten()) if isinstance(bound, exp_.And) else [bound]
        windows = {p.alias: p.this for p in inner.expressions if isinstance(p, exp_.Alias) and isinstance(p.this, exp_.Window)}
        for part in parts:
            found = self._bounded(part, windows)
            if found is None:
                continue
            window, count = found
            if len(parts) > 1:
                others = " and ".join(p.sql() for p in parts if p is not part)
                _refuse(f"{others} beside the bound of the rank", "write the condition where the rows come from, before they are ranked")
            rank = type(window.this).__name__
            if rank not in _RANKS:
                _refuse(window.sql(), "rank by ROW_NUMBER(), RANK() or DENSE_RANK()")
            if window.args.get("spec") is not None or window.args.get("order") is None:
                _refuse(window.sql(), "give OVER (PARTITION BY ... ORDER BY ...)")
            return _Ranked(list(window.args["order"].expressions), count, _RANKS[rank], list(window.args.get("partition_by") or []))
        _refuse(f"{bound.sql()} does not bound the rank", "add rn <= 10, rn being the alias of ROW_NUMBER() OVER (...)")

    def _bounded(self, part: exp.Expression, windows: dict[str, Any]) -> tuple[Any, int] | None:
        """Return the window function that a comparison bounds from above, and the greatest rank; None if it bounds none."""
        exp_ = _exp()
        turned = {exp_.GTE: exp_.LTE, exp_.GT: exp_.LT}
        kind, left, right = type(part), part.args.get("this"), part.args.get("expression")
        if kind in turned:
            kind, left, right = turned[kind], right, left
        window = left if isinstance(left, exp_.Window) else windows.get(left.name) if isinstance(left, exp_.Column) else None
        if window is None or kind not in (exp_.LTE, exp_.LT, exp_.EQ):
            return None
        count = self._whole(right) - (kind is exp_.LT)
        if count < 1 or (kind is exp_.EQ and count != 1):
            _refuse(part.sql(), "ask for the first ranks: rn <= k")
        return window, count

    def _source(self, query: exp.Select) -> tuple[str, tuple[str | None, str]]:
        """Return the table that the rows come from, and the query's window with the job's: (``{tumbling: 1 hour}``, ``1 hour``)."""
        exp_ = _exp()
        source = query.args["from_"].this if query.args.get("from_") is not None else None
        called = self._call(source.this if isinstance(source, exp_.Table) else source)
        if called is not None:
            name, given = called
            if len(given) < 2 or source is None:
                _refuse("" if source is None else source.sql(), "give TUMBLE(table, column, interval)")
            self.time = given[1].name
            return given[0].name, self._window(name, given[2:], source)
        if not isinstance(source, exp_.Table) or not source.name:
            _refuse("" if source is None else source.sql(), "give FROM a table, or TUMBLE, HOP or SESSION over one")
        for part in query.args["group"].expressions if query.args.get("group") is not None else []:
            called = self._call(part)
            if called is not None:
                self.time = called[1][0].name
                return source.name, self._window(called[0], called[1][1:], part)
        return source.name, (None, DAY)

    def _call(self, part: Any) -> tuple[str, list[Any]] | None:
        """Return name and arguments of TUMBLE, HOP or SESSION."""
        if not isinstance(part, (_exp().Anonymous, _exp().Func)):
            return None
        name = str(part.this if isinstance(part, _exp().Anonymous) else part.sql_name()).upper()
        return (name, list(part.expressions)) if name in _WINDOWS else None

    def _window(self, name: str, given: list[Any], source: Any) -> tuple[str, str]:
        lengths = [self._length(part) for part in given]
        if len(lengths) != (2 if name == "HOP" else 1):
            _refuse(source.sql(), f"give {name} {'two intervals' if name == 'HOP' else 'one interval'}")
        if name == "TUMBLE":
            return f"{{tumbling: {lengths[0]}}}", lengths[0]
        if name == "HOP":
            return f"{{hop: {{size: {lengths[1]}, every: {lengths[0]}}}}}", lengths[1]
        self.notes.append(f"a session is no longer than the window of the job: here {DAY}")
        return f"{{session: {lengths[0]}}}", DAY

    def _length(self, part: Any) -> str:
        text = part.this.name if isinstance(part, _exp().Interval) and part.this is not None else ""
        unit = part.args.get("unit") if isinstance(part, _exp().Interval) else None
        shown = f"{text} {unit.name.lower()}" if unit is not None else text
        try:
            if parse_duration(shown) > 0:
                return shown
        except ValueError:
            pass
        _refuse(part.sql(), "give an interval such as INTERVAL '10' MINUTE")

    # Rows and groups.

    def _of_rows(self, query: exp.Select, ranked: _Ranked | None, window: tuple[str | None, str]) -> str:
        if ranked is None:
            _refuse("nothing is ranked", "add ORDER BY and LIMIT, or ROW_NUMBER() with a bound")
        own, job = window
        simple = len(ranked.order) == 1 and ranked.ties is None and ranked.order[0].this.name not in self.texts
        if not simple and own is not None and "hop" not in own:
            clause = ", ".join(o.sql() for o in ranked.order)
            _refuse(f"{clause} with several sort keys or ties in a window", "rank by one number with ROW_NUMBER() in TUMBLE and SESSION")
        carried = [c for c in self._shown(query) if c not in (self.time,)]
        more = f", carry: [{', '.join(carried)}]" if carried else ""
        if simple:
            return _filled("rows", SCORE=self._value(ranked.order[0].this), DIRECTION=_direction(ranked.order[0]), COUNT=ranked.count,
                           WINDOW=own or f"{{time: {job}}}", MORE=more)  # fmt: skip
        keys = ", ".join(f"{{expression: {self._value(o.this, 'text')}, direction: {_direction(o)}}}" for o in ranked.order)
        more += "" if ranked.ties is None else f", ties: {ranked.ties}"
        return _filled("ordered", ORDER=keys, COUNT=ranked.count, WINDOW=own or f"{{time: {job}}}", MORE=more)

    def _of_groups(self, query: exp.Select, ranked: _Ranked | None, window: tuple[str | None, str]) -> str:
        exp_ = _exp()
        named = {p.alias: p.this for p in query.expressions if isinstance(p, exp_.Alias)}
        group = []
        for part in query.args["group"].expressions:
            if self._call(part) is None and part.name.lower() not in _WINDOW_COLUMNS:
                if not isinstance(part, exp_.Column):
                    _refuse(part.sql(), "group by columns: compute others in the rows that come in")
                group.append(self._name(part, "text"))
        streams = [] if ranked is None else [c.name for c in ranked.by]
        group = [g for g in group if g not in streams]
        if not group:
            _refuse(query.args["group"].sql(), "group by a column that is no key of the rank")
        own, job = window
        having = query.args.get("having")
        shared = {"GROUP": ", ".join(group), "WINDOW": own or f"{{time: {job}}}"}
        if ranked is not None:
            if len(ranked.order) != 1 or ranked.ties == "dense":
                _refuse(", ".join(o.sql() for o in ranked.order), "rank groups by one aggregate, with ROW_NUMBER() or RANK()")
            more = "" if ranked.ties is None else f", ties: {ranked.ties}"
            if having is not None:
                left, count = self._compared(having.this, named)
                more += f', having: "{left} > {count:g}"'
            score = self._aggregate(named.get(ranked.order[0].this.name, ranked.order[0].this))
            return _filled("groups", SCORE=score, DIRECTION=_direction(ranked.order[0]), COUNT=ranked.count, MORE=more, **shared)
        if having is None:
            _refuse(query.args["group"].sql(), "add ORDER BY and LIMIT, or HAVING: a result is some of the groups")
        score, count = self._compared(having.this, named)
        return _filled("bounded", SCORE=score, COUNT=f"{count:g}", MORE="", **shared)

    def _compared(self, part: exp.Expression, named: dict[str, Any]) -> tuple[str, float]:
        """Return the aggregate and the number that it has to be greater than."""
        if not isinstance(part, _exp().GT) or not part.expression.is_number:
            _refuse(f"HAVING {part.sql()}", "compare one aggregate with a number: HAVING count(*) > 3")
        return self._aggregate(named.get(part.this.name, part.this)), float(part.expression.name)

    def _aggregate(self, part: Any) -> str:
        """Return an aggregate in the words of a spec."""
        exp_ = _exp()
        names = {exp_.Sum: "sum", exp_.Avg: "mean", exp_.Min: "min", exp_.Max: "max"}
        if isinstance(part, exp_.Count):
            if part.this is None or isinstance(part.this, exp_.Star):
                return "count()"
            if isinstance(part.this, exp_.Distinct):
                return f"distinct({self._value(part.this.expressions[0], 'text')})"
            return f"count({self._value(part.this, 'text')})"
        if type(part) not in names:
            _refuse(part.sql(), "rank by count, sum, avg, min, max or count(distinct ...)")
        return f"{names[type(part)]}({self._value(part.this)})"

    # Columns.

    def _shown(self, query: exp.Select) -> Iterator[str]:
        for part in query.expressions:
            if isinstance(part, _exp().Column) and part.name.lower() not in _WINDOW_COLUMNS and not isinstance(part.this, _exp().Star):
                yield self._name(part, "text")

    def _name(self, column: Any, kind: str) -> str:
        name = str(column.name)
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            _refuse(column.sql(), "name columns by letters, digits and _")
        if kind == "number" or name not in self.columns:
            self.columns[name] = kind
        return name

    def _value(self, part: Any, kind: str = "number") -> str:
        """Return the column with a value: a column of the source, or one that is derived by SQL."""
        exp_ = _exp()
        if isinstance(part, exp_.Column):
            return self._name(part, kind)
        for column in part.find_all(exp_.Column):
            self._name(column, "number")
        text = part.sql(dialect="spark")
        known = next((name for name, sql in self.derived if sql == text), None)
        if known is None:
            known = f"value_{len(self.derived) + 1}"
            self.derived.append((known, text))
        return known

    def _whole(self, part: Any) -> int:
        if part is None or not part.is_int:
            _refuse("" if part is None else part.sql(), "give a whole number")
        return int(part.name)


def _exp() -> Any:
    from sqlglot import exp

    return exp


def _direction(order: Any) -> str:
    return "max" if order.args.get("desc") else "min"


def _filled(form: str, **words: object) -> str:
    text: str = yaml.safe_load(TEMPLATES.read_text(encoding="utf-8"))[form]
    for word, said in words.items():
        text = text.replace(word, str(said))
    return text
