"""The scripts of ``skyband completion`` do what they are for: a shell is asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from skyband.jobs.cli import main
from skyband.jobs.setup.completion import SHELLS
from tests.test_commands_doc import COMMANDS


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(directory: Path, *words: str) -> set[str]:
    """What bash offers for the last of ``words``."""
    asked = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
    function = "$(complete -p skyband | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
    program = f". ./script; {asked}; {function} skyband {words[-1]!r}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", program], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text(script(capsys, "bash"))
    (tmp_path / "flights.yaml").write_text("")
    assert completed(tmp_path, "skyband", "v") == {c for c in COMMANDS if c.startswith("v")}
    assert completed(tmp_path, "skyband", "query", "--form") == {"--format"}
    assert completed(tmp_path, "skyband", "query", "--format", "") == {"table", "csv", "json"}
    assert completed(tmp_path, "skyband", "run", "fl") == {"flights.yaml"}
    assert completed(tmp_path, "skyband", "airflow", "in") == {"install"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_with_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = script(capsys, shell)
    assert all(word in told for c in COMMANDS for word in c.split())
