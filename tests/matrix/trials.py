"""Which cases there are, and what is said of one that differs."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final

from tests.matrix.case import DISK, FACTORS, WEIGHTS, Case, allowed, random_case, shrunk
from tests.matrix.covering import Covering, Options, Pair
from tests.matrix.drivers import differences

HERE: Final = Path(__file__).resolve().parent
STORED: Final = HERE / "cases"
FAILED: Final = HERE.parents[1] / "build" / "matrix"
TABLE: Final = HERE / "tried.md"


@cache
def covering() -> Covering:
    """Return what covers the options."""
    return Covering(FACTORS, allowed, WEIGHTS)


@cache
def combined() -> tuple[Options, ...]:
    """Return the combinations that have every pair of options."""
    return tuple(covering().rows())


def cases_of(source: str) -> Iterator[Case]:
    """Yield the jobs of these combinations with a source."""
    for number, options in enumerate(combined()):
        if options["source"] == source:
            yield random_case(options, number)


def another(seed: int) -> Case:
    """Return a random job in memory, which is cheap."""
    rng = random.Random(seed)
    while True:
        options = covering().another(rng)
        if options["source"] not in DISK:
            return random_case(options, seed)


def found(case: Case) -> list[str]:
    """Return the differences of a case, also an exception, which is one."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return differences(case, Path(directory))
        except Exception as e:
            return [f"{type(e).__name__}: {e}"]


def check(case: Case, directory: Path = FAILED) -> None:
    """Raise AssertionError with a small case that one can run if the tables are not those of the definition; it is in ``directory``."""
    if not found(case):
        return
    small = shrunk(case, lambda made: bool(found(made)))
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{small.options['type']}_{len(small.rows)}.json"
    path.write_text(small.text(), encoding="utf-8")
    differing = "\n".join(found(small) or found(case))
    raise AssertionError(f"{small.report()}\n{differing}\nrun it again: python -m tests.matrix case {path}; store it in {STORED}")


def tried_table(tried: Counter[Pair], cases: int, commit: str, day: str) -> str:
    """Return a page: how many cases had the pairs of options of each two factors, and which pairs never occur."""
    possible, excluded = covering().possible, covering().excluded
    lines = [
        "# Pairs of options that the matrix has tried", "",
        f"Made by `python -m tests.matrix table` at commit {commit}, on {day}, of {cases} jobs, all of which were as defined.",
        "Number of pairs of options tried, of those that go together, and the fewest jobs that had one of them:", "",
        "| option | with | pairs | fewest jobs |", "|---|---|---|---|",
    ]  # fmt: skip
    for f, g in combinations(FACTORS, 2):
        mine = [p for p in possible if (p[0][0], p[1][0]) == (f, g)]
        lines.append(f"| {f} | {g} | {sum(tried[p] > 0 for p in mine)} of {len(mine)} | {min(tried[p] for p in mine)} |")
    never = sorted(p for p in possible if not tried[p])
    lines += ["", f"Pairs that go together and were never tried: {len(never)}.", ""]
    lines += [f"- {a} ({f}) with {b} ({g})" for (f, a), (g, b) in never]
    lines += ["", "Pairs that exclude each other, by `tests.matrix.case.allowed`:", "", "| option | is never with |", "|---|---|"]
    for f, levels in FACTORS.items():
        for level in levels:
            others = [b for (g, a), (_, b) in sorted(excluded) if (g, a) == (f, level)]
            lines += [f"| {level} ({f}) | {', '.join(others)} |"] if others else []
    return "\n".join(lines) + "\n"
