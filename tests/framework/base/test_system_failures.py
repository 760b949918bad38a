"""The texts by which libraries report a full disk, and the errors that users get."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from skyband.framework.base import system_failures
from skyband.framework.base.errors import SkybandError
from skyband.framework.spark_adapter.failures import system_failure_error
from skyband.framework.streaming.spark.failures import failure
from skyband.framework.tables.schemas import TableSpec
from skyband.framework.tables.writing import driver_writer

COLOURED = "Generic LocalFileSystem error\n  \x1b[31m\u21b3\x1b[0m Unable to copy data to file\n   \x1b[31m\u21b3\x1b[0m {}\n"


@pytest.mark.parametrize(
    ("e", "what"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "no space left on device"),
        (OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"), "no space left on device"),
        (DeltaError(COLOURED.format("No space left on device (os error 28)")), "no space left on device"),
        (DeltaError("External: Unable to copy data to file: No space left on device"), "no space left on device"),
        (DeltaError(COLOURED.format("Disk quota exceeded (os error 122)")), "disk quota exceeded"),
        (OSError(errno.EFBIG, "File too large"), "file too large"),
        (OSError(errno.EROFS, "Read-only file system"), "read-only file system"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files"),
        (OSError(errno.EACCES, "Permission denied"), None),
        (DeltaError("a table of 28 rows"), None),
    ],
)  # fmt: skip
def test_it_is_told_from_the_users_own_mistakes(e: Exception, what: str | None) -> None:
    assert system_failures.system_failure(e) == what
    assert "\n" not in system_failures.one_line(e) and "\x1b" not in system_failures.one_line(e)


def wrapped(cause: BaseException) -> Exception:
    try:
        raise ImportError("Unable to import required dependencies: pyarrow") from cause
    except ImportError as e:
        return e


@pytest.mark.parametrize(
    ("e", "lacking"),
    [
        (MemoryError(), True),
        (pa.lib.ArrowMemoryError("malloc of size 64 failed"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (ImportError("libarrow.so.2600: failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (wrapped(ImportError("_internal.abi3.so: failed to map segment from shared object")), True),
        (ImportError("no module named memory"), False),
        (ValueError("cannot allocate memory"), False),
        (RuntimeError("unknown"), False),
    ],
)
def test_too_little_memory_is_named_and_is_no_defect(e: Exception, lacking: bool) -> None:
    shown = failure(e)
    assert shown is not None and (shown.code == "SKY-E306") == lacking == ("memory or threads" in shown.message)


def test_too_many_open_files_are_named_also_where_a_module_is_loaded() -> None:
    shown = failure(ImportError("libarrow.so: cannot open shared object file: Too many open files"))
    assert shown is not None and (shown.code, shown.message) == ("SKY-E306", "the operating system failed: too many open files")


STREAM = (
    "[STREAM_FAILED] Query [id = 8d2e] terminated with exception: {} SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: small\n"
    "Logical Plan:\n~Project [cast(id#7L as bigint) AS id#18L]\n"
)
TASK = (
    "Job aborted due to stage failure: Task 0 in stage 6.0 failed 1 times, most recent failure: Lost task 0.0 (TID 4) (host executor "
    "driver): {}\n\tat org.apache.spark.sql.execution.streaming.state.RocksDB.commit(RocksDB.scala:1)\n"
)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (STREAM.format("java.io.IOException: No space left on device"), "no space left on device"),
        (TASK.format("org.apache.spark.SparkException: [CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files.\n"
                     "\tat java.base/java.lang.Thread.run\nCaused by: java.io.IOException: No space left on device\n\tat sun.nio.ch"),
         "no space left on device"),
        (TASK.format("org.rocksdb.RocksDBException: IO error: No space left on device: While appending to file: /tmp/x/000012.sst"),
         "no space left on device"),
        (TASK.format("org.apache.hadoop.fs.FSError: java.io.IOException: Disk quota exceeded"), "disk quota exceeded"),
        (STREAM.format("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota of /x is exceeded"),
         "disk quota exceeded"),
        (STREAM.format("java.io.FileNotFoundException: /data/out/_skyband/checkpoint/offsets/.3.tmp (Read-only file system)"),
         "read-only file system"),
        (STREAM.format("java.nio.file.FileSystemException: /scratch/blockmgr/0c: Too many open files"), "too many open files"),
        ("Traceback (most recent call last):\nOSError: [Errno 28] No space left on device: '/scratch/y'", "no space left on device"),
        (STREAM.format("java.io.IOException: Input/output error"), "input/output error"),
        (STREAM.format("java.lang.IllegalStateException: x") + "Filter (text#4 = no space left on device)", None),
        (STREAM.format("java.io.FileNotFoundException: /data/in/a.csv (No such file or directory)"), None),
    ],
)  # fmt: skip
def test_a_jvms_words_are_told_from_a_failure_of_the_job(said: str, what: str | None) -> None:
    assert system_failures.system_failure_of_jvm(said) == what


def test_a_cause_that_spark_does_not_mention_is_found(tmp_path: Path) -> None:
    inner = RuntimeError("java.io.IOException: No space left on device")
    middle, outer = RuntimeError("the commit failed"), RuntimeError(STREAM.format("org.apache.spark.SparkException: Error writing state"))
    middle._cause = inner
    outer._cause = middle
    found = system_failure_error(outer, tmp_path / "checkpoint", None)
    assert found is not None and found.code == "SKY-E306" and str(tmp_path / "checkpoint") in found.message
    assert system_failure_error(middle, tmp_path, None) is not None and system_failure_error(RuntimeError("x"), tmp_path, None) is None


def test_where_nobody_expected_it_it_is_no_defect() -> None:
    found = failure(OSError(errno.ENOSPC, "No space left on device", "/data/out/_skyband/lock"))
    assert found is not None and found.code == "SKY-E306" and "/data/out/_skyband/lock" in found.message
    other = failure(OSError(errno.EXDEV, "Invalid cross-device link"))
    assert other is not None and other.code == "SKY-E900"


def test_only_the_machines_refusals_are_translated() -> None:
    with pytest.raises(SkybandError) as told, system_failures.raising_system_failures("/data/out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert told.value.code == "SKY-E306"
    assert told.value.message == "/data/out cannot be written: no space left on device"
    with pytest.raises(FileNotFoundError), system_failures.raising_system_failures("/data/out"):
        raise FileNotFoundError(errno.ENOENT, "No such file")


def test_a_commit_that_finds_no_room_comes_with_the_next_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = driver_writer.DriverWriter(tmp_path)
    rows = pa.table({"a": [1, 2]})
    writer.ensure(TableSpec("t", rows.schema, "numbers"))

    def full(*args: Any, **options: Any) -> None:
        raise DeltaError(COLOURED.format("No space left on device (os error 28)"))

    with monkeypatch.context() as m:
        m.setattr(driver_writer, "write_deltalake", full)
        with pytest.raises(SkybandError, match="table 't' cannot be written: no space left on device") as told:
            writer.append("t", rows, "job", 0)
    assert told.value.code == "SKY-E306"
    assert writer.append("t", rows, "job", 0) and not writer.append("t", rows, "job", 0)
    assert writer.read("t").equals(rows)
