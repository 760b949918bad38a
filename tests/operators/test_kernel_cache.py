"""Cached kernels: found by content from every install path, and never of another version of the code."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.operators import jit, kernel_cache, kernel_digest, kernel_files
from skyband.operators.kernel_files import KernelFiles

CALLEE = """
from typing import NamedTuple
from skyband.operators.jit import jit

class {name}(NamedTuple):
    {fields[0]}: int
    {fields[1]}: int

STEP = {step}
record = {name}

@jit{options}
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

needs_numba = pytest.mark.skipif(not jit.HAVE_NUMBA, reason="without Numba nothing is cached")


def start(directory: Path, cache: Path, *words: str) -> subprocess.Popen[str]:
    """Start the caller of ``directory``."""
    env = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONPATH": f"{directory}{os.pathsep}{Path(jit.__file__).parents[2]}",
    }
    command = [sys.executable, str(directory / "caller.py"), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def answer(process: subprocess.Popen[str]) -> list[int]:
    """Return what the caller computes, and how much of it came from the cache."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return [int(word) for word in out.split()]


def run(
    directory: Path, name: str = "Pair", step: int = 1, sign: str = "+", fields: tuple[str, str] = ("of", "to"), options: str = "",
    cache: Path | None = None,
) -> list[int]:  # fmt: skip
    """Write the callee's file alone, and return the answer of the caller."""
    (directory / "callee.py").write_text(CALLEE.format(name=name, step=step, sign=sign, fields=fields, options=options))
    return answer(start(directory, cache or directory / "cache"))


@pytest.fixture(autouse=True)
def in_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that another test of this process has begun records nothing here."""
    monkeypatch.delenv(kernel_files.RUN_VARIABLE, raising=False)


@needs_numba
def test_a_change_in_a_called_kernel_of_another_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    assert run(tmp_path) == [5, 11, 0]
    assert run(tmp_path) == [5, 11, 1]
    assert run(tmp_path, sign="-") == [5, 9, 0]
    assert run(tmp_path, sign="-", step=3) == [5, 7, 0]  # a constant of the callee's file
    assert run(tmp_path, sign="-", step=3, name="Renamed") == [5, 7, 0]  # a type that cached kernels name is gone
    assert run(tmp_path, sign="-", step=3, name="Renamed", fields=("to", "of")) == [5, 7, 0]  # fields in another order
    assert run(tmp_path, sign="-", step=3, options="(boundscheck=True)") == [5, 7, 0]  # an option of the callee
    assert run(tmp_path) == [5, 11, 1]  # the first version is still there


@needs_numba
def test_another_install_path_finds_the_same_kernels(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for directory in (tmp_path / "checkout", tmp_path / "venv" / "site-packages"):
        directory.mkdir(parents=True)
        (directory / "caller.py").write_text(CALLER)
    assert run(tmp_path / "checkout", cache=cache) == [5, 11, 0]
    assert run(tmp_path / "venv" / "site-packages", cache=cache) == [5, 11, 1]


@needs_numba
def test_kernels_that_came_with_the_package_are_loaded_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_cache, "BUNDLED", tmp_path / "bundled")
    kernel_cache.files.cache_clear()

    def made() -> int:
        @jit.jit
        def kernel(x: int) -> int:
            return x + 1

        assert kernel(2) == 3
        return sum(kernel.stats.cache_hits.values())  # type: ignore[attr-defined]

    try:
        assert (made(), made()) == (0, 1)
        (tmp_path / "kernels").rename(tmp_path / "bundled")
        kernel_cache.files.cache_clear()
        assert made() == 1 and list((tmp_path / "kernels").rglob("*.kernel")) == []
    finally:
        kernel_cache.files.cache_clear()


@needs_numba
def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE.format(name="Pair", step=1, sign="+", fields=("of", "to"), options=""))
    answers = [answer(process) for process in [start(tmp_path, tmp_path / "cache") for _ in range(3)]]
    assert sorted(answers) == [[5, 11, 0], [5, 11, 1], [5, 11, 1]]
    (directory,) = (tmp_path / "cache" / "kernels").iterdir()
    assert {path.suffix for path in directory.iterdir()} == {".kernel"}  # neither locks nor notes nor temporary files are left


@needs_numba
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "pickle", "unknown"])
def test_a_damaged_file_is_ignored_and_replaced(tmp_path: Path, damage: str) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    assert run(tmp_path) == [5, 11, 0]
    evil = tmp_path / "evil"
    pickled = f"cposix\nsystem\n(S'touch {evil}'\ntR.".encode()
    gone = b"cno_such_module\nname\n."
    for path in (tmp_path / "cache").rglob("*.kernel"):
        data = path.read_bytes()
        magic = data[: data.index(b"\n") + 1]
        path.write_bytes(
            {
                "cut": data[:-9],
                "changed": data[:-9] + b"changed!!",
                "empty": b"",
                "pickle": pickled,
                "unknown": magic + hashlib.sha256(gone).digest() + gone,  # whole, but of a version that had another module
            }[damage]
        )
    assert run(tmp_path) == [5, 11, 0]
    assert not evil.exists()
    assert run(tmp_path) == [5, 11, 1]


def test_files_that_others_may_write_are_not_read(tmp_path: Path) -> None:
    files = KernelFiles(tmp_path / "kernels")
    files.write("a.kernel", b"code")
    path = files.directory / "a.kernel"
    assert files.directory.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o077 == 0
    assert files.read("a.kernel") == b"code" and files.read("b.kernel") is None
    path.chmod(0o620)
    assert files.read("a.kernel") is None
    path.chmod(0o600)
    (files.directory / "link.kernel").symlink_to(path)
    assert files.read("link.kernel") is None

    files.directory.chmod(0o755)  # others may read it: it becomes private
    assert KernelFiles(files.directory).read("a.kernel") == b"code" and files.directory.stat().st_mode & 0o777 == 0o700
    files.directory.chmod(0o770)
    assert not kernel_files.usable(files.directory)
    shared = KernelFiles(files.directory)
    shared.write("b.kernel", b"code")
    assert shared.read("a.kernel") is None and not (files.directory / "b.kernel").exists() and shared.lock("a.kernel") is None
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert not kernel_files.usable(tmp_path / "link")


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = KernelFiles(tmp_path / "file" / "kernels")
    files.write("a.kernel", b"code")
    files.begin("a")
    files.end()
    assert files.read("a.kernel") is None and files.lock("a.kernel") is None


def test_kernels_that_no_process_loads_are_removed(tmp_path: Path) -> None:
    first = KernelFiles(tmp_path)
    for name in ("old.kernel", "new.kernel"):
        first.write(name, b"code")
    (tmp_path / ".lock-x.kernel").write_text("")
    (tmp_path / "compiling-1").write_text("x")
    long_ago, days_ago = time.time() - 100 * 86400, time.time() - 3 * 86400
    os.utime(tmp_path / "old.kernel", (long_ago, long_ago))
    os.utime(tmp_path / "new.kernel", (long_ago, long_ago))
    for name in (".lock-x.kernel", "compiling-1"):
        os.utime(tmp_path / name, (days_ago, days_ago))
    assert first.read("new.kernel") == b"code"
    assert (tmp_path / "new.kernel").stat().st_mtime == pytest.approx(long_ago)  # loading is not compiling
    KernelFiles(tmp_path).write("newest.kernel", b"code")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.kernel", "newest.kernel"]


def test_what_is_compiled_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, began = KernelFiles(tmp_path), time.time() - 1
    files.begin("module.kernel")
    (running,) = kernel_files.running(tmp_path, began)
    assert running.kernel == "module.kernel" and running.seconds >= 0
    assert kernel_files.running(tmp_path, began + 1000) == []
    files.end(2, 0.5)  # in no run that reports it
    monkeypatch.setenv(kernel_files.RUN_VARIABLE, str(os.getpid()))
    files.end(2, 0.5)
    files.end(0, 0.5)
    assert kernel_files.running(tmp_path, began) == []
    assert [span.kernels for span in kernel_files.compiled_since(tmp_path, began)] == [2]
    assert kernel_files.compiled_since(tmp_path, began + 1000) == []
    kernel_files.end_record(tmp_path)
    assert list(tmp_path.iterdir()) == [] == kernel_files.compiled_since(tmp_path, began)
    assert kernel_files.compiled_since(tmp_path / "missing", began) == []


def made(text: str, **names: object) -> str:
    """Return the digest of the function ``kernel`` of a source text."""
    values: dict[str, object] = {"__name__": "a_module", **names}
    exec(compile(text, "a file", "exec"), values)
    return kernel_digest.digest(values["kernel"])  # type: ignore[arg-type]


def test_a_digest_is_of_the_code_alone() -> None:
    source = "def kernel(a):\n    return a + step\n"
    assert made(source, step=1) == made("\n\n" + source, step=1)
    assert len({made(source, step=1), made(source, step=2), made(source.replace("+", "-"), step=1), made(source, step=1.0)}) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("low=0", "low=1"),  # a default
        lambda text: text.replace("*, high=9", "*, high=8"),  # a default of a keyword
        lambda text: text.replace("a, b, low", "b, a, low").replace("a - b", "b - a"),  # the order of arguments that callers name
        lambda text: text.replace("return 7", "return 6"),  # a callee of the callee
        lambda text: text.replace("LIMITS = (1, 2)", "LIMITS = (2, 1)"),
        lambda text: text.replace("inner_of = 3", "inner_of = 4"),  # what a function encloses
    ],
)
def test_a_digest_covers_what_a_kernel_reaches(change: Callable[[str], str]) -> None:
    source = """
LIMITS = (1, 2)
def last():
    return 7
def callee(a, b, low=0, *, high=9):
    return a - b + low + high + last() + LIMITS[0]
def maker():
    inner_of = 3
    def inner(x):
        return x + inner_of
    return inner
enclosing = maker()
def kernel(x):
    return enclosing(callee(a=x, b=1))
"""
    assert change(source) != source and made(change(source)) != made(source)


def test_kernels_that_call_each_other_have_digests_of_both() -> None:
    source = "def kernel(n):\n    return other(n - 1) if n else 0\ndef other(n):\n    return kernel(n - 1) if n else 1\n"
    assert made(source) == made(source) != made(source.replace("else 1", "else 2"))


def test_a_value_without_a_digest_is_an_error() -> None:
    with pytest.raises(kernel_digest.UnknownValueError, match="has no digest"):
        made("class Of:\n    pass\nit = Of()\ndef kernel():\n    return it\n")


@needs_numba
def test_intrinsics_and_functions_of_c_count_by_content() -> None:
    source = "def kernel(x):\n    return function(x)\n"
    assert made(source, function=jit.c_function("exp")) != made(source, function=jit.c_function("log"))
    intrinsic = """
from numba.extending import intrinsic
from numba.core import types
@intrinsic
def made_of(context, x):
    def generate(context, builder, signature, args):
        return context.get_constant(types.int64, 3)
    return types.int64(x), generate
def kernel(x):
    return made_of(x)
"""
    assert made(intrinsic) == made(intrinsic) != made(intrinsic.replace("int64, 3", "int64, 4"))


@needs_numba
def test_every_kernel_of_the_package_has_a_digest(tmp_path: Path) -> None:
    """Decorated functions of all modules: a value of a new kind must get a digest before a kernel may name it."""
    import importlib
    import pkgutil

    from numba.core.dispatcher import Dispatcher

    import skyband.operators

    digests = {}
    for module in pkgutil.walk_packages(skyband.operators.__path__, "skyband.operators."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Dispatcher):
                digests[value] = kernel_digest.digest(value.py_func, kernel_digest.options(value))
    assert len(digests) > 100 and len(set(digests.values())) == len(digests)


@needs_numba
def test_a_copy_of_the_package_elsewhere_has_the_same_digests(tmp_path: Path) -> None:
    root = Path(jit.__file__).resolve().parents[1]
    copy = tmp_path / "elsewhere" / "skyband"
    shutil.copytree(root / "operators", copy / "operators", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "skyband" / "__init__.py", copy / "__init__.py")
    code = (
        "from skyband.operators import kernel_cache, kernel_digest\n"
        "from skyband.operators.topk.kernels.advance import advance_bands as a\n"
        "from skyband.operators.skyline.kernels.advance import advance_keys as b\n"
        "print(kernel_cache.versions(), *(kernel_digest.digest(k.py_func) for k in (a, b)), kernel_cache.__file__)"
    )
    found = []
    for path in (root, tmp_path / "elsewhere"):
        env = {**os.environ, "PYTHONPATH": str(path)}
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=env, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0][:-1] == found[1][:-1] and found[0][-1] != found[1][-1]
