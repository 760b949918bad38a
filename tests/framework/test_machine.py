"""What a full disk looks like in the words of the libraries, and what a user is told."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from skyband.framework import machine
from skyband.framework.errors import SkybandError
from skyband.framework.tables import driver_writer
from skyband.framework.tables.schemas import TableSpec

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
        (OSError(errno.EACCES, "Permission denied"), None),
        (DeltaError("a table of 28 rows"), None),
    ],
)  # fmt: skip
def test_it_is_told_from_the_users_own_mistakes(e: Exception, what: str | None) -> None:
    assert machine.gave_out(e) == what
    assert "\n" not in machine.one_line(e) and "\x1b" not in machine.one_line(e)


def test_only_the_machines_refusals_are_translated() -> None:
    with pytest.raises(SkybandError) as told, machine.told("/data/out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert told.value.code == "SKY-E306"
    assert told.value.message == "/data/out cannot be written: no space left on device"
    with pytest.raises(FileNotFoundError), machine.told("/data/out"):
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
