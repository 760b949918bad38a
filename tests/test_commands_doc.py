"""docs/reference/commands.md against the command line: every command has a row with a test; help has valid examples."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from skyband.jobs.cli import command_line
from skyband.jobs.parser import leaves

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/reference/commands.md"
COMMANDS = {p.prog.removeprefix("skyband "): p for p in leaves(command_line())}


def rows() -> dict[str, list[str]]:
    """Return the cells of each command's row."""
    section = (ROOT / PAGE).read_text(encoding="utf-8").split("## All commands\n", 1)[1].split("\n## ", 1)[0]
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", line.strip("|"))] for line in section.splitlines() if line.startswith("| `")]
    assert all(len(row) == 4 and all(row) for row in cells), f"{PAGE}: every row is | `command` | what it does | fields | `file::test` |"
    assert len({row[0] for row in cells}) == len(cells), f"{PAGE}: a command has two rows"
    return {row[0].strip("`"): row for row in cells}


def test_every_command_has_a_row() -> None:
    missing = [f"| `{c}` | {p.description} | fields of its JSON | `tests/...::test_...` |" for c, p in COMMANDS.items() if c not in rows()]
    assert not missing, f"add to the table of {PAGE}:\n" + "\n".join(missing)
    gone = sorted(set(rows()) - set(COMMANDS))
    assert not gone, f"{PAGE} has rows of commands that are not there: {gone}"


@pytest.mark.parametrize("command", rows())
def test_the_test_of_every_row_exists(command: str) -> None:
    named = rows()[command][3].strip("`")
    file, _, test = named.partition("::")
    assert (ROOT / file).is_file(), f"{PAGE}, `{command}`: no file {file}"
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{PAGE}, `{command}`: no test {test} in {file}"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_valid_examples_and_exit_codes(command: str) -> None:
    text = COMMANDS[command].epilog or ""
    assert "examples:\n" in text, f"`skyband {command} --help` has no examples: help_page(description, *examples) takes them"
    assert "exit codes: 0 " in text.replace("\n", " "), f"`skyband {command} --help` has no exit codes: see described"
    lines = [line for line in text.split("exit codes:")[0].splitlines() if f"skyband {command} " in f"{line} "]
    assert lines, f"no example of `skyband {command} --help` calls it"
    for line in lines:
        # Leave out the shell's redirections.
        words = shlex.split(line[line.index("skyband ") :], comments=True)[1:]
        end = next((i for i, w in enumerate(words) if w in ("<", ">", ">>", "2>>", "|")), len(words))
        try:
            command_line().parse_args(words[:end])
        except Exception as e:
            raise AssertionError(f"an example is invalid: {line.strip()}: {e}") from e


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_format_json(command: str) -> None:
    option = COMMANDS[command]._option_string_actions.get("--format")
    assert isinstance(option, argparse.Action) and option.choices and "json" in option.choices and option.default != "json"
