"""``jit``: Numba's ``njit`` with the settings every kernel shares, or nothing at all where Numba is missing or switched off.

Settings: ``cache=True`` (other worker processes load the compiled code), ``error_model="numpy"`` (division by zero gives inf or NaN),
``nogil=True``, ``fastmath=False`` (no reordering, no contraction: same bytes as NumPy). Numba is imported by the first decorated
function, never by importing this module.

Caches live in one directory per host: ``SKYBAND_CACHE``, else ``$XDG_CACHE_HOME/skyband``, else ``~/.cache/skyband``, else a private
directory
below the system's temporary directory. What is loaded from it is code, so the directory must belong to this user and be writable by
nobody else.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, overload

F = TypeVar("F", bound=Callable[..., Any])

HAVE_NUMBA: bool = os.environ.get("SKYBAND_NO_NUMBA", "") != "1" and importlib.util.find_spec("numba") is not None
"""Whether kernels are compiled. False if Numba is missing or ``SKYBAND_NO_NUMBA=1``: callers then take their NumPy path."""


def compile_nothing() -> None:
    """From now on nothing is compiled in this process, as with ``SKYBAND_NO_NUMBA=1``: a few rows cost less than loading kernels.

    To be called before any kernel is imported: kernels that are there already stay as they are.
    """
    global HAVE_NUMBA
    HAVE_NUMBA = False


C_FUNCTIONS: tuple[str, ...] = ("exp", "log", "pow")
"""Functions of the C library that both paths call, one value at a time (vector versions differ in the last bit)."""


def _private(directory: Path, shared: bool = False) -> bool:
    """Make ``directory`` if need be; True iff it is this user's own, writable, and closed to writes by others.

    ``shared``: others may make entries where it lies, so a link is not followed.
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
    """The per-host directory for generated and compiled code (see the module's docstring), made on first use; falls back rather than
    raise."""
    chosen = os.environ.get("SKYBAND_CACHE")
    places = [Path(chosen).expanduser()] if chosen else []
    xdg = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home directory
        places.append((Path(xdg) if xdg else Path.home() / ".cache") / "skyband")
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    for place in places:
        if _private(place):
            return place.resolve()
    place = Path(tempfile.gettempdir()) / f"skyband-{owner}"
    if _private(place, shared=True):
        return place.resolve()
    return Path(tempfile.mkdtemp(prefix="skyband-"))


@cache
def prepare_numba() -> None:
    """Give Numba a writable cache before it compiles anything: next to the sources if that works, else in ``cache_directory()``."""
    package = Path(__file__).resolve().parent
    if "NUMBA_CACHE_DIR" not in os.environ and not os.access(package, os.W_OK):
        directory = str(cache_directory() / "numba")
        os.environ["NUMBA_CACHE_DIR"] = directory  # for processes started from this one, and for Numba if not imported yet
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = directory


def load_compiler() -> None:
    """Load what Numba loads when it is first asked for a kernel, compiled or cached: half a second. No kernel yet, and no threads."""
    if HAVE_NUMBA:
        prepare_numba()
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()


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
        if not HAVE_NUMBA:
            return function
        prepare_numba()
        import numba

        settings = {"cache": True, "error_model": "numpy", "nogil": True, "fastmath": False, **options}
        return numba.njit(**settings)(function) if signature is None else numba.njit(signature, **settings)(function)

    return decorate


def _kernel(function: F, **options: Any) -> F:
    """Compile a kernel that only kernels call: without an entry for Python, and once for ``int``, not again for every number a caller
    writes out (Numba makes of ``f(0)`` a type of its own, the literal 0)."""
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
    """Compile a kernel that only kernels call, that makes no arrays and returns none: its arrays are borrowed, no references are counted,
    and it has no entry for Python. Groups of arrays in NamedTuples cost nothing in it."""
    return _kernel(function, _nrt=False)


def inner_inlined(function: F) -> F:
    """``inner``, compiled into its caller as well: for a kernel with many arrays and one caller."""
    return _kernel(function, _nrt=False, forceinline=True)


def maker(function: F) -> F:
    """Compile a kernel that only kernels call and that makes arrays or returns some: it has no entry for Python."""
    return _kernel(function)


@cache
def c_library() -> Any:
    """The C mathematics library of this host, with ``C_FUNCTIONS`` typed. Errors of domain and range give NaN and infinities."""
    library = ctypes.CDLL(None)  # the interpreter itself is linked with it almost everywhere, and asking for its file starts a process
    if not all(hasattr(library, function) for function in C_FUNCTIONS):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    for function in C_FUNCTIONS:
        entry = getattr(library, function)
        entry.restype = ctypes.c_double
        entry.argtypes = [ctypes.c_double] * (2 if function == "pow" else 1)
    return library


@cache
def c_function(name: str) -> Any:
    """The C library's ``exp``, ``log`` or ``pow`` as a function that Numba code can call: the very code the NumPy path calls.

    It is bound under a name LLVM does not know, so that LLVM neither folds it (``pow(x, 2)`` into ``x * x``) nor replaces it by a
    vector version; and as a symbol, not an address, so that code that calls it can be cached.
    """
    prepare_numba()
    import llvmlite.binding
    from numba.core import types

    symbol = f"skyband_c_{name}"
    address = ctypes.cast(getattr(c_library(), name), ctypes.c_void_p).value
    llvmlite.binding.add_symbol(symbol, address)
    return types.ExternalFunction(symbol, types.float64(*[types.float64] * (2 if name == "pow" else 1)))
