"""Interpret the expression language by its definition, over columns of values, for the scores of ``verify``.

Only the syntax tree is shared with the operators: no code is generated, and nulls are kept in a mask. Objects are mappings of column names
to ``Values``; an expression over pairs takes the objects a and b, of equal length or one of them of length 1. NaN is null, so a float that
is not null is a number.

* Arithmetic is float64 (IEEE 754: no division by zero raises, nothing overflows); a duration where a number is needed is its seconds.
* Whole numbers, instants and durations (microseconds) compare exactly among themselves; their sums and differences wrap at 64 bits.
* Null gives null, in arithmetic and in functions; ``and``, ``or`` and ``not`` know true, false and null; ``where`` takes its last argument
  unless the condition is true. Of equal values ``min`` and ``max`` take the later (0.0 and -0.0 are equal).
* ``exp``, ``log``, ``pow`` and trigonometric functions are the C library's, one number at a time: NumPy's own round otherwise.
* ``mod`` has the sign of its first argument, ``round`` rounds halves away from zero. ``haversine`` is in metres on a sphere with the mean
  radius of the Earth; a latitude beyond a pole gives null.
* ``dot`` and ``l2`` add over the dimensions in order, from 0.0; ``cosine`` is null where the product of the norms is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.operators.base import TOKENS
from skyband.operators.expressions.ast import Attr, Binary, Call, In, IsNull, Literal_, Node, Unary

# Functions of texts and of sets of tokens by their definitions, over columns of numbers that stand for them.

I64: TypeAlias = npt.NDArray[np.int64]
Function: TypeAlias = Callable[..., tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]]
"""Takes lists of texts or sets of equal length; returns values and which of them are not null."""

_NUMBERS: Final[dict[Any, int]] = {}
_KNOWN: Final[list[Any]] = []
_PAIRS: Final = 20_000
"""Pairs of texts that are compared together."""


def text_number(text: str | frozenset[str]) -> int:
    """Return a number that no other text, or set of texts, has."""
    if text not in _NUMBERS:
        _NUMBERS[text] = len(_KNOWN)
        _KNOWN.append(text)
    return _NUMBERS[text]


def function_of(node: Call) -> Function | None:
    """Return the function of texts or sets that ``node`` calls; None for others. Constants that are numbers are part of it."""
    numbers = [int(n.value) for n in node.args if isinstance(n, Literal_) and n.type == "int" and n.value is not None]
    if node.fn == "edit_distance":
        return lambda x, y: _distances(x, y, *numbers)
    if node.fn == "length":
        return lambda x: _known_text(np.array([len(text) for text in x], np.int64))
    if node.fn == "lower":
        return lambda x: _texts(pc.utf8_lower(pa.array(x, pa.string())).to_pylist())  # the mapping is a table of Unicode's
    if node.fn == "substring":
        return lambda x: _texts([_substring(text, *numbers) for text in x])
    if node.fn in _SIMILARITIES and node.args[0].type == "tokens":
        similarity = _SIMILARITIES[node.fn]
        return lambda x, y: _similarities(similarity, x, y)
    return None


def on_numbers(function: Function, columns: Sequence[I64]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return ``function`` of the texts or sets that ``columns`` stand for. Equal arguments are computed once."""
    rows = np.stack(np.broadcast_arrays(*columns))
    different, place = np.unique(rows, axis=1, return_inverse=True)
    value, valid = function(*([_KNOWN[n] for n in row.tolist()] for row in different))
    return value[place.reshape(-1)], valid[place.reshape(-1)]


