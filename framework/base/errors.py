"""Errors a user sees: a stable code, what is wrong, where, and what to do about it.

Rendered as::

    flights.yaml:14:7 SKY-E110 unknown field 'watermerk'
      event_time: {column: ts, watermerk: 1 hour}
                               ^^^^^^^^^
      hint: did you mean 'watermark'?

Codes are listed in ``CODES``, the one registry; a test checks that every code used in the project is in it. E1xx: the spec; E2xx:
the environment and the command line; E3xx: running; E4xx: tables; E5xx: data quality; E9xx: defects of Skyband itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.redaction import but_places, redacted
from skyband.operators.spelling import closest

_STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")

CODES: Final[dict[str, str]] = {
    # Reading the file
    "SKY-E100": "the spec file cannot be read",
    "SKY-E101": "YAML syntax",
    "SKY-E102": "the same key twice in one mapping",
    "SKY-E103": "the file is too large, too deep, or its aliases expand to too much",
    "SKY-E104": "a YAML trap: the value must be quoted",
    "SKY-E105": "the file is empty or not a mapping",
    "SKY-E106": "an environment variable is not set",
    "SKY-E107": "a malformed ${NAME} reference",
    "SKY-E108": "a file that the spec includes cannot be used",
    "SKY-E109": "an unknown profile, or a parameter that is of no use",
    # Shape of the spec
    "SKY-E110": "unknown field",
    "SKY-E111": "missing field",
    "SKY-E112": "wrong type of value",
    "SKY-E113": "not one of the allowed values",
    "SKY-E114": "value out of range",
    "SKY-E115": "not a duration or size",
    "SKY-E116": "not a usable name",
    "SKY-E117": "fields that do not go together",
    "SKY-E118": "not a cron expression",
    "SKY-E119": "something that a spec may not ask for",
    # Names
    "SKY-E120": "unknown column",
    "SKY-E121": "unknown scoring function",
    "SKY-E122": "unknown table",
    "SKY-E123": "two table names collide",
    "SKY-E124": "two result columns collide",
    "SKY-E125": "the same column twice",
    "SKY-E126": "a column of the wrong type for its use",
    "SKY-E127": "unknown sets of tokens",
    "SKY-E128": "unknown query",
    # Expressions and SQL
    "SKY-E130": "error in an expression",
    "SKY-E131": "SQL syntax",
    "SKY-E132": "SQL names an unknown column",
    "SKY-E133": "SQL calls a forbidden function",
    "SKY-E134": "SQL is not deterministic",
    "SKY-E135": "SQL that does not work row by row (aggregate, window, subquery)",
    "SKY-E136": "the type of a derived column is not known",
    # Windows and queries
    "SKY-E140": "a query's window is larger than the job's",
    "SKY-E141": "a query's window is of a kind the job's window does not have",
    "SKY-E142": "query type or option not available in this version",
    "SKY-E143": "a window too large or too small to use",
    "SKY-E144": "a mistake in a table of queries",
    "SKY-E145": "a table of queries cannot be read",
    # Plan
    "SKY-E150": "the spec no longer fits the state of an earlier run",
    "SKY-E151": "the operator refuses its configuration",
    "SKY-E152": "the plan cannot be built",
    # Environment and command line
    "SKY-E200": "something the job needs is not installed",
    "SKY-E201": "bad command line argument",
    "SKY-E202": "a file is in the way",
    "SKY-E203": "a file or directory cannot be written",
    "SKY-E204": "a plugin cannot be used",
    "SKY-E205": "the sink, or a directory with the name of a table in it, is not the job's own",
    "SKY-E206": "the source is not there, or its files do not have the spec's columns",
    "SKY-E207": "the source's table was rewritten, created anew or cut short: the job cannot go on with it",
    # Running
    "SKY-E300": "the run failed",
    "SKY-E301": "the source cannot be read",
    "SKY-E302": "another run of this job is active",
    "SKY-E303": "the checkpoint cannot be used",
    "SKY-E304": "tables have lost what was committed, or another writer has changed them",
    "SKY-E305": "Spark, or a worker of it, died",
    "SKY-E306": "the disk is full, a quota is used up, the file system is read-only, too many files are open, or a device fails",
    "SKY-E307": "the tables are of an earlier version, whose columns have other names",
    "SKY-E308": "the source's columns are not those of the job's first run",
    # Tables
    "SKY-E400": "a table cannot be read",
    "SKY-E401": "a table cannot be written",
    "SKY-E402": "the tables do not hold what was asked for",
    "SKY-E403": "verification found a difference",
    "SKY-E404": "a statement is not understood, or asks for what it may not have",
    # Data quality
    "SKY-E500": "a data quality check failed",
    "SKY-E501": "more rows were rejected than the spec allows",
    "SKY-E502": "a row breaks a rule of severity fail: the run stopped",
    "SKY-E503": "a result breaks what always holds",
    "SKY-E504": "a rule over runs is broken",
    "SKY-E505": "a query could not use more of its rows than the spec allows",
    # Generations of a job
    "SKY-E510": "files that the job has read are gone: a rebuild would not have their rows",
    "SKY-E511": "a new generation did not pass its gate, and was not swapped in",
    "SKY-E512": "what would be removed is no job's sink",
    "SKY-E513": "a swap of generations was interrupted",
    "SKY-E518": "a link, a pipe or a device in a sink",
    # Queries that come to a job
    "SKY-E580": "what an edited spec adds cannot be made by itself",
    "SKY-E581": "the source no longer gives the rows that the job has accepted",
    # Tests of a spec
    "SKY-E530": "a test of the spec cannot be run as it is written",
    "SKY-E531": "something that only Spark can do",
    "SKY-E532": "of the source's first rows, more would be rejected than the spec allows",
    # Telling others
    "SKY-E560": "a receiver was not told how a run ended",
    # Spark, as who runs a job has it started
    "SKY-E610": "the file of engine settings cannot be used",
    "SKY-E611": "a JVM setting that is none, or may not be changed",
    "SKY-E612": "the environment of executors is not the driver's",
    "SKY-E613": "executors do not see what the driver sees",
    "SKY-E614": "the cluster does not answer, or has nothing for the job",
    "SKY-E615": "this Python environment cannot be packed for a cluster",
    "SKY-E620": "a file that an executor has written is not there",
    # Object storage
    "SKY-E630": "object storage cannot be used",
    "SKY-E631": "the sink was taken over while this run stood still",
    "SKY-E632": "not for a sink on object storage",
    # Others that changes are sent to
    "SKY-E640": "changes that are in the tables could not be sent to Kafka",
    # A job that grows
    "SKY-E650": "the state cannot be divided as the edited spec wants it",
    "SKY-E651": "the state cannot be moved to another number of tasks",
    # Defects
    "SKY-E900": "a defect in Skyband",
}
"""Every code and what it is about, in one line."""


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A place in a text file: 1-based line and column, length of the marked text, and the line itself (secrets already masked)."""

    file: str
    line: int
    col: int
    length: int = 1
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


