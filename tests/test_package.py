"""The package: what its wheel holds, that it works where there is no checkout, and what is said where an extra is not installed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Sequence
from email import message_from_string
from importlib.util import find_spec
from pathlib import Path

import pytest

from skyband.framework.base import extras
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import EXTRAS, extra, need
from skyband.operators.baselines import usable
from skyband.operators.jit import HAVE_NUMBA
from tests.test_architecture import ROOT, SOURCE, module_of, source_files, tracked_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PARTS = ("airflow_dags", "edge", "framework", "jobs", "operators", "specs", "skyband")
OF_THE_CHECKOUT = {"airflow_dags/requirements.in", "airflow_dags/requirements.txt"}
"""Files in directories of the package that only a checkout needs."""


def run(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a clean environment, and what it says."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "SKYBAND"))}
    return subprocess.run(list(map(str, words)), cwd=cwd, capture_output=True, text=True, check=False, env={**kept, **env}, timeout=1800)


def build(directory: Path, kernels_of: Sequence[str] = ()) -> Path:
    """The wheel, built from a copy of what git has; with the kernels of specs of the package, if they are named."""
    copy = directory / "checkout"
    for path in tracked_files():
        if path.parent == ROOT or path.relative_to(ROOT).parts[0] in PARTS:
            to = copy / path.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
    for part in PARTS[:-1]:
        (copy / "skyband" / part).symlink_to(Path("..") / part)
    if kernels_of:
        bundle = ("-P", "-m", "skyband.framework.environment.bundle", *(copy / name for name in kernels_of))
        done = run(sys.executable, *bundle, cwd=directory, PYTHONPATH=str(copy))
        assert done.returncode == 0 and " kernels, " in done.stdout, (done.stdout, done.stderr)
    words = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", directory / "dist", copy)
    done = run(sys.executable, *words, cwd=directory)
    assert done.returncode == 0, done.stderr
    (wheel,) = (directory / "dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def installed(wheel: Path, directory: Path) -> Path:
    """The wheel in an environment of its own, that sees the packages of this one beside it: its directory of commands."""
    venv.create(directory, with_pip=False)
    bin_ = directory / "bin"
    done = run(
        sys.executable, "-m", "pip", "--python", bin_ / "python", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=directory
    )
    assert done.returncode == 0, done.stderr
    (site,) = directory.glob("lib/python*/site-packages")
    numpy = find_spec("numpy")
    assert numpy is not None and numpy.origin is not None
    (site / "beside.pth").write_text(str(Path(numpy.origin).parents[1]) + "\n")
    return bin_


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        names = {n for n in z.namelist() if n.startswith("skyband/")}
    here = {p.relative_to(ROOT).as_posix() for p in tracked_files() if p.relative_to(ROOT).parts[0] in PARTS and not p.is_dir()}
    wanted = {n if n.startswith("skyband/") else f"skyband/{n}" for n in here - OF_THE_CHECKOUT}
    assert names == wanted


@pytest.mark.slow
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        read = {Path(n).name: z.read(n).decode() for n in z.namelist() if ".dist-info/" in n}
    said = message_from_string(read["METADATA"])
    assert (said["Name"], said["License-Expression"], said["License-File"]) == ("skyband", "Apache-2.0", "LICENSE")
    assert said["Description-Content-Type"] == "text/markdown" and "# Skyband" in str(said.get_payload())
    assert read["LICENSE"] == (ROOT / "LICENSE").read_text() and "Apache License" in read["LICENSE"]
    assert read["entry_points.txt"].split("\n")[:2] == ["[console_scripts]", "skyband = skyband.jobs.cli:main"]
    assert set(said.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    # What pip, and pipx, install without an extra.
    always = {r.split(";")[0] for r in said.get_all("Requires-Dist") or [] if "extra ==" not in r}
    assert len(always) == len(PROJECT["dependencies"])


@pytest.mark.slow
def test_it_works_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    bin_, work = installed(wheel, tmp_path / "venv"), tmp_path / "work"
    work.mkdir()
    for words in (["init"], ["init", "--plugin", "mine"], ["airflow", "install", "dags"]):
        done = run(bin_ / "skyband", *words, cwd=work)
        assert done.returncode == 0, done.stderr
    spec = work / "job.yaml"
    done = run(bin_ / "skyband", "explain", spec, cwd=work, LANDING=str(work / "in"), WAREHOUSE=str(work / "out"))
    assert done.returncode == 0, done.stderr
    where = run(bin_ / "python", "-P", "-c", "import skyband, skyband.jobs as jobs; print(jobs.__path__[0])", cwd=work)
    assert where.stdout.startswith(str(tmp_path / "venv")), where
    assert "def main" not in where.stdout and not (work / "build").exists()


REHEARSALS = """
import hashlib, sys
from pathlib import Path
import skyband
from skyband.framework.environment import gallery

