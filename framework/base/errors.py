"""The errors that users see: a stable code, a message, a position in a file and a hint.

Rendered as::

    flights.yaml:14:7 SKY-E110 unknown field 'watermerk'
      event_time: {column: ts, watermerk: 1 hour}
                               ^^^^^^^^^
      hint: did you mean 'watermark'?

``CODES`` lists every code; a test checks that the project uses no other. E1xx: the spec; E2xx: the environment and the command line;
E3xx: runs; E4xx: tables; E5xx: data quality; E9xx: defects of Skyband itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skyband.framework.base.counts import counted
from skyband.framework.base.redaction import redact_for_terminal, redact_values
from skyband.operators.spelling import closest

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")

CODES: Final[dict[str, str]] = {
    # Reading the file
    "SKY-E100": "the spec file cannot be read",
    "SKY-E101": "YAML syntax",
    "SKY-E102": "the same key twice in one mapping",
    "SKY-E103": "the file is too large, nested too deeply, or its aliases expand too far",
    "SKY-E104": "a YAML trap: the value must be quoted",
    "SKY-E105": "the file is empty or not a mapping",
    "SKY-E106": "an environment variable is not set",
    "SKY-E107": "a malformed ${NAME} reference",
    "SKY-E108": "an included file cannot be used",
    "SKY-E109": "an unknown profile, or an unused parameter",
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
    "SKY-E119": "a feature or setting that specs may not use",
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
    "SKY-E129": "a warning: terms whose combination is not monotone",
    # Expressions and SQL
    "SKY-E130": "error in an expression",
    "SKY-E131": "SQL syntax",
    "SKY-E132": "SQL names an unknown column",
    "SKY-E133": "SQL calls a forbidden function",
    "SKY-E134": "SQL is not deterministic",
    "SKY-E135": "SQL that does not work row by row (aggregate, window, subquery)",
    "SKY-E136": "the type of a derived column is not known",
    "SKY-E137": "the local engine cannot run the job",
    # Order of rows
    "SKY-E139": "a warning: a change feed without columns that order changes of one instant",
    # Windows and queries
    "SKY-E140": "a query's window is larger than the job's",
    "SKY-E141": "a query's window is of a kind the job's window does not have",
    "SKY-E142": "query type or option not available in this version",
    "SKY-E143": "a window too large or too small to use",
    "SKY-E144": "an error in a table of queries",
    "SKY-E145": "a table of queries cannot be read",
    # Plan
    "SKY-E150": "the spec no longer fits the state of an earlier run",
    "SKY-E151": "invalid operator configuration",
    "SKY-E152": "the plan cannot be built",
    # Environment and command line
    "SKY-E200": "something the job needs is not installed",
    "SKY-E201": "bad command line argument",
    "SKY-E202": "a file already exists",
    "SKY-E203": "a file or directory cannot be written",
    "SKY-E204": "a plugin cannot be used",
    "SKY-E205": "the sink, or a table directory in it, belongs to something else than the job",
    "SKY-E206": "the source does not exist, or its files lack the spec's columns",
    "SKY-E207": "the source table was rewritten, recreated or truncated, so the job cannot continue",
    "SKY-E208": "the log of a Delta table names files outside of the table",
    "SKY-E209": "only the version that began a batch can complete it",
    # Running
    "SKY-E300": "the run failed",
    "SKY-E301": "the source cannot be read",
    "SKY-E302": "another run of this job is active",
    "SKY-E303": "the checkpoint cannot be used",
    "SKY-E304": "tables lost committed data, or another writer changed them",
    "SKY-E305": "Spark or one of its workers died",
    "SKY-E306": "an operating-system failure: full disk, quota, read-only disk, too many open files, too little memory, broken device",
    "SKY-E307": "an earlier version wrote the tables, with other column names",
    "SKY-E308": "the source's columns differ from those of the job's first run",
    "SKY-E309": "a later version wrote the job file",
    "SKY-E320": "a look-up table has two rows for one key",
    "SKY-E321": "a look-up table cannot be read, or is too large",
    # Tables
    "SKY-E400": "a table cannot be read",
    "SKY-E401": "a table cannot be written",
    "SKY-E402": "the tables do not hold the requested data",
    "SKY-E403": "verification found a difference",
    "SKY-E404": "an unsupported or forbidden statement",
    # Data quality
    "SKY-E500": "a data quality check failed",
    "SKY-E501": "more rows were rejected than the spec allows",
    "SKY-E502": "a row breaks a rule of severity fail: the run stopped",
    "SKY-E503": "a result violates an invariant",
    "SKY-E504": "a rule over runs is broken",
    "SKY-E505": "a query could not use more of its rows than the spec allows",
    "SKY-E506": "the newest rows of a batch stand apart from the others: the run stopped",
    # Generations of a job
    "SKY-E510": "files that the job read no longer exist, so a rebuild would lack their rows",
    "SKY-E511": "a new generation failed its checks and was not swapped in",
    "SKY-E512": "the directory to remove is not the sink of a job",
    "SKY-E513": "a swap of generations was interrupted",
    "SKY-E518": "a link, a pipe or a device in a sink",
    # Queries added to a job
    "SKY-E580": "an addition of an edited spec cannot be backfilled",
    "SKY-E581": "the source no longer gives the rows that the job has accepted",
    "SKY-E590": "a file of live queries has something else than queries and scoring functions, or cannot be read",
    "SKY-E591": "a live query cannot be added or removed",
    # Tests of a spec
    "SKY-E530": "a test of the spec cannot be run",
    "SKY-E531": "a feature that needs Spark",
    "SKY-E532": "more of the source's first rows would be rejected than the spec allows",
    # Notifications
    "SKY-E560": "a notification of a run's end was not delivered",
    # Spark settings
    "SKY-E610": "invalid Spark settings file",
    "SKY-E611": "an unknown or forbidden JVM setting",
    "SKY-E612": "the Python environment of executors differs from the driver's",
    "SKY-E613": "executors do not see the files that the driver sees",
    "SKY-E614": "the cluster does not answer or has no resources for the job",
    "SKY-E615": "this Python environment cannot be packed for a cluster",
    "SKY-E620": "a file that an executor wrote is missing",
    # Object storage
    "SKY-E630": "object storage cannot be used",
    "SKY-E631": "another run took over the sink while this run was paused",
    "SKY-E632": "a command that does not work on object storage",
    # The Kafka sink
    "SKY-E640": "committed changes could not be sent to Kafka",
    # Rebucketing
    "SKY-E650": "the state cannot be split as the edited spec requires",
    # Alerts
    "SKY-E660": "the file of channels cannot be used",
    "SKY-E661": "a channel that is not configured for the job",
    "SKY-E662": "invalid message of an alert",
    "SKY-E663": "an alert that is never due",
    # Metrics
    "SKY-E675": "the port of the metrics cannot be listened on",
    # Catalogs
    "SKY-E680": "not a name that a catalog takes",
    "SKY-E681": "the person who runs the job has not configured the catalog",
    "SKY-E682": "a name in the catalog is taken by something that is not the job's",
    "SKY-E683": "a source cannot be found in its catalog",
    # Edges
    "SKY-E701": "not a message for an edge filter, or one of another job",
    "SKY-E702": "not the saved state of an edge filter",
    "SKY-E703": "a row that an edge filter cannot take",
    "SKY-E704": "a job that edges cannot filter for",
    # Defects
    "SKY-E900": "a defect in Skyband",
}
"""The meaning of every code, in one line."""


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A position in a text file: 1-based line and column, length of the marked text, and the line itself with secrets masked."""

    file: str
    line: int
    col: int
    length: int = 1
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


