"""What a look found: a row of table ``checks``, and what is told of it."""

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
"""Values that do not meet an expectation, of those that are stored and shown."""
OWN: Final = "skyband_"
"""Begins the names of rules over runs and of invariants, which are no expectations of the library's."""
BROKEN: Final = "skyband_result_"
"""Begins the names of what always holds of results."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One look at a table. ``arguments`` is JSON as it may be stored; ``first``: the first batch looked at, None: the whole table."""

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
        """The row of ``checks``."""
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
    """The rows of ``checks`` that did not succeed, of these severities (any, if none is named)."""
    return [r for r in rows if not r["success"] and (not severities or r["severity"] in severities)]


def error_of(row: Mapping[str, Any]) -> SkybandError:
    """A row that did not succeed, as an error: SKY-E500, of rules over runs SKY-E504, of what always holds SKY-E503."""
    if row["expectation"].startswith(BROKEN):
        hint = "a defect, or a table that was changed by another hand: skyband run SPEC --rebuild-results, skyband verify SPEC; report it"
        return SkybandError("SKY-E503", f"table {row['table_name']} breaks {said(row)}", hint=hint)
    if row["expectation"].startswith(OWN):
        return SkybandError("SKY-E504", f"{row['severity']} rule over runs broken: {said(row)}")
    return SkybandError("SKY-E500", f"{row['severity']} check failed on table {row['table_name']}: {said(row)}")


def said(row: Mapping[str, Any]) -> str:
    """A row in words: what was asked, and what was found."""
    asked = f"{row['expectation']} {row['arguments']}"
    if row["error"]:
        return f"{asked}: {row['error']}"
    if row["unexpected"]:
        some = f", such as {row['examples']}" if row["examples"] else ""
        value = "" if row["observed"] is None else f"found {row['observed']}; "
        of = None if row["rows_checked"] is None else counted(row["rows_checked"], "row")
        bad = counted(row["unexpected"], "row") if of is None else f"{row['unexpected']:,} of {of}"
        return f"{asked}: {value}{bad}{some}"
    return asked if row["observed"] is None else f"{asked}: found {row['observed']}"
