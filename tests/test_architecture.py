"""Walls of the project: which part may import which, and what may not be in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import house

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ("skyband", "operators", "framework", "jobs", "airflow_dags", "edge")
MAX_LINES = 1_000

# Who may import Skyband's parts: arrows run jobs -> framework -> operators. Airflow's loader and an edge have none of them beside them.
ARROWS = {
    "operators": {"operators"},
    "edge": {"edge"},
    "framework": {"operators", "framework", "edge"},
    "jobs": {"operators", "framework", "jobs", "edge"},
    "airflow_dags": {"airflow_dags"},
    "skyband": {"framework", "jobs"},
}
SPARK = {"pyspark", "delta", "py4j"}
MAY_IMPORT_SPARK = ("preview", "sources", "spark_adapter", "streaming", "tables", "verify")
"""The packages of ``framework`` that import Spark."""


def source_files() -> list[Path]:
    return [p for directory in SOURCE for p in sorted((ROOT / directory).rglob("*.py")) if "__pycache__" not in p.parts]


def module_of(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    full = parts if parts[0] == "skyband" else ("skyband", *parts)
    return ".".join(full[:-1] if full[-1] == "__init__" else full)


def imported(path: Path, types: bool) -> Iterator[tuple[str, str | None]]:
    """(module, name taken from it or None) of every import in a file, wherever it stands; relative imports resolved.

    Those under ``TYPE_CHECKING``, which only a type checker sees, are among them if ``types``.
    """
    inside = path.relative_to(ROOT).with_suffix("").parts
    package = inside if inside[0] == "skyband" else ("skyband", *inside)
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"), str(path))]
    while todo:
        node = todo.pop()
        if not types and isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            todo += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level], node.module or ""]).rstrip(".") if node.level else node.module or ""
            yield from ((base, alias.name) for alias in node.names)
        todo += ast.iter_child_nodes(node)


def imports(path: Path) -> set[str]:
    """Every module a file names in an import that runs."""
    return {name for module, inner in imported(path, types=False) for name in (module, f"{module}.{inner}" if inner else module)}


def misplaced_imports(path: Path) -> Iterator[str]:
    """The imports of a file that go against the arrows."""
    relative = path.relative_to(ROOT)
    part = relative.parts[0]
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top in ARROWS and top != "skyband":
            yield f"{relative} imports {name}: Skyband's parts are imported as skyband.{name}"
        other = rest.split(".")[0]
        if top == "skyband" and other in ARROWS and other not in ARROWS[part]:
            yield f"{relative} imports {name}: {part} may not use {other}"
        if top in SPARK and relative.parts[:2] not in {
            ("framework", p) for p in ("preview", "sources", "spark_adapter", "streaming", "tables", "verify")
        }:
            yield f"{relative} imports {name}"


def test_imports_follow_the_arrows() -> None:
    files = source_files()
    assert len(files) > 100
    assert [line for path in files for line in misplaced_imports(path)] == []


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """At least one circle [a, b, ..., a] of every set of modules that reach each other. O(modules + imports) a circle."""
    left = {module: set(named) for module, named in graph.items()}
    found = []
    while True:
        # What imports nothing that is left, or is imported by nothing that is left, is in no circle.
        while bare := {m for m, named in left.items() if not named} | (set(left) - set().union(*left.values())):
            left = {m: named - bare for m, named in left.items() if m not in bare}
        if not left:
            return found
        trail = [min(left)]
        while trail[-1] not in trail[:-1]:
            trail.append(min(left[trail[-1]]))
        circle = trail[trail.index(trail[-1]) :]
        found.append(circle)
        left = {m: named - set(circle) for m, named in left.items() if m not in circle}


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}) == [["b", "c", "b"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Wherever an import stands: one inside a function, or for types only, hides a circle and does not break it."""
    files = {module_of(p): p for p in source_files() if p.name != "__init__.py" or p.read_text(encoding="utf-8").strip()}
    graph: dict[str, set[str]] = {}
    for this, path in files.items():
        named = {f"{module}.{inner}" if f"{module}.{inner}" in files else module for module, inner in imported(path, types=True)}
        graph[this] = (named & set(files)) - {this}
    assert circles(graph) == []


def test_files_are_short() -> None:
    long = {str(p.relative_to(ROOT)): n for p in source_files() if (n := len(p.read_text(encoding="utf-8").splitlines())) > MAX_LINES}
    assert long == {}


STREAMING_ROOMS = ("spark", "rows", "bucket", "job", "rebuild", "run", "local")
"""Rooms of ``framework/streaming``: each may import from itself and from those before it."""


