"""The ``skyband`` command: every sub-command is a module of a package beside this file."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn, TextIO

from skyband import __version__
from skyband.framework.base.errors import SkybandError, SpecErrors, redacted
from skyband.framework.base.python_path import leave_working_directory
from skyband.framework.console.lines import Lines, lines
from skyband.framework.streaming.spark.failures import DEFECT, exit_code, failure
from skyband.framework.streaming.spark.jvm import SPARK_JVM, Stray
from skyband.framework.streaming.spark.log import close_log
from skyband.framework.streaming.spark.stop_signal import SIGNALLED, STOP
from skyband.jobs.answer import Answer, refusal, show
from skyband.jobs.outcome import Outcome
from skyband.jobs.parser import EXIT_CODES, GroupedParser, SpecParser, UsageError, asks_json, choose_profile, complete

GROUPS = {
    "Write a spec": {
        "init": "authoring", "validate": "authoring", "preview": "authoring", "test": "authoring", "explain": "authoring",
        "graph": "authoring", "render": "authoring", "schema": "authoring",
    },
    "Run jobs": {
        "run": "running", "submit": "running", "airflow": "setup", "status": "reading", "history": "reading", "metrics": "reading",
    },
    "Read results": {
        "query": "reading", "sql": "reading", "why": "reading", "report": "reading", "serve": "reading", "views": "reading",
        "edge": "reading",
    },
    "Check results": {
        "verify": "reading", "quality": "reading", "rejected": "reading", "replay_rejected": "running", "whatif": "reading",
    },
    "Change and maintain jobs": {
        "plan": "running", "queries": "running", "rebuild": "running", "maintain": "running", "reset": "running",
    },
    "Set up": {"demo": "authoring", "warm": "setup", "completion": "setup"},
}  # fmt: skip
"""Each command and the package with its module, by the task that it serves, in the order of ``skyband --help``."""

COMMANDS = {name: package for group in GROUPS.values() for name, package in group.items()}
"""Each command, and the package with its module."""

LIVE = ("run", "submit", "rebuild", "demo")
"""Commands that run a job: they show progress on a terminal, and their JSON is the run's outcome."""


SERVING = ("serve",)
"""Commands that wait for clients."""