print(Path(skyband.__file__).parent)
for variant in gallery.variants(Path(sys.argv[1])):
    for name, table in sorted(gallery.rehearse(variant.plan).items()):
        if name.endswith("_changes"):
            print(variant.name, name, table.num_rows, hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest())
"""
"""Prints where the package is, and what the change streams of a spec's rehearsals are."""


needs_baseline = pytest.mark.skipif(not HAVE_NUMBA or not usable(), reason="this processor has no baseline")
EXAMPLE = "framework/queries/topk/example.yaml"


@pytest.fixture(scope="module")
def site_with_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package of a wheel that has the kernels of two query types, as ``make wheel`` compiles those of all."""
    directory = tmp_path_factory.mktemp("kernels")
    with zipfile.ZipFile(build(directory, kernels_of=(EXAMPLE, "framework/queries/topk_pairs/example.yaml"))) as z:
        assert [n for n in z.namelist() if n.startswith("skyband/operators/compiled/") and n.endswith(".kernel")]
        z.extractall(directory / "site")
    return directory / "site"


def files_of(cache: Path) -> list[str]:
    """What runs left among the kernels of a user's cache, which was empty."""
    return [path.name for path in cache.glob("kernels/*/*")]


@pytest.mark.slow
@needs_baseline
def test_a_wheel_with_kernels_compiles_nothing_that_it_has_and_gives_the_same_results(site_with_kernels: Path, tmp_path: Path) -> None:
    site, cache = site_with_kernels, tmp_path / "cache"
    cache.mkdir(mode=0o700)
    rehearse = (sys.executable, "-P", "-c", REHEARSALS, site / "skyband" / EXAMPLE)
    loaded = run(*rehearse, cwd=tmp_path, PYTHONPATH=str(site), SKYBAND_CACHE=str(cache))
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.startswith(f"{site / 'skyband'}\n") and loaded.stdout.count("_changes") >= 15
    files = files_of(cache)
    assert files and all(name.startswith("used-") for name in files)
    plain = run(*rehearse, cwd=tmp_path, PYTHONPATH=str(site), SKYBAND_CACHE=str(cache), SKYBAND_NO_NUMBA="1")
    assert plain.returncode == 0 and plain.stdout == loaded.stdout


