"""``jit``: Numba's ``njit`` with the settings of all kernels, or the identity where Numba is missing or switched off.

Settings: a cache by content (``kernel_cache``: other processes load the compiled code), ``error_model="numpy"`` (division by zero gives
inf or NaN), ``nogil=True``, ``fastmath=False`` (no reordering, no contraction: same bytes as NumPy). Numba is imported by the first
decorated function, never by importing this module.

The cache directory of a host is ``SKYBAND_CACHE``, else ``$XDG_CACHE_HOME/skyband``, else ``~/.cache/skyband``, else a private directory
below the system's temporary directory. It holds code, so it must belong to this user and be writable by nobody else.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, overload

from skyband.operators import kernel_cache

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA: bool = os.environ.get("SKYBAND_NO_NUMBA", "") != "1" and importlib.util.find_spec("numba") is not None
"""Whether kernels are compiled. False if Numba is missing or ``SKYBAND_NO_NUMBA=1``; callers then use their NumPy path."""


_decorated: int = 0
"""The number of kernels that will be compiled."""


def disable_compilation() -> None:
    """Disable compilation in this process, as ``SKYBAND_NO_NUMBA=1`` does: for a few rows, loading kernels costs more than it saves.

    Call it before any kernel is imported. Later it does nothing: kernels that are compiled cannot call others that are not.
    """
    global HAVE_NUMBA
    HAVE_NUMBA = HAVE_NUMBA and _decorated > 0


C_FUNCTIONS: Mapping[str, int] = {
    "exp": 1, "log": 1, "pow": 2, "fmod": 2, "sin": 1, "cos": 1, "tan": 1, "asin": 1, "atan2": 2,
}  # fmt: skip
"""Functions of the C library that both paths call, one value at a time (vector versions differ in the last bit): their arguments."""


def _private(directory: Path, shared: bool = False) -> bool:
    """Create ``directory`` if it is missing; return True if it belongs to this user and only this user can write to it.

    ``shared``: others can create entries in its parent directory, so a link is not followed.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = directory.lstat() if shared else directory.stat()
        if shared and not stat.S_ISDIR(status.st_mode):
            return False
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            return False
        return os.access(directory, os.W_OK | os.X_OK)
    except OSError:
        return False


@cache
def cache_directory() -> Path:
    """Return the directory for generated and compiled code (see the module's docstring); create it on first use.

    Falls back to a temporary directory instead of raising.
    """
    chosen = os.environ.get("SKYBAND_CACHE")
    candidates = [Path(chosen).expanduser()] if chosen else []
    xdg = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home directory
        candidates.append((Path(xdg) if xdg else Path.home() / ".cache") / "skyband")
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    for candidate in candidates:
        if _private(candidate):
            return candidate.resolve()
    fallback = Path(tempfile.gettempdir()) / f"skyband-{owner}"
    if _private(fallback, shared=True):
        return fallback.resolve()
    return Path(tempfile.mkdtemp(prefix="skyband-"))


def kernels_directory() -> Path:
    """Return the directory of compiled kernels: ``kernels`` of ``NUMBA_CACHE_DIR``, if that is set, else of ``cache_directory()``."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(chosen).expanduser().absolute() if chosen else cache_directory()) / "kernels"


@overload
def jit(signature: F) -> F: ...
@overload
def jit(signature: Any = None, **options: Any) -> Callable[[F], F]: ...
def jit(signature: Any = None, **options: Any) -> Any:
    """Compile with Numba under the shared settings; identity without Numba.

    ``@jit``, ``@jit()``, ``@jit("f8(f8[::1])")``, ``@jit([sig, ...], inline="always")``: ``options`` override the settings. A signature
    compiles (or loads from the cache) at import, otherwise at the first call.
    """
    if callable(signature) and not options and hasattr(signature, "__code__"):
        return jit()(signature)

    def decorate(function: Any) -> Any:
        global _decorated
        if not HAVE_NUMBA:
            return function
        import numba

        _decorated += 1

        settings = {"error_model": "numpy", "nogil": True, "fastmath": False, **options}
        kept = settings.pop("cache", True)
        compiled = numba.njit(**settings)(function)
        if kept:
            kernel_cache.keep(compiled, kernels_directory)
        if signature is not None:
            for one in signature if isinstance(signature, list) else [signature]:
                compiled.compile(one)
            compiled.disable_compile()
        return compiled

    return decorate


def _kernel(function: F, **options: Any) -> F:
    """Compile a kernel that only kernels call: without an entry for Python, and once for ``int``.

    By default Numba compiles ``f(0)`` separately, for the type of the literal 0.
    """
    compiled: Any = jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    if HAVE_NUMBA:
        from numba.core import types

        template, unliteral = compiled.get_call_template, cast(Any, types.unliteral)
        compiled.get_call_template = lambda args, kws: template(
            tuple(unliteral(a) for a in args), {name: unliteral(a) for name, a in dict(kws).items()}
        )
    result: F = compiled
    return result


def inner(function: F) -> F:
    """Compile a kernel that only kernels call and that neither makes nor returns arrays.

    It has no entry for Python, borrows its arrays without counting references, and passes NamedTuples of arrays at no cost.
    """
    return _kernel(function, _nrt=False)


def inner_inlined(function: F) -> F:
    """Compile as ``inner`` does, inlined into its caller: for a kernel with many arrays and one caller."""
    return _kernel(function, _nrt=False, forceinline=True)


def maker(function: F) -> F:
    """Compile a kernel that only kernels call and that makes or returns arrays. It has no entry for Python."""
    return _kernel(function)


@cache
def c_library() -> Any:
    """Return the C mathematics library of this host, with ``C_FUNCTIONS`` typed. Domain and range errors give NaN and infinities."""
    library = ctypes.CDLL(None)  # The interpreter is linked with it almost everywhere; find_library starts a process.
    if not all(hasattr(library, function) for function in C_FUNCTIONS):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    for function, arguments in C_FUNCTIONS.items():
        entry = getattr(library, function)
        entry.restype = ctypes.c_double
        entry.argtypes = [ctypes.c_double] * arguments
    return library


@cache
def c_function(name: str) -> Any:
    """Return a function of ``C_FUNCTIONS`` for Numba code: the same code that the NumPy path calls.

    It is bound under a name unknown to LLVM, so that LLVM neither folds it (``pow(x, 2)`` into ``x * x``) nor replaces it by a vector
    version; and as a symbol, not an address, so that code that calls it can be cached.
    """
    import llvmlite.binding
    from numba.core import types

    symbol = f"skyband_c_{name}"
    address = ctypes.cast(getattr(c_library(), name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(symbol, address)
    return types.ExternalFunction(symbol, types.float64(*[types.float64] * C_FUNCTIONS[name]))
