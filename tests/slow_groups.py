"""Run a group of slow tests, and record the commit at which it passed.

    python -m tests.slow_groups list          # the groups, and how many commits ago each passed
    python -m tests.slow_groups run kills     # run one; if it passes, write its commit and day to tests/slow_groups.toml

``make test`` runs none of them. It says at its end which have not passed within the last ``OLD`` commits.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
RECORD: Final = ROOT / "tests" / "slow_groups.toml"
OLD: Final = 50
HEAD: Final = """\
# Groups of slow tests, and the last commit at which each passed: `python -m tests.slow_groups run NAME` writes it.
# A command is run in the checkout; its first word is a module of Python, or `make`.
"""


@dataclass(frozen=True)
class Group:
    """A group of tests. ``commit`` and ``day``: when it passed last, empty if never."""

    name: str
    what: str
    command: tuple[str, ...]
    commit: str = ""
    day: str = ""

    def words(self) -> list[str]:
        """Return the command line."""
        first, *rest = self.command
        return ["make", *rest] if first == "make" else [sys.executable, "-m", first, *rest]


def read(path: Path = RECORD) -> list[Group]:
    """Return the recorded groups."""
    made = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Group(name, g["what"], tuple(g["command"]), g["commit"], g["day"]) for name, g in made.items()]


def write(groups: list[Group], path: Path = RECORD) -> None:
    """Write the record."""
    parts = [HEAD]
    for g in groups:
        command = ", ".join(f'"{word}"' for word in g.command)
        parts.append(f'[{g.name}]\nwhat = "{g.what}"\ncommand = [{command}]\ncommit = "{g.commit}"\nday = "{g.day}"\n')
    path.write_text("\n".join(parts), encoding="utf-8")


def age(group: Group, root: Path = ROOT) -> int | None:
    """Return how many commits ago a group passed; None if never, or at a commit that this branch does not have."""
    if not group.commit:
        return None
    told = _git(root, "rev-list", "--count", f"{group.commit}..HEAD")
    known = _git(root, "merge-base", "--is-ancestor", group.commit, "HEAD")
    return int(told.stdout) if told.returncode == 0 and known.returncode == 0 else None


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)


def old(groups: list[Group], root: Path = ROOT) -> list[str]:
    """Return a line for each group that has not passed within the last ``OLD`` commits; none outside of a repository."""
    if _git(root, "rev-parse", "HEAD").returncode:
        return []
    lines = []
    for group in groups:
        ago = age(group, root)
        if ago is None or ago > OLD:
            when = "has never passed on this branch" if ago is None else f"passed last {ago} commits ago, on {group.day}"
            lines.append(f"{group.name} {when}")
    return lines


def report(groups: list[Group], root: Path = ROOT) -> str:
    """Return what ``make test`` says at its end; empty if every group has passed lately."""
    lines = old(groups, root)
    if not lines:
        return ""
    said = f"{len(lines)} of {len(groups)} groups of slow tests have not passed within {OLD} commits"
    return "\n".join([f"{said} (python -m tests.slow_groups run NAME):", *(f"  {line}" for line in lines)])


def run(name: str, path: Path = RECORD, root: Path = ROOT) -> int:
    """Run a group; record the commit if it passes. Return the exit code, 2 for a checkout with changes: no commit stands for it."""
    groups = read(path)
    group = next((g for g in groups if g.name == name), None)
    if group is None:
        print(f"no group {name}: {', '.join(g.name for g in groups)}", file=sys.stderr)
        return 2
    changed = [line for line in _git(root, "status", "--porcelain").stdout.splitlines() if not line.endswith(path.name)]
    if changed:
        print("commit or stash your changes first: a commit stands for what is tested", *changed[:5], sep="\n  ", file=sys.stderr)
        return 2
    commit = _git(root, "rev-parse", "--short=12", "HEAD").stdout.strip()
    code = subprocess.run(group.words(), cwd=root, check=False).returncode
    if code == 0:
        day = datetime.now(UTC).date().isoformat()
        write([replace(g, commit=commit, day=day) if g.name == name else g for g in read(path)], path)
        print(f"{name}: passed at {commit}")
    return code


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["list", "run"])
    parser.add_argument("name", nargs="?")
    given = parser.parse_args()
    if given.what == "run":
        return run(given.name or "")
    for group in read():
        ago = age(group)
        print(f"{group.name:20} {'never' if ago is None else f'{ago} commits ago':18} {group.what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
