"""Print the figures of the code's layout and language: ``python -m scripts.house``.

The figures are rooms (directories) with their modules, files and the share of lines that are imports, packages that import each other,
modules that one other imports, functions with many arguments, imports that go back up between the rooms of framework/streaming, comparisons
of format names outside framework/sources, private PySpark accesses outside the adapter, retired words (scripts/retired_words.txt), lines of
source, and docs pages above 2,500 words. ``--list`` also prints each place. Standard library only.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("framework", "operators", "jobs", "edge")
STREAMING = "framework/streaming"
SOURCES = "framework/sources"
ADAPTER = "framework/spark_adapter"
"""The package that may use private parts of PySpark."""
PAGE_WORDS = 2500
PRIVATE = re.compile(
    r"_jvm|_jsc|_jdf|_jrdd|_jspark\w*|_jc|_jq|_jsq|_jreader|_jwrite|_jschema|_gateway|_sc|_active_spark_context|_to_java\w*"
    r"|_statefulProcessorApiClient|_serialize_to_bytes|_streamingCheckpointManager|pythonExec"
)
"""Private attributes of PySpark's classes."""
PRIVATE_MODULES = (
    "py4j", "pyspark.worker", "pyspark.daemon", "pyspark.java_gateway", "pyspark.find_spark_home", "pyspark.sql.pandas",
)  # fmt: skip
"""Modules that PySpark does not document, and those below them."""
MOST_ARGUMENTS = 10
FORMATS = {"csv", "json", "parquet", "orc", "delta", "kafka", "rate"}


def source_files(parts: Iterable[str] = PARTS) -> list[Path]:
    """Return the Python files of the given directories."""
    return [p for part in parts for p in sorted((ROOT / part).rglob("*.py")) if "__pycache__" not in p.parts]