@pytest.mark.slow
@needs_baseline
def test_the_first_run_of_the_tutorials_job_compiles_only_its_expressions(site_with_kernels: Path, tmp_path: Path) -> None:
    site, cache, landing = site_with_kernels, tmp_path / "cache", tmp_path / "in"
    cache.mkdir(mode=0o700)
    landing.mkdir()
    rows = ["date,carrier,flight,origin,dest,tailnum,scheduled,departed,dep_delay,arr_delay,air_time,distance"]
    for n in range(600):
        time = f"2013-01-{n // 100 + 1:02} {n % 24:02}:{n % 60:02}:00"
        rows.append(f"2013-01-01,UA,{n},JFK,{'SFO' if n % 3 else 'LAX'},N{n},{time},{time},{n % 7},{n % 11},{300 + n * 7 % 90},2500")
    (landing / "flights.csv").write_text("\n".join(rows) + "\n")
    spec = site / "skyband" / "specs" / "flights.yaml"
    command = (sys.executable, "-P", "-m", "skyband.jobs.cli", "run", spec, "--engine", "local", "--once")
    names = {"LANDING": str(landing), "WAREHOUSE": str(tmp_path / "tables"), "PYTHONPATH": str(site), "SKYBAND_CACHE": str(cache)}
    done = run(*command, cwd=tmp_path, **names)
    assert done.returncode == 0, done.stderr
    files = files_of(cache)
    compiled = [name for name in files if name.endswith(".kernel")]
    # Functions of the score with its condition, which both queries share; not one of the operators.
    assert 0 < len(compiled) <= 4 and all(name.startswith("skyband_expression_") for name in compiled), compiled
    assert any(name.startswith("used-partners.drive") for name in files), files
    assert {path.name for path in (tmp_path / "tables").rglob("parted_changes")} == {"parted_changes"}


def guarded(tree: ast.AST, inside: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """(module imported, extras it stands under) of every import of a file."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        here = inside
        if isinstance(node, ast.With):
            calls = [i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call)]
            here |= {ast.literal_eval(c.args[0]) for c in calls if ast.unparse(c.func) == "extra"}
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        yield from ((name.partition(".")[0], here) for name in names)
        yield from guarded(node, here)


def test_what_extras_bring_is_imported_under_their_name_only() -> None:
    brought = {module: name for name, modules in EXTRAS.items() for module in modules}
    found = {m: (p, under) for p in source_files() for m, under in guarded(ast.parse(p.read_text(encoding="utf-8"))) if m in brought}
    assert {"duckdb", "jinja2", "great_expectations"} <= set(found)
    assert {m: p for m, (p, under) in found.items() if brought[m] not in under} == {}


def test_everything_else_that_is_imported_is_needed_by_every_installation() -> None:
    always = {
        "pyspark",
        "py4j",
        "delta",
        "deltalake",
        "pandas",
        "pyarrow",
        "numpy",
        "pydantic",
        "pydantic_core",
        "annotated_types",
        "yaml",
        "numba",
    }
    always |= {"llvmlite", "sortedcontainers", "google", "sqlglot", "rich", "shtab", "skyband", "typing_extensions"}
    always |= set(sys.stdlib_module_names)
    brought = {module for modules in EXTRAS.values() for module in modules}
    for path in source_files():
        if not module_of(path).startswith(("skyband.airflow_dags", "skyband.jobs.plugin_template.tests")):
            used = {m for m, _ in guarded(ast.parse(path.read_text(encoding="utf-8")))} - {""}
            assert used <= always | brought, (path, used - always - brought)
    assert len(SOURCE) == 6


def test_extras_are_those_of_the_project() -> None:
    assert set(EXTRAS) | {"all", "dev"} == set(PROJECT["optional-dependencies"])
    assert PROJECT["optional-dependencies"]["all"] == [f"skyband[{','.join(sorted(EXTRAS))}]"]


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_extra_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = EXTRAS[name][0]
    monkeypatch.setitem(sys.modules, module, None)  # importing it now fails as if it were not there
    with pytest.raises(SkybandError) as e, extra(name, "the report"):
        __import__(module)
    assert e.value.code == "SKY-E200" and e.value.hint == f"pip install 'skyband[{name}]'"
    assert e.value.message == f"the report needs the package {module}, which is not installed"
    monkeypatch.setattr(extras, "find_spec", lambda m: None)
    with pytest.raises(SkybandError, match="the demo needs the package"):
        need(name, "the demo")


def test_what_is_missing_for_another_reason_is_not_hidden() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), extra("sql", "a query"):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
