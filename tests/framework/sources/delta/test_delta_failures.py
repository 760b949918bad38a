"""What Delta and Spark say of a source table that was changed, replaced or cut short, in words that name the table and what to do."""

from __future__ import annotations

import pytest

from skyband.framework.sources.registry import source_format
from skyband.framework.streaming.spark.failures import exit_code

QUERY = "[STREAM_FAILED] Query [id = ff113909, runId = d3b7177f] terminated with exception: "
CHANGES = (
    QUERY
    + '[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example {by} (Map(predicate -> "id = 3"))) in the source table '
    "at version 2. This is currently not supported. If this is going to happen regularly and you are okay to skip changes, set the option "
    "'skipChangeCommits' to 'true'."
)
DELETES = (
    QUERY + "[DELTA_SOURCE_IGNORE_DELETE] Detected deleted data (for example part-00000-b611.c000.snappy.parquet) from streaming source at "
    "version 12. This is currently not supported. The source table can be found at path file:/t. SQLSTATE: XXKST"
)
ANEW = (
    QUERY + "[DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE] The streaming query was reading from an unexpected Delta table (id = '5efe')."
)
LOG = (
    QUERY
    + "[DELTA_MISSING_FILES_UNEXPECTED_VERSION] Delta stream cannot resume from version 2; transaction log starts at 4. Log files may "
    'have been deleted by log retention. To skip missing data instead, set .option("failOnDataLoss", "false"). SQLSTATE: XXKST'
)
LOST = "org.apache.spark.SparkException: x\nCaused by: java.io.FileNotFoundException: File file:/t/part-0.parquet does not exist"


@pytest.mark.parametrize(
    ("said", "code", "words", "hints"),
    [
        (CHANGES.format(by="DELETE"), 2, "commit 2 of the table /t changed or removed rows (DELETE)", ["changes", "rebuild"]),
        (CHANGES.format(by="UPDATE"), 2, "commit 2 of the table /t changed or removed rows (UPDATE)", ["changes", "rebuild"]),
        (CHANGES.format(by="WRITE"), 2, "commit 2 of the table /t changed or removed rows (WRITE)", ["changes", "rebuild"]),
        (DELETES, 2, "commit 12 of the table /t removed rows", ["ignoreDeletes", "changes", "rebuild", "sink.path"]),
        (ANEW, 2, "the table /t was recreated", ["put the old table back", "rebuild", "sink.path"]),
        (LOG, 2, "the job has read up to commit 1, its log begins with commit 4", ["delta.logRetentionDuration", "rebuild"]),
        (LOST, 2, "the table /t has lost a file that the job has not read: part-0.parquet", ["VACUUM", "rebuild"]),
        ("[DELTA_SCHEMA_NOT_SET] Table schema is not set.", 3, "the table /t has no log any more", ["rebuild"]),
        ("[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 7", 3, "the columns of the table /t changed", ["again"]),
        (QUERY + "[DELTA_VERSION_NOT_FOUND] Cannot time travel Delta table to version 9. Available versions: [0, 1].", 3,
         "to begin at a commit that the table /t does not have: it has commits 0 to 1", ["startingVersion"]),
        (QUERY + "[DELTA_TIMESTAMP_GREATER_THAN_COMMIT] Timestamp 2999-01-01 is after the table's latest version", 3,
         "to begin at a commit that the table /t does not have", ["startingTimestamp"]),
        ("[DELTA_MISSING_CHANGE_DATA] Error getting change data", 3, "the table /t does not hold the changes", ["enable"]),
    ],
)  # fmt: skip
def test_the_table_the_commit_and_what_to_do_are_named(said: str, code: int, words: str, hints: list[str]) -> None:
    error = source_format("delta").failure(said, None, "/t")
    assert error is not None and words in error.message and error.hint is not None
    assert all(hint in error.hint for hint in hints) and exit_code(error) == code
    assert not any(raw in error.render() for raw in ("STREAM_FAILED", "runId", "DELTA_", "skipChangeCommits", "failOnDataLoss", "SQLSTATE"))
    unnamed = source_format("delta").failure(said, None)
    assert (unnamed is not None and "the source's table" in unnamed.message) or said == LOST


def test_what_is_not_about_the_table_is_left_to_others() -> None:
    for said in ("java.lang.OutOfMemoryError: Java heap space", LOST.replace("/t/", "/other/u/"), "[DELTA_CONCURRENT_APPEND] x"):
        assert source_format("delta").failure(said, None, "/t") is None
