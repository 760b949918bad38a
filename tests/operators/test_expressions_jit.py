"""Compiling: one driver for all expressions, the cache directory, processes that start together, life without Numba."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skyband.operators import jit as jit_module
from skyband.operators.expressions import compile_pair, count_type, parse, score_type
from skyband.operators.expressions.codegen import numba_function
from skyband.operators.jit import HAVE_NUMBA, jit

SCHEMA = {"x": "float", "y": "float"}
needs_numba = pytest.mark.skipif(not HAVE_NUMBA, reason="Numba is missing or switched off")

PROGRAM = """
import sys
import numpy as np
from skyband.operators.expressions import compile_pair, parse
k = compile_pair(parse(sys.argv[1], {"x": "float"}), None, False, {})
f, i, out = np.arange(5.0).reshape(1, 5), np.empty((0, 5), np.int64), np.empty(5)
k.score_block(f, i, 0, 5, np.array([2.0]), np.empty(0, np.int64), np.empty(0, np.int64), out)
block = k.score_block
stats = getattr(block, "stats", None)
count = k.count_block(f, i, 0, 5, np.array([2.0]), np.empty(0, np.int64), np.empty(0, np.int64), 1.0)
print(out.tobytes().hex(), count, stats and sum(stats.cache_hits.values()), "numba" in sys.modules)
"""


def run(expression: str, directory: Path, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, "SKYBAND_CACHE": str(directory), **more}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, expression], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def answer(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.split()


@needs_numba
def test_one_driver_serves_every_expression() -> None:
    """Functions go through one first-class type: the driver has one signature and is never compiled again."""
    from numba import types

    f2, i2, f1, i1 = types.float64[:, ::1], types.int64[:, ::1], types.float64[::1], types.int64[::1]

    @jit(types.int64(count_type(), score_type(), f2, i2, f1, i1, i1, types.float64, f1), cache=False)
    def driver(count_block, score_block, fcols, icols, xf, xi, pool, limit, out):
        total = 0
        for lo in range(0, fcols.shape[1], 7):
            hi = min(lo + 7, fcols.shape[1])
            total += count_block(fcols, icols, lo, hi, xf, xi, pool, limit)
            score_block(fcols, icols, lo, hi, xf, xi, pool, out[lo:])
        return total

    compiled = dict(driver.overloads)
    rng = np.random.default_rng(1)
    f, i = rng.random((2, 100)), np.empty((0, 100), np.int64)
    x, none, out, want = f[:, 3].copy(), np.empty(0, np.int64), np.empty(100), np.empty(100)
    for text in ("abs(a.x - b.x) + abs(a.y - b.y)", "a.x * b.y - a.y * b.x", "exp(a.x - a.y) - pow(b.x, b.y)"):
        kernel = compile_pair(parse(text, SCHEMA), None, False, {})
        for k in (kernel, kernel.swapped):
            assert k.float_names == ("x", "y")
            total = driver(k.count_block, k.score_block, f, i, x, none, none, 0.25, out)
            k.score_block_numpy(f, i, 0, 100, x, none, none, want)
            assert out.tobytes() == want.tobytes()
            assert total == np.count_nonzero(want <= 0.25)
    assert driver.overloads == compiled and len(compiled) == 1


@needs_numba
def test_kernels_vectorise(tmp_path, monkeypatch) -> None:
    """The loops of plain arithmetic and of predicates work on more than one pair per instruction (packed compares, no scalar fallback)."""
    schema = {**SCHEMA, "n": "int", "s": "text"}
    kernel = compile_pair(parse("abs(a.x - b.x) + abs(a.y - b.y)", schema), parse("a.s <> b.s and a.n < b.n", schema), False, {})
    monkeypatch.setattr(jit_module, "cache_directory", lambda: tmp_path)  # code from a cache cannot be inspected
    block = numba_function.__wrapped__(kernel.source("count"))
    text = block.inspect_llvm(block.signatures[0])
    assert "x double> " in text and "fcmp ole <" in text


@needs_numba
@pytest.mark.long
def test_processes_share_compiled_code_and_may_start_together(tmp_path) -> None:
    expression = "abs(a.x - b.x) + exp(a.x)"
    together = [run(expression, tmp_path / "cache") for _ in range(3)]
    answers = [answer(p) for p in together]
    assert len({tuple(a[:2]) for a in answers}) == 1
    later = answer(run(expression, tmp_path / "cache"))
    assert later[:2] == answers[0][:2]
    assert later[2] == "1"  # loaded, not compiled
    files = sorted(p.suffix for p in (tmp_path / "cache" / "expressions").iterdir() if p.is_file())
    assert files == [".py", ".py"]  # score and count; no temporary file is left


@pytest.mark.long
def test_without_numba_the_same_bytes(tmp_path) -> None:
    expression = "a.x / (b.x - 2) + exp(a.x) * pow(a.x, 1.5)"
    plain = answer(run(expression, tmp_path, SKYBAND_NO_NUMBA="1"))
    assert plain[2:] == ["None", "False"]
    if HAVE_NUMBA:
        assert plain[:2] == answer(run(expression, tmp_path))[:2]


@needs_numba
def test_a_file_in_the_cache_is_not_run_unless_it_is_ours(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(jit_module, "cache_directory", lambda: tmp_path)
    kernel = compile_pair(parse("a.x - b.x - 0.125", SCHEMA), None, False, {})
    source = kernel.source("count")
    block = numba_function.__wrapped__(source)
    (path,) = (tmp_path / "expressions").glob("*.py")
    path.write_text("raise SystemExit('not ours')")
    again = numba_function.__wrapped__(source)
    assert path.read_text() == source
    f, none = np.arange(4.0).reshape(1, 4), np.empty(0, np.int64)
    for b in (block, again):
        assert b(f, np.empty((0, 4), np.int64), 0, 4, np.ones(1), none, none, 0.875) == 3


def test_no_text_of_the_user_reaches_the_code() -> None:
    schema = {"x`); import os #": "float", "s": "text"}
    where = parse("a.s = '''); import os; (''' and a.`x``); import os #` > 0", schema)
    kernel = compile_pair(parse("a.`x``); import os #`", schema), where, False, {"'); import os; ('": 5})
    for source in (kernel.source("count"), kernel.source("score"), kernel.source("count", numba=False)):
        assert "os" not in source.replace("cols", "").replace("pos", "")


def test_cache_directory_falls_back_and_is_private(tmp_path, monkeypatch) -> None:
    directory = jit_module.cache_directory.__wrapped__
    monkeypatch.setenv("SKYBAND_CACHE", str(tmp_path / "mine" / "cache"))
    assert directory() == (tmp_path / "mine" / "cache").resolve()
    assert (tmp_path / "mine" / "cache").stat().st_mode & 0o077 == 0
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SKYBAND_CACHE", str(blocked / "below"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert directory() == (tmp_path / "xdg" / "skyband").resolve()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("SKYBAND_CACHE", str(open_to_all))
    assert directory() == (tmp_path / "xdg" / "skyband").resolve()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert directory().parent == tmp_path.resolve()
    # A link at the name that can be guessed leads to a directory of this user's own.
    planted = tmp_path / f"skyband-{os.getuid()}"
    planted.rmdir()
    (tmp_path / "home").mkdir(mode=0o700)
    planted.symlink_to(tmp_path / "home")
    assert directory().parent == tmp_path.resolve() and directory() != (tmp_path / "home").resolve()


def test_jit_is_the_identity_without_numba(monkeypatch) -> None:
    monkeypatch.setattr(jit_module, "HAVE_NUMBA", False)

    def f(x):
        return x

    assert jit(f) is f and jit()(f) is f and jit("f8(f8)")(f) is f and jit("f8(f8)", cache=False)(f) is f


@needs_numba
def test_jit_settings() -> None:
    @jit(cache=False)
    def divide(x, y):
        return x / y

    assert divide(1.0, 0.0) == np.inf
    assert divide.targetoptions["nogil"] is True and not divide.targetoptions["fastmath"]


def test_compilation_is_disabled_before_the_first_kernel_or_not_at_all() -> None:
    """Compiled kernels that only kernels call have no entry for Python: it would end the process."""
    code = (
        "from skyband.operators import jit\n"
        "{first}\n"
        "jit.disable_compilation()\n"
        "print(jit.HAVE_NUMBA, hasattr(jit.jit(lambda x: x), 'py_func'))\n"
    )
    for first, shown in (("pass", "False False"), ("jit.jit(lambda x: x)", "True True")):
        done = subprocess.run([sys.executable, "-c", code.format(first=first)], capture_output=True, text=True, check=False)
        assert done.stdout.split("\n")[0] == shown, done.stderr