def command_line(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of ``skyband``, only with the command that ``argv`` begins with, if it is one: each is a module to import."""
    parser = GroupedParser(
        {title: [name.replace("_", "-") for name in group] for title, group in GROUPS.items()},
        prog="skyband",
        description="Continuous queries over sliding windows, exact per event, on Spark.",
        epilog=f"exit codes: {EXIT_CODES}; `skyband COMMAND --help` has examples",
    )
    parser.add_argument("--version", action="version", version=f"skyband {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=SpecParser)
    for name in argv[:1] if argv and argv[0] in COMMANDS else COMMANDS:
        importlib.import_module(f"skyband.jobs.{COMMANDS[name]}.{name}").add_parser(subparsers)
    complete(parser)
    return parser


class _Command:
    """One command and its output. ``alone``: the process runs only this command and ends with it."""

    def __init__(self, stderr: TextIO, alone: bool = False) -> None:
        self.alone = alone
        self.stderr = stderr
        self.lines = lines("text", stderr)
        self.outcome = Outcome(None)
        self.json = False
        self.answered = False
        self.code: int | None = None
        """The exit code, once the outcome has been written."""

    def run(self, argv: list[str]) -> int:
        """Run the command and return its exit code. Raises SystemExit for unusable arguments."""
        try:
            if any("\0" in word for word in argv):
                raise SkybandError("SKY-E201", "an argument contains a NUL character")
            args = command_line(argv).parse_args(argv)
        except UsageError as e:
            if asks_json(argv):
                hint = f"{e.parser.prog} --help"
                show(Answer(refusal([SkybandError("SKY-E201", e.message, hint)]), None), "json")
            argparse.ArgumentParser.error(e.parser, e.message)
        except SkybandError as e:
            self.json, self.lines = asks_json(argv), lines("text", self.stderr)
            self.lines.errors([e])
            return self._ended(2)
        choose_profile(args)
        args.alone = self.alone
        self.json, live = args.format == "json", args.command in LIVE
        self.lines = args.lines = self._lines_for(args)
        self.outcome = args.recorded = Outcome(getattr(args, "outcome", None), wanted=self.json and live)
        return self._ended(self._run(args))

    def _run(self, args: argparse.Namespace) -> int:
        try:
            with contextlib.closing(self.lines):
                if not (self.lines.live or args.command in SERVING or getattr(args, "quiet", False)):
                    self.lines.doing = f"skyband {args.command} is working"
                    self.lines.show(lambda: self.lines.doing)
                answer = args.run(args)
            if not isinstance(answer, Answer):
                return int(answer)
            show(answer, args.format)
            self.answered = True
            return answer.code
        except SpecErrors as e:
            self.lines.errors(e.errors)
            return 2
        except Exception as e:
            return self._failed(e)

    def _lines_for(self, args: argparse.Namespace) -> Lines:
        form = getattr(args, "log_format", "text")
        if form == "text" and args.command in (*LIVE, "verify", "whatif", "why"):
            from skyband.framework.console.live import LiveLines, on_terminal

            if on_terminal(self.stderr):
                return LiveLines(self.stderr)
        # Progress lines are not part of a command's JSON.
        return lines(form, self.stderr, self.stderr if self.json else None)

    def stopped(self, number: int) -> int:
        """Report that a signal ended the command, and return the exit code.

        A command that only waits for receivers keeps the code that its outcome has.
        """
        return self.code if self.code is not None else self._ended(self._stopped(number))

    def _stopped(self, number: int) -> int:
        self.lines.stopped(number)
        return SIGNALLED + number

    def _ended(self, code: int) -> int:
        """Write the outcome and JSON errors, and notify receivers, as requested. Return ``code``."""
        if self.json and not self.answered:
            self.answered = True
            # The reader may be gone, or a signal handler may have interrupted a line (RuntimeError).
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                if self.outcome.wanted:
                    show(Answer(self.outcome.document(code, self.lines.failures), None), "json")
                elif self.lines.failures:
                    show(Answer(refusal(self.lines.failures), None), "json")
        try:
            self.outcome.write(code, self.lines.failures)
        except OSError as e:
            self.lines.errors([SkybandError("SKY-E203", f"--outcome {self.outcome.path} cannot be written: {e.strerror}")])
        self.code = code
        self.lines.errors(self.outcome.notify(code, tuple(self.lines.failures)))
        for text in self.outcome.tell_observers(code, tuple(self.lines.failures)):
            self.lines.tell("warning", "observers", f"WARNING: {text}")
        return code

    def _failed(self, e: Exception) -> int:
        shown = failure(e)
        if shown is None:
            # A service manager often signals all processes of a service: Spark has ended first.
            return self._stopped(STOP.signal or 0)
        if isinstance(e, BrokenPipeError) and shown.code == DEFECT:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        if os.environ.get("SKYBAND_DEBUG"):
            print(redacted(traceback.format_exc()), file=self.stderr)
        self.lines.errors([shown])
        return exit_code(shown)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 a check or verification failed, 2 a mistake of the user, 3 the run failed,
    4 too many rows were rejected, 130 and 143 stopped.

    Without ``argv`` the process runs only this command: it handles signals, owns stderr, ends the process, and does not return.
    """
    if argv is not None:
        return _Command(sys.stderr).run(argv)
    leave_working_directory()
    command = _Command(_own_stderr(), alone=True)
    # Output of libraries goes to Spark's log, so that stderr has only the command's own lines.
    with STOP.handled(lambda number: _leave(command.stopped(number))), contextlib.redirect_stderr(Stray(sys.stderr, SPARK_JVM)):
        _leave(command.run(sys.argv[1:]))


def _own_stderr() -> TextIO:
    """Return stderr with a descriptor of its own: while Spark starts, descriptor 2 is Spark's log."""
    with contextlib.suppress(OSError, ValueError):
        return open(os.dup(sys.stderr.fileno()), "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors)
    return sys.stderr


def _leave(code: int) -> NoReturn:
    """End Spark and the process, without waiting for threads.

    Spark's threads may still write to stderr while Python shuts down, which then aborts (exit code -6).
    """
    SPARK_JVM.end()
    close_log()
    for stream in (sys.stdout, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            if stream is not None:
                stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
