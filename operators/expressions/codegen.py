"""Source text of the block kernels, and the functions made from it.

Numba modules are files in the per-host cache directory, named by the hash of what they hold and of the versions that compile them, so that
worker processes load compiled code; the text of a file found there is compared with what would be written before it is run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from skyband.operators import jit
from skyband.operators.expressions import of_pool
from skyband.operators.expressions.ast import Attr, Call, Node
from skyband.operators.expressions.lower import FALSE, TRUE, Lowering
from skyband.operators.expressions.spellings import NUMBA, NUMPY, Spelling
from skyband.operators.expressions.vectors import VECTOR_FUNCTIONS, dot, element_name, squares

VERSION = 2
"""Raise whenever equal expressions get different code."""

COUNT_SIGNATURE = "i8(f8[:, ::1], i8[:, ::1], i8, i8, f8[::1], i8[::1], i8[::1], f8)"
SCORE_SIGNATURE = "void(f8[:, ::1], i8[:, ::1], i8, i8, f8[::1], i8[::1], i8[::1], f8[::1])"
ROW_SIGNATURE = "void(f8[:, ::1], i8[:, ::1], i8, i8, f8[::1])"

_PARAMETERS = {
    "count": "fcols, icols, lo, hi, xf, xi, pool, limit",
    "score": "fcols, icols, lo, hi, xf, xi, pool, out",
    "row": "fcols, icols, lo, hi, out",
    "bound": "fboxes, iboxes, lo, hi, xf, xi, pool, out",
    "row_bound": "fboxes, iboxes, lo, hi, out",
}
_CALL = re.compile(r"(?<![\w.])(?!(?:abs|select)\()[a-z]\w*\(")
"""A call of a function that is neither NumPy's nor Python's, nor a choice between two values."""
_VECTOR_NAMES = ("BLOCK", "COSINE", "DOT", "L2", "dot_columns", "dot_x", "reach", "squares_columns", "squares_x")
_SIGNATURES = {
    "count": COUNT_SIGNATURE, "score": SCORE_SIGNATURE, "row": ROW_SIGNATURE, "bound": SCORE_SIGNATURE, "row_bound": ROW_SIGNATURE,
}  # fmt: skip

_OF_POOL = {
    "text_pattern": "skyband.operators.expressions.kernels.edit_distance",
    "edit_distance": "skyband.operators.expressions.kernels.edit_distance",
    "set_similarity": "skyband.operators.expressions.kernels.set_similarity",
}
"""Functions that read the pool, and the modules of their kernels."""


@dataclass(frozen=True)
class Program:
    """What code is generated from. ``column_side`` is the side whose objects are columns; the other side is one object."""

    score: Node | None
    where: Node | None
    negate: bool
    texts: tuple[tuple[str, int], ...]
    float_names: tuple[str, ...]
    int_names: tuple[str, ...]
    column_side: str


class _Reads:
    """How generated code reads attributes: slices of columns, numbers of x, and sums over the dimensions of vectors.

    ``slices`` and ``before`` come at the start, ``blocks`` at the start of every block of objects, of which object i is number ``j``.
    """

    def __init__(self, program: Program, spelling: Spelling) -> None:
        self.program, self.spelling = program, spelling
        self.slices: dict[str, str] = {}
        self.before: list[str] = []
        self.blocks: dict[str, str] = {}

    @property
    def vectors(self) -> bool:
        """Return True if the code sums over dimensions, in buffers of its own."""
        return bool(self.before or self.blocks)

    def column(self, attr: Attr) -> tuple[str, bool]:
        """See ``Lowering.column``."""
        program, loop = self.program, self.spelling.loop
        real = attr.type in ("float", "vector")
        letter, row = ("f", self._row(attr)) if real else ("i", program.int_names.index(attr.name))
        if attr.side == program.column_side:
            name = f"{letter}{row}"
            self.slices[name] = f"{name} = {letter}cols[{row}, lo:hi]"
            return (f"{name}[i]" if loop else f"{name}[:]"), True
        return (f"x{letter}[{row}]" if loop else f"x{letter}[{row}:{row + 1}]"), False

    def _row(self, attr: Attr) -> int:
        return self.program.float_names.index(attr.name if attr.type == "float" else element_name(attr.name, 0))

    def sums(self, function: str, x: Attr, y: Attr) -> tuple[str, bool]:
        """See ``Lowering.sums``. The order of the two makes no difference, and does not come from the sides' names."""
        side, dimension = self.program.column_side, x.dimension
        p, q = sorted((x, y), key=lambda v: (v.side != side, self._row(v)))
        varies, both = p.side == side, p.side == q.side
        rows = self._row(p), self._row(q)
        if not self.spelling.loop:
            parts = [
                f"fcols[{r}:{r + dimension}, lo:hi]" if v.side == side else f"xf[{r}:{r + dimension}, None]"
                for v, r in zip((p, q), rows, strict=True)
            ]
            return f"{function}({', '.join(parts)})", varies
        call = f"{function}_{'columns' if both else 'x'}"
        name = f"{call}_{rows[0]}_{rows[1]}{'' if varies else '_of_x'}"
        if not varies:
            self.before += [f"{name} = np.empty(1)", f"{call}(xf.reshape((-1, 1)), {rows[0]}, {rows[1]}, {dimension}, 0, 1, {name})"]
            return f"{name}[0]", False
        if name not in self.blocks:
            self.before.append(f"{name} = np.empty(BLOCK)")
            given = (
                f"{rows[0]}, {rows[1]}, {dimension}, lo + first, size"
                if both
                else f"{rows[0]}, {dimension}, lo + first, size, xf, {rows[1]}"
            )
            self.blocks[name] = f"{call}(fcols, {given}, {name})"
        return f"{name}[j]", True

    def stop_early(self) -> None:
        """Leave a block whose sums show before all dimensions are read that no score is at most ``limit``, for a score that is one."""
        score = self.program.score
        if not isinstance(score, Call) or score.fn not in VECTOR_FUNCTIONS or (score.fn == "l2") == self.program.negate:
            return
        p, q = (x for x in score.args if isinstance(x, Attr))
        if p.side == q.side:
            return
        p, q = (p, q) if p.side == self.program.column_side else (q, p)
        name = self.sums("squares" if score.fn == "l2" else "dot", p, q)[0].removesuffix("[j]")
        given = f"{score.fn.upper()}, fcols, {self._row(p)}, {p.dimension}, lo + first, size, xf, {self._row(q)}, limit, {name}"
        self.blocks = {name: f"if not reach({given}): continue"} | {n: line for n, line in self.blocks.items() if n != name}


