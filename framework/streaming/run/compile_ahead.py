"""Compile a job's kernels in a process of its own while Spark starts, if this machine has not compiled them before.

A first run would otherwise begin to compile when its first worker starts, several seconds later. The worker then waits for this process
(``operators.kernel_cache``) instead of compiling the same kernels again. A note in the cache says that a job's kernels are there.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skyband.framework.base.python_path import SAFE
from skyband.framework.streaming.rows.config import HostConfig
from skyband.operators import jit
from skyband.operators.kernel_files import usable

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan

_NOTE: Final = "ready-"


@contextmanager
def compiled_ahead(plan: Plan) -> Iterator[bool]:
    """Compile the kernels of ``plan`` while the block runs. Yield whether a process does so; it ends with the block, or with this process.

    What it has compiled by then is kept. Errors are left to the workers, which load the same kernels.
    """
    config = HostConfig.of(plan, (), "")
    if not jit.HAVE_NUMBA or (note := _note(config)) is None or note.exists():
        yield False
        return
    process = None
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **SAFE, "PYTHONPATH": _path()},
        )  # fmt: skip
    if process is None or process.stdin is None:
        yield False
        return
    try:
        with suppress(OSError):
            process.stdin.write(pickle.dumps((config, note)))
            process.stdin.flush()
        yield True
    finally:
        process.kill()
        with suppress(OSError):
            process.stdin.close()
        process.wait()


def _path() -> str:
    """Return the path from which this process imports Skyband, before the rest of ``PYTHONPATH``."""
    return os.pathsep.join([str(Path(jit.__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])


def _note(config: HostConfig) -> Path | None:
    """Return the file that says that the kernels of ``config`` are compiled; None if there is no directory for it."""
    directory = jit.kernels_directory()
    if not usable(directory):
        return None
    text = repr((sys.version, _versions(), _sources(), [node.operator for node in config.operators], config.row_schema().to_string()))
    return directory / f"{_NOTE}{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _versions() -> list[str]:
    found = []
    for name in ("numba", "llvmlite", "numpy"):
        with suppress(PackageNotFoundError):
            found.append(version(name))
    return found


def _sources() -> list[tuple[str, int]]:
    """Return the sizes of the modules of operators: a note of other code says nothing. It costs about 2 ms."""
    root = Path(jit.__file__).resolve().parent
    return sorted((path.relative_to(root).as_posix(), path.stat().st_size) for path in root.rglob("*.py"))


def main() -> None:
    """Load the kernels of the configuration on standard input, and write the note. End when the parent has closed standard input."""
    config, note = pickle.load(sys.stdin.buffer)

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    from skyband.framework.streaming.bucket.kernels import load_kernels

    load_kernels(config)
    note.touch(mode=0o600)
    os._exit(0)


if __name__ == "__main__":
    main()
