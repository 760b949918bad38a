"""Bounds of scores over boxes of attributes (docs/algorithms D8): the source text of ``bound_block``.

A *box* is three rows per attribute: the least value, the greatest, and 1 where there is a null (0 elsewhere). Rows 3 r to 3 r + 2 are those
of attribute r, in ``fboxes`` (float64) for ``float_names`` and in ``iboxes`` (int64) for ``int_names``; a column is a zone. Without a value
that is not null, the least is above the greatest.

The result for a zone is a lower bound of the internal score of all objects in it (with an object in the other box, for pairs): never NaN,
``inf`` only if no such object or pair is a candidate (the predicate is not true, or the score is null), ``-inf`` if nothing is known.
"""

from __future__ import annotations

import sys

from skyband.operators.expressions.ast import Attr, Node
from skyband.operators.expressions.canonical import walk
from skyband.operators.expressions.codegen import Program, numba_module, numpy_module
from skyband.operators.expressions.intervals import Intervals
from skyband.operators.expressions.lower import FALSE, TRUE
from skyband.operators.expressions.spellings import NUMBA, NUMPY, Spelling

KINDS = ("bound", "row_bound")
MOST = 300
"""Nodes of an expression that has bounds. Compiling takes 10 to 20 milliseconds per node."""


def _lower(program: Program, spelling: Spelling) -> tuple[Intervals, str, str, list[str]]:
    """The statements, the variables of the least score and of "there may be a candidate", and the slices the statements read."""
    slices: dict[str, str] = {}

    def column(attr: Attr) -> tuple[tuple[str, str, str], bool] | None:
        letter, names = ("f", program.float_names) if attr.type == "float" else ("i", program.int_names)
        if attr.name not in names:
            return None
        first, varies = 3 * names.index(attr.name), attr.side == program.column_side

        def end(row: int) -> str:
            if not varies:
                return f"x{letter}[{row}]" if spelling.loop else f"x{letter}[{row}:{row + 1}]"
            name = f"{letter}{row}"
            slices[name] = f"{name} = {letter}boxes[{row}, lo:hi]"
            return f"{name}[i]" if spelling.loop else f"{name}[:]"

        return (end(first), end(first + 1), end(first + 2)), varies

    lowering = Intervals(spelling, column, dict(program.texts))
    score, where = (None if n is None or _size(n) > MOST else n for n in (program.score, program.where))
    candidate = lowering.predicate(where)
    least, some = (lowering.low, TRUE) if score is None and program.score is not None else lowering.score(score, program.negate)
    return lowering, least, lowering.all((candidate, some)), list(slices.values())


def _size(node: Node) -> int:
    return sum(1 for _ in walk(node))


def trivial(program: Program) -> bool:
    """Return True if the bound of a kernel never says anything: it is the same for all boxes that have values. O(size)."""
    lowering, least, candidate, _ = _lower(program, NUMPY)
    return not lowering.depends(least, candidate)


def numba_source(program: Program, kind: str) -> str:
    """A module with the loop of ``kind``, "bound" or "row_bound"."""
    lowering, least, candidate, slices = _lower(program, NUMBA)
    least = lowering.less(least, lowering.real(sys.float_info.max))  # inf means that there is no candidate
    known = {TRUE: f"{least} + 0.0", FALSE: "inf"}
    before, inside = lowering.statements(least, candidate)
    result = known.get(candidate, f"{least} + 0.0 if {candidate} != 0 else inf")  # adding 0.0 turns -0.0 into 0.0
    return numba_module(kind, [*slices, *before], [*inside, f"out[i] = {result}"], [])


def numpy_source(program: Program, kind: str) -> str:
    """The same function over whole arrays."""
    lowering, least, candidate, slices = _lower(program, NUMPY)
    least = lowering.less(least, lowering.real(sys.float_info.max))
    known = {TRUE: f"{least} + 0.0", FALSE: "inf"}
    result = known.get(candidate, f"np.where({candidate}, {least} + 0.0, inf)")
    before, inside = lowering.statements(least, candidate)
    return numpy_module(kind, [*slices, *before, *inside, f"out[0 : max(hi - lo, 0)] = {result}"])
