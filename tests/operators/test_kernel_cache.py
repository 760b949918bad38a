"""Cached kernels: found by content from every install path, and never of another version of the code."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.operators import baselines, jit, kernel_cache, kernel_digest, kernel_files
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

MULTIPLY_AND_ADD = """
target triple = "{triple}"
define double @f(double %a, double %b, double %c) {{
  %product = fmul double %a, %b
  %sum = fadd double %product, %c
  ret double %sum
}}
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


BUNDLE_USER = """
import os, sys
from pathlib import Path
from skyband.operators import kernel_cache
from skyband.operators.jit import jit, inner
kernel_cache.BUNDLED = Path(os.environ["BUNDLE"])

@inner
def step(x):
    return x * 3.0 + 1.0

@jit
def total(x):
    of = 0.0
    for value in x:
        of += step(value) / 7.0
    return of

@jit
def twice(x):
    return total(x) + total(x)

import numpy as np
kernel = globals()[sys.argv[1]]
print(kernel(np.arange(100) / 3.0).hex(), sum(kernel.stats.cache_hits.values()))
"""


class _Bundle:
    """A script whose kernels may come from a bundle: what its processes print, and the files they leave in the user's cache."""

    def __init__(self, directory: Path) -> None:
        self.script, self.bundle, self.cache = directory / "script.py", directory / "bundle", directory / "cache"
        self.script.write_text(BUNDLE_USER)

    def run(self, kernel: str = "total", **env: str) -> tuple[str, int]:
        """Return the result of a kernel, and how often it was loaded."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
        package = str(Path(jit.__file__).parents[2])
        env = {**kept, "NUMBA_CACHE_DIR": str(self.cache), "BUNDLE": str(self.bundle), "PYTHONPATH": package, **env}
        done = subprocess.run([sys.executable, self.script, kernel], capture_output=True, text=True, env=env, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        result, loaded = done.stdout.split()
        return result, int(loaded)

    def make(self, **env: str) -> str:
        """Compile ``total`` and what it calls in an empty cache, which becomes the bundle. Return the result."""
        result, loaded = self.run(**env)
        assert loaded == 0
        (self.cache / "kernels").rename(self.bundle)
        return result

    def own(self) -> set[str]:
        """The first parts of the names of the files in the user's cache."""
        return {path.name.rpartition("-")[0] for path in (self.cache / "kernels").glob("*/*")}


@pytest.fixture(scope="module")
def made_for_baseline(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A bundle for a baseline, and the result of its kernel."""
    bundle = _Bundle(tmp_path_factory.mktemp("bundle"))
    result = bundle.make(**baselines.usable()[-1].environment)
    return bundle.bundle, result


needs_baseline = pytest.mark.skipif(not jit.HAVE_NUMBA or not baselines.usable(), reason="this processor has no baseline")


@pytest.mark.long
@needs_baseline
def test_kernels_of_a_baseline_are_loaded_where_there_are_none_for_this_processor(
    tmp_path: Path, made_for_baseline: tuple[Path, str]
) -> None:
    bundle = _Bundle(tmp_path)
    bundle.bundle, result = made_for_baseline
    assert bundle.run() == (result, 1) and bundle.own() == {"used-__main__.total"}  # neither compiled nor copied
    other = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    assert bundle.run(**other) == (result, 0)  # who names a processor gets its code
    assert bundle.run(**baselines.usable()[-1].environment) == (result, 1)
    twice, loaded = bundle.run("twice")  # compiled here, it calls a kernel of the bundle
    assert loaded == 0 and float.fromhex(twice) == 2 * float.fromhex(result)
    assert bundle.run("twice") == (twice, 1)


@pytest.mark.long
@needs_baseline
def test_kernels_for_this_processor_come_first(tmp_path: Path, made_for_baseline: tuple[Path, str]) -> None:
    bundle = _Bundle(tmp_path)
    assert bundle.run()[1] == 0 and bundle.own() == {"__main__.total", "__main__.step"}
    bundle.bundle, result = made_for_baseline
    assert bundle.run() == (result, 1) and bundle.own() == {"__main__.total", "__main__.step"}  # no kernel of the bundle was used


@pytest.mark.long
@needs_baseline
@pytest.mark.parametrize("damage", ["cut", "pickle", "versions", "processor"])
def test_a_bundle_that_is_damaged_or_foreign_is_ignored(tmp_path: Path, damage: str, made_for_baseline: tuple[Path, str]) -> None:
    bundle, evil = _Bundle(tmp_path), tmp_path / "evil"
    made, result = made_for_baseline
    if damage == "processor":
        bundle.make(NUMBA_CPU_NAME="x86-64-v2", NUMBA_CPU_FEATURES="")  # no baseline that kernels are bundled for
    else:
        shutil.copytree(made, bundle.bundle)
    (directory,) = bundle.bundle.iterdir()
    if damage == "versions":
        directory.rename(directory.with_name("cpython-311-of-another-numba"))
    for path in directory.glob("*.kernel"):
        if damage == "cut":
            path.write_bytes(path.read_bytes()[:-9])
        elif damage == "pickle":
            path.write_bytes(f"cposix\nsystem\n(S'touch {evil}'\ntR.".encode())
    assert bundle.run() == (result, 0) and "used-__main__.total" not in bundle.own() and not evil.exists()


X86 = ("x86-64-v3",)
"""Names of the baselines of x86-64, the best one first."""


def test_baselines_are_chosen_by_the_features_of_the_processor() -> None:
    every = {feature: True for baseline in baselines.BASELINES for feature in baseline.features}
    assert baselines.usable(every) == baselines.BASELINES and baselines.usable({}) == ()
    for baseline in baselines.BASELINES:
        for feature in baseline.features:
            assert baseline not in baselines.usable({**every, feature: False})


def test_each_kind_of_processor_has_baselines_of_its_own() -> None:
    x86 = {feature: True for baseline in baselines.BASELINES if baseline.name in X86 for feature in baseline.features}
    assert tuple(baseline.name for baseline in baselines.usable(x86)) == X86
    # Those of an AWS Graviton2, as LLVM lists them.
    arm = ("fp-armv8", "lse", "neon", "crc", "aes", "sha2", "fullfp16", "dotprod", "rdm")
    assert [baseline.name for baseline in baselines.usable(dict.fromkeys(arm, True))] == ["generic"]


@needs_numba
def test_code_for_each_baseline_rounds_after_every_operation() -> None:
    """Multiplications and additions are not contracted, which would give other bytes than NumPy's."""
    binding = pytest.importorskip("llvmlite.binding")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    for triple in ("aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"):
        target = binding.Target.from_triple(triple)
        for baseline in baselines.BASELINES:
            if (baseline.name in X86) == triple.startswith("x86"):
                machine = target.create_target_machine(cpu=baseline.name, features=baselines.FEATURES, opt=3)
                module = binding.parse_assembly(MULTIPLY_AND_ADD.format(triple=triple))
                code = machine.emit_assembly(module)
                assert re.search(r"\bv?f?mulsd|\bfmul\b", code) and not re.search(r"\bv?fn?m(add|la|sub)", code), code


def test_a_processor_that_llvm_does_not_know_has_no_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = pytest.importorskip("llvmlite.binding")

    def refuse() -> None:
        raise RuntimeError("failed to get host cpu features")

    monkeypatch.setattr(binding, "get_host_cpu_features", refuse)
    assert baselines.usable() == ()


def test_the_directory_of_kernels_is_of_versions_not_of_a_processor_or_a_build_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_files.versions("1.0")
    monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v3")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "")
    monkeypatch.setattr(sys, "version", "3.11.99 (main, of another day)")
    assert kernel_files.versions("1.0") == before != kernel_files.versions("1.1")
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert kernel_files.versions("1.0") != before


@needs_numba
def test_releases_of_numpy_share_kernels_if_they_share_a_minor_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    def named(version: str) -> str:
        monkeypatch.setattr(np, "__version__", version)
        return kernel_cache.versions.__wrapped__()

    assert named("2.3.1") == named("2.3.5") != named("2.4.0")


@needs_numba
def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE.format(name="Pair", step=1, sign="+", fields=("of", "to"), options=""))
    answers = [answer(process) for process in [start(tmp_path, tmp_path / "cache") for _ in range(3)]]
    assert sorted(answers) == [[5, 11, 0], [5, 11, 1], [5, 11, 1]]
    (directory,) = (tmp_path / "cache" / "kernels").iterdir()
    assert {path.suffix for path in directory.iterdir()} == {".kernel"}  # neither locks nor notes nor temporary files are left