def _lower(program: Program, spelling: Spelling) -> tuple[Lowering, str, str, _Reads]:
    """Return the statements, the variables of score and predicate, and what the statements read."""
    reads = _Reads(program, spelling)
    lowering = Lowering(spelling, reads.column, dict(program.texts), reads.sums)
    flag = lowering.predicate(program.where)
    value = lowering.score(program.score, program.negate)
    return lowering, value, flag, reads


def numba_source(program: Program, kind: str) -> str:
    """Return a module with one loop ``block``; ``kind`` is "count", "score" or "row"."""
    lowering, value, flag, reads = _lower(program, NUMBA)
    if kind == "count":
        test = f"np.int64({value} <= limit)"
        result = f"count += {test}" if flag == "1" else ("count += 0" if flag == "0" else f"count += {test} & {flag}")
        head, tail, usable, skip = ["count = 0"], ["return count"], value, []
        reads.stop_early()
    else:
        # adding 0.0 turns -0.0 into 0.0; one NaN stands for all
        usable = lowering.emit(f"np.int64({value} == {value})", value)
        both = usable if flag == "1" else ("0" if flag == "0" else f"({usable} & {flag})")
        result = f"out[i] = {value} + 0.0 if {both} != 0 else nan"
        head, tail, skip = [], [], ["out[i] = nan"]
    before, inside = lowering.statements(value, flag, usable)
    once, each = [*reads.slices.values(), *reads.before, *before, *head], [*_guarded(lowering, flag, inside, skip), result]
    return numba_module(kind, once, each, tail, list(reads.blocks.values()) if reads.vectors else None)


def _guarded(lowering: Lowering, flag: str, inside: list[str], skip: list[str]) -> list[str]:
    """Return the statements of a loop: those of the predicate first, and ``skip`` where it does not hold, if the others call functions.

    A call takes tens of nanoseconds. Without one, a loop that does not branch works on several objects per instruction.
    """
    _, first = lowering.statements(flag)
    rest = [s for s in inside if s not in first]
    if flag in (TRUE, FALSE) or not any(_CALL.search(s) for s in rest):
        return inside
    return [*first, f"if {flag} == 0:", *[f"    {s}" for s in skip], "    continue", *rest]


