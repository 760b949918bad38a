"""The parser of all commands: help pages, usage errors, ``--format`` and completion of file names."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from skyband.framework.base.errors import did_you_mean, printable
from skyband.framework.settings.spark import SparkOptions, set_process_options
from skyband.jobs.answer import FORMATS

EXIT_CODES: Final = (
    "0 done, 1 a check, verification or comparison failed, 2 a mistake in the spec, the command line or the environment, "
    "3 the command failed, 130, 143 or 129 stopped by a signal"
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
_SubParsers: Final = argparse._SubParsersAction


def help_page(description: str, *examples: str, codes: str = EXIT_CODES) -> dict[str, Any]:
    """Return arguments of ``add_parser``: the wrapped description, then the examples verbatim and the exit codes."""
    shown = ["examples:", *(f"  {e}" if e else "" for e in examples), ""] if examples else []
    return {
        "description": textwrap.fill(description, _WIDTH),
        "epilog": "\n".join([*shown, textwrap.fill(f"exit codes: {codes}", _WIDTH)]),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }


class UsageError(Exception):
    """Arguments that ``parser`` does not accept. ``message``: as it may be shown on a terminal."""

    def __init__(self, parser: argparse.ArgumentParser, message: str) -> None:
        super().__init__(message)
        self.parser = parser
        self.message = printable(message)


class Parser(argparse.ArgumentParser):
    """A parser that raises ``UsageError``, with a guess of what a misspelled command, choice or option means."""

    def error(self, message: str) -> Any:
        """Raise UsageError."""
        raise UsageError(self, message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the parsed arguments. Raises UsageError, which names the option that an unknown one probably means."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._option_meant(parsed, unknown)}")
        return parsed

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), known) or f"choose from {', '.join(known)}"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r} ({hint})")

    def _option_meant(self, parsed: argparse.Namespace, unknown: Sequence[str]) -> str:
        """Return a hint for the first unknown option, from those of the command that was given; "" if none resembles it."""
        command: argparse.ArgumentParser = self
        while (sub := next((a for a in command._actions if isinstance(a, _SubParsers)), None)) is not None:
            chosen = getattr(parsed, sub.dest, None)
            if chosen not in sub.choices:
                break
            command = sub.choices[chosen]
        options = [o for p in leaves(command) for o in p._option_string_actions if o.startswith("--")]
        for word in unknown:
            if word.startswith("--") and (hint := did_you_mean(word.partition("=")[0], options)) is not None:
                return f" ({hint})"
        return ""


class GroupedParser(Parser):
    """A parser whose help lists its commands by task. ``groups``: title to names of commands."""

    def __init__(self, groups: Mapping[str, Sequence[str]], **about: Any) -> None:
        super().__init__(**about)
        self._groups = groups

    def format_help(self) -> str:
        """Return the help page: usage, description, one section of commands for each task, options, exit codes."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, [])
        formatter.add_text(self.description)
        commands = {a.dest: a for group in self._actions if isinstance(group, _SubParsers) for a in group._choices_actions}
        for title, names in self._groups.items():
            formatter.start_section(title)
            formatter.add_arguments([commands[name] for name in names if name in commands])
            formatter.end_section()
        formatter.start_section("Options")
        formatter.add_arguments([a for a in self._actions if not isinstance(a, _SubParsers)])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all commands below ``parser``, in order."""
    below = [p for a in parser._actions if isinstance(a, _SubParsers) for p in a.choices.values()]
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


# Options that several commands share: ``--master`` and ``--conf`` (where Spark runs) and ``--profile`` (which values a spec takes).


def add_spark_options(p: argparse.ArgumentParser) -> None:
    """Add ``--master`` and ``--conf``."""
    said = "where Spark runs: local[N], spark://HOST:PORT, ... (default: SKYBAND_MASTER, skyband.toml, or local[*])"
    p.add_argument("--master", metavar="URL", help=said)
    said = "Spark setting; may be repeated (put secrets into SKYBAND_CONF or skyband.toml)"
    p.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help=said)


def choose_spark(args: argparse.Namespace) -> None:
    """Set the Spark settings of the process from the arguments. Raises SkybandError SKY-E610 or SKY-E611."""
    set_process_options(SparkOptions(args.master, tuple(args.conf), getattr(args, "spark_alone", False)))


class SpecParser(Parser):
    """A parser whose command takes ``--profile`` if it takes a spec."""

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        """Add an argument, and ``--profile`` before ``spec``."""
        if names[:1] == ("spec",):
            said = "profile of the spec to apply (default: SKYBAND_PROFILE, or none)"
            super().add_argument("--profile", metavar="NAME", help=said)
        return super().add_argument(*names, **about)


def choose_profile(args: argparse.Namespace) -> None:
    """Apply the requested profile to every spec that the command reads and to every process that it starts."""
    if getattr(args, "profile", None) is not None:
        from skyband.framework.spec.parsing.assemble import PROFILE

        os.environ[PROFILE] = args.profile