class SkybandError(Exception):
    """One thing that went wrong, told to a human. ``code`` is a key of ``CODES``; ``hint`` says what to do."""

    def __init__(self, code: str, message: str, hint: str | None = None, where: Where | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.where = where

    def render(self, show: Callable[[str], str] | None = None) -> str:
        """The error as text: head line, source line with a caret under the place, hint. No trailing newline.

        The name of the file and its line are what the user wrote; everything else goes through ``show`` (default: ``told``).
        """
        show = show or told
        head = f"{self.code} {show(self.message)}"
        lines = [f"{printable(str(self.where))} {head}" if self.where else head]
        if self.where is not None and self.where.text is not None:
            lines += _marked_line(self.where)
        if self.hint:
            lines.append(f"  hint: {show(self.hint)}")
        return "\n".join(lines)

    def plain(self) -> dict[str, Any]:
        """The error for machines: ``code``, ``message``, ``hint`` and ``where`` (file, line, column), None where there is none."""
        where = {"file": told(self.where.file), "line": self.where.line, "column": self.where.col} if self.where else None
        return {"code": self.code, "message": told(self.message), "hint": told(self.hint) if self.hint else None, "where": where}

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[type[SkybandError], tuple[str, str, str | None, Where | None]]:
        return (SkybandError, (self.code, self.message, self.hint, self.where))


class SpecErrors(Exception):
    """Every mistake found in one spec, in the order of the file."""

    def __init__(self, errors: Iterable[SkybandError]) -> None:
        self.errors: tuple[SkybandError, ...] = tuple(sort_errors(errors))
        super().__init__(f"{counted(len(self.errors), 'error')}")

    def render(self) -> str:
        """All errors, a blank line between."""
        return "\n\n".join(e.render() for e in self.errors)

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[type[SpecErrors], tuple[tuple[SkybandError, ...]]]:
        return (SpecErrors, (self.errors,))


def told(text: str) -> str:
    """``text`` as it may be shown to anyone: no value of an environment variable of the spec, nothing that steers a terminal. O(length)."""
    return printable(redacted(text))


def shown(text: str) -> str:
    """``told`` on the terminal of whoever runs the command: paths that are nothing else can be opened there. O(length)."""
    return printable(but_places(text))


def printable(text: str) -> str:
    r"""``text`` as a terminal may have it: what steers one (escapes, changes of direction) or cannot be encoded is spelled ``\u001b``.

    Lines stay lines, and a tab a tab. What is JSON stays the same JSON. O(length).
    """
    return _STEERING.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def sort_errors(errors: Iterable[SkybandError]) -> list[SkybandError]:
    """Errors by place (those without a place last), each (place, code, message) once."""
    unique = {(e.where, e.code, e.message): e for e in errors}
    return sorted(unique.values(), key=_place_key)


def _place_key(e: SkybandError) -> tuple[bool, str, int, int, str, str]:
    w = e.where
    return (w is None, w.file if w else "", w.line if w else 0, w.col if w else 0, e.code, e.message)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The hint ``did you mean 'x'?`` for the closest of ``known``, or None if nothing is close. O(len(known))."""
    close = closest(name, known)
    return f"did you mean {close!r}?" if close is not None else None


def one_of(names: Sequence[str], limit: int = 12) -> str:
    """``a, b or c`` for a message; at most ``limit`` names, then ``...``."""
    if len(names) > limit:
        return ", ".join(names[:limit]) + ", ..."
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1] if names else "(none)"


def _marked_line(where: Where, width: int = 132) -> list[str]:
    text = where.text or ""
    start = where.col - 1
    cut = 0
    if len(text) > width:
        # A long line is cut around the place, so that the caret stays on the screen.
        cut = max(0, min(start - width // 3, len(text) - width))
        text = text[cut : cut + width]
    start -= cut
    text = "".join(" " if c == "\t" else c if c.isprintable() else "?" for c in text)
    body = text.rstrip()
    indent = len(body) - len(body.lstrip())
    shift = min(indent, max(start, 0))
    marks = max(1, min(where.length, len(body) - start))
    return ["  " + body[shift:], "  " + " " * (start - shift) + "^" * marks]


def relocate(error: SkybandError, where: Where | None) -> SkybandError:
    """The same error at another place."""
    return SkybandError(error.code, error.message, error.hint, where)


def widen(where: Where, length: int) -> Where:
    """The same place, marking ``length`` characters."""
    return replace(where, length=max(1, length))
