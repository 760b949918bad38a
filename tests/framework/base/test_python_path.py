"""Nothing is imported from the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from skyband.framework.base.python_path import leave_working_directory, without_relative


@pytest.mark.parametrize(
    ("path", "left"), [("/a::/b", "/a:/b"), (":/a", "/a"), ("/a:", "/a"), (".:/a:lib", "/a"), ("", ""), ("/a:/b", "/a:/b")]
)
def test_relative_entries_go(path: str, left: str) -> None:
    assert without_relative(path) == left


def test_the_working_directory_leaves_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}/kept")
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", "/kept", str(tmp_path / "lib"), "relative"])
    leave_working_directory()
    assert sys.path == ["/kept", str(tmp_path / "lib")] and os.environ["PYTHONPATH"] == "/kept"
    # What stands there by its full name, further back, was asked for.
    monkeypatch.setattr(sys, "path", ["/kept", str(tmp_path)])
    leave_working_directory()
    assert sys.path == ["/kept", str(tmp_path)]


def test_a_checkout_is_imported_from(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", ["", "/kept"])
    leave_working_directory()
    assert sys.path == ["", "/kept"]