@needs_numba
def test_damaged_files_are_ignored_and_replaced(tmp_path: Path) -> None:
    """One damage after the other, each to what the process before has put in the place of the last one."""
    (tmp_path / "caller.py").write_text(CALLER)
    evil = tmp_path / "evil"
    pickled = f"cposix\nsystem\n(S'touch {evil}'\ntR.".encode()
    gone = b"cno_such_module\nname\n."
    damages: dict[str, Callable[[bytes], bytes]] = {
        "cut": lambda data: data[:-9],
        "changed": lambda data: data[:-9] + b"changed!!",
        "empty": lambda data: b"",
        "pickle": lambda data: pickled,
        # Complete, but of a version that had another module.
        "unknown": lambda data: data[: data.index(b"\n") + 1] + hashlib.sha256(gone).digest() + gone,
    }
    assert run(tmp_path) == [5, 11, 0]
    for name, damage in damages.items():
        damaged = {path: damage(path.read_bytes()) for path in (tmp_path / "cache").rglob("*.kernel")}
        for path, data in damaged.items():
            path.write_bytes(data)
        assert run(tmp_path) == [5, 11, 0], name
        assert len(damaged) == 3 and all(path.read_bytes() != data for path, data in damaged.items()) and not evil.exists(), name
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
    for name in ("lately.kernel", "before.kernel"):
        first.note_use(name)
    long_ago, days_ago = time.time() - 100 * 86400, time.time() - 3 * 86400
    os.utime(tmp_path / "old.kernel", (long_ago, long_ago))
    os.utime(tmp_path / "new.kernel", (long_ago, long_ago))
    for name in (".lock-x.kernel", "compiling-1"):
        os.utime(tmp_path / name, (days_ago, days_ago))
    os.utime(tmp_path / "used-lately", (days_ago, days_ago))
    os.utime(tmp_path / "used-before", (long_ago, long_ago))
    assert first.used(days_ago - 1) == ["lately.kernel"] and first.used(0) == ["before.kernel", "lately.kernel"]
    assert first.read("new.kernel") == b"code"
    assert (tmp_path / "new.kernel").stat().st_mtime == pytest.approx(long_ago)  # loading is not compiling
    KernelFiles(tmp_path).write("newest.kernel", b"code")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.kernel", "newest.kernel", "used-lately"]
    first.note_use("lately.kernel")  # at most once a day
    assert first.used(time.time() - 60) == ["lately.kernel"]


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
