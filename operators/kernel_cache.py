"""Numba's cache, by content: a kernel compiled for one install path, virtual environment or checkout is found from every other.

This module is the only one that uses the private parts of Numba that a cache needs: ``Dispatcher._cache`` with the methods of
``numba.core.caching._Cache``, ``CompileResult._reduce`` and ``_rebuild``, ``serialize.dumps`` and ``codegen().magic_tuple()`` (Numba 0.61
to 0.68). ``tests/operators/test_kernel_cache.py`` fails when they change.

Numba's own cache identifies a kernel by the path and content of its source file. This one identifies it by what is compiled: the digest
of ``kernel_digest``, the types of the arguments, the versions of the libraries, and the processor. Kernels are read, in this order, from

1. the directory ``kernels`` of the user's cache: those compiled for this processor;
2. the directory that came with the package: those for this processor (an archive for executors has them), then those for a baseline that
   this processor has, the best one first (``baselines``; a wheel and an image have them).
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from skyband.operators import baselines, kernel_digest, kernel_files
from skyband.operators.kernel_files import SUFFIX, KernelFiles

SETTINGS: Final = Path(__file__).with_name("jit.py")
"""The module with the settings of all kernels."""
BUNDLED: Final = Path(__file__).parent / "compiled"
"""Kernels that came with the package, in directories by version: a wheel, an image and an archive for executors have them."""


@cache
def versions() -> str:
    """Return the name of the directory of kernels for the installed versions."""
    import llvmlite
    import numba
    import numpy as np

    settings = hashlib.sha256(SETTINGS.read_bytes()).hexdigest()
    arrays = ".".join(np.__version__.split(".")[:2])  # releases of one minor version have one binary interface
    return kernel_files.versions(numba.__version__, llvmlite.__version__, arrays, settings)


@cache
def files(directory: Path) -> tuple[KernelFiles, KernelFiles]:
    """Return the directories of kernels, of which only the first, below ``directory``, is written."""
    return KernelFiles(directory / versions()), KernelFiles(BUNDLED / versions(), private=False)


_compiling: list[str] = []
"""Names of the kernels that this process compiles now, the outermost first."""


class _Finished:
    """The kernels that were compiled since the outermost one began, and when that was, in seconds of ``time.monotonic``."""

    kernels = 0
    began = 0.0


def keep(compiled: Any, directory: Callable[[], Path]) -> None:
    """Give a Numba dispatcher this cache in ``directory``. Nothing is read, compiled or hashed before its first call."""
    compiled._cache = KernelCache(compiled.py_func, kernel_digest.options(compiled), directory)


class KernelCache:
    """The cache of one compiled function. It has the methods that Numba's dispatcher calls."""

    def __init__(self, function: Any, options: str, directory: Callable[[], Path]) -> None:
        self._function = function
        self._directory = directory
        self._options = options
        self._digest: str | None = None
        self._enabled = True
        self._locks: dict[str, IO[bytes]] = {}

    @property
    def _files(self) -> tuple[KernelFiles, KernelFiles]:
        return files(self._directory())

    @property
    def cache_path(self) -> str:
        """Return the directory that is written."""
        return str(self._files[0].directory)

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Compile every time."""
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: files are valid for ever, as their names say what is in them."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for a signature, or None if it has to be compiled.

        If another process compiles it, wait for that one. There is no circle of processes that wait: a kernel waits only for its callees.
        """
        target_context.refresh()
        codegen = target_context.codegen()
        name = self._file(sig, codegen.magic_tuple())
        found = None if name is None else _read(self._files, name) or self._of_baseline(sig, codegen)
        if found is None and name is not None and name not in self._locks and (lock := self._files[0].lock(name)) is not None:
            found = _read(self._files, name)
            if found is None:
                self._locks[name] = lock
            else:
                self._files[0].unlock(name, lock)
        if found is None:
            self._begin()
            return None
        from numba.core import compiler

        result: Any = compiler.CompileResult
        return result._rebuild(target_context, *found)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel that was compiled."""
        _Finished.kernels += 1
        self._end()
        name = self._file(sig, data.codegen.magic_tuple())
        if name is None:
            return
        if not data.lifted and not data.library.has_dynamic_globals:
            from numba.core import serialize

            private: Any = serialize
            self._files[0].write(name, private.dumps(data._reduce()))
        if (lock := self._locks.pop(name, None)) is not None:
            self._files[0].unlock(name, lock)

    def _of_baseline(self, sig: Any, codegen: Any) -> Any:
        """Return the parts of a kernel that came with the package for the best baseline of this processor, if there is one."""
        own, bundled = self._files
        if not bundled.is_usable:
            return None
        triple = codegen.magic_tuple()[0]
        names = [self._file(sig, (triple, baseline.name, baselines.FEATURES)) for baseline in _baselines()]
        return next((found for name in names if name is not None and (found := _read((own, bundled), name)) is not None), None)

    def _begin(self) -> None:
        _compiling.append(self._name)
        if len(_compiling) == 1:
            _Finished.kernels, _Finished.began = 0, time.monotonic()
            self._files[0].begin(self._name)

    def _end(self) -> None:
        """Forget the kernel and those that it called and that failed: Numba does not say that a compilation raised."""
        if self._name in _compiling:
            del _compiling[_compiling.index(self._name) :]
        if not _compiling:
            self._files[0].end(_Finished.kernels, time.monotonic() - _Finished.began)

    @property
    def _name(self) -> str:
        return f"{self._function.__module__}.{self._function.__qualname__}"

    def _file(self, sig: Any, processor: tuple[str, str, str]) -> str | None:
        """Return the name of the file for a signature and a processor; None if this kernel is not to be kept.

        ``processor``: its triple, its name and its features, as ``magic_tuple`` of Numba's code generator has them.
        """
        from numba.core import sigutils

        if not self._enabled:
            return None
        if self._digest is None:
            self._digest = kernel_digest.digest(self._function, self._options)
        signatures: Any = sigutils
        args, result = signatures.normalize_signature(sig)
        text = repr((self._digest, [kernel_digest.type_text(a) for a in args], str(result), processor))
        readable = f"{(self._function.__module__ or '').rpartition('.')[2]}.{self._function.__name__}"[:80]
        return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:32]}{SUFFIX}"


@cache
def _baselines() -> tuple[baselines.Baseline, ...]:
    """Return the baselines whose kernels this process may load: none if a variable names the processor to compile for."""
    from numba.core import config

    settings: Any = config
    return baselines.usable() if settings.CPU_NAME is None and settings.CPU_FEATURES is None else ()


def _read(places: tuple[KernelFiles, KernelFiles], name: str) -> Any:
    """Return the parts of a kernel; None if no directory has it, or if it names what this version does not have."""
    own, bundled = places
    for place in places:
        if (content := place.read(name)) is not None:
            with suppress(AttributeError, ImportError, EOFError, pickle.UnpicklingError):
                parts = pickle.loads(content)
                if place is bundled:
                    own.note_use(name)
                return parts
    return None
