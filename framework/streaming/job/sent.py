"""Track up to which batch a job's changes have been sent: ``<sink>/_skyband/sent.json``, per generation. Does not import Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

from skyband.framework.base.system_failures import raising_system_failures
from skyband.framework.plan.model import Plan
from skyband.framework.sources.logs import last_batch
from skyband.framework.storage.records import STRICT, Record, Whole
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.tables.writing.sink import FILLED_BATCH

NOTHING: Final = FILLED_BATCH - 1
"""The position before all batches."""


@dataclass(frozen=True, slots=True)
class _SentFile:
    generation: str
    queries: dict[str, Whole]
    __pydantic_config__: ClassVar[ConfigDict] = STRICT


_SENT: Final = Record[_SentFile](_SentFile, sort=True)


class Sent:
    """The last batch whose changes have been sent, by query. One that is not known, or of another generation, begins with the first."""

    def __init__(self, layout: Layout, job: JobFile) -> None:
        self._file, self._generation = layout.home / "sent.json", job.generation
        said = _SENT.known(self._file)
        self._batches: dict[str, int] = said.queries if said is not None and said.generation == job.generation else {}

    def upto(self, query: str) -> int:
        """The last batch of ``query``, ``NOTHING`` before the first."""
        return self._batches.get(query, NOTHING)

    def moved(self, queries: Collection[str], batch: int) -> None:
        """All of ``queries``, and no other, have been sent up to ``batch``; durable when this returns."""
        self._save({q: max(batch, self.upto(q)) for q in queries})

    def forget(self, queries: Collection[str]) -> None:
        """These begin with their first change."""
        if set(queries) & set(self._batches):
            self._save({q: batch for q, batch in self._batches.items() if q not in queries})

    def _save(self, batches: dict[str, int]) -> None:
        if batches != self._batches:
            with raising_system_failures(self._file):
                _SENT.write(self._file, _SentFile(self._generation, batches))
            self._batches = batches


def all_sent(plan: Plan, layout: Layout, job: JobFile) -> bool:
    """Whether nothing waits to be sent of a job at rest: it has noted so for its last batch."""
    if plan.kafka is None:
        return True
    sent, batch = Sent(layout, job), last_batch(layout.checkpoint / "commits")
    return all(sent.upto(query) >= batch for query, _ in plan.kafka.topics)
