"""The outcome of a check: its row in table ``checks``, and its error message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.redaction import redact_values

EXAMPLES: Final = 5
"""The most unexpected values that are stored and shown."""
OWN: Final = "skyband_"
"""Prefix of the names of rules over runs and of invariants, which are not expectations of Great Expectations."""
BROKEN: Final = "skyband_result_"
"""Prefix of the names of invariants of results."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one check. ``arguments``: JSON without secrets. ``first``: the first batch checked, None: the whole table."""

    table: str
    version: int | None
    first: int | None
    expectation: str
    arguments: str
    severity: Literal["critical", "warning", "info"]
    success: bool
    observed: Any = None
    rows: int | None = None
    unexpected: int | None = None
    percent: float | None = None
    examples: Sequence[Any] = ()
    error: str | None = None
    ms: float = 0.0

    def row(self, run_id: str, batch_id: int) -> dict[str, Any]:
        """Return the row of ``checks``."""
        return {
            "run_id": run_id, "batch_id": batch_id, "first_batch_id": self.first, "checked_at": datetime.now(UTC),
            "table_name": self.table, "table_version": self.version, "expectation": self.expectation, "arguments": self.arguments,
            "severity": self.severity, "success": self.success, "observed": _json(self.observed), "rows_checked": self.rows,
            "unexpected": self.unexpected, "unexpected_percent": self.percent,
            "examples": _json(list(self.examples)[:EXAMPLES] or None), "error": redact_values(self.error) if self.error else None,
            "check_ms": self.ms,
        }  # fmt: skip


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True, default=str)


def failed(rows: Sequence[Mapping[str, Any]], *severities: str) -> list[Mapping[str, Any]]:
    """Return the rows of ``checks`` that failed, of these severities (default: any)."""
    return [r for r in rows if not r["success"] and (not severities or r["severity"] in severities)]


def error_of(row: Mapping[str, Any]) -> SkybandError:
    """Return a failed row as an error: SKY-E500, SKY-E504 for rules over runs, SKY-E503 for invariants."""
    if row["expectation"].startswith(BROKEN):
        hint = "the table was changed, or this is a defect: run skyband run SPEC --rebuild-results, then skyband verify SPEC, and report it"
        return SkybandError("SKY-E503", f"table {row['table_name']} violates {describe(row)}", hint=hint)
    if row["expectation"].startswith(OWN):
        return SkybandError("SKY-E504", f"{row['severity']} rule over runs failed: {describe(row)}")
    return SkybandError("SKY-E500", f"{row['severity']} check failed on table {row['table_name']}: {describe(row)}")


def describe(row: Mapping[str, Any]) -> str:
    """Return a row in words: the check and what it found."""
    check = f"{row['expectation']} {row['arguments']}"
    if row["error"]:
        return f"{check}: {row['error']}"
    if row["unexpected"]:
        some = f", such as {row['examples']}" if row["examples"] else ""
        value = "" if row["observed"] is None else f"found {row['observed']}; "
        of = None if row["rows_checked"] is None else counted(row["rows_checked"], "row")
        bad = counted(row["unexpected"], "row") if of is None else f"{row['unexpected']:,} of {of}"
        return f"{check}: {value}{bad}{some}"
    return check if row["observed"] is None else f"{check}: found {row['observed']}"
