"""The command line of the drivers of random cases: check one case after the other until the time is over."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable

Check = Callable[[int], tuple[list[str], Counter[str]]]
"""Checks the case of a seed; returns what to print of a case that differs, and what the case had, to be counted."""


def check_until(check: Check, doc: str | None) -> int:
    """Check random cases, as the command line says; return 1 if one differs. ``doc``: the help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    until, seed, counted, failed = time.monotonic() + 60 * given.minutes, given.seed, Counter[str](), 0
    while time.monotonic() < until:
        try:
            found, some = check(seed)
            counted += some
        except Exception as e:
            found = [f"{type(e).__name__}: {e}"]
        if found:
            failed += 1
            print(f"seed {seed}", *found[:6], sep="\n", flush=True)
        seed += 1
    print(f"{seed - given.seed} cases, {failed} with differences; had: {dict(counted)}")
    return 1 if failed else 0
