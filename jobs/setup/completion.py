"""``skyband completion``: print the script with which a shell completes commands, options and files without starting Python."""

from __future__ import annotations

import argparse
from typing import Final

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

SHELLS: Final = ("bash", "zsh", "fish", "tcsh", "powershell")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "completion",
        help="print a completion script for a shell",
        **help_page(
            "Print the script with which a shell completes commands, options and files. Write it again after an upgrade.",
            "skyband completion bash > ~/.local/share/bash-completion/completions/skyband",
            "skyband completion zsh > ~/.zsh/completions/_skyband",
            codes="0 done, 2 a mistake in the command line, or shtab is not installed",
        ),
    )
    p.add_argument("shell", choices=SHELLS)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the script. Raises SkybandError SKY-E200 without the library that writes it."""
    from skyband.framework.base.errors import SkybandError
    from skyband.jobs.cli import command_line

    try:
        import shtab
    except ImportError as e:
        raise SkybandError("SKY-E200", "completion needs the package shtab", hint="pip install shtab") from e
    script = shtab.complete(command_line(), args.shell)
    return Answer({"shell": args.shell, "script": script}, script, rows=True)
