"""Run jobs of the matrix.

python -m tests.matrix random --minutes 60 --seed 1     # random jobs, one after the other
python -m tests.matrix case tests/matrix/cases/NAME.json
python -m tests.matrix table                            # every pair of options and 120 random jobs; writes tests/matrix/tried.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.matrix.case import FACTORS, Case, read
from tests.matrix.covering import Pair, pairs_of
from tests.matrix.trials import HERE, TABLE, another, cases_of, check, found, tried_table

RANDOM = 120


def main() -> int:
    """Do what the command line says; return 1 if a job differs from its definition."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["random", "case", "table"])
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.what == "case":
        return _case(read(given.path))
    return _table() if given.what == "table" else _random(given.minutes, given.seed)


def _case(case: Case) -> int:
    differing = found(case)
    print(case.report(), *(differing or ["as defined"]), sep="\n")
    return 1 if differing else 0


def _random(minutes: float, seed: int) -> int:
    until, failed, first = time.monotonic() + 60 * minutes, 0, seed
    while time.monotonic() < until:
        failed += not _passes(another(seed), f"seed {seed}")
        seed += 1
    print(f"{seed - first} jobs, {failed} with differences")
    return 1 if failed else 0


def _passes(case: Case, name: str) -> bool:
    try:
        check(case)
    except AssertionError as e:
        print(name, e, sep="\n", flush=True)
        return False
    return True


def _table() -> int:
    cases = [*(case for source in FACTORS["source"] for case in cases_of(source)), *map(another, range(RANDOM))]
    tried, failed = Counter[Pair](), 0
    for n, case in enumerate(cases):
        failed += not _passes(case, f"job {n}")
        tried.update(pairs_of(case.options))
    if not failed:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True)
        day = datetime.now(UTC).date().isoformat()
        TABLE.write_text(tried_table(tried, len(cases), commit.stdout.strip(), day), encoding="utf-8")
    print(f"{len(cases)} jobs, {failed} with differences")
    return 1 if failed else 0


sys.exit(main())
