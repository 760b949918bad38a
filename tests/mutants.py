"""Alter the code in small ways, and see whether tests notice.

    python -m tests.mutants --count 40 --seed 1                    # of all modules below
    python -m tests.mutants --count 10 --module framework/streaming/bucket/sequencer.py
    python -m tests.mutants --count 40 --by matrix                 # only by the generated matrix: what it covers alone
    python -m tests.mutants --only framework/tables/results/derive.py:57:swap

A mutant has one comparison, operation, constant or condition changed, a statement dropped, or two arguments swapped. It is written to a
copy of the checkout, where the tests that import its module run, then jobs of the matrix. Kernels run by NumPy, as compiling each would
take longer than its tests. The table of what was killed and what survived is printed, and written to build/mutants.md.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "build" / "mutants.md"
MODULES: Final = (
    "operators/topk/one_function_logic.py", "operators/skyline/logic.py", "operators/threshold/one_function_logic.py",
    "operators/windows.py",
    "operators/pair_rows/kernels/replay.py", "operators/pair_rows/kernels/skyband.py", "operators/topk_pairs/kernels.py",
    "operators/loyalty/logic.py", "framework/streaming/bucket/sequencer.py", "framework/streaming/bucket/bucket.py",
    "framework/streaming/bucket/store.py", "framework/streaming/bucket/operator_host.py", "framework/streaming/bucket/item_rows.py",
    "framework/streaming/bucket/calls.py", "framework/streaming/bucket/state_files.py", "framework/streaming/rows/config.py",
    "framework/streaming/rows/pack.py", "framework/streaming/local/loop.py", "framework/streaming/local/tasks.py",
    "framework/streaming/run/batch.py", "framework/streaming/run/commit.py", "framework/tables/results/derive.py",
    "framework/tables/results/timeline.py", "framework/tables/writing/sink.py", "framework/verify/reconciliation.py",
    "framework/verify/replay/replay.py", "framework/quality/checks.py",
)  # fmt: skip
"""What decides results: operators, the local loop, tables and checks."""
NOT_RUN: Final = "not (slow or chaos or long or spark or real or airflow)"
MATRIX: Final = ("tests/matrix/test_matrix.py", "-k", "random_jobs or stored or (every_pair and (memory or shards or csv))")
IN_MEMORY: Final = (*MATRIX[:2], "random_jobs or stored or (every_pair and (memory or shards))")
"""The local engine does not run without Numba."""
MOST: Final = 8
"""The most test files that a mutant runs, the smallest ones."""
LIMIT: Final = 240
"""Seconds of processor time that the tests of one mutant may take, however busy the machine is; one that takes longer is killed."""


# ---------------------------------------------------------------- mutants

SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A change of a module. ``place``: the number of the changed node, in the order of ``ast.walk``."""

    module: str
    line: int
    kind: str
    place: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """Return how the command line names it."""
        return f"{self.module}:{self.line}:{self.kind}"

    def text(self, source: str) -> str:
        """Return the changed module."""
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
        node = nodes[self.place]
        made = CHANGES[self.kind](copy.copy(node))
        assert made is not None
        return ast.unparse(ast.fix_missing_locations(_Put(node, made).visit(tree)))


class _Put(ast.NodeTransformer):
    def __init__(self, node: ast.AST, made: ast.AST) -> None:
        self.node, self.made = node, made

    def visit(self, node: ast.AST) -> ast.AST:
        return self.made if node is self.node else super().generic_visit(node)