def name_of(path: Path) -> str:
    """Return a path as seen from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def rooms() -> dict[str, int]:
    """Return the number of modules of every directory; an empty ``__init__.py`` does not count."""
    return dict(Counter(name_of(p.parent) for p in source_files() if p.name != "__init__.py" or p.read_text(encoding="utf-8").strip()))


def arrows(below: str = STREAMING) -> dict[tuple[str, str], list[str]]:
    """Return the imports between the rooms of a directory: (importing room, imported room) to the importing files."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    prefix = "skyband." + below.replace("/", ".") + "."
    for path in source_files([below]):
        room = name_of(path).removeprefix(below + "/").split("/")[0]
        if room.endswith(".py"):
            continue
        for node in ast.walk(tree(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
            for other in {n.removeprefix(prefix).split(".")[0] for n in names if n.startswith(prefix)}:
                if other != room and (ROOT / below / other).is_dir():
                    found[room, other].append(name_of(path))
    return dict(found)


def module_name(path: Path) -> str:
    """Return the name under which a file is imported, without ``skyband``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def importers() -> dict[str, set[str]]:
    """Return for each module those that import it, wherever the import stands."""
    modules = {module_name(p): p for p in source_files()}
    found: dict[str, set[str]] = {name: set() for name in modules}
    for importer, path in modules.items():
        for node in ast.walk(tree(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{a.name}" for a in node.names]
                names = [n for n in inner if n.removeprefix("skyband.") in modules] or [node.module]
            for name in {n.removeprefix("skyband.") for n in names} & set(modules) - {importer}:
                found[name].add(importer)
    return found


def single_importers() -> list[str]:
    """Return the modules that exactly one other module imports."""
    return sorted(f"{name} <- {min(by)}" for name, by in importers().items() if len(by) == 1)


def mutual_pairs(depth: int = 2) -> list[str]:
    """Return the pairs of packages that import each other; a package is named by its first ``depth`` parts."""

    def package(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    pairs = {(package(by), package(name)) for name, all_ in importers().items() for by in all_}
    return sorted(f"{a} - {b}" for a, b in pairs if a < b and (b, a) in pairs)


def import_lines() -> int:
    """Return the number of lines that imports take."""
    nodes = (node for path in source_files() for node in ast.walk(tree(path)) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def many_arguments() -> list[str]:
    """Return the functions with more than ``MOST_ARGUMENTS`` arguments, ``self`` aside."""
    found = []
    for path in source_files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len([n for n in names if n not in ("self", "cls")]) > MOST_ARGUMENTS:
                    found.append(f"{name_of(path)}:{node.lineno} {node.name}")
    return found


def back_arrows(below: str = STREAMING) -> dict[tuple[str, str], list[str]]:
    """Return the arrows against the direction of most imports: of each pair of rooms that import each other the rarer ones."""
    all_ = arrows(below)
    return {(a, b): files for (a, b), files in all_.items() if (b, a) in all_ and (len(files), a) < (len(all_[b, a]), b)}


def format_comparisons() -> list[str]:
    """Return the places outside of framework/sources that compare the name of a source format."""
    found = []
    for path in source_files():
        if name_of(path).startswith(SOURCES + "/"):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                named = {c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant)} & FORMATS
                if named and any(isinstance(side, ast.Attribute) and side.attr == "format" and not _of_output(side) for side in sides):
                    found.append(f"{name_of(path)}:{node.lineno}")
    return found


def _of_output(attribute: ast.Attribute) -> bool:
    """Return True for ``args.format``, the format of a command's output."""
    return isinstance(attribute.value, ast.Name) and attribute.value.id == "args"


def private_accesses() -> list[str]:
    """Return the uses of private attributes and modules of PySpark and Py4J outside of the adapter."""
    found = []
    for path in source_files((*PARTS, "airflow_dags", "skyband")):
        if name_of(path).startswith(ADAPTER + "/"):
            continue
        for node in ast.walk(tree(path)):
            private = isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr) is not None
            imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
                private = node.module.split(".")[0] == "pyspark" and any(a.name.startswith("_") for a in node.names)
            if private or any(name == m or name.startswith(m + ".") for name in imported for m in PRIVATE_MODULES):
                found.append(f"{name_of(path)}:{node.lineno}")
    return found


def retired() -> tuple[list[tuple[re.Pattern[str], str]], list[str]]:
    """Return the retired words with what to write instead, and the names of the interface that may contain them."""
    words, kept = [], []
    for line in (ROOT / "scripts" / "retired_words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            kept.append(line[2:])
        elif line and not line.startswith("#"):
            pattern, _, instead = line.partition("\t")
            words.append((re.compile(pattern, re.IGNORECASE), instead))
    return words, kept


def retired_words(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the places of retired words in files, and in the names of files."""
    words, kept = retired()
    for path in paths:
        for number, line in enumerate([path.stem, *path.read_text(encoding="utf-8").splitlines()]):
            text = line
            for name in kept:
                text = text.replace(name, "")
            text = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text)
            for pattern, instead in words:
                if found := pattern.search(text):
                    yield f"{name_of(path)}:{number}: {found[0]!r}: write {instead}"


def pages() -> list[Path]:
    """Return the pages at the top of the checkout, and those of the docs."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def long_pages() -> dict[str, int]:
    """Return the pages above the limit, with their words."""
    words = {name_of(p): len(p.read_text(encoding="utf-8").split()) for p in pages()}
    return {page: n for page, n in words.items() if n > PAGE_WORDS}


def main(details: bool) -> None:
    """Print all figures."""
    modules = rooms()
    print(f"rooms: {len(modules)}, modules: {sum(modules.values())}, largest: {max(modules.values())}")
    for room, n in sorted(modules.items(), key=lambda item: -item[1]):
        if details or n > 20:
            print(f"  {n:4} {room}")
    by_room: dict[str, list[str]] = defaultdict(list)
    for place in retired_words([*source_files(), *pages()]):
        path = place.split(":")[0]
        by_room["docs" if path.endswith(".md") else str(Path(path).parent)].append(place)
    lines = {part: sum(len(p.read_text(encoding="utf-8").splitlines()) for p in source_files([part])) for part in PARTS}
    files, imported = source_files(), import_lines()
    print(f"files: {len(files):,}, imports: {100 * imported / sum(lines.values()):.1f} % of lines")
    figures = {
        "packages that import each other": mutual_pairs(),
        "modules that one other imports": single_importers(),
        f"functions with more than {MOST_ARGUMENTS} arguments": many_arguments(),
        f"back arrows in {STREAMING}": [f"{a} -> {b}: {', '.join(sorted(set(f)))}" for (a, b), f in sorted(back_arrows().items())],
        f"format comparisons outside {SOURCES}": format_comparisons(),
        f"private PySpark accesses outside {ADAPTER}": private_accesses(),
        "retired words": [place for places in by_room.values() for place in places],
        f"docs pages above {PAGE_WORDS:,} words": [f"{page}: {n:,}" for page, n in long_pages().items()],
    }
    for name, places in figures.items():
        print(f"{name}: {len(places):,}")
        if details:
            print("".join(f"  {place}\n" for place in places), end="")
    for room, places in sorted(by_room.items(), key=lambda item: -len(item[1])):
        print(f"  {len(places):4} {room}")
    print(f"lines of source: {sum(lines.values()):,} (" + ", ".join(f"{part} {n:,}" for part, n in lines.items()) + ")")


if __name__ == "__main__":
    main("--list" in sys.argv[1:])
