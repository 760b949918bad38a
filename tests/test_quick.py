"""What ``make quick`` runs: files that exist, of every package that decides results."""

from __future__ import annotations

from pathlib import Path

PACKAGES = (
    "tests/operators", "tests/matrix", "tests/framework/spec", "tests/framework/plan", "tests/framework/streaming/rows",
    "tests/framework/streaming/bucket", "tests/framework/streaming/run", "tests/framework/streaming/local", "tests/framework/tables",
    "tests/framework/quality", "tests/framework/verify",
)  # fmt: skip


def test_quick_has_files_of_every_package_that_decides_results(root: Path) -> None:
    files = (root / "tests" / "quick.txt").read_text(encoding="utf-8").splitlines()
    assert files == sorted(set(files)) and all((root / f).is_file() for f in files)
    assert all(any(f.startswith(f"{package}/") for f in files) for package in PACKAGES)
    assert "@tests/quick.txt" in (root / "Makefile").read_text(encoding="utf-8")
