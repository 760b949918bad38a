"""A library's own words never stand alone: our sentence is before them, and a hint says what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def quoting(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.JoinedStr]]:
    """Every error that is made of a library's message, with its text."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        texts = {t.id: a.value for a in ast.walk(function) if isinstance(a, ast.Assign) for t in a.targets if isinstance(t, ast.Name)}
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "SkybandError" and len(call.args) > 1:
                said = call.args[1]
                said = texts.get(said.id, said) if isinstance(said, ast.Name) else said
                if isinstance(said, ast.JoinedStr) and any(_quotes(v) for v in said.values):
                    yield call, said


def _quotes(value: ast.expr) -> bool:
    calls = {c.func for c in ast.walk(value) if isinstance(c, ast.Call)}
    names = {f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else "" for f in calls}
    return isinstance(value, ast.FormattedValue) and bool(names & {"one_line", "first_cause"} or {"str", "splitlines"} <= names)


def test_every_error_that_quotes_a_library_has_a_sentence_and_a_hint(root: Path) -> None:
    seen, bare = 0, []
    for directory in ("framework", "jobs"):
        for file in sorted((root / directory).rglob("*.py")):
            for call, said in quoting(ast.parse(file.read_text(encoding="utf-8"))):
                seen += 1
                first = said.values[0]
                begins = isinstance(first, ast.Constant) and len(str(first.value).strip()) > 3
                begins |= isinstance(said.values[0], ast.FormattedValue) and not _quotes(said.values[0])
                hint = len(call.args) > 2 or any(k.arg == "hint" for k in call.keywords)
                if not (begins and hint):
                    bare.append(f"{file.relative_to(root)}:{call.lineno}")
    assert bare == [] and seen > 8
