"""Digest a kernel by content: its code, and all that it calls or names, wherever the package is installed.

Two versions of a kernel have different digests if they differ in the code, the defaults, the options of ``jit``, a constant or the fields
of a NamedTuple, in the kernel itself or in anything that it reaches. Line numbers, comments and paths do not count.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

_VERSIONED: Final = ("numba", "llvmlite", "numpy", "builtins", "math", "_operator", "ctypes", "typing")
"""Packages whose content follows from their version or Python's: their functions count by name."""


class UnknownValueError(Exception):
    """A kernel names a value whose content has no digest."""


class _Own(NamedTuple):
    """A function without what it calls: its content as text, and the functions that it names."""

    text: str
    calls: tuple[FunctionType, ...]


def digest(function: FunctionType, options: str = "") -> str:
    """Return the digest of a function, compiled with ``options``, and of all that it reaches. O(code reached).

    Raise UnknownValueError if a value has none.
    """
    reached: dict[FunctionType, str] = {}
    todo = [function]
    while todo:
        if (this := todo.pop()) not in reached:
            own = _own(this)
            reached[this] = own.text
            todo += reversed(own.calls)
    return hashlib.sha256("\n".join([options, *reached.values()]).encode()).hexdigest()


@cache
def _own(function: FunctionType) -> _Own:
    """Read one function, once per process: its module is complete when the first of its kernels is called or compiled."""
    calls: list[FunctionType] = []
    values = [*_named_by(function), ("", function.__defaults__), *(function.__kwdefaults__ or {}).items()]
    lines = [f"{function.__module__}.{function.__qualname__}", *_code(function.__code__)]
    lines += [f"{name}={_text(value, calls)}" for name, value in values]
    return _Own(hashlib.sha256("\n".join(lines).encode()).hexdigest(), tuple(calls))


def _code(code: CodeType) -> Iterator[str]:
    """Describe what a function does, without the place where it is."""
    names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    yield f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {names} {counts}"
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _code(value)
        else:
            yield _constant(value)


def _constant(value: Any) -> str:
    return f"frozenset {sorted(map(repr, value))}" if isinstance(value, frozenset) else repr(value)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _named_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function names: globals, attributes of modules of ours among them, and values of the functions around it."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, ModuleType):
            if not _versioned(value.__name__):
                yield from ((f"{name}.{attribute}", vars(value)[attribute]) for attribute in names if attribute in vars(value))
        else:
            yield name, value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _versioned(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _VERSIONED


def _text(value: Any, calls: list[FunctionType]) -> str:
    """Describe a value. Functions are added to ``calls``."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(_text(part, calls) for part in value)})"
    if isinstance(value, tuple):
        return f"{_text(type(value), calls)}({', '.join(_text(part, calls) for part in value)})"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, BuiltinFunctionType) or _versioned(getattr(value, "__module__", "")):
        return _of_library(value, calls)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    if isinstance(value, FunctionType):
        calls.append(value)
        return f"{value.__module__}.{value.__qualname__}"
    return _made_by_numba(value, calls)


def _of_library(value: Any, calls: list[FunctionType]) -> str:
    """Describe an object whose class or module is a library's: by name if it has one, else by its content."""
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else _made_by_numba(value, calls)


def _made_by_numba(value: Any, calls: list[FunctionType]) -> str:
    """Describe a compiled function, an intrinsic, a type of Numba's, an array, or a number of NumPy's."""
    kind = type(value)
    for attribute in ("py_func", "_defn"):
        function = getattr(value, attribute, None)
        if isinstance(function, FunctionType):
            calls.append(function)
            return f"{kind.__name__} {function.__module__}.{function.__qualname__} {options(value)}"
    if kind.__module__.startswith("numba.core.types"):
        return f"{kind.__name__} {value} {getattr(value, 'symbol', '')}"
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return f"{value.dtype} {getattr(value, 'shape', ())} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if kind.__module__ in ("numpy", builtins.__name__):
        return f"{kind.__name__} {value!r}"
    raise UnknownValueError(f"a kernel names a {kind.__module__}.{kind.__qualname__}, which has no digest")


def options(compiled: Any) -> str:
    """Describe the options that a function is compiled with."""
    return repr(sorted(getattr(compiled, "targetoptions", {}).items()))


def type_text(kind: Any) -> str:
    """Describe a type of Numba's. NamedTuples of one name and equal field types are different types here."""
    named = getattr(kind, "instance_class", None)
    own = f"{named.__module__}.{named.__qualname__}{named._fields}" if named is not None else ""
    parts: Iterable[Any] = getattr(kind, "types", ())
    return f"{kind}{own}[{', '.join(type_text(part) for part in parts)}]" if isinstance(parts, tuple | list) else f"{kind}{own}"
