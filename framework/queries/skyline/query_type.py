"""Skylines: the rows that no other row (or fewer than ``band``) beats in every dimension; the first by a score, or a chosen number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from pydantic import ConfigDict, Field

from skyband.framework.base.counts import counted, number_text
from skyband.framework.base.errors import did_you_mean, one_of
from skyband.framework.base.items import ROW, SCORE_VALUE, ItemShape, Value, by_score, newest_first
from skyband.framework.base.units import WHOLE, Name, Number
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, predicate, predicate_key, score, score_key, share, texts_of
from skyband.framework.plan.explain_parts import assumed_rows, assuming, canonical_text, format_bytes, per_key, window_rows
from skyband.framework.plan.model import LogicalQuery, OperatorNode, Plan, QueryNode
from skyband.framework.queries.checks import uses_scoring
from skyband.framework.queries.models import Columns, K, QueryModel
from skyband.framework.queries.protocol import FOLLOWING, HOPPING, Limits, QueryType, Question, closing
from skyband.framework.queries.read_columns import scoring_columns
from skyband.framework.spec.checks.scope import ROW_SIDES, Scope
from skyband.framework.spec.parsing.document import Path
from skyband.operators.base import Column, Operator, Window

if TYPE_CHECKING:
    from skyband.framework.verify.brute_force.objects import Found


# The lines of ``explain`` about a state: the compared columns, and how many rows it keeps.


def _facts(node: OperatorNode) -> list[tuple[str, str]]:
    """Return the condition, the dimensions, their levels, the score, and the sizes with the weights."""
    op: Any = node.inner
    found = [("where", canonical_text(op.where))] if op.where is not None else []
    found.append(("compares", _dimension_texts(op)))
    if op.levels is not None:
        found.append(("prefers", _levels_text(op)))
    scoring = getattr(op, "scoring", None)
    if scoring is not None:
        found.append(("ranks", f"the rows of the result by {_score_text(scoring)} ({node.direction} first)"))
    if hasattr(op, "sizes"):
        sizes = "; ".join(f"{q.name}: at most {counted(q.size, 'row')}" for q in op.queries)
        found.append(("sizes", f"{sizes}; those that stay among the best for weights closest to {_weights_text(op)}"))
    return found


def _weights_text(op: Any) -> str:
    return ", ".join(f"{d.column.name} {number_text(w)}" for w, d in zip(op.weights, op.dimensions, strict=True))


def _levels_text(op: Any) -> str:
    names, levels = [d.column.name for d in op.dimensions], []
    for size in op.levels:
        levels.append(", ".join(names[:size]))
        names = names[size:]
    return f"{'; then '.join(levels)}: the first of these in which two rows differ decides"


def _score_text(scoring: Any) -> str:
    weights = getattr(scoring, "weights", None)
    return canonical_text(scoring) if weights is None else " + ".join(f"{number_text(w)} * {c}" for c, w in weights)


def _dimension_texts(op: Any) -> str:
    ordered = [f"{d.column.name} {d.direction}" for d in op.dimensions if d.direction != "equal"]
    equal = [d.column.name for d in op.dimensions if d.direction == "equal"]
    text = ", ".join(ordered) + (f"; only within equal {', '.join(equal)}" if equal else "")
    beaten = "no row of the window beats it" if op.band == 1 else f"fewer than {counted(op.band, 'row')} of the window beat it"
    return f"{text}; in the result if {beaten}" + ("; a newer equal row beats an older" if op.distinct else "")


def skyline_size(k: int, n: float, d: int) -> float:
    """Return the expected rows of a K-skyband with ``d`` ordered dimensions over N rows, if dimensions and age are independent.

    Those with fewer than K newer dominators: the K-skyband in d + 1 dimensions, at most N. For K = 1 its mean is the complete homogeneous
    symmetric polynomial h_d of 1, 1/2, ..., 1/N, leading term ln(N)^d / d! (docs/algorithms D4; measured 1.2 to 1.6 times that
    term, which h_d is); for larger K about K times that of N / K.
    """
    if n <= k:
        return n
    # Power sums of the harmonic terms: H_N for i = 1, zeta(i) above; Newton's identity i h_i = sum of p_j h_(i-j).
    powers = [math.log(n / k) + 0.5772156649] + [1.0 + 2.0**-i + sum(j**-i for j in range(3, 50)) for i in map(float, range(2, d + 1))]
    h = [1.0]
    for i in range(1, d + 1):
        h.append(sum(powers[j - 1] * h[i - j] for j in range(1, i + 1)) / i)
    return min(n, k * h[d])


def _size(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """Return the lines about the kept rows; rows in groups of equal values keep as much per group, of fewer rows each."""
    op: Any = node.inner
    if op.keeps == "window":
        return _with_deletions(plan, node, rate)
    d = op.ordered if op.levels is None else op.levels[0]
    known, n = window_rows(node.window, rate), assumed_rows(node.window, rate)
    kept = skyline_size(node.k, n, d)
    bytes_ = kept * 8 * (4 + node.k + len(op.dimensions) + _columns_of_scores(op))
    power = "ln(N)" if node.k == 1 else "ln(N / K)"
    factorial = f"^{d} / {d}!" if d > 1 else ""
    formula = f"rows, leading term {'' if node.k == 1 else 'K '}{power}{factorial}"
    at = (
        f"depends on the rate; at N = {counted(round(n), 'row')} about {kept:,.0f} {formula}"
        if known is None
        else f"about {kept:,.0f} {formula}, N = {counted(round(n), 'row')}{per_key(plan)}{assuming(node.window, rate)}"
    )
    groups = " and of one group of equal values" if any(x.direction == "equal" for x in op.dimensions) else ""
    return [
        f"    skyband   {at}; {format_bytes(bytes_)}",
        f"              (if dimensions are independent{groups}; fewer if they agree, more if they conflict)",
    ]


def _columns_of_scores(op: Any) -> int:
    """Return how many numbers a row takes besides: seq and score, or its values, and the same again as a member."""
    if hasattr(op, "sizes"):
        return 2 + 2 * len(op.dimensions)
    return 4 if hasattr(op, "scoring") else 0


def _with_deletions(plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
    """Return the lines about the price of deletions: which rows are kept, and which work is done (figures in docs/algorithms D4)."""
    op: Any = node.inner
    known, n = window_rows(node.window, rate), assumed_rows(node.window, rate)
    bytes_ = n * 8 * (3 + node.k + len(op.dimensions) + _columns_of_scores(op))
    rows = f"{counted(round(n), 'row')}{per_key(plan)}{assuming(node.window, rate)}"
    at = f"depends on the rate; at N = {rows}" if known is None else f"N = {rows}"
    beating = "a row that beats it" if node.k == 1 else f"up to {counted(node.k, 'row')} that beat it"
    return [
        f"    price     of deletions: every row of the window with {beating}, {at}: {format_bytes(bytes_)}",
        "              a row that goes is replaced wherever it kept others out: some 15 times the operator's time per row",
    ]


# The entry of a spec: rows that no other row beats.


class Skyline(QueryModel):
    """Rows that no other row beats in every dimension."""

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {"top": ["by"], "by": ["top"], "size": ["weights"], "weights": ["size"]}}
    )

    type: Literal["skyline"]
    dimensions: dict[Name, Literal["min", "max", "equal"]] = Field(min_length=1, description="Column -> which end is better.")
    prefer: tuple[Columns, ...] = Field(
        default=(),
        description="Dimensions in the order of their priority, alone or in lists of equal priority; the others come last.",
    )
    band: Annotated[int, Field(ge=1, le=4096), WHOLE] = Field(
        default=1, description="Fewer than this many rows beat a row (1: the skyline)."
    )
    distinct: bool = Field(default=False, description="A newer equal row counts as beating an older one.")
    top: K | None = Field(default=None, description="Only so many of these rows, the first by the score 'by'.")
    by: Name | None = Field(default=None, description="Name of the scoring function of 'top'.")

    size: K | None = Field(default=None, description="Only so many of these rows, those preferred by weights closest to 'weights'.")
    weights: dict[Name, Annotated[Number, Field(ge=0)]] | None = Field(
        default=None, min_length=1, description="Dimension -> its weight, of which only the share in their sum matters; with 'size'."
    )

    @property
    def shown(self) -> tuple[str, ...]:
        """See ``QueryModel.shown``: the compared columns."""
        return tuple(self.dimensions)

    @property
    def scoring(self) -> str | None:
        """The scoring function that the entry uses."""
        return self.by

    @property
    def k(self) -> int | None:
        """How many rows the result has at most."""
        return self.top

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights of the dimensions in their order, divided by their sum."""
        given = [float((self.weights or {}).get(c, 0.0)) for c in self.dimensions]
        largest = max(given)
        scaled = [w / largest for w in given]
        return tuple(w / sum(scaled) for w in scaled)

    @property
    def preferred(self) -> tuple[tuple[str, ...], ...]:
        """The levels that ``prefer`` lists."""
        return tuple((level,) if isinstance(level, str) else tuple(level) for level in self.prefer)

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The dimensions with an order, by levels of priority."""
        named = {c for level in self.preferred for c in level}
        rest = tuple(c for c, d in self.dimensions.items() if d != "equal" and c not in named)
        return (*self.preferred, rest) if rest else self.preferred


# Compile entries to operators: one for all queries of equal dimensions, levels, ``band``, ``distinct``, ``where``, score and weights.

_WHY = "one interval of membership per row; scan of the rows that no newer row beats"
_WHY_DELETES = "a deleted row brings back those that it alone beat, so no row can be dropped early"
_WHY_RANKED = "; members in rank order"
_WHY_SIZED = "; the radii of all members after each of their changes"


def compile_skyline(context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
    """Return drafts of ``Skyline`` operators; K is the band."""

    def key(m: QueryEntry) -> Any:
        q = cast(Skyline, m.query)
        ranked = None if q.by is None else (score_key(context, q.by), context.scoring(q.by).direction)
        shares = None if q.size is None else q.shares
        return (tuple(q.dimensions.items()), q.levels, q.band, q.distinct, predicate_key(context, q.where), ranked, shares)

    for _, group in share(entries, key):
        first = cast(Skyline, group[0].query)
        if first.size is not None:
            yield _sized(context, group, first)
        else:
            yield _skyline(context, group, first) if first.by is None else _ranked(context, group, first, first.by)


def _skyline(context: Context, group: tuple[QueryEntry, ...], first: Skyline) -> OperatorDraft:
    where = predicate(context, first.where)
    window = Window.union(m.window for m in group)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.operator import Skyline, SkylineDeletes, SkylineQuery

        queries = tuple(SkylineQuery(m.name, m.window, m.query.every) for m in group)
        kind = SkylineDeletes if context.deletes else Skyline
        return kind(_dimensions(context, first), queries, window, first.band, first.distinct, where, texts, _levels(first))

    why = _WHY_DELETES if context.deletes else _WHY
    return OperatorDraft(group, first.band, window, "min", texts_of(where), build, why, skyband=not context.deletes)


def _ranked(context: Context, group: tuple[QueryEntry, ...], first: Skyline, by: str) -> OperatorDraft:
    where, function, direction = predicate(context, first.where), score(context, by), context.scoring(by).direction
    window = Window.union(m.window for m in group)
    most = [cast(Skyline, m.query).top or 1 for m in group]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.chosen import RankedSkyline, RankedSkylineDeletes, RankedSkylineQuery

        queries = tuple(RankedSkylineQuery(m.name, m.window, m.query.every, k) for m, k in zip(group, most, strict=True))
        kind = RankedSkylineDeletes if context.deletes else RankedSkyline
        return kind(
            _dimensions(context, first), queries, window, first.band, first.distinct, where, texts, _levels(first), scoring=function,
            direction=direction,
        )  # fmt: skip

    why = (_WHY_DELETES if context.deletes else _WHY) + _WHY_RANKED
    asked = tuple((LogicalQuery(m.name, function, where, m.window, k, (None, None), direction),) for m, k in zip(group, most, strict=True))
    texts = texts_of(where, function)
    return OperatorDraft(group, first.band, window, direction, texts, build, why, skyband=not context.deletes, asked=asked)


def _sized(context: Context, group: tuple[QueryEntry, ...], first: Skyline) -> OperatorDraft:
    where = predicate(context, first.where)
    window = Window.union(m.window for m in group)
    sizes = [cast(Skyline, m.query).size or 1 for m in group]

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.skyline.chosen import SizedSkyline, SizedSkylineDeletes, SizedSkylineQuery

        queries = tuple(SizedSkylineQuery(m.name, m.window, m.query.every, size) for m, size in zip(group, sizes, strict=True))
        kind = SizedSkylineDeletes if context.deletes else SizedSkyline
        return kind(_dimensions(context, first), queries, window, first.band, first.distinct, where, texts, weights=first.shares)

    # A smaller window has other radii, which do not follow from the dominators of rows.
    why = (_WHY_DELETES if context.deletes else _WHY) + _WHY_SIZED
    return OperatorDraft(group, first.band, window, "min", texts_of(where), build, why, skyband=False)


def _dimensions(context: Context, query: Skyline) -> tuple[Any, ...]:
    """Return the dimensions as operators take them: in the order of the spec, with levels in that of the levels."""
    from skyband.operators.skyline.operator import Dimension

    names = list(query.dimensions)
    if len(query.levels) > 1:
        names = [*(c for level in query.levels for c in level), *(c for c, d in query.dimensions.items() if d == "equal")]
    return tuple(Dimension(Column(c, context.kinds[c]), query.dimensions[c]) for c in names)


def _levels(query: Skyline) -> tuple[int, ...] | None:
    """Return how many dimensions each level has; None for one level."""
    return tuple(len(level) for level in query.levels) if len(query.levels) > 1 else None


# Check the chosen size of a skyline, and its weights.

MOST: Final = 6
"""The most dimensions of a skyline with ``size``, as ``operators/skyline/kernels/sizing.py`` has it (tested)."""


def check_size(scope: Scope, path: Path, query: Skyline) -> None:
    """Check that ``size`` stands without fields that it does not go with, and that ``weights`` names all dimensions and not only with 0."""
    if query.size is None and query.weights is None:
        return
    doc = scope.doc
    given = "size" if query.size is not None else "weights"
    for other, remove in (("top", "remove top and by, or size and weights"), ("prefer", "remove it, or size and weights")):
        if getattr(query, other) and not doc.bad((*path, other)):
            doc.add("SKY-E117", f"'{other}' and '{given}' of a skyline do not go together", doc.where_key((*path, other)), remove)
    for column, direction in query.dimensions.items():
        if direction == "equal" and not doc.bad((*path, "dimensions", column)):
            said = f"'{column}' has direction equal: a skyline with '{given}' compares all rows of a key"
            doc.add("SKY-E117", said, doc.where_key((*path, "dimensions", column)), "use min or max, or partition_by of the source")
    ordered = [c for c, d in query.dimensions.items() if d != "equal"]
    if len(ordered) > MOST and not doc.bad((*path, "dimensions")):
        said = f"a skyline with '{given}' takes at most {counted(MOST, 'dimension')}, not {len(ordered)}"
        doc.add("SKY-E117", said, doc.where_key((*path, "dimensions")), "remove dimensions, or use top and by")
    if query.weights is not None and not doc.bad_below((*path, "weights")):
        _check_weights(scope, (*path, "weights"), query.weights, ordered)


def _check_weights(scope: Scope, path: Path, weights: dict[str, float], ordered: list[str]) -> None:
    """Check that ``weights`` has each dimension once, and a weight above 0."""
    for column in weights:
        if column not in ordered:
            hint = did_you_mean(column, ordered) or f"dimensions: {one_of(ordered)}"
            scope.doc.add("SKY-E120", f"'{column}' in weights is no dimension of the skyline", scope.doc.where_key((*path, column)), hint)
    missing = [c for c in ordered if c not in weights]
    if missing:
        named = ("dimension " if len(missing) == 1 else "dimensions ") + ", ".join(f"'{c}'" for c in missing)
        scope.doc.add("SKY-E111", f"weights lacks the {named}", scope.doc.where_key(path), f"{missing[0]}: a number from 0 on")
    elif not any(weights.values()):
        scope.doc.add("SKY-E117", "all weights are 0", scope.doc.where_value(path), "give a weight above 0 to at least one dimension")


_TOGETHER: Final = (
    ("top", "by", "by: NAME of a scoring function"),
    ("by", "top", "top: how many rows"),
    ("size", "weights", "weights: {COLUMN: 0.5, ...} of all dimensions"),
    ("weights", "size", "size: how many rows"),
)
"""Fields of which the first needs the second, with a hint."""


class SkylineType(QueryType):
    """See ``protocol.QueryType``."""

    name = "skyline"
    model = Skyline
    example = (FilePath(__file__).parent / "example.yaml").read_text(encoding="utf-8")
    takes_deletions = True
    windows = FOLLOWING | HOPPING
    own_k = "band"
    shares = "dimensions, prefer, band, distinct, where, by and weights"

    def item(self, query: Skyline) -> ItemShape:
        """Return one row, with a score if the query ranks it; the state says which older row decides whether it shows."""
        beats = "no row" if query.band == 1 else f"fewer than {counted(query.band, 'row')}"
        rule = f"{beats} of a window beat the object, itself in the window, exactly if pred is null or no longer in the window"
        extra = (
            Value("newer", "bigint", "how many newer rows beat the object"),
            Value("pred", "bigint", f"seq of the older row that decides: {rule}"),
            Value("pred_time", "timestamp", "event time of pred"),
        )
        if query.top is not None:
            return closing(ItemShape(ROW, by_score(ROW), (SCORE_VALUE,), extra=extra, hidden_by="pred"), query.window)
        if query.size is not None:
            return closing(ItemShape(ROW, newest_first(ROW)), query.window)
        return closing(ItemShape(ROW, newest_first(ROW), extra=extra, hidden_by="pred"), query.window)

    def check(self, scope: Scope, path: Path, query: Skyline) -> None:
        """Check the dimensions, their priorities and the score."""
        at: Path = (*path, "dimensions")
        if not scope.doc.bad_below(at) and all(d == "equal" for d in query.dimensions.values()):
            scope.doc.add("SKY-E117", "a skyline needs a dimension with min or max", scope.doc.where_key(at))
        for column, direction in query.dimensions.items():
            if scope.key_column((*at, column), column) and direction != "equal" and scope.types[column] in {"string", "boolean"}:
                message = f"'{column}' is {scope.types[column]}: only numbers and times have a {direction}"
                scope.doc.add("SKY-E126", message, scope.doc.where_key((*at, column)), "use equal")
        _check_prefer(scope, (*path, "prefer"), query)
        for given, missing, hint in _TOGETHER:
            if getattr(query, given) is not None and getattr(query, missing) is None and not scope.doc.bad((*path, missing)):
                said = f"'{given}' of a skyline needs the field '{missing}'"
                scope.doc.add("SKY-E111", said, scope.doc.where_key((*path, given)), hint)
        check_size(scope, path, query)
        uses_scoring(scope, path, query, query.by, ROW_SIDES, "by")

    def compile(self, context: Context, entries: Sequence[QueryEntry]) -> Iterable[OperatorDraft]:
        """See ``compile``."""
        return compile_skyline(context, entries)

    def value_columns(self, node: OperatorNode, query: QueryNode) -> tuple[str, ...]:
        """Return what the score is computed from, if there is one."""
        return scoring_columns(*query.asked)

    def facts(self, node: OperatorNode, queries: Sequence[QueryNode]) -> list[tuple[str, str]]:
        """See ``explain``."""
        return _facts(node)

    def limits(self, plan: Plan, query: QueryNode, logical: LogicalQuery | None) -> Limits:
        """Return ``top`` or ``size``."""
        size = getattr(plan.operators[query.operator].inner, "sizes", None)
        return super().limits(plan, query, logical) if size is None else Limits(size[query.index])

    def size(self, plan: Plan, node: OperatorNode, rate: float | None) -> list[str]:
        """See ``explain``."""
        return _size(plan, node, rate)

    def brute_force(self, question: Question) -> Found | None:
        """See ``brute_force``."""
        from skyband.framework.queries.skyline.brute_force import unbeaten

        return unbeaten(question)

    def scores(self, question: Question, items: Sequence[tuple[Any, ...]]) -> list[float] | None:
        """See ``protocol.QueryType``."""
        if question.logical_query is None:
            return None
        from skyband.framework.queries.single_rows.brute_force import row_scores

        return row_scores(question, items, (None, None, None, None))

    def ranked(self, question: Question) -> Found | None:
        """Return the members of the skyline in rank order, or by radius; None with neither: dominance is no rank."""
        if hasattr(question.plan.operators[question.query.operator].inner, "sizes"):
            from skyband.framework.queries.skyline.brute_force import by_radius

            return by_radius(question)
        return None if question.query.k is None else super().ranked(question)

    def beating(self, question: Question, item: tuple[Any, ...]) -> Found | None:
        """Return the objects that beat the item; None for a member without a score."""
        from skyband.framework.queries.skyline.brute_force import beating

        found = beating(question, int(item[0]))
        op: Any = question.plan.operators[question.query.operator].inner
        return None if found is not None and len(found) < op.band else found


def _check_prefer(scope: Scope, path: Path, query: Skyline) -> None:
    """Check that ``prefer`` lists dimensions that have an order, each once."""
    seen: set[str] = set()
    ordered = [c for c, d in query.dimensions.items() if d != "equal"]
    for i, level in enumerate(query.prefer):
        for j, column in enumerate([level] if isinstance(level, str) else level):
            at: Path = (*path, i) if isinstance(level, str) else (*path, i, j)
            if scope.doc.bad(at):
                continue
            where = scope.doc.where_value(at)
            if column not in query.dimensions:
                hint = did_you_mean(column, ordered) or f"dimensions: {one_of(ordered)}"
                scope.doc.add("SKY-E120", f"'{column}' in prefer is no dimension of the skyline", where, hint)
            elif column not in ordered:
                message = f"'{column}' has direction equal: rows with different values are not compared, whatever its priority"
                scope.doc.add("SKY-E117", message, where, "remove it from prefer")
            elif column in seen:
                scope.doc.add("SKY-E125", f"'{column}' is listed twice in prefer", where)
            seen.add(column)


QUERY_TYPE = SkylineType()