def test_rooms_of_streaming_import_no_later_room() -> None:
    rooms = {p.name for p in (ROOT / "framework" / "streaming").iterdir() if (p / "__init__.py").exists()}
    assert rooms == set(STREAMING_ROOMS)
    arrows = house.arrows()
    assert ("run", "job") in arrows
    assert [(a, b) for a, b in sorted(arrows) if STREAMING_ROOMS.index(b) > STREAMING_ROOMS.index(a)] == []


def test_every_module_has_a_room_that_the_developers_page_describes() -> None:
    loose = [p.name for p in (ROOT / "framework").glob("*.py") if p.name != "__init__.py"]
    assert loose == []
    page = (ROOT / "docs" / "developers.md").read_text(encoding="utf-8")
    rooms = sorted(p.name for p in (ROOT / "framework").iterdir() if (p / "__init__.py").exists())
    assert [room for room in rooms if f"`framework/{room}`" not in page] == []
    assert [room for room in STREAMING_ROOMS if f"`{room}`" not in page] == []


@pytest.mark.parametrize("package", ["skyband.framework.spec", "skyband.framework.plan", "skyband.operators"])
def test_importing_spec_plan_and_operators_starts_no_spark(package: str) -> None:
    code = (
        f"import importlib, pkgutil, sys, {package} as package\n"
        "for m in pkgutil.walk_packages(package.__path__, package.__name__ + '.'): importlib.import_module(m.name)\n"
        "print(*sorted({'pyspark', 'delta', 'py4j'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_package_is_the_directories_at_the_top() -> None:
    links = {p.name: p.resolve() for p in (ROOT / "skyband").iterdir() if p.is_symlink()}
    assert links == {part: ROOT / part for part in ("airflow_dags", "edge", "framework", "jobs", "operators", "specs")}
    bare = [p.parent for part in SOURCE for p in (ROOT / part).rglob("*.py") if not (p.parent / "__init__.py").exists()]
    assert bare == []


def test_private_parts_of_pyspark_are_used_in_the_adapter_only() -> None:
    """If this fails, add a function to ``framework/spark_adapter``, with a test, and call it."""
    assert house.private_accesses() == []


def test_source_formats_are_compared_by_name_in_their_packages_only() -> None:
    """If this fails, add a method to ``SourceFormat`` (``framework/sources/protocol.py``)."""
    assert house.format_comparisons() == []


def test_requirements_are_pinned_with_hashes_and_name_no_host() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text and "--index-url" not in text and "--find-links" not in text
    entries = [e for e in re.split(r"\n(?=[a-zA-Z0-9])", "\n" + text) if e.strip() and not e.strip().startswith("#")]
    for entry in entries:
        assert re.match(r"[a-zA-Z0-9._-]+(\[[a-z,]+\])?==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", entry.strip()), entry[:80]
    pinned = {re.sub(r"[-_.]+", "-", e.strip().split("==")[0]).lower() for e in entries}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {re.sub(r"[-_.]+", "-", re.split(r"[<>=\[ ]", w)[0]).lower() for w in wanted} <= pinned


def tracked_files() -> list[Path]:
    """What git has, or would take: everything not ignored."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_machine_path_and_no_registry_host_in_the_tree() -> None:
    # Spelled in pieces, so that this file does not name them either.
    homes = [re.escape(str(ROOT)) + r"\b"] if len(ROOT.parts) > 2 else []
    patterns = [*homes, r"/home/\w+/", r"/Users/\w+/", "pypi" + r"\.org", "python" + "hosted", "maven" + r"\.org", "maven" + "-central"]
    bad, found = re.compile("|".join(patterns)), []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = enumerate(text.splitlines(), 1)
        found += [f"{path.relative_to(ROOT)}:{number} names {m[0]}" for number, line in lines if (m := bad.search(line))]
    assert found == []


def bound(path: Path) -> set[str]:
    """The names that a module assigns, defines or imports, and its sub-modules if it is a package, which need not have a file."""
    inside = path.parent.iterdir() if path.name == "__init__.py" and path.parent.exists() else ()
    names = {p.stem for p in inside if p.is_dir() or p.suffix == ".py"}
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8") if path.exists() else "", str(path))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        todo += ast.iter_child_nodes(node)
    return names


@pytest.mark.parametrize("directory", ["tests", "bench", "scripts"])
def test_what_tests_and_benchmarks_import_exists(directory: str) -> None:
    """mypy sees to it for the product. Found too late otherwise: pytest runs everything else before it says that a module has no tests."""
    known: dict[Path, set[str]] = {}
    missing = []
    for path in sorted((ROOT / directory).rglob("*.py")):
        for module, name in imported(path, types=True):
            if module.split(".")[0] not in ("skyband", "tests", "bench", "scripts"):
                continue
            place = ROOT / module.replace(".", "/")
            file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
            if file not in known:
                known[file] = bound(file)
            if not (file.exists() or known[file]) or name not in (known[file] | {None}):
                missing.append(f"{path.relative_to(ROOT)}: {module}.{name}")
    assert not missing
