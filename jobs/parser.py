"""What every command's ``--help`` says, and what every command takes: the same in all of them, from one place."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from skyband.jobs.answer import FORMATS

EXIT_CODES: Final = (
    "0 done, 1 a check, a verification or a comparison says no, 2 a mistake in the spec, the command line or the environment, "
    "3 it failed on the way, 130 or 143 stopped by a signal"
)
"""Of a command that says nothing else."""
_WIDTH: Final = 100
_FILES: Final = {"spec", "specs", "file", "path", "folder", "data", "out", "outcome", "docs", "export", "dir"}
"""Arguments that name files or directories."""
_COMPLETED: Final = {
    "bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f", "fish": "(__fish_complete_path (commandline -ct))",
    "powershell": "_shtab_powershell_compgen_files",
}  # fmt: skip
"""How each shell completes a file, in shtab's words."""


def help_page(description: str, *examples: str, codes: str = EXIT_CODES) -> dict[str, Any]:
    """Arguments of ``add_parser``: the description in lines, and below it the examples as they are and the exit codes."""
    told = ["examples:", *(f"  {e}" if e else "" for e in examples), ""] if examples else []
    return {
        "description": textwrap.fill(description, _WIDTH),
        "epilog": "\n".join([*told, textwrap.fill(f"exit codes: {codes}", _WIDTH)]),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


class UsageError(Exception):
    """Arguments that ``parser`` does not take."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.parser = parser
        self.message = message


class Parser(argparse.ArgumentParser):
    """Says what it does not take by ``UsageError``."""

    def error(self, message: str) -> Any:
        """Raises UsageError."""
        raise UsageError(self, message)


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands below ``parser``, in order."""
    below = [p for a in parser._actions if isinstance(a, argparse._SubParsersAction) for p in a.choices.values()]
    for p in below:
        yield from leaves(p)
    if not below:
        yield parser


def complete(parser: argparse.ArgumentParser) -> None:
    """Gives every command below ``parser`` ``--format``, if it has none of its own, and says which arguments complete to files."""
    for p in leaves(parser):
        for action in p._actions:
            if action.dest in _FILES:
                action.complete = _COMPLETED  # type: ignore[attr-defined]
        if "--format" not in p._option_string_actions:
            p.add_argument("--format", choices=FORMATS, default="text", help="json: one document on stdout (default: %(default)s)")


def asks_json(argv: list[str]) -> bool:
    """Whether arguments that cannot be read ask for JSON."""
    return "--format=json" in argv or ("--format", "json") in pairwise(argv)
