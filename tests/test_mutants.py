"""The mutation run alters what runs, nothing else, and says what tests did not notice."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.mutants import MODULES, Copy, Result, drawn, importing, mutants, page

SOURCE = '''\
"""A module."""

LIMIT = 3


def added(a: int = 1, b: int = 2) -> int:
    """Return a sum."""
    if a < b and b != 4:
        print(a, b)
        raise ValueError(f"{a + 1}")
    return a + b
'''


def test_mutants_change_one_thing_that_runs() -> None:
    made = {(m.line, m.kind): m for m in mutants("m.py", SOURCE)}
    assert {(line, kind) for line, kind in made if line != 6} == {
        (8, "compare"), (8, "join"), (8, "negate"), (8, "constant"), (9, "drop"), (9, "swap"), (11, "operate"),
    }  # fmt: skip
    assert "return a - b" in made[11, "operate"].text(SOURCE)
    assert "if a < b or b != 4:" in made[8, "join"].text(SOURCE)
    assert "if not (a < b and b != 4):" in made[8, "negate"].text(SOURCE)
    assert "print(b, a)" in made[9, "swap"].text(SOURCE) and "print" not in made[9, "drop"].text(SOURCE)
    for mutant in made.values():
        text = mutant.text(SOURCE)
        assert ast.parse(text) and text != ast.unparse(ast.parse(SOURCE)) and "LIMIT = 3" in text


def test_mutants_are_drawn_of_all_modules_and_kinds(root: Path) -> None:
    found = drawn(MODULES, 200, 1)
    assert found == drawn(MODULES, 200, 1) and len(set(found)) == 200
    modules, kinds = Counter(m.module for m in found), Counter(m.kind for m in found)
    assert set(modules) == set(MODULES) and max(modules.values()) - min(modules.values()) <= 1
    assert len(kinds) == 7 and min(kinds.values()) > 5, kinds
    assert all(importing(m) for m in MODULES)
    assert all((root / path).exists() for m in MODULES for path in importing(m))


def test_a_mutant_runs_in_a_copy(tmp_path: Path, root: Path) -> None:
    """A mutant of a boundary is killed by the tests that import its module; the checkout keeps its text."""
    module = "operators/windows.py"
    before = (root / module).read_text(encoding="utf-8")
    place = Copy(tmp_path)
    assert place.failing(module, "tests") == ""
    mutant = next(m for m in mutants(module, before) if m.kind == "join" and "window.micros is None" in m.before)
    result = place.result(mutant, "tests")
    assert result.by.startswith("tests/operators/test_windows.py::")
    assert (root / module).read_text(encoding="utf-8") == before == (tmp_path / module).read_text(encoding="utf-8")
    text = page([result, Result(mutant, "", 1.0)])
    assert text.startswith("# 2 mutants: 1 killed, 1 survived") and "**survived**" in text