def _compared(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    node.ops = [SWAPPED[type(node.ops[0])]()]  # type: ignore[list-item]
    return node


def _operated(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, (ast.BinOp, ast.AugAssign)) or type(node.op) not in SWAPPED or isinstance(node.op, ast.BitOr):
        return None
    node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
    return node


def _joined(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.BoolOp):
        return None
    node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
    return node


def _constant(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, (bool, int)):
        return None
    node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    return node


def _negated(node: ast.AST) -> ast.AST | None:
    if isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return node
    return None


def _dropped(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return ast.Pass()
    if isinstance(node, (ast.Continue, ast.Break)):
        return ast.Pass()
    return None


def _swap(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Call) or len(node.args) < 2 or any(isinstance(a, ast.Starred) for a in node.args[:2]):
        return None
    if ast.dump(node.args[0]) == ast.dump(node.args[1]) or (
        isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "min", "max")
    ):
        return None
    node.args = [node.args[1], node.args[0], *node.args[2:]]
    return node


SYMMETRIC: Final = ("isinstance", "min", "max")
CHANGES: Final[dict[str, Callable[[ast.AST], ast.AST | None]]] = {
    "compare": _compared, "operate": _operated, "join": _joined, "constant": _constant, "negate": _negated, "drop": _dropped, "swap": _swap,
}  # fmt: skip


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of a module: of what runs inside functions, so neither annotations nor texts of errors."""
    tree = ast.parse(source)
    places = {id(node): i for i, node in enumerate(ast.walk(tree))}
    for node in _run_nodes(tree):
        for kind, change in CHANGES.items():
            made = change(copy.copy(node))
            if made is not None:
                before = ast.unparse(node.test) if isinstance(node, (ast.If, ast.IfExp)) else ast.unparse(node)
                after = ast.unparse(made.test) if isinstance(made, (ast.If, ast.IfExp)) else ast.unparse(made)
                yield Mutant(module, node.lineno, kind, places[id(node)], _short(before), _short(after))  # type: ignore[attr-defined]


def _short(text: str) -> str:
    line = text.split("\n")[0].replace("|", "\\|")
    return line if len(line) <= 90 else line[:87] + "..."


def _run_nodes(node: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes inside of functions, without raised errors, annotations and defaults' types."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            within = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if within and hasattr(child, "lineno"):
                yield child
            yield from _run_nodes(child, within)


# ---------------------------------------------------------------- tests


@cache
def _lines(root: Path) -> dict[Path, list[str]]:
    """Return the lines with imports of all test files."""
    files = [p for p in (root / "tests").rglob("test_*.py") if p.relative_to(root / "tests").parts[0] != "spark"]
    return {p: [line for line in p.read_text(encoding="utf-8").splitlines() if line.startswith(("from ", "import "))] for p in files}


def importing(module: str, root: Path = ROOT) -> list[str]:
    """Return the test files that import a module, smallest first; where there are none, those of its package."""
    dotted = "skyband." + module.removesuffix(".py").replace("/", ".")
    parent, _, name = dotted.rpartition(".")

    def imports(line: str) -> bool:
        return line.startswith((f"from {dotted} import", f"import {dotted}")) or (
            line.startswith(f"from {parent} import") and name in line.replace(",", " ").split()
        )

    found = [path for path, lines in _lines(root).items() if any(map(imports, lines))]
    package = Path(module).parts
    if not found and package[0] == "operators":
        found = list((root / "tests" / "operators").glob(f"test_*{package[1].removesuffix('_rows')}*.py"))
    elif not found:
        found = list((root / "tests").joinpath(*package[:-1]).glob("test_*.py"))
    return [str(p.relative_to(root)) for p in sorted(found, key=lambda p: p.stat().st_size)][:MOST]


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 10))


@dataclass(frozen=True)
class Result:
    """What became of a mutant: ``by`` is the test that failed, empty if it survived."""

    mutant: Mutant
    by: str
    seconds: float


class Copy:
    """A copy of the checkout, in which mutants run."""

    def __init__(self, directory: Path, root: Path = ROOT) -> None:
        self.directory = directory
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
        )  # fmt: skip
        for name in listed.stdout.splitlines():
            if (root / name).exists():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, directory / name, follow_symlinks=False)

    def result(self, mutant: Mutant, by: str) -> Result:
        """Return whether tests notice a mutant; ``by``: ``tests``, ``matrix`` or ``both``."""
        path = self.directory / mutant.module
        source = path.read_text(encoding="utf-8")
        started = time.monotonic()
        try:
            path.write_text(mutant.text(source), encoding="utf-8")
            failed = ""
            for kind in ("tests", "matrix"):
                if not failed and by in (kind, "both"):
                    failed = self.failing(mutant.module, kind)
            return Result(mutant, failed, time.monotonic() - started)
        finally:
            path.write_text(source, encoding="utf-8")

    def failing(self, module: str, kind: str) -> str:
        """Return the first test that fails, ``time`` if the limit is over, or nothing."""
        matrix = IN_MEMORY if module.startswith("operators/") else MATRIX
        chosen = importing(module, self.directory) if kind == "tests" else list(matrix)
        if not chosen:
            return ""
        share = "0.05" if kind == "tests" else "0.2"
        environment = {**os.environ, "PYTHONPATH": str(self.directory), "SKYBAND_SEEDS": share, "HYPOTHESIS_PROFILE": "quick"}
        environment |= {"SKYBAND_NO_NUMBA": "1"} if module.startswith("operators/") else {}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", NOT_RUN, "--tb=no", *chosen]
        ran = subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False, preexec_fn=_limited)
        if ran.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "time"
        if ran.returncode in (0, 5):
            return ""
        return next(
            (line.split()[1] for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), ran.stdout.strip()[-200:]
        )


def page(results: Sequence[Result]) -> str:
    """Return the table of results."""
    killed = [r for r in results if r.by]
    lines = [f"# {len(results)} mutants: {len(killed)} killed, {len(results) - len(killed)} survived", ""]
    lines += ["| module | line | kind | before | after | killed by | seconds |", "|---|---|---|---|---|---|---|"]
    for r in sorted(results, key=lambda r: (bool(r.by), r.mutant.module, r.mutant.line)):
        m = r.mutant
        lines.append(f"| {m.module} | {m.line} | {m.kind} | `{m.before}` | `{m.after}` | {r.by or '**survived**'} | {r.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def drawn(modules: Sequence[str], count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Return random mutants, as many of each module as of the others, of each kind as often as of the others."""
    rng = random.Random(seed)
    kinds: dict[str, dict[str, list[Mutant]]] = {}
    for module in modules:
        for mutant in mutants(module, (root / module).read_text(encoding="utf-8")):
            kinds.setdefault(module, {}).setdefault(mutant.kind, []).append(mutant)
    found: list[Mutant] = []
    while len(found) < count and kinds:
        for module in rng.sample(sorted(kinds), len(kinds)):
            kind = rng.choice(sorted(kinds[module]))
            found.append(kinds[module][kind].pop(rng.randrange(len(kinds[module][kind]))))
            kinds[module] = {k: ms for k, ms in kinds[module].items() if ms}
            if not kinds[module]:
                del kinds[module]
    return found[:count]


def _without(chosen: Sequence[Mutant], by: str) -> Iterator[tuple[str, str]]:
    """Yield the modules whose tests must pass without a mutant, and for the matrix one module with kernels and one without."""
    modules = list(dict.fromkeys(m.module for m in chosen))
    yield from ((module, "tests") for module in modules if by in ("tests", "both"))
    for compiled in (True, False):
        mine = [m for m in modules if m.startswith("operators/") == compiled]
        yield from ((module, "matrix") for module in mine[:1] if by in ("matrix", "both"))


def main() -> int:
    """Do what the command line says; return 1 if a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", action="append", help="path of a module; may be given several times")
    parser.add_argument("--by", choices=["tests", "matrix", "both"], default="both")
    parser.add_argument("--only", help="a mutant, as the table names it: MODULE:LINE:KIND")
    given = parser.parse_args()
    modules = given.module or [given.only.split(":")[0]] if given.module or given.only else MODULES
    if given.only:
        chosen = [m for m in mutants(modules[0], (ROOT / modules[0]).read_text(encoding="utf-8")) if m.name == given.only]
    else:
        chosen = drawn(modules, given.count, given.seed)
    results = []
    with tempfile.TemporaryDirectory(prefix="mutants") as directory:
        place = Copy(Path(directory))
        for module, kind in _without(chosen, given.by):
            if failed := place.failing(module, kind):
                print(f"{module}: {failed} fails without a mutant", file=sys.stderr)
                return 2
        for mutant in chosen:
            results.append(place.result(mutant, given.by))
            print(f"{mutant.name}: {mutant.before} -> {mutant.after}: {results[-1].by or 'SURVIVED'}", flush=True)
            TABLE.parent.mkdir(parents=True, exist_ok=True)
            TABLE.write_text(page(results), encoding="utf-8")
    print(page(results).splitlines()[0])
    return 0 if all(r.by for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