def numba_module(kind: str, before: list[str], inside: list[str], after: list[str], blocks: list[str] | None = None) -> str:
    """Return a module with the function of ``kind``: a loop over columns, and what runs once around it.

    ``blocks``: what runs once per block of columns; None if the code has no vectors, and so needs no memory.
    """
    calls = [f for f in jit.C_FUNCTIONS if any(f" c_{f}(" in s for s in [*before, *inside])]
    of_pool = [f for f in _OF_POOL if any(f" {f}(" in s for s in [*before, *inside])]
    makes_arrays = "text_pattern" in of_pool or blocks is not None
    lines = [
        f'"""Generated by skyband (expressions, version {VERSION}). Do not edit."""',
        "import math",
        "",
        "import numpy as np",
        "",
        *[f"from {_OF_POOL[f]} import {f}" for f in of_pool],
        *([f"from skyband.operators.expressions.kernels.vectors import {', '.join(_VECTOR_NAMES)}"] if blocks is not None else []),
        "from skyband.operators.jit import c_function, jit",
        "from skyband.operators.select import selection",
        "",
        *[f'c_{f} = c_function("{f}")' for f in calls],
        "inf, nan = math.inf, math.nan",
        "select = selection()",
        "",
        "",
        f'@jit("{_SIGNATURES[kind]}", _nrt={makes_arrays})',
        f"def block({_PARAMETERS[kind]}):",
        *[f"    {line}" for line in before],
        *_loop(blocks, inside),
        *[f"    {line}" for line in after],
        "",
    ]
    return "\n".join(lines)


def _loop(blocks: list[str] | None, body: list[str]) -> Iterator[str]:
    """Return the lines of the loop over columns."""
    if not blocks:
        yield "    for i in range(hi - lo):"
        yield from (f"        {line}" for line in body)
        return
    yield "    for first in range(0, hi - lo, BLOCK):"
    yield "        size = min(BLOCK, hi - lo - first)"
    yield from (f"        {line}" for line in blocks)
    yield "        for j in range(size):"
    yield from (f"            {line}" for line in ["i = first + j", *body])


def numpy_source(program: Program, kind: str) -> str:
    """Return the source of the same function over whole arrays."""
    lowering, value, flag, reads = _lower(program, NUMPY)
    before, inside = lowering.statements(value, flag)
    known = {"1": "np.bool_(True)", "0": "np.bool_(False)"}
    flag = known.get(flag, flag)
    if kind == "count":
        tail = [f"return int(np.count_nonzero(np.broadcast_to(({value} <= limit) & {flag}, max(hi - lo, 0))))"]
    else:
        tail = [f"out[0 : max(hi - lo, 0)] = np.where(({value} == {value}) & {flag}, {value} + 0.0, nan)"]
    return numpy_module(kind, [*reads.slices.values(), *before, *inside, *tail])


def numpy_module(kind: str, body: list[str]) -> str:
    """Return the text of the function of ``kind`` over whole arrays."""
    lines = [f"def block({_PARAMETERS[kind]}):", '    with np.errstate(all="ignore"):', *[f"        {line}" for line in body], ""]
    return "\n".join(lines)


@cache
def _c_vector(name: str) -> Callable[..., Any]:
    """Return a function of the C library over arrays, one value at a time."""
    scalar = np.frompyfunc(getattr(jit.c_library(), name), jit.C_FUNCTIONS[name], 1)
    return lambda *args: np.asarray(scalar(*args)).astype(np.float64)


@cache
def numpy_function(source: str) -> Callable[..., Any]:
    """Return the function of ``numpy_source``."""
    functions = {
        "dot": dot,
        "squares": squares,
        **{f"c_{f}": _c_vector(f) for f in jit.C_FUNCTIONS},
        **{f: getattr(of_pool, f) for f in _OF_POOL},
    }
    names: dict[str, Any] = {"np": np, "inf": math.inf, "nan": np.float64(math.nan), **functions}
    exec(compile(source, "<skyband expression>", "exec"), names)  # our own text: made of numbers and generated names
    return names["block"]  # type: ignore[no-any-return]


@cache
def numba_function(source: str) -> Callable[..., Any]:
    """Return the compiled function of ``numba_source``: from the cache directory, or compiled in about 0.15 s and put there."""
    import numba

    versions = f"{numba.__version__} {np.__version__} {sys.version}"
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()[:24]
    name = f"skyband_expression_{digest}"
    path = _write(jit.cache_directory() / "expressions", f"{name}.py", source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module.block  # type: ignore[no-any-return]


def _write(directory: Path, name: str, source: str) -> Path:
    """Make the file hold ``source``. An equal file is left alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / name
    try:
        if path.read_text(encoding="utf-8") == source:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    handle, temporary = tempfile.mkstemp(prefix=name, suffix=".tmp", dir=directory)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source)
    os.replace(temporary, path)
    return path
