"""Cached code of kernels: of the very sources that are there, wherever a change was made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skyband.operators import jit, kernel_cache

CALLEE = """
from typing import NamedTuple
from skyband.operators.jit import jit

class {name}(NamedTuple):
    {fields[0]}: int
    {fields[1]}: int

STEP = {step}
record = {name}

@jit
def made(i):
    return {name}(of=i {sign} STEP, to=0)
"""
CALLER = """
import sys
from callee import made, record
from skyband.operators.jit import jit

@jit
def total(n):
    return made(n).of

@jit
def part(of_argument):
    return of_argument.of

print(part(record(of=5, to=6)), total(10), sum(total.stats.cache_hits.values()))
"""


def run(directory: Path, name: str = "Pair", step: int = 1, sign: str = "+", fields: tuple[str, str] = ("of", "to")) -> list[int]:
    """Return what the caller computes, and how much of it came from the cache. Only the callee's file is written."""
    (directory / "callee.py").write_text(CALLEE.format(name=name, step=step, sign=sign, fields=fields))
    env = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(directory / "cache"),
        "PYTHONPATH": f"{directory}{os.pathsep}{Path(jit.__file__).parents[2]}",
    }
    done = subprocess.run([sys.executable, str(directory / "caller.py")], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.skipif(not jit.HAVE_NUMBA, reason="without Numba nothing is cached")
def test_a_change_in_a_called_kernel_of_another_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    assert run(tmp_path) == [5, 11, 0]
    assert run(tmp_path) == [5, 11, 1]
    assert run(tmp_path, sign="-") == [5, 9, 0]
    assert run(tmp_path, sign="-", step=3) == [5, 7, 0]  # a constant of the callee's file
    assert run(tmp_path, sign="-", step=3, name="Renamed") == [5, 7, 0]  # a type that the cached index names is gone
    assert run(tmp_path, sign="-", step=3, name="Renamed", fields=("to", "of")) == [5, 7, 0]  # fields in another order


def test_a_digest_is_of_the_code_alone() -> None:
    source = "def kernel(a):\n    return a + step\n"

    def made(text: str, step: int) -> str:
        names: dict[str, object] = {"step": step}
        exec(compile(text, "a file", "exec"), names)
        return kernel_cache.digest(names["kernel"])  # type: ignore[arg-type]

    assert made(source, 1) == made("\n\n" + source, 1)
    assert len({made(source, 1), made(source, 2), made(source.replace("+", "-"), 1)}) == 3
