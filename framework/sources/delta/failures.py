"""Rewords Spark's and Delta's errors about a Delta source: the table, the commit, and what to do."""

from __future__ import annotations

import re
from typing import Final

from skyband.framework.base.errors import SkybandError

CHANGED: Final = "SKY-E207"
_RENEW: Final = "skyband rebuild SPEC rebuilds all tables from what the source holds now; or run the job into a new sink.path"
_FOLLOW: Final = 'a job with options: {changes: "true"} follows a table whose rows change (docs/how-to/follow-a-delta-table.md)'


def failure(said: str, path: str | None) -> SkybandError | None:
    """Return the error ``said`` about the table at ``path``, None if it is about something else. SKY-E207: retrying cannot help."""
    table = f"the table {path}" if path else "the source's table"
    return _changed(said, table) or _gone(said, table, path) or _cannot_begin(said, table)


def _changed(said: str, table: str) -> SkybandError | None:
    if re.search(r"DELTA_SOURCE_(TABLE_)?IGNORE_(CHANGES|DELETE)|Detected (a data update|deleted data)", said):
        only_deleted = "IGNORE_DELETE" in said or "Detected deleted data" in said
        by = re.search(r"for example ([A-Z][A-Z ]*[A-Z]) \(", said)
        return _rows_changed(table, _version(said), only_deleted, by[1] if by else "")
    if "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE" in said:
        return _recreated(table)
    if re.search(r"DELTA_\w*SCHEMA_CHANGE|Detected schema change", said):
        text = f"the columns of {table} changed with commit {_version(said)}"
        return SkybandError("SKY-E301", text, hint=f"run the job again, which reads them by their new types; if that fails: {_RENEW}")
    return None


def changed(path: str, version: int, only_deleted: bool, by: str) -> SkybandError:
    """Return SKY-E207: commit ``version`` of the table at ``path`` removed rows (``only_deleted``), or changed some; ``by``: how."""
    return _rows_changed(f"the table {path}", str(version), only_deleted, by if re.fullmatch("[A-Z][A-Z ]*[A-Z]", by) else "")


def recreated(path: str) -> SkybandError:
    """Return SKY-E207: another table is at ``path`` than the one that the job has read."""
    return _recreated(f"the table {path}")


def gone(path: str) -> SkybandError:
    """Return SKY-E207: commits that the job has not read are no longer in the log of the table at ``path``."""
    return _commits_gone(f"the table {path}", "")


def cannot_begin(path: str) -> SkybandError:
    """Return SKY-E301: the table at ``path`` does not have the commit at which the spec says to begin."""
    return _no_such_commit(f"the table {path}", "")


def _rows_changed(table: str, version: str, only_deleted: bool, by: str) -> SkybandError:
    what = f"commit {version} of {table} {'removed' if only_deleted else 'changed or removed'} rows"
    hint = 'options: {ignoreDeletes: "true"} passes over commits that only remove rows; ' if only_deleted else ""
    text = f"{what}{f' ({by})' if by else ''}, and the job reads only rows that are added"
    return SkybandError(CHANGED, text, hint=f"{hint}{_FOLLOW}; {_RENEW}")


def _recreated(table: str) -> SkybandError:
    text = f"{table} was recreated: it is not the table that the job has read so far"
    return SkybandError(CHANGED, text, hint=f"put the old table back; or {_RENEW}")


def _commits_gone(table: str, where: str) -> SkybandError:
    text = f"commits of {table} that the job has not read are no longer in its log{where}"
    return SkybandError(CHANGED, text, hint=f"run more often, or raise the table's delta.logRetentionDuration; {_RENEW}")


def _no_such_commit(table: str, there: str) -> SkybandError:
    text = f"source.options say to begin at a commit that {table} does not have{there}"
    return SkybandError("SKY-E301", text, hint="give startingVersion or startingTimestamp of one that it has, or leave both out")


def _gone(said: str, table: str, path: str | None) -> SkybandError | None:
    if re.search(r"DELTA_MISSING_FILES_UNEXPECTED_VERSION|Log files may have been deleted", said):
        at = re.search(r"from version (\d+); transaction log starts at (\d+)", said)
        return _commits_gone(table, f": the job has read up to commit {int(at[1]) - 1}, its log begins with commit {at[2]}" if at else "")
    if re.search(r"MISSING_CHANGE_DATA|change data was not recorded|CHANGE_TABLE_FEED_DISABLED", said):
        hint = "set its property delta.enableChangeDataFeed, and begin (source.options.startingVersion) not before that was set"
        return SkybandError("SKY-E301", f"{table} does not hold the changes that are to be read", hint=hint)
    lost = re.search(r"File (\S+) does not exist", said) if "FileNotFoundException" in said else None
    if lost and path and path.rstrip("/") in lost[1]:
        text = f"{table} has lost a file that the job has not read: {lost[1].rsplit('/', 1)[-1]}"
        return SkybandError(CHANGED, text, hint=f"bring it back (VACUUM must keep files for longer than a run is away); or {_RENEW}")
    if "DELTA_SCHEMA_NOT_SET" in said:
        return SkybandError(
            "SKY-E300", f"{table} has no log any more: {path or 'it'} is no Delta table", hint=f"bring it back; or {_RENEW}"
        )
    return None


def _cannot_begin(said: str, table: str) -> SkybandError | None:
    if re.search(r"DELTA_VERSION_NOT_FOUND|DELTA_TIMESTAMP_(GREATER|EARLIER)\w*", said):
        there = re.search(r"Available versions: \[(\d+), (\d+)\]", said)
        return _no_such_commit(table, f": it has commits {there[1]} to {there[2]}" if there else "")
    return None


def _version(said: str) -> str:
    found = re.search(r"(?:at|from|with) version:? (\d+)", said)
    return found[1] if found else "(unknown)"