def _known_text(value: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    return value, np.ones(len(value), bool)


def _texts(texts: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    return _known_text(np.array([text_number(text) for text in texts], np.int64))


def _substring(text: str, position: int, count: int | None = None) -> str:
    """Return the characters at ``count`` positions from one on; those from the end are -1, -2, ..., and 0 is the first."""
    first = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return "".join(c for i, c in enumerate(text) if i >= first and (count is None or i < first + count))


def _similarities(
    similarity: Callable[[int, int, int], float], x: list[frozenset[str]], y: list[frozenset[str]]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the similarities of sets, null where one is empty."""
    found = [similarity(len(a & b), len(a), len(b)) if a and b else math.nan for a, b in zip(x, y, strict=True)]
    value = np.array(found, np.float64)
    return value, ~np.isnan(value)


_SIMILARITIES: Final[dict[str, Callable[[int, int, int], float]]] = {
    "jaccard": lambda both, a, b: both / (a + b - both),
    "cosine": lambda both, a, b: math.sqrt(both * both / (a * b)),
    "dice": lambda both, a, b: 2 * both / (a + b),
    "overlap": lambda both, a, b: float(both),
}


def _distances(x: list[str], y: list[str], limit: int | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the edit distances of texts, null above the limit."""
    found = np.zeros(len(x), np.int64)
    order = np.argsort([max(len(a), len(b)) for a, b in zip(x, y, strict=True)], kind="stable")
    for start in range(0, len(x), _PAIRS):
        at = order[start : start + _PAIRS]
        found[at] = _levenshtein(_matrix([x[i] for i in at]), _matrix([y[i] for i in at]), _lengths(x, at), _lengths(y, at))
    return found, np.ones(len(x), bool) if limit is None else found <= limit


def _lengths(texts: list[str], at: I64) -> I64:
    return np.array([len(texts[i]) for i in at], np.int64)


def _matrix(texts: list[str]) -> I64:
    """Return code points as int64 (longest, texts), padded."""
    found = np.full((max(map(len, texts), default=0), len(texts)), -1)
    for column, text in enumerate(texts):
        found[: len(text), column] = [ord(c) for c in text]
    return found


def _levenshtein(x: I64, y: I64, x_length: I64, y_length: I64) -> I64:
    """Return the distances of texts side by side: d(i, j) = least of d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + (x_i differs from y_j)."""
    pairs = x.shape[1]
    above = np.tile(np.arange(len(y) + 1)[:, None], (1, pairs))
    found: I64 = y_length.copy()
    for i in range(len(x)):
        row = np.empty_like(above)
        row[0] = i + 1
        for j in range(len(y)):
            row[j + 1] = np.minimum(np.minimum(above[j + 1], row[j]) + 1, above[j] + (x[i] != y[j]))
        ends = np.flatnonzero(x_length == i + 1)
        found[ends] = row[y_length[ends], ends]
        above = row
    return found


Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Values:
    """A column: ``value`` float64, int64 (whole numbers, instants, durations, texts as ``text_number``) or bool; ``valid``: not null.

    Vectors are float64 (rows, dimension).

    Where a value is null, ``value`` holds anything.
    """

    value: npt.NDArray[Any]
    valid: Bools


Objects: TypeAlias = Mapping[str, Values]
Meaning: TypeAlias = Callable[[Objects, Objects], Values]
"""Computes an expression over objects a and b; one over single objects reads the first."""

_DTYPE: Final = {"float": np.float64, "bool": np.bool_, "null": np.float64}


def score_of(node: Node) -> Callable[[Objects, Objects], npt.NDArray[np.float64]]:
    """Return the scores of an expression, NaN where it is null; -0.0 becomes 0.0."""
    value = _number(node)

    def score(a: Objects, b: Objects) -> npt.NDArray[np.float64]:
        found = value(a, b)
        return np.where(found.valid, found.value + 0.0, math.nan)

    return score


def holds(node: Node | None) -> Callable[[Objects, Objects], Bools]:
    """Return where a condition is true; without a condition, everywhere."""
    if node is None:
        return lambda a, b: np.ones(1, bool)
    value = meaning(node)

    def true(a: Objects, b: Objects) -> Bools:
        found = value(a, b)
        return np.asarray(found.value & found.valid, bool)

    return true


def meaning(node: Node) -> Meaning:
    """Return the function that computes ``node``. Raises TypeError for anything but an expression."""
    match node:
        case Literal_():
            constant = _literal(node)
            return lambda a, b: constant
        case Attr(side=side, name=name):
            name = TOKENS + name if node.type == "tokens" else name
            return (lambda a, b: b[name]) if side == "b" else (lambda a, b: a[name])
        case IsNull(x=x, negated=negated):
            value = meaning(x)
            return lambda a, b: _known(value(a, b).valid if negated else ~value(a, b).valid)
        case In(x=x, options=options, negated=negated):
            return _in([_comparison("=", x, option) for option in options], negated)
        case Unary(op="not", x=x):
            value = meaning(x)
            return lambda a, b: _not(value(a, b))
        case Unary(x=x):
            value = meaning(x) if node.type == "duration" else _number(x)
            return lambda a, b: Values(-(v := value(a, b)).value, v.valid)
        case Binary():
            return _binary(node)
        case Call():
            return _call(node)
    raise TypeError(f"not an expression: {node!r}")


def _literal(node: Literal_) -> Values:
    if node.value is None:
        return Values(np.zeros(1), np.zeros(1, bool))
    constant = text_number(node.value) if isinstance(node.value, str) else node.value
    return _known(np.array([constant], _DTYPE.get(node.type, np.int64)))


def _known(value: npt.NDArray[Any]) -> Values:
    return Values(value, np.ones(value.shape, bool))


def _number(node: Node) -> Meaning:
    """Return the function that computes ``node`` as a float."""
    value = meaning(node)
    if node.type == "duration":
        return lambda a, b: Values((v := value(a, b)).value.astype(np.float64) / 1e6, v.valid)
    if node.type == "int":
        return lambda a, b: Values((v := value(a, b)).value.astype(np.float64), v.valid)
    return value


def _not(x: Values) -> Values:
    return Values(~x.value, x.valid)


def _or(x: Values, y: Values) -> Values:
    true = (x.value & x.valid) | (y.value & y.valid)
    return Values(true, true | (x.valid & y.valid))


def _in(equals: list[Meaning], negated: bool) -> Meaning:
    def isin(a: Objects, b: Objects) -> Values:
        found = equals[0](a, b)
        for equal in equals[1:]:
            found = _or(found, equal(a, b))
        return _not(found) if negated else found

    return isin


_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def _comparison(op: str, left: Node, right: Node) -> Meaning:
    """Return values of one type unchanged, others as floats."""
    same = left.type == right.type
    x, y = (meaning(left), meaning(right)) if same else (_number(left), _number(right))
    test = _COMPARE[op]

    def compare(a: Objects, b: Objects) -> Values:
        v, w = x(a, b), y(a, b)
        return Values(test(v.value, w.value), v.valid & w.valid)

    return compare


_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def _binary(node: Binary) -> Meaning:
    if node.op in ("and", "or"):
        x, y = meaning(node.x), meaning(node.y)
        if node.op == "or":
            return lambda a, b: _or(x(a, b), y(a, b))
        return lambda a, b: _not(_or(_not(x(a, b)), _not(y(a, b))))
    if node.type == "bool":
        return _comparison(node.op, node.x, node.y)
    exact = node.type in ("time", "duration")
    return _applied(_ARITHMETIC[node.op], [meaning(n) if exact else _number(n) for n in (node.x, node.y)])


def _applied(function: Callable[..., Any], arguments: list[Meaning]) -> Meaning:
    """Return a function of non-null values; a NaN result is null."""

    def apply(a: Objects, b: Objects) -> Values:
        values = [argument(a, b) for argument in arguments]
        valid = values[0].valid
        for v in values[1:]:
            valid = valid & v.valid
        with np.errstate(all="ignore"):
            found = function(*[v.value for v in values])
        return Values(found, valid & (found == found))

    return apply


def _call(node: Call) -> Meaning:
    if node.fn == "where":
        return _where(node)
    function = function_of(node)
    if function is not None:
        return _of_texts(function, [meaning(n) for n in node.args if n.type != "int" or not isinstance(n, Literal_)])
    exact = node.type in ("time", "duration")
    return _applied(_FUNCTIONS[node.fn], [meaning(n) if exact else _number(n) for n in node.args])


def _of_texts(function: Function, arguments: list[Meaning]) -> Meaning:
    def apply(a: Objects, b: Objects) -> Values:
        values = [argument(a, b) for argument in arguments]
        there = np.broadcast_arrays(*[v.valid for v in values])
        valid = np.logical_and.reduce(there)
        found, known = on_numbers(function, [np.broadcast_to(v.value, len(valid))[valid] for v in values])
        value = np.zeros(len(valid), found.dtype)
        value[valid] = found
        valid[valid] = known
        return Values(value, valid)

    return apply


def _where(node: Call) -> Meaning:
    condition = holds(node.args[0])
    yes, no = (_number(n) if node.type == "float" else meaning(n) for n in node.args[1:])
    kind = _DTYPE.get(node.type, np.int64)

    def where(a: Objects, b: Objects) -> Values:
        flag, v, w = condition(a, b), yes(a, b), no(a, b)
        # The literal null is a float wherever it stands.
        return Values(np.where(flag, v.value.astype(kind), w.value.astype(kind)), np.where(flag, v.valid, w.valid))

    return where


def _least(first: Any, *others: Any) -> Any:
    for x in others:
        first = np.where(first < x, first, x)
    return first


def _greatest(first: Any, *others: Any) -> Any:
    for x in others:
        first = np.where(first > x, first, x)
    return first


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    """Return ``function`` applied to one number after another; NaN gives NaN."""

    def apply(*columns: Any) -> Any:
        rows = np.broadcast_arrays(*columns)
        every = zip(*[c.tolist() for c in rows], strict=True)
        return np.array([math.nan if any(x != x for x in row) else function(*row) for row in every], np.float64)

    return apply


def _log(x: float) -> float:
    return math.nan if x < 0 else -math.inf if x == 0 else math.log(x)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _pow(x: float, y: float) -> float:
    odd_power = math.isfinite(y) and math.fmod(y, 2) in (1.0, -1.0)
    if x < 0 and math.isfinite(y) and y != math.floor(y):
        return math.nan
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd_power else math.inf
    except ValueError:  # zero to a negative power
        return math.copysign(math.inf, x) if odd_power else math.inf


def _finite(function: Callable[..., float]) -> Callable[..., float]:
    """Return ``function``, which gives NaN for an infinity."""
    return lambda x: function(x) if math.isfinite(x) else math.nan


def _mod(x: float, y: float) -> float:
    return math.nan if math.isinf(x) or y == 0 else math.fmod(x, y)


def _round(x: float) -> float:
    if not math.isfinite(x):
        return x
    nearest = math.floor(abs(Fraction(x)) + Fraction(1, 2))
    return float(nearest if x > 0 else -nearest)


def _sign(x: Any) -> Any:
    return np.where(x == 0, x, np.copysign(1.0, x))


def _haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Twice the radius times the arcsine of the root of h(latitudes) + cos cos h(longitudes), where h(x) is the square of sin(x / 2)."""
    east = lon2 - lon1
    if max(abs(lat1), abs(lat2)) > 90 or not math.isfinite(east):
        return math.nan
    north, east = math.sin(math.radians(lat2 - lat1) / 2), math.sin(math.radians(east) / 2)
    haversed = north * north + math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * (east * east)
    return 2 * 6_371_008.8 * math.asin(min(1.0, math.sqrt(haversed)))


def _in_order(terms: Any) -> Any:
    """Return the sums of rows of terms, added one after the other to 0.0."""
    return np.add.accumulate(np.concatenate([np.zeros((len(terms), 1)), terms], axis=1), axis=1)[:, -1]


def _dot(x: Any, y: Any) -> Any:
    return _in_order(x * y)


def _cosine(x: Any, y: Any) -> Any:
    norms = np.sqrt(_dot(x, x)) * np.sqrt(_dot(y, y))
    return np.where(norms == 0, math.nan, _dot(x, y) / norms)


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "min": _least, "max": _greatest, "log": _each(_log), "exp": _each(_exp),
    "pow": _each(_pow), "sign": _sign, "ceil": np.ceil, "round": _each(_round), "mod": _each(_mod), "radians": _each(math.radians),
    "sin": _each(_finite(math.sin)), "cos": _each(_finite(math.cos)), "tan": _each(_finite(math.tan)), "atan2": _each(math.atan2),
    "haversine": _each(_haversine),
    "dot": _dot, "l2": lambda x, y: np.sqrt(_in_order((x - y) ** 2)), "cosine": _cosine,
}  # fmt: skip
