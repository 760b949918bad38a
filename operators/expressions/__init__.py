"""The small expression language of a spec: parsed, typed, allow-listed, compiled to kernels; never evaluated as Python.

``parse`` text into a typed tree, ``canonical`` for the sharing key, ``compile_pair`` and ``compile_row`` for kernels. Parsing and typing
import neither Numba nor Spark; kernels import Numba when first used.

The language (keywords and functions in any case)::

    or   and   not   = <> < <= > >=  is [not] null  [not] in (constants)  [not] between x and y   + -   * /   -x      (loosest first)
    abs min max sqrt log exp pow floor ceil round sign mod radians sin cos tan atan2 haversine where(condition, x, y) coalesce(x, y, ...)
    case when condition then x [when ...] [else y] end      case x when value then y ... end
    length lower substring edit_distance   jaccard cosine dice overlap (of sets of tokens)                         (``leaves``)
    dot l2 cosine (of two vectors)
    a.x b.x (pairs)   x (single objects)   `any name`   1  2.5  'text'  true false null  5 minutes (microseconds ... weeks)
    timestamp '2015-01-31 12:00:00'   date '2015-01-31'                   (UTC unless the text says otherwise)

* Arithmetic is float64. Comparisons use the operands' own types: integers as int64, texts (= <> in only) by code, times as int64.
* ``time - time`` is a duration, exact in int64 microseconds against other durations, and its seconds where a number is needed.
* Null and NaN are the same. Arithmetic and functions on null give null; conditions follow SQL's three-valued logic; ``where`` takes y
  unless the condition is true. A null score is NaN; a predicate holds only if it is true. Division by zero and overflow follow IEEE 754.
* ``dot`` of two vectors adds the products, ``l2`` the squared differences (and takes the root), in order from the first dimension.
  ``cosine`` is ``dot / (norm * norm)``, null if that product is 0; a norm is the root of ``dot`` of a vector with itself.
* Equal bytes from Numba and NumPy: one IEEE operation per node, ``exp log pow sin cos tan atan2`` from the C library.
"""

from skyband.operators.expressions.ast import Node, Span
from skyband.operators.expressions.canonical import attributes, canonical, text_constants
from skyband.operators.expressions.compile import PairKernel, RowKernel, compile_pair, compile_row, count_type, matrix, row_type, score_type
from skyband.operators.expressions.errors import ExpressionError, ExpressionErrors
from skyband.operators.expressions.leaves import read_columns
from skyband.operators.expressions.parser import parse

__all__ = [
    "ExpressionError", "ExpressionErrors", "Node", "PairKernel", "RowKernel", "Span", "attributes", "canonical", "compile_pair",
    "compile_row", "count_type", "matrix", "parse", "read_columns", "row_type", "score_type", "text_constants",
]  # fmt: skip
