"""The logs of a checkpoint, as Spark's streaming writes them: batches planned and done, and the files that each takes.

All that reads them (``sources.logs``) so knows a job whichever engine has run it. An entry is written in one step and never changed.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import Final

from skyband.framework.base.plain_json import mapping
from skyband.framework.base.plain_json import number as plain_number
from skyband.framework.settings.spark import DEFAULT_TASKS
from skyband.framework.sources.logs import FORGOTTEN, Taken, last_batch, position_line, taken
from skyband.framework.storage import durable
from skyband.framework.storage.location import Location
from skyband.framework.streaming.job.checkpoint import CONTROL

_VERSION: Final = "v1"
_MERGED: Final = 10
"""Every so many entries of a log of files are merged into one, at the numbers at which Spark does it."""
_KEPT: Final = 100
"""The number of entries of the logs of batches that are kept, as Spark keeps them."""


class Logs:
    """Writes the logs of ``checkpoint``, which is made if there is none. Only for the process that holds the job's lock."""

    def __init__(self, checkpoint: Location) -> None:
        self.checkpoint = checkpoint
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
        for source in (0, CONTROL):
            self._of(source).mkdir(parents=True, exist_ok=True)
        if not (checkpoint / "metadata").exists():
            durable.replace(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}))

    def take(self, source: int, files: Sequence[Taken], after: int) -> int:
        """Write that the next batch takes ``files`` of a source whose log ends with number ``after``; return the number of the entry."""
        number = after + 1
        lines = [_line(f.url, f.modified_ms, number) for f in files]
        if (number + 1) % _MERGED:
            self._write(self._of(source) / str(number), lines)
        else:
            self._write(self._of(source) / f"{number}.compact", [*self._lines(source), *lines])
            # A batch that is not complete needs the entries since the merged one before.
            for path in self._of(source).glob("[0-9]*"):
                before = plain_number(path.name.partition(".")[0])
                if before is not None and before < number - _MERGED:
                    path.unlink(missing_ok=True)
        return number

    def plan(self, batch: int, watermark_ms: int, files: int | str, control: int) -> None:
        """Write that ``batch`` takes the files up to number ``files``, and the rows of the control source up to ``control``; -1: none.

        ``files`` may be the text of an offset, too.
        """
        said = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": time.time_ns() // 1_000_000, "conf": self._conf(batch - 1)}
        offsets = [files if isinstance(files, str) else position_line(files), position_line(control)]
        self._write(self.checkpoint / "offsets" / str(batch), [json.dumps(said), *offsets])

    def done(self, batch: int, watermark_ms: int) -> None:
        """Write that ``batch`` is done; the next one has the watermark ``watermark_ms``."""
        self._write(self.checkpoint / "commits" / str(batch), [json.dumps({"nextBatchWatermarkMs": watermark_ms})])
        if batch % _MERGED == 0:
            for log in ("offsets", "commits"):
                for path in (self.checkpoint / log).glob("[0-9]*"):
                    if (before := plain_number(path.name)) is not None and before <= batch - _KEPT:
                        path.unlink(missing_ok=True)

    def _conf(self, batch: int) -> dict[str, str]:
        """Return the settings of Spark's that ``batch`` was planned with, which must stay the same; the least that Spark asks for."""
        try:
            said = mapping((self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[1]).get("conf")
        except (OSError, ValueError, IndexError):
            said = None
        return {"spark.sql.shuffle.partitions": str(DEFAULT_TASKS), **(said if isinstance(said, dict) else {})}

    def last(self, log: str) -> int:
        """Return the last batch of the log ``offsets`` or ``commits``, -1 if there is none."""
        return last_batch(self.checkpoint / log)

    def _of(self, source: int) -> Location:
        return self.checkpoint / "sources" / str(source)

    def _lines(self, source: int) -> list[str]:
        """Return the lines of a log of files: of those that it names, and of the number of those that it has forgotten."""
        log = self._of(source)
        kept = [line for p in sorted(log.glob("[0-9]*.compact"), key=lambda p: int(p.stem))[-1:] for line in p.read_text().splitlines()]
        forgotten = [line for line in kept if FORGOTTEN in line]
        return [*forgotten, *(_line(t.url, t.modified_ms, t.number) for t in sorted(taken(log), key=lambda t: t.number))]

    def _write(self, path: Location, lines: Sequence[str]) -> None:
        durable.replace(path, "\n".join([_VERSION, *lines]))


def _line(url: str, modified_ms: int, number: int) -> str:
    return json.dumps({"path": url, "timestamp": modified_ms, "batchId": number}, separators=(",", ":"))