class SkybandError(Exception):
    """One error for a user. ``code`` is a key of ``CODES``; ``hint`` says what to do."""

    def __init__(self, code: str, message: str, hint: str | None = None, where: Where | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.where = where

    def render(self, show: Callable[[str], str] | None = None) -> str:
        """Return the error as text: head line, source line with a caret, hint. No trailing newline.

        ``show`` (default: ``redacted``) transforms everything but the file's name and its line, which the user wrote.
        """
        show = show or redacted
        head = f"{self.code} {show(self.message)}"
        lines = [f"{printable(str(self.where))} {head}" if self.where else head]
        if self.where is not None and self.where.text is not None:
            lines += _marked_line(self.where)
        if self.hint:
            lines.append(f"  hint: {show(self.hint)}")
        return "\n".join(lines)

    def plain(self) -> dict[str, Any]:
        """Return the error as JSON data: ``code``, ``message``, ``hint`` and ``where`` (file, line, column); missing parts are None."""
        where = {"file": redacted(self.where.file), "line": self.where.line, "column": self.where.col} if self.where else None
        return {"code": self.code, "message": redacted(self.message), "hint": redacted(self.hint) if self.hint else None, "where": where}

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[type[SkybandError], tuple[str, str, str | None, Where | None]]:
        return (SkybandError, (self.code, self.message, self.hint, self.where))


class SpecErrors(Exception):
    """All errors found in one spec, in the order of the file."""

    def __init__(self, errors: Iterable[SkybandError]) -> None:
        self.errors: tuple[SkybandError, ...] = tuple(sort_errors(errors))
        super().__init__(f"{counted(len(self.errors), 'error')}")

    def render(self) -> str:
        """Return all errors as text, separated by blank lines."""
        return "\n\n".join(e.render() for e in self.errors)

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[type[SpecErrors], tuple[tuple[SkybandError, ...]]]:
        return (SpecErrors, (self.errors,))


def redacted(text: str) -> str:
    """Return ``text`` without the spec's environment values and without control characters, so that anyone may see it. O(length)."""
    return printable(redact_values(text))


def redacted_for_terminal(text: str) -> str:
    """Return ``text`` redacted for the caller's own terminal, where values that are only paths stay readable. O(length)."""
    return printable(redact_for_terminal(text))


def printable(text: str) -> str:
    r"""Return ``text`` with control characters, bidirectional marks and lone surrogates spelled as in ``\u001b``.

    Line breaks and tabs stay. JSON stays the same JSON. O(length).
    """
    return _CONTROL.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def sort_errors(errors: Iterable[SkybandError]) -> list[SkybandError]:
    """Sort errors by position, those without one last, and drop repeated (position, code, message)."""
    unique = {(e.where, e.code, e.message): e for e in errors}
    return sorted(unique.values(), key=_position_key)


def _position_key(e: SkybandError) -> tuple[bool, str, int, int, str, str]:
    w = e.where
    return (w is None, w.file if w else "", w.line if w else 0, w.col if w else 0, e.code, e.message)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the hint ``did you mean 'x'?`` for the closest of ``known``, or None if nothing is close. O(len(known))."""
    close = closest(name, known)
    return f"did you mean {close!r}?" if close is not None else None


def one_of(names: Sequence[str], limit: int = 12) -> str:
    """Join names as ``a, b or c`` for a message: at most ``limit`` names, then ``...``."""
    if len(names) > limit:
        return ", ".join(names[:limit]) + ", ..."
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1] if names else "(none)"


def _marked_line(where: Where, width: int = 132) -> list[str]:
    text = where.text or ""
    start = where.col - 1
    cut = 0
    if len(text) > width:
        # Cut a long line around the position, so that the caret stays on the screen.
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
    """Return the same error at another position."""
    return SkybandError(error.code, error.message, error.hint, where)
