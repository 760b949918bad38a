"""The parser of all commands: help pages, usage errors, ``--format`` and completion of file names."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from skyband.jobs.answer import FORMATS

EXIT_CODES: Final = (
    "0 done, 1 a check, verification or comparison failed, 2 a mistake in the spec, the command line or the environment, "
    "3 the command failed, 130 or 143 stopped by a signal"
)
"""The default of commands without exit codes of their own."""
_WIDTH: Final = 100
_FILES: Final = {"spec", "specs", "file", "path", "directory", "data", "out", "outcome", "docs", "export", "dir"}
"""Arguments that name files or directories."""
_COMPLETED: Final = {
    "bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f", "fish": "(__fish_complete_path (commandline -ct))",
    "powershell": "_shtab_powershell_compgen_files",
}  # fmt: skip
"""How each shell completes a file, for shtab."""


def help_page(description: str, *examples: str, codes: str = EXIT_CODES) -> dict[str, Any]:
    """Return arguments of ``add_parser``: the wrapped description, then the examples verbatim and the exit codes."""
    shown = ["examples:", *(f"  {e}" if e else "" for e in examples), ""] if examples else []
    return {
        "description": textwrap.fill(description, _WIDTH),
        "epilog": "\n".join([*shown, textwrap.fill(f"exit codes: {codes}", _WIDTH)]),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


class UsageError(Exception):
    """Arguments that ``parser`` does not accept."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.parser = parser
        self.message = message


class Parser(argparse.ArgumentParser):
    """A parser that raises ``UsageError``."""

    def error(self, message: str) -> Any:
        """Raise UsageError."""
        raise UsageError(self, message)


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all commands below ``parser``, in order."""
    below = [p for a in parser._actions if isinstance(a, argparse._SubParsersAction) for p in a.choices.values()]
    for p in below:
        yield from leaves(p)
    if not below:
        yield parser


def complete(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` to every command below ``parser`` without one, and mark the arguments that complete to files."""
    for p in leaves(parser):
        for action in p._actions:
            if action.dest in _FILES:
                action.complete = _COMPLETED  # type: ignore[attr-defined]
        if "--format" not in p._option_string_actions:
            p.add_argument("--format", choices=FORMATS, default="text", help="json: one document on stdout (default: %(default)s)")


def asks_json(argv: list[str]) -> bool:
    """Return whether arguments that do not parse request JSON."""
    return "--format=json" in argv or ("--format", "json") in pairwise(argv)
