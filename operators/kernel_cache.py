"""Keep Numba's cache on disk from giving code of another version: the cached code of a kernel depends on all that is compiled into it.

Numba compares the file of a kernel with the file it has cached, and no more. A kernel that calls a changed kernel of another file would
run with the old one, and a renamed NamedTuple would end in an exception when the cache is read. ``tie`` therefore makes a digest of the
code, constants and types that a kernel names, and of those that its callees name, a part of the version of its cache.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

_DIGESTS: dict[FunctionType, str] = {}
"""Digest by kernel, as kernels share their callees."""


def tie(compiled: Any) -> None:
    """Make the digest of a Numba dispatcher a part of its cache's version. Nothing is loaded or compiled before.

    Private: ``_cache_file._version`` is what Numba 0.61 to 0.66 compare before they read the rest of a cache's index, ``_load_index``
    reads it. The index names the types of arguments, which the kernel need not name: one that is gone makes the index as good as empty.
    """
    file = compiled._cache._cache_file
    file._version, load = f"{file._version} {digest(compiled.py_func)}", file._load_index

    def load_index() -> Any:
        try:
            return load()
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            return {}

    file._load_index = load_index


def digest(function: FunctionType) -> str:
    """Return a digest of what is compiled into a kernel: the same wherever it is installed. O(code), once a kernel."""
    if function not in _DIGESTS:
        _DIGESTS[function] = ""  # a kernel that calls itself
        text = "\n".join([*_code(function.__code__), *(_named(value) for value in _values(function)), *_records(function)])
        _DIGESTS[function] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _DIGESTS[function]


def _code(code: CodeType) -> list[str]:
    """What a function does, without the place it stands at."""
    inner = [line for value in code.co_consts if isinstance(value, CodeType) for line in _code(value)]
    return [code.co_code.hex(), repr([c for c in code.co_consts if not isinstance(c, CodeType)]), repr(code.co_names), *inner]


def _values(function: FunctionType) -> list[Any]:
    """The values that a function names: globals, attributes of modules among them, and what it encloses."""
    codes = [function.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if isinstance(c, CodeType)]
    names = sorted({name for code in codes for name in code.co_names})
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [value for value in found if isinstance(value, ModuleType) and value.__name__.partition(".")[0] != "numpy"]
    found += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    return found + [cell.cell_contents for cell in function.__closure__ or ()]


def _records(function: FunctionType) -> list[str]:
    """The NamedTuples that arguments may be, and those that these may consist of: all that their modules know, with their fields.

    A kernel names fields, and its code has their places: Numba takes two types of one name and equal field types for the same.
    """
    modules, found = [function.__globals__], {}
    for names in modules:
        for value in names.values():
            if isinstance(value, type) and hasattr(value, "_fields") and value not in found:
                found[value] = _named(value)
                modules.append(vars(sys.modules[value.__module__]))
    return sorted(found.values())


def _named(value: Any) -> str:
    """One value as text: a kernel by its digest, a NamedTuple by its fields, a constant by itself."""
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        return digest(function)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    if hasattr(value, "tobytes"):  # an array or a number of NumPy's
        return f"{value.dtype} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return repr(value) if isinstance(value, (bool, int, float, str, bytes, tuple)) else type(value).__name__
