"""Whatever CONTRIBUTING.md and docs/developers.md name exists: paths, functions, tests and make targets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_architecture import ROOT

CONTRIBUTING, CODE_PAGE = "CONTRIBUTING.md", "docs/developers.md"
BELOW = {
    CONTRIBUTING: ("", "framework/queries/topk_pairs"),
    CODE_PAGE: ("", "framework", "framework/streaming", "framework/queries/topk_pairs", "jobs"),
}
"""The directories from which a page names files."""
MADE = {"operators/compiled", "build/dist", "build/site"}
"""Directories that targets of the Makefile make."""
SUFFIXES = ("py", "md", "txt", "yaml", "yml", "toml", "json", "sh", "in")
NAMED = re.compile(r"([\w./-]+\.py):([A-Za-z_][\w.]*)")
"""Matches a name in a module: ``framework/plan/model.py:Plan``."""
TEST = re.compile(r"([\w./-]+\.py)::(\w+)")
PATH = re.compile(rf"\.?[\w.-]+(?:/[\w.-]+)*\.(?:{'|'.join(SUFFIXES)})|\.?[\w-]+(?:/[\w.-]+)+/?|\w+/")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code(page: str) -> Iterator[str]:
    """Yield the words of a page in code: those of blocks, and each span."""
    text = text_of(page)
    for block in re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S):
        yield from re.findall(r"\S+", block)
    yield from (m for m in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)))


def paths(page: str) -> set[str]:
    """Return the paths that a page names in code; of ``NAME`` in a path only the directories before it."""
    found = set()
    for word in code(page):
        path = NAMED.sub(r"\1", TEST.sub(r"\1", word.strip(";,()")))
        if PATH.fullmatch(path) and not path.startswith((".venv", "docs/semantics", "docs/algorithms")):
            found.add(path.split("NAME")[0].rstrip("/"))
    return found


def missing(page: str) -> list[str]:
    below = BELOW[page]
    return sorted(path for path in paths(page) if path not in MADE and not any((ROOT / base / path).exists() for base in below))


def defined(module: str, name: str) -> bool:
    """Return True if ``module`` defines ``name``: a function, class or constant, or a method as ``Class.method``."""
    body = ast.parse((ROOT / module).read_text(encoding="utf-8")).body
    for part in name.split("."):
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            names = {t.id for t in targets if isinstance(t, ast.Name)}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = {node.name}
            if part in names:
                body = node.body if isinstance(node, ast.ClassDef) else []
                break
        else:
            return False
    return True


@pytest.mark.parametrize("page", BELOW)
def test_every_path_exists(page: str) -> None:
    assert len(paths(page)) > 20
    assert missing(page) == []


@pytest.mark.parametrize("page", BELOW)
def test_every_function_exists(page: str) -> None:
    named = [m for word in code(page) for m in NAMED.findall(word)]
    assert len(named) > 30 or page != CONTRIBUTING
    assert [f"{module}:{name}" for module, name in named if not ((ROOT / module).is_file() and defined(module, name))] == []


def test_every_test_and_target_exists() -> None:
    text = text_of(CONTRIBUTING)
    tests = TEST.findall(text)
    assert tests and all(defined(module, name) for module, name in tests)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text))
    assert len(named) > 10 and named <= targets
    modules = set(re.findall(r"python -m (skyband[\w.]*|scripts[\w.]*)", text + text_of(CODE_PAGE)))
    files = {module: ROOT / module.removeprefix("skyband.").replace(".", "/") for module in modules}
    assert [m for m, path in files.items() if not path.with_suffix(".py").is_file() and not (path / "__main__.py").is_file()] == []


def test_the_spine_shows_its_stages_in_the_order_of_a_batch() -> None:
    """The page of the code shows directories, the other one the functions in them."""
    block = re.findall(r"^```text\n(.*?)^```", text_of(CONTRIBUTING), re.M | re.S)[0]
    stages = [line.split()[0] for line in block.splitlines() if not line.startswith(" ")]
    assert stages == ["spec", "plan", "loop", "rows", "bucket", "operators", "changes", "tables"]
    directories = [
        d.rstrip("/") for d in re.findall(r"^(\w[\w/]*)", re.findall(r"^```text\n(.*?)^```", text_of(CODE_PAGE), re.M | re.S)[0], re.M)
    ]
    assert [d for d in directories if not (ROOT / d).is_dir()] == [] and len(directories) == 9


def test_what_does_not_exist_is_found() -> None:
    assert defined("framework/streaming/bucket/sequencer.py", "Sequencer.due_rows")
    assert defined("framework/base/errors.py", "CODES")
    assert not defined("framework/streaming/bucket/sequencer.py", "Sequencer.no_such_method")
    assert not defined("framework/base/errors.py", "CODES.get")
    assert (
        PATH.fullmatch("framework/none/such.py") and PATH.fullmatch("none.py") and PATH.fullmatch("jobs/") and not PATH.fullmatch("k: 10")
    )
