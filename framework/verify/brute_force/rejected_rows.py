"""Explain the rows of ``rejected`` by the source: late rows, duplicates, deletions without a target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.reasons import DUPLICATE_ID, LATE, NO_TARGET
from skyband.framework.streaming.bucket.operations import OPERATION
from skyband.framework.streaming.rows import rejects
from skyband.framework.verify.brute_force.objects import Accepted
from skyband.framework.verify.differences import Difference
from skyband.framework.verify.stored import Stored

Texts = Counter[tuple[str, str]]


class RejectedRows:
    """The late rows, duplicates and deletions without a target in ``rejected``, and those that the source explains."""

    def __init__(self, stored: Stored, rows: pa.Table) -> None:
        """Read ``rejected``. ``rows``: all rows of the source that the intake passes, with late ones."""
        table = stored.table("rejected")
        mine = table.filter(pc.is_in(table["reason"], pa.array([LATE, DUPLICATE_ID, NO_TARGET])))
        self._settled = stored.settled
        self._found: Texts = Counter(zip(mine["reason"].to_pylist(), mine["text"].to_pylist(), strict=True))
        self._expected: Texts = Counter()
        late = {text: n for (reason, text), n in self._found.items() if reason == LATE}
        in_source = Counter(t for t in rejects.json_rows(rows.combine_chunks()).to_pylist() if t in late) if late else Counter()
        self._expected += Counter({(LATE, text): min(n, in_source[text]) for text, n in late.items()})

    def take(self, mine: Accepted) -> None:
        """Add the rows of a key that are no objects."""
        for reason, rows in mine.rejected.items():
            plain = rows.select([n for n in rows.column_names if n != OPERATION])
            self._expected += Counter((reason, text) for text in rejects.json_rows(plain.combine_chunks()).to_pylist())

    def differences(self, complete: bool) -> Iterator[Difference]:
        """Yield the rows that only one side has. Surplus rows are reported if late, or if all keys are compared (``complete``)."""
        if not self._settled:
            return
        for (reason, text), count in (self._expected - self._found).items():
            yield Difference("table rejected", f"{_rows(count)} missing: {reason} {text}", sort=f"missing: {reason}")
        for (reason, text), count in (self._found - self._expected).items():
            if complete or reason == LATE:
                yield Difference(
                    "table rejected", f"{_rows(count)} not in the source: {reason} {text}", sort=f"not in the source: {reason}"
                )


def _rows(count: int) -> str:
    return f"{counted(count, 'row')} {agree(count, 'is', 'are')}"
