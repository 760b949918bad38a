"""The small expression language of a spec: parsed, typed, allow-listed, compiled to kernels; never evaluated as Python.

``parse`` text into a typed tree, ``canonical`` for the sharing key, ``compile_pair`` and ``compile_row`` for kernels. Parsing and typing
import neither Numba nor Spark; kernels import Numba when first used.
"""

from skyband.operators.expressions.ast import Node, Span
from skyband.operators.expressions.canonical import attributes, canonical, text_constants
from skyband.operators.expressions.compile import PairKernel, RowKernel, compile_pair, compile_row, count_type, matrix, row_type, score_type
from skyband.operators.expressions.errors import ExpressionError, ExpressionErrors
from skyband.operators.expressions.parser import parse

__all__ = [
    "ExpressionError", "ExpressionErrors", "Node", "PairKernel", "RowKernel", "Span", "attributes", "canonical", "compile_pair",
    "compile_row", "count_type", "matrix", "parse", "row_type", "score_type", "text_constants",
]  # fmt: skip
